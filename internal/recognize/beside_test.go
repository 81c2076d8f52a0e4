package recognize

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize/recognizetest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// generated declares a cascade of five levels. Its keys ask for a word for each digit, and have no address.
func generated(a recognizetest.Application) {
	const levels = 5
	next := "gen_end"
	a.Exchange("topic", next)
	for bit := range levels {
		name := fmt.Sprintf("gen_exchange-%02d", bit)
		key := func(digit string) string {
			return strings.Repeat("*.", levels-1-bit) + digit + strings.Repeat(".*", bit) + ".#"
		}
		a.Exchange("topic", name)
		a.Waits(fmt.Sprintf("gen_queue-%02d", bit), time.Second<<bit, next, "")
		a.Bind(name, key("1"), fmt.Sprintf("gen_queue-%02d", bit))
		handsOn(a, name, key("0"), next)
		next = name
	}
}

func handsOn(a recognizetest.Application, from, key, to string) {
	a.Bindings.Add(topology.Binding{Source: from, RoutingKey: key, DestinationType: topology.ToExchange,
		Destination: to})
}

// A generator of definitions files ends its keys in "*.#", and has no word for an address. An import says so in one
// sentence, and names the guide.
func TestRefusedGenerator(t *testing.T) {
	a := recognizetest.Application{Topology: topology.New()}
	generated(a)
	_, err := Cascade(t.Context(), NewInventory("/", a.Topology), "/", "gen_exchange-04")
	const want = `the key "0.*.*.*.*.#" from exchange "gen_exchange-04" to "gen_exchange-03" asks for 4 words behind ` +
		`the digits, where a cascade has none or, at its entry, 5. The guide "Import" has the steps to a ` +
		"cascade beside it"
	if err == nil || !strings.HasSuffix(err.Error(), ": "+want) {
		t.Errorf("the import says %v, want %q", err, want)
	}
}

// What applications have beside a cascade: a fanout exchange in front of its entry is not its entry, and the error
// names the entry. A topic exchange with no key but "#" is like a fanout exchange. A delivery exchange with an
// alternate exchange of its own stays its owner's.
func TestBesideACascade(t *testing.T) {
	cascade := func() recognizetest.Application {
		a := recognizetest.Application{Topology: topology.New()}
		next := "c.end"
		a.Exchange("topic", next)
		for level := range 4 {
			name, skips := fmt.Sprintf("c.%d", level), strings.Repeat("*.", 3-level)
			a.Exchange("topic", name)
			a.Waits(name, time.Second<<level, next, "")
			a.Bind(name, skips+"1.#", name)
			handsOn(a, name, skips+"0.#", next)
			next = name
		}
		return a
	}
	for _, kind := range []string{"fanout", "headers"} {
		a := cascade()
		a.Exchange(kind, "front")
		handsOn(a, "front", "", "c.3")
		_, err := Cascade(t.Context(), NewInventory("/", a.Topology), "/", "front")
		if other, is := errors.AsType[*OtherEntryError](err); !is || other.Entry != "c.3" || other.Kind != KindCascade {
			t.Errorf("behind a %s exchange: %v", kind, err)
		}
		mustRepair(t, mustRecognize(t, a, "c.3"), a.Topology, nil)
	}

	for name, test := range map[string]struct{ kind, key, want string }{
		"every key":               {"topic", "#", "c.3"},
		"a key of two":            {"topic", "x.#", ""},
		"no pattern for a direct": {"direct", "#", ""},
	} {
		a := cascade()
		a.Exchange(test.kind, "front")
		handsOn(a, "front", "#", "c.3")
		handsOn(a, "front", test.key, "c.end")
		_, err := Cascade(t.Context(), NewInventory("/", a.Topology), "/", "front")
		other, is := errors.AsType[*OtherEntryError](err)
		if is != (test.want != "") || is && other.Entry != test.want {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}

	a := cascade()
	a.Exchange("fanout", "c.3")
	const want = "it is a fanout exchange, and the entry of a cascade or a ladder is a topic exchange. The guide " +
		`"Import" has the steps to a cascade beside it`
	if _, err := Cascade(t.Context(), NewInventory("/", a.Topology), "/", "c.3"); err == nil ||
		!strings.HasSuffix(err.Error(), want) {
		t.Errorf("as a fanout exchange: %v, want %q", err, want)
	}

	a = cascade()
	end := a.Exchanges["c.end"]
	end.Arguments = topology.Arguments{"alternate-exchange": "mine"}
	a.Exchanges["c.end"] = end
	c := mustRecognize(t, a, "c.3")
	mustRepair(t, c, a.Topology, nil)
	if _, owns := c.Exchanges["c.end"]; owns || c.Delivery != "c.end" {
		t.Errorf("the delivery exchange is %q, and its owner's: %t", c.Delivery, !owns)
	}

	a = cascade()
	unbind(a.Topology, func(b topology.Binding) bool {
		return b.Destination == "c.2" && b.DestinationType == topology.ToQueue
	})
	c = mustRecognize(t, a, "c.3")
	if missing := topology.Diff(c, a.Part(c)).MissingBindings; len(missing) != 1 || missing[0].Destination != "c.2" {
		t.Errorf("a delay queue without a binding: missing are %v", missing)
	}
}

// A ladder is imported beside a delivery exchange that has an alternate exchange. That exchange stays its owner's.
func TestBesideALadder(t *testing.T) {
	a := recognizetest.Application{Topology: topology.New()}
	a.Exchange("topic", "retry", "work")
	end := a.Exchanges["work"]
	end.Arguments = topology.Arguments{"alternate-exchange": "mine"}
	a.Exchanges["work"] = end
	for _, label := range []string{"1s", "2s", "3s"} {
		wait, err := time.ParseDuration(label)
		if err != nil {
			t.Fatal(err)
		}
		a.Waits("retry."+label, wait, "work", "")
		a.Bind("retry", label+".*.#", "retry."+label)
	}
	l, err := Ladder(t.Context(), NewInventory("/", a.Topology), "/", "retry")
	if err != nil {
		t.Fatal(err)
	}
	mustRepair(t, l.Expand(), a.Topology, nil)
	if l.CreateDeliveryExchange || !slices.Equal(l.Delays, []string{"1s", "2s", "3s"}) {
		t.Errorf("recognized %+v", l)
	}
}

func mustRecognize(t *testing.T, a recognizetest.Application, entry string) topology.Topology {
	t.Helper()
	c, err := Cascade(t.Context(), NewInventory("/", a.Topology), "/", entry)
	if err != nil {
		t.Fatal(err)
	}
	return c.Expand()
}

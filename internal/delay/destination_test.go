package delay_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay/delaytest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology/topologytest"
)

func TestDestinationBinding(t *testing.T) {
	for want, d := range map[topology.Binding]delay.Destination{
		{Source: "d", RoutingKey: "*.*.*.*.orders", DestinationType: topology.ToQueue,
			Destination: "q"}: {Address: "orders", Match: delay.Exact, Levels: 4, Queue: "q"},
		{Source: "d", RoutingKey: "*.eu.orders", DestinationType: topology.ToExchange,
			Destination: "e"}: {Address: "eu.orders", Match: delay.Exact, Levels: 1, Exchange: "e"},
		{Source: "d", RoutingKey: "#.orders", DestinationType: topology.ToQueue,
			Destination: "q"}: {Address: "orders", Match: delay.Suffix, Queue: "q"},
		{Source: "d", RoutingKey: "#.#a.*b.c*", DestinationType: topology.ToQueue,
			Destination: "amq.gen-X"}: {Address: "#a.*b.c*", Match: delay.Suffix, Queue: "amq.gen-X"},
		{Source: "d", RoutingKey: "*.*.1..", DestinationType: topology.ToExchange,
			Destination: "amq.topic"}: {Address: "1..", Match: delay.Exact, Levels: 2,
			Exchange: "amq.topic"},
		{Source: "d", RoutingKey: strings.Repeat("*.", 39) + strings.Repeat("a", 177), DestinationType: "queue",
			Destination: "q"}: {Address: strings.Repeat("a", 177), Match: delay.Exact, Levels: 39, Queue: "q"},
		{Source: "d", RoutingKey: "#." + strings.Repeat("a", 253), DestinationType: topology.ToQueue,
			Destination: "q"}: {Address: strings.Repeat("a", 253), Match: delay.Suffix, Queue: "q"},
	} {
		d.Vhost, d.DeliveryExchange = "/", "d"
		if got, err := d.Binding(); err != nil || got != want {
			t.Errorf("%+v is the binding %+v (%v), want %+v", d, got, err, want)
		}
		if back, err := recognize.Destination("/", want); err != nil || back != d {
			t.Errorf("%+v is recognized as %+v (%v), want %+v", want, back, err, d)
		}
	}
}

func TestDestinationErrors(t *testing.T) {
	good := delay.Destination{Vhost: "/", DeliveryExchange: "d", Address: "orders", Match: delay.Exact, Levels: 4,
		Queue: "q"}
	for _, is := range []struct {
		change func(*delay.Destination)
		want   string
	}{
		{func(d *delay.Destination) { d.Match = "Exact" }, `match is "Exact"; it can be "exact" or "suffix"`},
		{func(d *delay.Destination) { d.Levels = 0 },
			"levels is missing; with match = \"exact\" the key has a \"*\" for each word of the delay: give " +
				"length(<cascade>.units)"},
		{func(d *delay.Destination) { d.Levels = 40 }, "levels is 40; it can be 1 to 39"},
		{func(d *delay.Destination) { d.Match = delay.Suffix },
			`levels is given, but with match = "suffix" the key holds for ` +
				`any number of levels; leave it out`},
		{func(d *delay.Destination) { d.Address = "" }, "address is empty; give the word or words"},
		{func(d *delay.Destination) { d.Address = "eu.*" },
			`address is "eu.*", whose word "*" would stand for any word`},
		{func(d *delay.Destination) { d.Address = "#" }, `address is "#", whose word "#" would stand for any word`},
		{func(d *delay.Destination) { d.Address = strings.Repeat("a", 248) },
			"of 248 bytes; it can have 247, because the words before it take 8 of the 255 that AMQP allows a key"},
		{func(d *delay.Destination) { d.Address = strings.Repeat("é", 127) },
			"of 254 bytes; it can have 253 at the most, " +
				"because AMQP allows a key 255"},
		{func(d *delay.Destination) { d.Queue = "" }, "queue is missing; give it, or exchange"},
		{func(d *delay.Destination) { d.Exchange = "e" }, "queue is given beside exchange; give one of the two"},
		{func(d *delay.Destination) { d.Queue, d.Exchange = "", "d" }, `exchange is "d", the delivery exchange itself`},
		{func(d *delay.Destination) { d.Vhost = ".." }, `vhost is "..", which the management API cannot reach`},
		{func(d *delay.Destination) { d.DeliveryExchange = "" }, `delivery_exchange is "", the default ` +
			"exchange, which takes no bindings; give the attribute delivery_exchange of the cascade or ladder"},
		{func(d *delay.Destination) { d.DeliveryExchange = "amq.default" },
			`delivery_exchange is "amq.default", the default exchange`},
		{func(d *delay.Destination) { d.DeliveryExchange = "." },
			`delivery_exchange gives the exchange name ".", which ` +
				`the management API cannot reach`},
		{func(d *delay.Destination) { d.Queue = strings.Repeat("q", 256) }, `of 256 bytes; RabbitMQ allows 255`},
		{func(d *delay.Destination) { d.Queue = "q\n" }, "with a control character"},
	} {
		d := good
		is.change(&d)
		_, err := d.Binding()
		if err == nil || strings.Count(err.Error(), "\n") > 0 || !strings.Contains(err.Error(), is.want) {
			t.Errorf("%+v: the error is %v, want one with %q", d, err, is.want)
		}
	}
}

func TestOverlaps(t *testing.T) {
	to := func(queue, key string) topology.Binding {
		return topology.Binding{Source: "d", RoutingKey: key, DestinationType: topology.ToQueue, Destination: queue}
	}
	for _, is := range []struct {
		own, other    string
		takes, gives  bool
		othersAddress string
	}{
		{own: "#.orders", other: "*.*.eu.orders", takes: true, othersAddress: "eu.orders"},
		{own: "#.orders", other: "#.eu.orders", takes: true, othersAddress: "eu.orders"},
		{own: "*.*.eu.orders", other: "#.orders", gives: true, othersAddress: "orders"},
		{own: "#.eu.orders", other: "#.orders", gives: true, othersAddress: "orders"},
		{own: "#.orders", other: "*.*.orders"},
		{own: "#.orders", other: "#.orders"},
		{own: "*.*.orders", other: "*.*.eu.orders"},
		{own: "*.*.orders", other: "#.eu.orders"},
		{own: "#.orders", other: "*.*.euorders"},
		{own: "#.orders", other: "*.*.orders.eu"},
		{own: "#.orders", other: "#"},
		{own: "#.orders", other: "*.*.*.orders.#"},
		// Numbers can be words of an address.
		{own: "#.1.orders", other: "*.*.orders", takes: true, othersAddress: "orders"},
		{own: "#.59.orders", other: "*.*.orders", takes: true, othersAddress: "orders"},
		{own: "#.05.orders", other: "*.*.orders"},
		{own: "#.2000.orders", other: "*.*.orders"},
		// Cascades of different length can have the same delivery exchange.
		{own: "*.*.1.orders", other: "*.*.*.orders", takes: true, gives: true, othersAddress: "orders"},
		{own: "*.*.orders", other: "*.*.*.orders"},
		{own: "*.*.eu.orders", other: "*.*.*.orders", gives: true, othersAddress: "orders"},
	} {
		var want []delay.Overlap
		if is.takes {
			want = append(want, delay.Overlap{Other: to("other", is.other), Address: is.othersAddress})
		}
		if is.gives {
			want = append(want, delay.Overlap{Other: to("other", is.other), Address: is.othersAddress, Takes: true})
		}
		bound := []topology.Binding{to("own", is.own), to("other", is.other)}
		if got := delay.Overlaps(bound[0], bound); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q beside %q: %+v, want %+v", is.own, is.other, got, want)
		}
	}
	second := to("own", "*.*.eu.orders")
	another := to("other", "*.*.eu.orders")
	another.Source = "e"
	if got := delay.Overlaps(to("own", "#.orders"), []topology.Binding{second, another}); len(got) > 0 {
		t.Errorf("a second key of the queue, and a binding of another exchange: %+v", got)
	}
}

// Whether two keys overlap is what a broker's routing says of all messages that the one or the other is bound for.
func TestOverlapsAreWhatIsRouted(t *testing.T) {
	t.Parallel()
	overlapping := 0
	rapid.Check(t, func(t *rapid.T) {
		own, other := anyTwo(t, "own", "other")
		bound, router := bindDestinations(t, own, other)
		takes := func(taker, of delay.Destination) bool {
			return own.Address != other.Address && slices.ContainsFunc(messagesFor(of, taker),
				func(key string) bool { return slices.Contains(router.Route("d", key), taker.Queue) })
		}
		found := map[bool]bool{}
		for _, o := range delay.Overlaps(bound[0], bound) {
			found[o.Takes] = true
		}
		if want := takes(own, other); found[false] != want {
			t.Fatalf("%q takes messages of %q: %t, want %t", bound[0].RoutingKey, bound[1].RoutingKey, found[false],
				want)
		}
		if want := takes(other, own); found[true] != want {
			t.Fatalf("%q takes messages of %q: %t, want %t", bound[1].RoutingKey, bound[0].RoutingKey, found[true],
				want)
		}
		if len(found) > 0 {
			overlapping++
		}
	})
	if overlapping == 0 {
		t.Error("no two keys overlapped")
	}
}

// bindDestinations binds the queues of both to their exchange.
func bindDestinations(t delaytest.Tester, both ...delay.Destination) ([]topology.Binding, *topologytest.Router) {
	t.Helper()
	world := topology.New()
	world.Exchanges["d"] = topology.Exchange{Name: "d", Type: "topic"}
	var bound []topology.Binding
	for _, d := range both {
		b, err := d.Binding()
		if err != nil {
			t.Fatal(err)
		}
		if back, err := recognize.Destination("/", b); err != nil || back != d {
			t.Fatalf("%+v is recognized as %+v (%v)", d, back, err)
		}
		world.Queues[d.Queue] = topology.Queue{Name: d.Queue}
		world.Bindings.Add(b)
		bound = append(bound, b)
	}
	return bound, topologytest.NewRouter(world)
}

// anyAddressOf draws destinations of short words, digits among them, so that many overlap.
func anyAddressOf(queue string) *rapid.Generator[delay.Destination] {
	return rapid.Custom(func(t *rapid.T) delay.Destination {
		words := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "0", "1", ""}), 1, 3).Draw(t, "words")
		d := delay.Destination{Vhost: "/", DeliveryExchange: "d", Queue: queue, Match: delay.Suffix,
			Address: strings.Join(words,
				".")}
		if rapid.Bool().Draw(t, "exact") {
			d.Match, d.Levels = delay.Exact, rapid.IntRange(1, 3).Draw(t, "levels")
		}
		return d
	}).Filter(func(d delay.Destination) bool { return d.Address != "" })
}

// anyTwo draws two destinations. Of four, three of the second ones end with the address of the first.
func anyTwo(t *rapid.T, queue, other string) (first, second delay.Destination) {
	first, second = anyAddressOf(queue).Draw(t, "first"), anyAddressOf(other).Draw(t, "second")
	if rapid.IntRange(0, 3).Draw(t, "related") > 0 {
		second.Address += "." + first.Address
	}
	return first, second
}

// messagesFor are the keys of all messages for the destination. Those for a suffix have as many digits as the
// taker's key expects; if that is one, too, as many as can make a difference.
func messagesFor(d, taker delay.Destination) []string {
	levels := []int{d.Levels}
	if d.Match == delay.Suffix {
		levels = []int{taker.Levels}
		if taker.Match == delay.Suffix {
			levels = []int{1, 2, 3, 4}
		}
	}
	var keys []string
	for _, n := range levels {
		for steps := range 1 << n {
			digits := strings.Split(fmt.Sprintf("%0*b", n, steps), "")
			keys = append(keys, strings.Join(append(digits, d.Address), "."))
		}
	}
	return keys
}

// What takes all that another destination takes has a key that matches each of its messages.
func TestTakesAll(t *testing.T) {
	taken := 0
	rapid.Check(t, func(t *rapid.T) {
		one, other := anyTwo(t, "q", "q")
		if !one.TakesAll(other) {
			return
		}
		taken++
		b, err := one.Binding()
		theirs, otherErr := other.Binding()
		if err != nil || otherErr != nil {
			t.Skip("no destination")
		}
		for _, key := range messagesFor(other, other) {
			words := topology.ParseTopicKey(key)
			theirsMatches := topology.ParseTopicKey(theirs.RoutingKey).Matches(words)
			if theirsMatches && !topology.ParseTopicKey(b.RoutingKey).Matches(words) {
				t.Fatalf("%q matches %q, and %q does not", theirs.RoutingKey, key, b.RoutingKey)
			}
		}
	})
	if taken == 0 {
		t.Error("none takes all of another")
	}
	exact := delay.Destination{Match: delay.Exact, Levels: 2, Address: "eu.orders"}
	for _, is := range []struct {
		delay.Destination
		want bool
	}{
		{exact, true},
		{delay.Destination{Match: delay.Suffix, Address: "orders"}, true},
		{delay.Destination{Match: delay.Suffix, Address: "u.orders"}, false},
		{delay.Destination{Match: delay.Exact, Levels: 3, Address: "eu.orders"}, false},
		{delay.Destination{Match: delay.Exact, Levels: 2, Address: "orders"}, false},
	} {
		if is.TakesAll(exact) != is.want || is.Match == delay.Suffix && exact.TakesAll(is.Destination) {
			t.Errorf("%v and %v", is.Destination, exact)
		}
	}
}

// The keys of a destination have a number for each level, or any words before a suffix.
func TestKeysOfADestination(t *testing.T) {
	for want, d := range map[string]delay.Destination{
		"[. . a b]": {Match: delay.Exact, Levels: 2, Address: "a.b"},
		"[# a b]":   {Match: delay.Suffix, Address: "a.b"},
	} {
		if got := fmt.Sprint(d.Keys()); got != want {
			t.Errorf("the keys of %v are %s, not %s", d, got, want)
		}
	}
}

// A binding replaces another one of the same exchange that leads to the same place, if it takes at least as much.
// Arguments say nothing of that.
func TestReplaces(t *testing.T) {
	own := topology.Binding{Source: "d", RoutingKey: "*.*.eu.orders", DestinationType: topology.ToQueue,
		Destination: "orders"}
	for want, all := range map[bool][]func(*topology.Binding){
		true: {
			func(*topology.Binding) {},
			func(b *topology.Binding) { b.RoutingKey = "#.orders" },
			func(b *topology.Binding) { b.Arguments = `{"x":1}` },
		},
		false: {
			func(b *topology.Binding) { b.Source = "e" },
			func(b *topology.Binding) { b.RoutingKey = "*.*.orders" },
			func(b *topology.Binding) { b.RoutingKey = "*.eu.*" }, // of no destination
			func(b *topology.Binding) { b.Destination = "other" },
			func(b *topology.Binding) { b.DestinationType = topology.ToExchange },
		},
	} {
		for _, change := range all {
			b := own
			if change(&b); delay.Replaces(b, own) != want {
				t.Errorf("%+v replaces %+v: %t", b, own, !want)
			}
		}
	}
}

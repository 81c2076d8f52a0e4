package recognize

import (
	"slices"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize/recognizetest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// An import says which queues it leaves out that look like damaged delay queues.
func TestLeftOut(t *testing.T) {
	a := recognizetest.Application{Topology: topology.New()}
	a.Exchange("direct", "retry")
	a.Work("work", "plain")
	a.Bind("retry", "plain", "plain")
	for _, label := range []string{"1s", "argued", "forever", "never", "nowhere", "lost"} {
		a.Waits("retry."+label, time.Second, "", "work")
		a.Bind("retry", label, "retry."+label)
	}
	bare := topology.Binding{Source: "retry", RoutingKey: "argued", Destination: "retry.argued",
		DestinationType: topology.ToQueue}
	argued := bare
	argued.Arguments = `{"owner":"billing"}`
	delete(a.Bindings, bare)
	a.Bindings[argued] = struct{}{}
	delete(a.Queues["retry.forever"].Arguments, "x-message-ttl")
	a.Queues["retry.never"].Arguments["x-message-ttl"] = int64(0)
	delete(a.Queues["retry.nowhere"].Arguments, "x-dead-letter-routing-key")
	delete(a.Queues["retry.lost"].Arguments, "x-dead-letter-routing-key")
	delete(a.Queues["retry.lost"].Arguments, "x-dead-letter-exchange")
	there := NewInventory("/", a.Topology)
	l, err := Ladder(t.Context(), there, "/", "retry")
	if err != nil {
		t.Fatal(err)
	}
	got, err := LeftOut(t.Context(), there, l.Expand())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`queue "retry.argued" with key "argued": its binding has the arguments {"owner":"billing"}, and that of a ` +
			"ladder has none",
		`queue "retry.forever" with key "forever": it has no argument x-message-ttl`,
		`queue "retry.lost" with key "lost": it has no argument x-dead-letter-exchange`,
		`queue "retry.never" with key "never": its x-message-ttl is 0, which is no delay`,
		`queue "retry.nowhere" with key "nowhere": it hands on through the default exchange without an ` +
			"x-dead-letter-routing-key",
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("left out are %q, want %q", got, want)
	}
}

// A queue that waits for the end of a ladder may belong to it, unless something leads there.
func TestUnbound(t *testing.T) {
	a := recognizetest.Application{Topology: topology.New()}
	a.Exchange("direct", "retry", "other", "work")
	for _, name := range []string{"retry.1", "retry.2", "retry.3", "others", "elsewhere", "keyed", "no-time"} {
		a.Waits(name, 90*time.Second, "work", "again")
	}
	a.Queues["retry.2"].Arguments["x-message-ttl"] = int64(5000)
	a.Queues["elsewhere"].Arguments["x-dead-letter-exchange"] = "other"
	a.Queues["keyed"].Arguments["x-dead-letter-routing-key"] = "another"
	delete(a.Queues["no-time"].Arguments, "x-message-ttl")
	a.Work("plain")
	a.Bind("retry", "1", "retry.1")
	a.Bind("other", "1", "others")
	there := NewInventory("/", a.Topology)
	l, err := Ladder(t.Context(), there, "/", "retry")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`queue "retry.2": its delay is 5s`, `queue "retry.3": its delay is 1m30s`}
	if got := there.Unbound(l.Expand()); !slices.Equal(got, want) {
		t.Errorf("without a binding are %q, want %q", got, want)
	}
}

// The type of a delivery exchange that is gone shows nowhere, unless the keys of the ladder need a topic exchange.
func TestAssumesTopic(t *testing.T) {
	for name, test := range map[string]struct {
		delivery, key, fixed string
		want                 bool
	}{
		"missing":                         {"", "attempt.1", "again", true},
		"missing, with the keys they had": {"", "attempt.1", "", true},
		"missing, with a fixed key":       {"", "1s.#", "again", true},
		"missing, with addresses":         {"", "1s.*.#", "", false},
		"direct":                          {"direct", "attempt.1", "again", false},
	} {
		t.Run(name, func(t *testing.T) {
			a := recognizetest.Application{Topology: topology.New()}
			a.Exchange("topic", "retry")
			if test.delivery != "" {
				a.Exchange(test.delivery, "work")
			}
			a.Waits("retry.1s", time.Second, "work", test.fixed)
			a.Bind("retry", test.key, "retry.1s")
			there := NewInventory("/", a.Topology)
			l, err := Ladder(t.Context(), there, "/", "retry")
			if err != nil {
				t.Fatal(err)
			}
			if got := there.AssumesTopic(l); got != test.want {
				t.Errorf("assumes a topic exchange: %t, want %t", got, test.want)
			}
		})
	}
}

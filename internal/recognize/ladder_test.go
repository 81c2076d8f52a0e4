package recognize

import (
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay/delaytest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

func TestRecognizeLadderRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := delaytest.AnyLadder().Draw(t, "ladder")
		want := delaytest.Resolve(t, l).Expand()
		got, err := Ladder(t.Context(), holding(t, want), l.Vhost, want.Entry)
		if err != nil {
			t.Fatal(err)
		}
		expanded := got.Expand()
		if !l.CreateDeliveryExchange {
			delete(want.Exchanges, want.Delivery) // was added for the broker
		}
		if got.Vhost != l.Vhost || !reflect.DeepEqual(expanded, want) {
			t.Fatalf("recognized %+v, which is not %+v", got, l)
		}
	})
}

// With default names the configuration itself comes back, whatever is damaged as long as one rung is whole.
func TestRecognizeDamagedLadder(t *testing.T) {
	for name, damage := range map[string]func(topology.Topology){
		"nothing": func(topology.Topology) {},
		"queues are gone": func(there topology.Topology) {
			delete(there.Queues, "retry.delay-5s")
			delete(there.Queues, "retry.delay-1h")
		},
		"a queue has another TTL": func(there topology.Topology) {
			there.Queues["retry.delay-1h"].Arguments["x-message-ttl"] = int64(1)
		},
		"delivery and parking are gone": func(there topology.Topology) {
			delete(there.Exchanges, "retry.delivery")
			delete(there.Exchanges, "retry.unroutable")
			delete(there.Queues, "retry.unroutable")
		},
		"others have bound to the entry": func(there topology.Topology) {
			there.Queues["other"] = topology.Queue{Name: "other"}
			for _, key := range []string{"#", "5s", "5s.*.#", "1h.#"} {
				there.Bindings.Add(topology.Binding{Source: "retry.entry", RoutingKey: key,
					DestinationType: topology.ToQueue, Destination: "other"})
			}
			there.Bindings.Add(topology.Binding{Source: "retry.entry", RoutingKey: "5s.*.#",
				DestinationType: topology.ToExchange, Destination: "amq.topic"})
			there.Bindings.Add(topology.Binding{Source: "retry.entry", RoutingKey: "2h.*.#",
				DestinationType: topology.ToQueue, Destination: "other"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := delaytest.Resolve(t, delay.LadderConfig{Vhost: "/", Name: "retry", Delays: []string{"1h", "30s",
				"5s"},
				CreateDeliveryExchange: true, ParkUnroutable: true, QuorumOptions: delay.QuorumOptions{MaxLength: 7}})
			expanded := want.Expand()
			there := holding(t, expanded)
			damage(there.there)
			got, err := Ladder(t.Context(), there, "/", "retry.entry")
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v (%v), want %+v", got, err, want)
			}
		})
	}
}

// waits adds a queue to which the entry leads with the key of a delay.
func waits(there topology.Topology, label, name, deadLetters string) {
	delay, err := delay.ParseLabel(label)
	if err != nil {
		panic(err)
	}
	there.Queues[name] = topology.Queue{Name: name, Arguments: topology.Arguments{
		"x-message-ttl": delay.Milliseconds(), "x-dead-letter-exchange": deadLetters,
	}}
	there.Bindings.Add(topology.Binding{
		Source: "retry.entry", RoutingKey: label + ".*.#", DestinationType: topology.ToQueue, Destination: name,
	})
}

// Bindings to the queues of another ladder hide none of a ladder's own, nor add to them, even if they are more.
func TestRecognizeLadderBesideAnother(t *testing.T) {
	for name, test := range map[string]struct {
		ladder  delay.LadderConfig
		foreign []string // labels
	}{
		"days and weeks": {delay.LadderConfig{Name: "retry", Delays: []string{"168h", "8d", "90s", "2w"}},
			[]string{"1w", "36h", "1d"}},
		"another delay":  {delay.LadderConfig{Name: "retry", Delays: []string{"5s", "30s"}}, []string{"1m"}},
		"the same delay": {delay.LadderConfig{Name: "retry", Delays: []string{"5s", "30s"}}, []string{"5s"}},
		"the same delay of a later one": {delay.LadderConfig{Name: "a", EntryExchange: "retry.entry",
			Delays: []string{"5s", "30s"}}, []string{"5s"}},
		"more than its own": {delay.LadderConfig{Name: "retry", Delays: []string{"5s"}}, []string{"1m", "2m", "3m"}},
		"names of its own": {
			delay.LadderConfig{EntryExchange: "retry.entry", QueueName: "wait-%s", DeliveryExchange: "events",
				Delays: []string{"5s", "30s"}}, []string{"1m"},
		},
		"a parking queue shows the name": {
			delay.LadderConfig{Name: "tasks", EntryExchange: "retry.entry", Delays: []string{"5s"},
				ParkUnroutable: true},
			[]string{"1m"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.ladder.Vhost, test.ladder.CreateDeliveryExchange = "/", true
			want := delaytest.Resolve(t, test.ladder).Expand()
			there := delaytest.Resolve(t, test.ladder).Expand()
			for _, label := range test.foreign {
				waits(there, label, "jobs.delay-"+label, "jobs.delivery")
			}
			l, err := Ladder(t.Context(), holding(t, there), "/", "retry.entry")
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(l.Expand(), want) {
				t.Errorf("recognized %+v, want %+v", l, test.ladder)
			}
		})
	}
}

func TestRecognizeLadderErrors(t *testing.T) {
	for name, test := range map[string]struct {
		damage func(topology.Topology)
		want   string
	}{
		"no entry": {func(there topology.Topology) { delete(there.Exchanges, "retry.entry") },
			"there is no such exchange"},
		"no bindings": {func(there topology.Topology) { clear(there.Bindings) }, "no binding like that of a " +
			"ladder's rung"},
		"no queues": {func(there topology.Topology) { clear(there.Queues) }, "no queue behind it has the " +
			"x-message-ttl that its binding's key names"},
		"a delay whose queue is called otherwise": {func(there topology.Topology) {
			waits(there, "1m", "other", "retry.delivery")
		}, `queue "other" holds messages for 1m and leads to the same delivery exchange, but is not called like the ` +
			`other queues, "retry.delay-%s"`},
		"names without a format": {func(there topology.Topology) {
			clear(there.Bindings)
			waits(there, "5s", "short", "retry.delivery")
			waits(there, "30s", "long", "retry.delivery")
		}, `its queues can be called "long" or "short", and nothing shows which`},
		"another type": {func(there topology.Topology) {
			there.Exchanges["retry.entry"] = topology.Exchange{Name: "retry.entry", Type: "direct"}
		}, "it is a direct exchange"},
	} {
		t.Run(name, func(t *testing.T) {
			expanded := delaytest.Resolve(t, delay.LadderConfig{Vhost: "/", Name: "retry", Delays: []string{"5s",
				"30s"},
				CreateDeliveryExchange: true}).Expand()
			test.damage(expanded)
			if got, err := Ladder(t.Context(), holding(t, expanded), "/", "retry.entry"); err == nil ||
				!strings.Contains(err.Error(), test.want) {
				t.Errorf("got %+v and %v, want %q", got, err, test.want)
			}
		})
	}
}

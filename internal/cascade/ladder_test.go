package cascade

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology/topologytest"
)

// The single rung of 30 minutes that closes orders, exact to the character.
func TestLadderOfASingleRung(t *testing.T) {
	got := resolve(t, LadderConfig{
		EntryExchange: "order.delay.exchange", QueueName: "order.delay.queue", DeliveryExchange: "order.close.exchange",
		DeadLetterRoutingKey: "order.close.queue", Delays: []string{"30m"}, QueueType: Classic,
	}).Expand()
	want := topology.New()
	want.Entry, want.Delivery = "order.delay.exchange", "order.close.exchange"
	want.Exchanges[want.Entry] = topology.Exchange{Name: want.Entry, Type: "topic", Durable: true}
	want.Queues["order.delay.queue"] = topology.Queue{Name: "order.delay.queue", Durable: true,
		Arguments: topology.Arguments{
			"x-queue-type": "classic", "x-message-ttl": int64(1_800_000),
			"x-dead-letter-exchange":    "order.close.exchange",
			"x-dead-letter-routing-key": "order.close.queue",
		}}
	want.Bindings.Add(topology.Binding{Source: want.Entry, RoutingKey: "30m.#", DestinationType: topology.ToQueue,
		Destination: "order.delay.queue"})
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// A message waits as long as its label says, once, and arrives with its destination; anything else is parked at once.
func TestEveryRungDeliversOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		given := anyLadder().Draw(t, "ladder")
		given.CreateDeliveryExchange, given.ParkUnroutable = true, true
		if given.Name == "" {
			given.Name = "n"
		}
		l, err := given.Resolve()
		if err != nil {
			t.Skip("its names collide with those of the parking queue")
		}
		expanded := l.Expand()
		expanded.Queues[application] = topology.Queue{Name: application}
		expanded.Bindings.Add(topology.Binding{Source: l.DeliveryExchange, RoutingKey: "#",
			DestinationType: topology.ToQueue, Destination: application})
		router := topologytest.NewRouter(expanded)
		for _, label := range l.Delays {
			ttl, err := ParseLabel(label)
			if err != nil {
				t.Fatal(err)
			}
			arrivals := router.Follow(l.EntryExchange, label+"."+anyAddress(1).Draw(t, "destination"))
			if len(arrivals) != 1 || arrivals[0].Queue != application || arrivals[0].Delay != ttl ||
				!slices.Equal(arrivals[0].Path, []string{l.QueueName.Name(label)}) {
				t.Fatalf("label %s: %v", label, arrivals)
			}
		}
		parksWrongKeys(t, l, router)
	})
}

func parksWrongKeys(t tester, l Ladder, router *topologytest.Router) {
	t.Helper()
	wrong := []string{"", ".", "7w.a", l.Delays[0] + "x.a", "a." + l.Delays[0]}
	if l.DeadLetterRoutingKey == "" {
		wrong = append(wrong, l.Delays[0])
	}
	for _, key := range wrong {
		if arrivals := router.Follow(l.EntryExchange, key); len(arrivals) != 1 ||
			arrivals[0].Queue != l.shared().parking() || len(arrivals[0].Path) > 0 {
			t.Fatalf("key %q: %v", key, arrivals)
		}
	}
}

func TestRecognizeLadderRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := anyLadder().Draw(t, "ladder")
		want := resolve(t, l).Expand()
		got, err := RecognizeLadder(t.Context(), holding(t, want), l.Vhost, want.Entry)
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
			want := resolve(t, LadderConfig{Vhost: "/", Name: "retry", Delays: []string{"1h", "30s", "5s"},
				CreateDeliveryExchange: true, ParkUnroutable: true, QuorumOptions: QuorumOptions{MaxLength: 7}})
			expanded := want.Expand()
			there := holding(t, expanded)
			damage(there.there)
			got, err := RecognizeLadder(t.Context(), there, "/", "retry.entry")
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v (%v), want %+v", got, err, want)
			}
		})
	}
}

// waits adds a queue to which the entry leads with the key of a delay.
func waits(there topology.Topology, label, name, deadLetters string) {
	there.Queues[name] = topology.Queue{Name: name, Arguments: topology.Arguments{
		"x-message-ttl": rung(label).Milliseconds(), "x-dead-letter-exchange": deadLetters,
	}}
	there.Bindings.Add(topology.Binding{
		Source: "retry.entry", RoutingKey: label + ".*.#", DestinationType: topology.ToQueue, Destination: name,
	})
}

// Bindings to the queues of another ladder hide none of a ladder's own, nor add to them, even if they are more.
func TestRecognizeLadderBesideAnother(t *testing.T) {
	for name, test := range map[string]struct {
		ladder  LadderConfig
		foreign []string // labels
	}{
		"another delay":  {LadderConfig{Name: "retry", Delays: []string{"5s", "30s"}}, []string{"1m"}},
		"the same delay": {LadderConfig{Name: "retry", Delays: []string{"5s", "30s"}}, []string{"5s"}},
		"the same delay of a later one": {LadderConfig{Name: "a", EntryExchange: "retry.entry",
			Delays: []string{"5s", "30s"}}, []string{"5s"}},
		"more than its own": {LadderConfig{Name: "retry", Delays: []string{"5s"}}, []string{"1m", "2m", "3m"}},
		"names of its own": {
			LadderConfig{EntryExchange: "retry.entry", QueueName: "wait-%s", DeliveryExchange: "events",
				Delays: []string{"5s", "30s"}}, []string{"1m"},
		},
		"a parking queue shows the name": {
			LadderConfig{Name: "tasks", EntryExchange: "retry.entry", Delays: []string{"5s"}, ParkUnroutable: true},
			[]string{"1m"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.ladder.Vhost, test.ladder.CreateDeliveryExchange = "/", true
			want := resolve(t, test.ladder).Expand()
			there := resolve(t, test.ladder).Expand()
			for _, label := range test.foreign {
				waits(there, label, "jobs.delay-"+label, "jobs.delivery")
			}
			l, err := RecognizeLadder(t.Context(), holding(t, there), "/", "retry.entry")
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
			`others, "retry.delay-%s"`},
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
			expanded := resolve(t, LadderConfig{Vhost: "/", Name: "retry", Delays: []string{"5s", "30s"},
				CreateDeliveryExchange: true}).Expand()
			test.damage(expanded)
			if got, err := RecognizeLadder(t.Context(), holding(t, expanded), "/", "retry.entry"); err == nil ||
				!strings.Contains(err.Error(), test.want) {
				t.Errorf("got %+v and %v, want %q", got, err, test.want)
			}
		})
	}
}

func TestLadderErrors(t *testing.T) {
	for name, test := range map[string]struct {
		change          func(*LadderConfig)
		attribute, want string
	}{
		"no delays": {func(l *LadderConfig) { l.Delays = nil }, "delays", "is empty"},
		"no duration": {func(l *LadderConfig) { l.Delays = []string{"1s", "soon"} }, "delays",
			`has "soon", which is not a duration`},
		"negative": {func(l *LadderConfig) { l.Delays = []string{"-1s"} }, "delays", "which is not a duration"},
		"zero": {func(l *LadderConfig) { l.Delays = []string{"0s"} }, "delays", "whole milliseconds, " +
			"from 1ms on"},
		"too fine":     {func(l *LadderConfig) { l.Delays = []string{"1500us"} }, "delays", "whole milliseconds"},
		"a dot":        {func(l *LadderConfig) { l.Delays = []string{"1.5s"} }, "delays", `write "1500ms"`},
		"a dot, round": {func(l *LadderConfig) { l.Delays = []string{"1.5h"} }, "delays", `write "1h30m"`},
		"too long": {func(l *LadderConfig) { l.Delays = []string{"100000h"} }, "delays",
			"no TTL over 87600h (ten years)"},
		"twice": {func(l *LadderConfig) { l.Delays = []string{"60s", "1m"} }, "delays",
			`has both "1m" and "60s", which are the same`},
		"no verb": {func(l *LadderConfig) { l.QueueName = "x" }, "queue_name", "has no %s in the place of the " +
			"delay; without it, all 2 delays would have the same queue"},
		"two verbs": {func(l *LadderConfig) { l.QueueName = "%s%s" }, "queue_name", "has %s 2 times"},
		"another verb": {func(l *LadderConfig) { l.QueueName = "%02d" }, "queue_name", "has a percent sign that " +
			"begins no %s"},
		"names collide": {func(l *LadderConfig) { l.EntryExchange = "retry.delivery" }, "entry_exchange",
			`gives the name "retry.delivery" to a second exchange`},
		"reserved": {func(l *LadderConfig) { l.EntryExchange = "amq.topic" }, "entry_exchange",
			"RabbitMQ reserves"},
		"long names": {func(l *LadderConfig) { l.Name = strings.Repeat("n", 250) }, "name", "RabbitMQ allows 255"},
		"a long key": {func(l *LadderConfig) { l.DeadLetterRoutingKey = strings.Repeat("k", 256) },
			"dead_letter_routing_key", "has 256 bytes; AMQP allows 255"},
		"no names": {func(l *LadderConfig) { l.Name = "" }, "name", "is missing; give it, or else " +
			"entry_exchange and queue_name and delivery_exchange and park_unroutable = false"},
		"a limit for classic": {func(l *LadderConfig) { l.QueueType, l.MaxLength = Classic, 1 }, "max_length",
			"loses messages that are dead-lettered into it"},
		"a queue type": {func(l *LadderConfig) { l.QueueType = "stream" }, "queue_type", `is "stream"`},
	} {
		t.Run(name, func(t *testing.T) {
			l := LadderConfig{Vhost: "/", Name: "retry", Delays: []string{"5s", "30s"}, CreateDeliveryExchange: true,
				ParkUnroutable: true}
			test.change(&l)
			_, err := l.Resolve()
			var errs Errors
			if !errors.As(err, &errs) || len(errs) != 1 || errs[0].Attribute != test.attribute ||
				!strings.Contains(errs[0].Message, test.want) {
				t.Errorf("got %v, want %s %s", err, test.attribute, test.want)
			}
		})
	}
}

// anyLadder draws valid ladders of all kinds.
func anyLadder() *rapid.Generator[LadderConfig] {
	label := rapid.Custom(func(t *rapid.T) string {
		n := rapid.IntRange(1, 100).Draw(t, "n")
		return fmt.Sprintf("%d%s", n, rapid.SampledFrom([]string{"ms", "s", "m", "h", "h1s"}).Draw(t, "unit"))
	})
	return rapid.Custom(func(t *rapid.T) LadderConfig {
		l := LadderConfig{
			Vhost: "/", QueueType: rapid.SampledFrom([]QueueType{Quorum, Classic}).Draw(t, "queue type"),
			Delays: rapid.SliceOfNDistinct(label, 1, 9, func(label string) time.Duration {
				ttl, _ := time.ParseDuration(label)
				return ttl
			}).Draw(t, "delays"),
			CreateDeliveryExchange: rapid.Bool().Draw(t, "create delivery exchange"),
			ParkUnroutable:         rapid.Bool().Draw(t, "park unroutable"),
		}
		if rapid.Bool().Draw(t, "fixed key") {
			l.DeadLetterRoutingKey = anyText(1).Draw(t, "key")
		}
		if l.ParkUnroutable || rapid.Bool().Draw(t, "named") {
			l.Name = anyText(1).Draw(t, "name")
		}
		if l.Name == "" || rapid.Bool().Draw(t, "entry named") {
			l.EntryExchange = anyText(1).Draw(t, "entry")
		}
		if l.Name == "" || rapid.Bool().Draw(t, "queue named") {
			l.QueueName = LabelFormat(Escape(anyText(0).Draw(t, "before")) + "%s" +
				Escape(anyText(0).Draw(t, "behind")))
		}
		if l.Name == "" || rapid.Bool().Draw(t, "delivery named") {
			l.DeliveryExchange = anyText(1).Draw(t, "delivery")
		}
		return l
	}).Filter(func(l LadderConfig) bool {
		_, err := l.Resolve()
		return err == nil
	})
}

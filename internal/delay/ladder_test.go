package delay_test

import (
	"cmp"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay/delaytest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology/topologytest"
)

// The single rung of 30 minutes that closes orders, exact to the character.
func TestLadderOfASingleRung(t *testing.T) {
	got := delaytest.Resolve(t, delay.LadderConfig{
		EntryExchange: "order.delay.exchange", QueueName: "order.delay.queue", DeliveryExchange: "order.close.exchange",
		DeadLetterRoutingKey: "order.close.queue", Delays: []string{"30m"}, QueueType: delay.Classic,
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
		given := delaytest.AnyLadder().Draw(t, "ladder")
		given.CreateDeliveryExchange, given.ParkUnroutable = true, true
		if given.Name == "" {
			given.Name = "n"
		}
		l, err := given.Resolve()
		if err != nil {
			t.Skip("its names collide with those of the parking queue")
		}
		expanded := l.Expand()
		end := cmp.Or(l.DeliverToQueue, application)
		expanded.Queues[end] = topology.Queue{Name: end}
		if l.DeliverToQueue == "" {
			expanded.Bindings.Add(topology.Binding{Source: l.DeliveryExchange, RoutingKey: "#",
				DestinationType: topology.ToQueue, Destination: end})
		}
		router := topologytest.NewRouter(expanded)
		for _, label := range l.Delays {
			ttl, err := delay.ParseLabel(label)
			if err != nil {
				t.Fatal(err)
			}
			arrivals := router.Follow(l.EntryExchange, label+"."+delaytest.AnyAddress(1).Draw(t, "destination"))
			if len(arrivals) != 1 || arrivals[0].Queue != end || arrivals[0].Delay != ttl ||
				!slices.Equal(arrivals[0].Path, []string{l.QueueName.Labelled(label)}) {
				t.Fatalf("label %s: %v", label, arrivals)
			}
		}
		parksWrongKeys(t, l, router)
	})
}

// With keys of its own, a ladder is asked for a delay by the key of its binding.
func TestEveryKeyDeliversOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		given := delaytest.AnyKeyedLadder().Draw(t, "ladder")
		given.CreateDeliveryExchange = true
		l := delaytest.Resolve(t, given)
		expanded := l.Expand()
		end := cmp.Or(l.DeliverToQueue, application)
		expanded.Queues[end] = topology.Queue{Name: end}
		if l.DeliverToQueue == "" {
			expanded.Bindings.Add(topology.Binding{Source: l.DeliveryExchange, RoutingKey: "#",
				DestinationType: topology.ToQueue, Destination: end})
		}
		router := topologytest.NewRouter(expanded)
		for key, wait := range l.Waits() {
			if arrivals := router.Follow(l.EntryExchange, key); len(arrivals) != 1 || arrivals[0].Queue != end ||
				arrivals[0].Delay != wait {
				t.Fatalf("key %q: %v", key, arrivals)
			}
		}
	})
}

func parksWrongKeys(t delaytest.Tester, l delay.Ladder, router *topologytest.Router) {
	t.Helper()
	wrong := []string{"", ".", "7y.a", l.Delays[0] + "x.a", "a." + l.Delays[0]}
	if l.FixedKey() == "" {
		wrong = append(wrong, l.Delays[0])
	}
	for _, key := range wrong {
		if arrivals := router.Follow(l.EntryExchange, key); len(arrivals) != 1 ||
			arrivals[0].Queue != l.Expand().Parking() || len(arrivals[0].Path) > 0 {
			t.Fatalf("key %q: %v", key, arrivals)
		}
	}
}

// The broker's keys and queues have a delay as it is given, also where DurationText writes another.
func TestLabelsStayAsTheyAreGiven(t *testing.T) {
	labels := []string{"1500ms", "90s", "36h", "7d", "1w1d", "1440h"} // from the shortest
	l := delaytest.Resolve(t, delay.LadderConfig{Name: "retry", Delays: slices.Sorted(slices.Values(labels)),
		CreateDeliveryExchange: true})
	if !slices.Equal(l.Delays, labels) {
		t.Errorf("the delays are %q", l.Delays)
	}
	for _, label := range labels {
		key := label + ".*.#"
		if got, ok := delay.ParseRungKey(key); !ok || got != label {
			t.Errorf("key %s is of delay %q (%t)", key, got, ok)
		}
		want := topology.Binding{Source: "retry.entry", RoutingKey: key, DestinationType: topology.ToQueue,
			Destination: "retry.delay-" + label}
		if !l.Expand().Bindings.Has(want) {
			t.Errorf("there is no binding %+v", want)
		}
	}
}

func TestLadderErrors(t *testing.T) {
	for name, test := range map[string]struct {
		change          func(*delay.LadderConfig)
		attribute, want string
	}{
		"no delays": {func(l *delay.LadderConfig) { l.Delays = nil }, "delays", "is empty"},
		"no duration": {func(l *delay.LadderConfig) { l.Delays = []string{"1s", "soon"} }, "delays",
			`has "soon", which is not a duration`},
		"negative": {func(l *delay.LadderConfig) { l.Delays = []string{"-1s"} }, "delays", "which is not a duration"},
		"zero": {func(l *delay.LadderConfig) { l.Delays = []string{"0s"} }, "delays", "whole milliseconds, " +
			"from 1ms on"},
		"too fine":     {func(l *delay.LadderConfig) { l.Delays = []string{"1500us"} }, "delays", "whole milliseconds"},
		"a dot":        {func(l *delay.LadderConfig) { l.Delays = []string{"1.5s"} }, "delays", `write "1s500ms"`},
		"a dot, round": {func(l *delay.LadderConfig) { l.Delays = []string{"1.5h"} }, "delays", `write "1h30m"`},
		"too long": {func(l *delay.LadderConfig) { l.Delays = []string{"100000h"} }, "delays",
			"no TTL over 3650d (ten years)"},
		"twice": {func(l *delay.LadderConfig) { l.Delays = []string{"60s", "1m"} }, "delays",
			`has both "1m" and "60s", which are the same`},
		"no verb": {func(l *delay.LadderConfig) { l.QueueName = "x" }, "queue_name", "has no %s in the place of the " +
			"delay; without it, all 2 delays would have the same queue"},
		"two verbs": {func(l *delay.LadderConfig) { l.QueueName = "%s%s" }, "queue_name", "has %s 2 times"},
		"another verb": {func(l *delay.LadderConfig) { l.QueueName = "%02d" }, "queue_name",
			"has a percent sign that " +
				"begins no %s"},
		"names collide": {func(l *delay.LadderConfig) { l.EntryExchange = "retry.delivery" }, "entry_exchange",
			`gives the name "retry.delivery" to a second exchange`},
		"reserved": {func(l *delay.LadderConfig) { l.EntryExchange = "amq.topic" }, "entry_exchange",
			"RabbitMQ reserves"},
		"two ends": {func(l *delay.LadderConfig) { l.DeliverToQueue, l.DeliveryExchange = "work", "mine" },
			"delivery_exchange", `is "mine" beside deliver_to_queue, "work"; leave one of the two out`},
		"two keys": {func(l *delay.LadderConfig) { l.DeliverToQueue, l.DeadLetterRoutingKey = "work", "key" },
			"dead_letter_routing_key", `is "key" beside deliver_to_queue, "work"; leave one of the two out`},
		"a circle": {func(l *delay.LadderConfig) { l.DeliverToQueue = "retry.delay-5s" }, "deliver_to_queue",
			`gives the name "retry.delay-5s" to a second queue`},
		"long names": {func(l *delay.LadderConfig) { l.Name = strings.Repeat("n", 250) }, "name",
			"RabbitMQ allows 255"},
		"a long key": {func(l *delay.LadderConfig) { l.DeadLetterRoutingKey = strings.Repeat("k", 256) },
			"dead_letter_routing_key", "has 256 bytes; AMQP allows 255"},
		"no names": {func(l *delay.LadderConfig) { l.Name = "" }, "name", "is missing; give it, or else " +
			"entry_exchange and queue_name and delivery_exchange and park_unroutable = false"},
		"a limit for classic": {func(l *delay.LadderConfig) { l.QueueType, l.MaxLength = delay.Classic, 1 },
			"max_length",
			"loses messages that are dead-lettered into it"},
		"no key for a delay": {func(l *delay.LadderConfig) { l.BindingKeys = map[string]string{"5s": "a"} },
			"binding_keys", `has nothing for the delay "30s"; give a value for each of the delays`},
		"a key too many": {func(l *delay.LadderConfig) {
			l.BindingKeys = map[string]string{"5s": "a", "30s": "b", "1m": "c"}
		}, "binding_keys", `has "1m", which is none of the delays`},
		"two rungs for a message": {func(l *delay.LadderConfig) {
			l.BindingKeys = map[string]string{"5s": "a.#", "30s": "*.b"}
		}, "binding_keys", `has "*.b" for "30s" and "a.#" for "5s". A message with a key that fits both would come ` +
			"twice"},
		"the same key twice": {func(l *delay.LadderConfig) {
			l.EntryExchangeType, l.BindingKeys = delay.Direct, map[string]string{"5s": "a", "30s": "a"}
		}, "binding_keys", "would come twice"},
		"a long key of a binding": {func(l *delay.LadderConfig) {
			l.BindingKeys = map[string]string{"5s": strings.Repeat("k", 256), "30s": "b"}
		}, "binding_keys", `has a key of 256 bytes for "5s"; AMQP allows 255`},
		"direct without keys": {func(l *delay.LadderConfig) { l.EntryExchangeType = delay.Direct },
			"entry_exchange_type", "give binding_keys"},
		"a type of the entry": {func(l *delay.LadderConfig) { l.EntryExchangeType = "fanout" },
			"entry_exchange_type", `is "fanout"; it can be "topic" or "direct"`},
		"two ways to name": {func(l *delay.LadderConfig) {
			l.QueueName, l.QueueNames = "q-%s", map[string]string{"5s": "a", "30s": "b"}
		}, "queue_name", `is "q-%s" beside queue_names; leave one of the two out`},
		"no name for a delay": {func(l *delay.LadderConfig) { l.QueueNames = map[string]string{"5s": "a"} },
			"queue_names", `has nothing for the delay "30s"`},
		"a name twice": {func(l *delay.LadderConfig) { l.QueueNames = map[string]string{"5s": "a", "30s": "a"} },
			"queue_names", `gives the name "a" to a second queue`},
		"an empty name": {func(l *delay.LadderConfig) { l.QueueNames = map[string]string{"5s": "a", "30s": ""} },
			"queue_names", `has an empty name for "30s"`},
		"a queue type": {func(l *delay.LadderConfig) { l.QueueType = "stream" }, "queue_type", `is "stream"`},
	} {
		t.Run(name, func(t *testing.T) {
			l := delay.LadderConfig{Vhost: "/", Name: "retry", Delays: []string{"5s", "30s"},
				CreateDeliveryExchange: true,
				ParkUnroutable:         true}
			test.change(&l)
			_, err := l.Resolve()
			var errs delay.Errors
			if !errors.As(err, &errs) || len(errs) != 1 || errs[0].Attribute != test.attribute ||
				!strings.Contains(errs[0].Message, test.want) {
				t.Errorf("got %v, want %s %s", err, test.attribute, test.want)
			}
		})
	}
}

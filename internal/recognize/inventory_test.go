package recognize

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay/delaytest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Of any cascade its entry is found, and none of its lower levels.
func TestInventoryFindsTheEntry(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := delaytest.AnyConfig().Draw(t, "config")
		there := declared(t, c).there
		if got := entries(t, NewInventory(c.Vhost, there), KindCascade); !slices.Equal(got, []string{there.Entry}) {
			t.Fatalf("found %q, want %q", got, there.Entry)
		}
	})
}

// One vhost has cascades of every make, and much else. Each is found once, and recognized as what it is.
func TestInventoryFindsAllAndNothingElse(t *testing.T) {
	there := topology.New()
	add := func(more topology.Topology) {
		maps.Copy(there.Exchanges, more.Exchanges)
		maps.Copy(there.Queues, more.Queues)
		maps.Copy(there.Bindings, more.Bindings)
	}
	want := map[string]delay.Config{}
	for _, c := range []delay.Config{
		{Name: "full", Levels: 28, StrictKeys: true, InternalLevels: true, ParkUnroutable: true},
		{Name: "chain", Levels: 28, StrictKeys: true, InternalLevels: true, ParkUnroutable: true, Lookahead: 1},
		{Name: "lax", Levels: 12, ParkUnroutable: true},
		{Name: "lax chain", Levels: 12, Lookahead: 1, QueueType: delay.Classic},
		{Name: "decimal", Base: 10, Levels: 8, StrictKeys: true, InternalLevels: true, ParkUnroutable: true},
		{Name: "lax octal chain", Base: 8, Levels: 4, Lookahead: 1, QueueType: delay.Classic},
		{Name: "single ternary", Base: 3, Levels: 1, StrictKeys: true, InternalLevels: true, ParkUnroutable: true},
		{Name: "single", Levels: 1, StrictKeys: true, InternalLevels: true, ParkUnroutable: true},
		{Name: "lax single", Levels: 1, Lookahead: 1},
		{ExchangeName: "wait.%d.to", QueueName: "waiting %d", DeliveryExchange: "full.delivery", Levels: 3},
		{ExchangeName: "0to%d", QueueName: "0of%d", DeliveryExchange: "amq.topic", Levels: 11, Lookahead: 1},
		{Name: "units", Units: common, StrictKeys: true, ParkUnroutable: true},
		{Name: "lax units", Units: common, MaxDelay: 2 * time.Hour, Lookahead: 2, QueueType: delay.Classic},
		{Name: "minutes", Units: []time.Duration{10 * time.Minute, time.Minute}, MaxDelay: time.Hour, Lookahead: 1},
		{Preset: delay.NServiceBus}, {Preset: delay.NServiceBusV1}, {Preset: delay.Celery},
	} {
		c.Vhost = "/"
		c.CreateDeliveryExchange = c.DeliveryExchange == ""
		expanded := delaytest.Expand(t, c)
		add(expanded)
		want[expanded.Entry] = c
	}
	add(delaytest.ReadVector(t, "article_level3"))
	want["EXCHANGE.TOPIC.SENDTASK.N3"] = delaytest.Vectors["article_level3"]

	bind := func(source, key string, to topology.DestinationType, destination string) {
		there.Bindings.Add(topology.Binding{Source: source, RoutingKey: key, DestinationType: to,
			Destination: destination})
	}
	topic := func(name string) { there.Exchanges[name] = topology.Exchange{Name: name, Type: "topic", Durable: true} }
	there.Exchanges["amq.direct"] = topology.Exchange{Name: "amq.direct", Type: "direct", Durable: true}
	there.Queues["plain"] = topology.Queue{Name: "plain", Durable: true}
	there.Queues["retry"] = topology.Queue{Name: "retry", Durable: true,
		Arguments: topology.Arguments{"x-message-ttl": int64(5000), "x-dead-letter-exchange": "events-1"}}
	for n := range 3000 {
		name := fmt.Sprintf("events-%d", n)
		topic(name)
		bind(name, "#", topology.ToQueue, "plain")
	}
	bind("events-1", "1.#", topology.ToQueue, "plain")  // no TTL
	bind("events-2", "1.#", topology.ToQueue, "retry")  // a retry queue of an application
	bind("events-3", "1.#", topology.ToQueue, "absent") // gone since
	bind("events-4", "1.#", topology.ToExchange, "events-1")
	// Somebody publishes by hand into a lower level: that does not make it a cascade.
	bind("lax.delay-05", "1.#", topology.ToQueue, "lax.delay-05")
	bind("decimal.delay-05", "7.#", topology.ToQueue, "decimal.delay-05-7")
	bind("full.delay-07", "1"+strings.Repeat(".*", 8)+".#", topology.ToQueue, "full.delay-07")
	bind("full.delay-00", "1.#", topology.ToQueue, "full.delay-00")

	i := NewInventory("/", there)
	got := entries(t, i, KindCascade)
	if wanted := slices.Sorted(maps.Keys(want)); !slices.Equal(got, wanted) {
		t.Fatalf("found %q,\nwant %q", got, wanted)
	}
	for _, entry := range got {
		c, err := Cascade(t.Context(), i, "/", entry)
		if err != nil {
			t.Fatal(err)
		}
		expandsTo(t, c, want[entry])
	}
}

// The same for ladders, beside which cascades and retry queues of other kinds are.
func TestInventoryFindsLadders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := delaytest.AnyLadder().Draw(t, "ladder")
		there := delaytest.Resolve(t, l).Expand()
		i := NewInventory(l.Vhost, there)
		if got := entries(t, i, KindLadder); !slices.Equal(got, []string{there.Entry}) {
			t.Fatalf("found %q, want %q", got, there.Entry)
		}
		if got := entries(t, i, KindCascade); len(got) > 0 {
			t.Fatalf("found the cascades %q", got)
		}
	})
	for name := range delaytest.Vectors {
		if got := entries(t, NewInventory("/", delaytest.ReadVector(t, name)), KindLadder); len(got) > 0 {
			t.Errorf("%s: found the ladders %q", name, got)
		}
	}
	there := topology.New()
	there.Exchanges["retry"] = topology.Exchange{Name: "retry", Type: "topic", Durable: true}
	there.Exchanges["amq.topic"] = topology.Exchange{Name: "amq.topic", Type: "topic", Durable: true}
	there.Queues["5s"] = topology.Queue{Name: "5s", Durable: true,
		Arguments: topology.Arguments{"x-message-ttl": int64(5000), "x-dead-letter-exchange": "retry"}}
	for _, b := range []topology.Binding{{Source: "retry", RoutingKey: "5s"}, {Source: "retry", RoutingKey: "10s.#"},
		{Source: "amq.topic", RoutingKey: "5s.#"}} {
		b.DestinationType, b.Destination = topology.ToQueue, "5s"
		there.Bindings.Add(b)
	}
	if got := entries(t, NewInventory("/", there), KindLadder); len(got) > 0 {
		t.Errorf("found the ladders %q", got)
	}
}

// A cascade that is damaged below the entry is found; an entry that leads nowhere is not, nor are its lower levels.
func TestInventoryOfDamagedCascades(t *testing.T) {
	c := delay.Config{Name: "t", Levels: 4, CreateDeliveryExchange: true,
		StrictKeys: true, InternalLevels: true, ParkUnroutable: true}
	for name, test := range map[string]struct {
		damage func(*topology.Topology)
		want   []string
	}{
		"a queue is missing": {func(to *topology.Topology) { delete(to.Queues, "t.delay-01") },
			[]string{"t.delay-03"}},
		"an exchange is missing": {func(to *topology.Topology) { delete(to.Exchanges, "t.delay-02") },
			[]string{"t.delay-03"}},
		"no top queue": {func(to *topology.Topology) {
			delete(to.Queues, "t.delay-03")
			maps.DeleteFunc(to.Bindings, func(b topology.Binding,
				_ struct{}) bool {
				return b.Destination == "t.delay-03"
			})
		}, []string{"t.delay-03"}},
		"no entry": {func(to *topology.Topology) { delete(to.Exchanges, "t.delay-03") }, nil},
		"an entry of another type": {func(to *topology.Topology) {
			to.Exchanges["t.delay-03"] = topology.Exchange{Name: "t.delay-03", Type: "headers", Durable: true}
		}, nil},
		"an entry without bindings": {func(to *topology.Topology) {
			maps.DeleteFunc(to.Bindings, func(b topology.Binding, _ struct{}) bool { return b.Source == "t.delay-03" })
		}, nil},
	} {
		b := declared(t, c)
		test.damage(&b.there)
		if got := entries(t, NewInventory("/", b.there), KindCascade); !slices.Equal(got, test.want) {
			t.Errorf("%s: found %q, want %q", name, got, test.want)
		}
	}
}

// entries are the entry exchanges of the cascades or ladders, sorted.
func entries(t interface{ Context() context.Context }, i *Inventory, kind string) []string {
	var all []string
	for _, found := range i.All(t.Context()) {
		if found.Kind == kind {
			all = append(all, found.Entry)
		}
	}
	return all
}

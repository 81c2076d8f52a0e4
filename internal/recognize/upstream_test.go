package recognize

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay/delaytest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Of any cascade, the keys tell which exchanges lead into delay queues and to which end, and how many levels there are.
// What waits for a destination is what its delay queues hold.
func TestUpstreamOfAnyCascade(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config := delaytest.AnyConfig().Draw(t, "config")
		there := declared(t, config).there
		c := delaytest.Resolve(t, config)
		own, others := bindOrders(t, there, c.Levels), bindOrders(t, there, c.Levels%delay.MaxLevels+1)
		inventory := NewInventory(c.Vhost, there)
		keysTell(t, c, there)
		leadOn(t, c, inventory)
		if delays, err := Delays(t.Context(), inventory, there.Delivery); delays || err != nil {
			t.Fatalf("the delivery exchange: %t %v", delays, err)
		}
		var want []string
		for level := c.Levels - 1; level >= 0; level-- {
			for _, q := range slices.Backward(c.DelayQueues(level)) { // the longest wait first
				want = append(want, q.Name)
			}
		}
		if got := queueNames(inventory.Upstream(t.Context(), []topology.Binding{own})); !slices.Equal(got, want) {
			t.Fatalf("upstream are %q, want %q", got, want)
		}
		if got := inventory.Upstream(t.Context(), []topology.Binding{others}); len(got) > 0 {
			t.Fatalf("upstream of other levels are %q", queueNames(got))
		}
	})
}

// bindOrders binds a queue for the messages of so many levels.
func bindOrders(t delaytest.Tester, there topology.Topology, levels int) topology.Binding {
	t.Helper()
	key, err := delay.DestinationKey(levels, "orders")
	if err != nil {
		t.Fatal(err)
	}
	b := topology.Binding{Source: there.Delivery, RoutingKey: key, DestinationType: topology.ToQueue,
		Destination: "orders"}
	there.Bindings.Add(b)
	return b
}

func keysTell(t delaytest.Tester, c delay.Cascade, there topology.Topology) {
	t.Helper()
	var lowest []string
	for b := range there.Bindings {
		if levels, shows := LevelsOf(b); shows && b.Destination == there.Delivery && levels != c.Levels {
			t.Fatalf("%s shows %d levels, not %d", b.Line(), levels, c.Levels)
		}
		if _, is := LowestOf(b); is && b.Destination == there.Delivery {
			lowest = append(lowest, b.Source)
		}
		if b.Source == there.Delivery && LeadsOn(b) {
			t.Fatalf("%s is taken for a part of the cascade", b.Line())
		}
	}
	if !slices.Equal(lowest, []string{c.Exchange(0)}) {
		t.Fatalf("the lowest level has %q, not %q", lowest, c.Exchange(0))
	}
}

func leadOn(t *rapid.T, c delay.Cascade, inventory *Inventory) {
	t.Helper()
	for level := range c.Levels {
		delays, err := Delays(t.Context(), inventory, c.Exchange(level))
		ends, endErr := LeadsTo(t.Context(), inventory, c.Exchange(level), c.DeliveryExchange)
		if !delays || !ends || err != nil || endErr != nil {
			t.Fatalf("level %d: delays %t, ends there %t: %v %v", level, delays, ends, err, endErr)
		}
	}
}

func queueNames(queues []topology.Queue) []string {
	var all []string
	for _, q := range queues {
		all = append(all, q.Name)
	}
	return all
}

// A ladder's entry leads on, and its rungs are upstream of whatever is bound.
func TestUpstreamOfALadder(t *testing.T) {
	l := delay.LadderConfig{Name: "l", Delays: []string{"5s", "1h30m"}, CreateDeliveryExchange: true,
		ParkUnroutable: true}
	there := delaytest.Resolve(t, l).Expand()
	b := topology.Binding{
		Source: "l.delivery", RoutingKey: "*.orders", DestinationType: topology.ToQueue, Destination: "orders",
	}
	inventory := NewInventory("/", there)
	if got := inventory.Upstream(t.Context(), []topology.Binding{b}); len(got) > 0 {
		t.Errorf("upstream of what is not bound are %q", queueNames(got))
	}
	there.Bindings.Add(b)
	inventory = NewInventory("/", there)
	got := queueNames(inventory.Upstream(t.Context(), []topology.Binding{b}))
	if !slices.Equal(got, []string{"l.delay-1h30m", "l.delay-5s"}) {
		t.Errorf("upstream are %q", got)
	}
	ends, err := LeadsTo(t.Context(), inventory, "l.entry", "l.delivery")
	if err != nil || !ends {
		t.Errorf("the entry: %t %v", ends, err)
	}
	if delays, err := Delays(t.Context(), inventory, "l.delivery"); err != nil || delays {
		t.Errorf("the delivery exchange: %t %v", delays, err)
	}
}

// The rest of a cascade without its entry is found by where it leads.
func TestUpstreamOfRemains(t *testing.T) {
	c := delay.Config{Name: "t", Levels: 3, StrictKeys: true, ParkUnroutable: true, CreateDeliveryExchange: true}
	there := delaytest.Expand(t, c)
	delete(there.Exchanges, "t.delay-02")
	maps.DeleteFunc(there.Bindings, func(b topology.Binding, _ struct{}) bool { return b.Source == "t.delay-02" })
	b := topology.Binding{
		Source: "t.delivery", RoutingKey: "*.*.*.orders", DestinationType: topology.ToQueue, Destination: "orders",
	}
	there.Bindings.Add(b)
	got := queueNames(NewInventory("/", there).Upstream(t.Context(), []topology.Binding{b}))
	if !slices.Equal(got, []string{"t.delay-02", "t.delay-01", "t.delay-00"}) {
		t.Errorf("upstream are %q", got)
	}
}

package cascade

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Of any cascade, the keys tell which exchanges lead into delay queues and to which end, and how many levels there are.
// What waits for a destination is what its delay queues hold.
func TestEndingOfAnyCascade(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyConfig().Draw(t, "config")
		there := declared(t, c).there
		c, err := c.Resolve()
		if err != nil {
			t.Fatal(err)
		}
		bound := func(levels int) topology.Binding {
			b := topology.Binding{Source: there.Delivery, DestinationType: topology.ToQueue, Destination: "orders"}
			b.RoutingKey, err = DestinationKey(levels, "orders")
			if err != nil {
				t.Fatal(err)
			}
			there.Bindings.Add(b)
			return b
		}
		own, others := bound(c.Levels), bound(c.Levels%MaxLevels+1)
		inventory := NewInventory(c.Vhost, there)
		for b := range there.Bindings {
			if levels, shows := LevelsOf(b); shows && b.Destination == there.Delivery && levels != c.Levels {
				t.Fatalf("%s shows %d levels, not %d", b.Line(), levels, c.Levels)
			}
			if b.Source == there.Delivery && LeadsOn(b) {
				t.Fatalf("%s is taken for a part of the cascade", b.Line())
			}
		}
		for level := range c.Levels {
			exchange := c.ExchangeName.Name(level)
			delays, err := Delays(t.Context(), inventory, exchange)
			ends, endErr := LeadsTo(t.Context(), inventory, exchange, there.Delivery)
			if !delays || !ends || err != nil || endErr != nil {
				t.Fatalf("level %d: delays %t, ends there %t: %v %v", level, delays, ends, err, endErr)
			}
		}
		if delays, err := Delays(t.Context(), inventory, there.Delivery); delays || err != nil {
			t.Fatalf("the delivery exchange: %t %v", delays, err)
		}
		var want []string
		for level := c.Levels - 1; level >= 0; level-- {
			want = append(want, c.QueueName.Name(level))
		}
		if got := queueNames(inventory.Upstream(t.Context(), []topology.Binding{own})); !slices.Equal(got, want) {
			t.Fatalf("upstream are %q, want %q", got, want)
		}
		if got := inventory.Upstream(t.Context(), []topology.Binding{others}); len(got) > 0 {
			t.Fatalf("upstream of other levels are %q", queueNames(got))
		}
	})
}

func queueNames(queues []topology.Queue) []string {
	var all []string
	for _, q := range queues {
		all = append(all, q.Name)
	}
	return all
}

// A ladder's entry leads on, and its rungs are upstream of whatever is bound.
func TestEndingOfALadder(t *testing.T) {
	l := Ladder{Name: "l", Delays: []string{"5s", "1h30m"}, CreateDeliveryExchange: true, ParkUnroutable: true}
	there, err := l.Expand()
	if err != nil {
		t.Fatal(err)
	}
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

// What takes all that another destination takes has a key that matches each of its messages.
func TestTakesAll(t *testing.T) {
	taken := 0
	rapid.Check(t, func(t *rapid.T) {
		one, other := anyDestinationOf("q").Draw(t, "one"), anyDestinationOf("q").Draw(t, "other")
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
	exact := Destination{Match: Exact, Levels: 2, Address: "eu.orders"}
	for _, is := range []struct {
		Destination
		want bool
	}{
		{exact, true},
		{Destination{Match: Suffix, Address: "orders"}, true},
		{Destination{Match: Suffix, Address: "u.orders"}, false},
		{Destination{Match: Exact, Levels: 3, Address: "eu.orders"}, false},
		{Destination{Match: Exact, Levels: 2, Address: "orders"}, false},
	} {
		if is.TakesAll(exact) != is.want || is.Match == Suffix && exact.TakesAll(is.Destination) {
			t.Errorf("%v and %v", is.Destination, exact)
		}
	}
}

// What is left of a cascade without its entry is found by where it leads.
func TestUpstreamOfRemains(t *testing.T) {
	c := Config{Name: "t", Levels: 3, StrictKeys: true, ParkUnroutable: true, CreateDeliveryExchange: true}
	there, err := Expand(c)
	if err != nil {
		t.Fatal(err)
	}
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

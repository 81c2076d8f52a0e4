package plan_test

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan/plantest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology/topologytest"
)

// OthersOf says what a rebuild and a destroy do to the bindings of others: these are gone, or there again.
func TestOthersOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRebuild(t)
		for name := range r.before.Queues {
			r.broker.Bindings.Add(topologytest.ToQueue(plantest.Feed, "of "+name, name))
		}
		for name := range r.before.Exchanges {
			r.broker.Bindings.Add(topologytest.ToExchange(plantest.Feed, "of "+name, name))
		}
		fed := r.broker.Snapshot().Bindings
		maps.DeleteFunc(fed, func(b topology.Binding, _ struct{}) bool {
			return b.Source != plantest.Feed || b.Destination == r.before.Delivery
		})
		removed := topology.Bindings{}
		r.broker.After = func(plan.Step) {
			for b := range fed {
				if !r.broker.Bindings.Has(b) {
					removed.Add(b)
				}
			}
		}
		todo := r.broker.Teardown(r.before, plan.Guard{})
		after, rebuilds := topology.Topology{}, rapid.Bool().Draw(t, "rebuilds")
		if rebuilds {
			after, todo = r.after, r.broker.Rebuild(r.before, r.after, plan.Guard{})
		}
		others := plan.OthersOf(r.before, after, plan.Away(r.before, after, rebuilds), fed)
		if err := r.broker.Run(todo); err != nil {
			t.Fatal(err)
		}
		fares(t, r.broker, others, removed)
	})
}

// fares makes sure that the lost bindings are gone, that the others are there again, and that no other was removed.
func fares(t *rapid.T, b *plantest.Broker, others plan.Others, removed topology.Bindings) {
	if said := topology.NewBindings(slices.Concat(others.Lost, others.Again)...); !maps.Equal(said, removed) {
		t.Fatalf("it says that these go: %v, and these did: %v", said.Sorted(), removed.Sorted())
	}
	for _, lost := range others.Lost {
		if b.Bindings.Has(lost) {
			t.Fatalf("%s is there", lost.Describe())
		}
	}
	for _, again := range others.Again {
		if !b.Bindings.Has(again) {
			t.Fatalf("%s is gone", again.Describe())
		}
	}
}

// What belongs to one of both topologies is nobody else's.
func TestOthersAreNotItsOwn(t *testing.T) {
	before := plantest.Expand(t, delay.Config{Name: "t", Levels: 3, CreateDeliveryExchange: true})
	if others := plan.OthersOf(before, topology.Topology{}, before, before.Bindings); !others.IsNone() {
		t.Errorf("they are %v", others)
	}
	one := []topology.Binding{topologytest.ToQueue("a", "#", "q")}
	for _, others := range []plan.Others{{Lost: one}, {Again: one}, {Lost: one, Again: one}} {
		if others.IsNone() {
			t.Errorf("%v are none", others)
		}
	}
}

// An entry gets another type where no binding of others takes other messages then.
func TestCheckMeaning(t *testing.T) {
	ladder := func(of delay.ExchangeType) topology.Topology {
		l, err := delay.LadderConfig{Name: "t", EntryExchangeType: of, Delays: []string{"2s"},
			BindingKeys: map[string]string{"2s": "a"}}.Resolve()
		if err != nil {
			t.Fatal(err)
		}
		return l.Expand()
	}
	topic, direct := ladder(delay.Topic), ladder(delay.Direct)
	for key, isMisread := range map[string]bool{
		"#": true, "*": true, "a.*.b": true, "a.#": true, "dead": false, "a.b": false, "a#": false,
		"*a.b": false, "": false,
	} {
		there := topic.Bindings.Where(func(topology.Binding) bool { return true })
		there = append(there, topologytest.ToQueue("t.entry", key, "audit"),
			topologytest.ToExchange("feed", "#", "t.entry"))
		for _, is := range []struct {
			before, after topology.Topology
			want          bool
		}{
			{topic, direct, isMisread}, {direct, topic, isMisread}, {topic, topic, false},
			{topic, topology.Topology{}, false},
		} {
			err := plan.CheckMeaning(is.before, is.after, topology.NewBindings(there...))
			misread, isError := errors.AsType[*plan.MisreadError](err)
			if isError != is.want || is.want && !slices.Equal(misread.Bindings, []topology.Binding{
				topologytest.ToQueue("t.entry", key, "audit")}) {
				t.Errorf("%q: %v", key, err)
			}
		}
	}
}

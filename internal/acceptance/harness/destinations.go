package harness

import (
	"slices"
	"testing"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// NewDestinations is a vhost with a cascade t of so many levels, each step of which takes a millisecond, and queues.
func NewDestinations(t testing.TB, levels int, queues ...string) *Vhost {
	t.Helper()
	return NewDestinationsOf(t, Attributes{"name": "t", "levels": levels, "resolution": "1ms"}, queues...)
}

// NewDestinationsOf is a vhost with such a cascade, of classic queues unless it says otherwise, and queues.
func NewDestinationsOf(t testing.TB, cascade Attributes, queues ...string) *Vhost {
	t.Helper()
	v := NewVhost(t)
	NewProtocol(t, v.Broker, nil).MustApply(Attributes{"vhost": v.Name, "queue_type": "classic"}.With(cascade))
	for _, name := range queues {
		v.DeclareQueue(name, map[string]any{"x-queue-type": "classic"})
	}
	return v
}

// Destination is a destination that is not there yet.
func (v *Vhost) Destination() *Protocol {
	v.T.Helper()
	return NewProtocolOf(v.T, DestinationType, v.Broker, nil)
}

// Bound lists the bindings of the delivery exchange, each in a line, without the marks of destinations.
func (v *Vhost) Bound() []string {
	v.T.Helper()
	var bindings []rabbithole.BindingInfo
	v.Get(&bindings, "exchanges", v.Name, "t.delivery", "bindings", "source")
	lines := []string{}
	for b := range topologyOf(nil, nil, bindings, nil).Bindings {
		lines = append(lines, b.Plain().Line())
	}
	slices.Sort(lines)
	return lines
}

// WithoutMarks is the topology with bindings as if applications had made them.
func WithoutMarks(t topology.Topology) topology.Topology {
	t = t.Clone()
	t.Bindings = topology.NewBindings(topology.Plain(t.Bindings.Sorted())...)
	return t
}

// LoseDestinations unbinds all that destinations have bound.
func (v *Vhost) LoseDestinations() {
	v.T.Helper()
	for b := range v.Objects().Bindings {
		if b.DestinationMark() != "" {
			v.Do(plan.Unbind{Binding: b})
		}
	}
}

// MustBeBound compares the bindings of the delivery exchange.
func (v *Vhost) MustBeBound(want ...string) {
	v.T.Helper()
	slices.Sort(want)
	if got := v.Bound(); !slices.Equal(got, want) {
		v.T.Errorf("bound are %q, want %q", got, want)
	}
}

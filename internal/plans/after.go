package plans

import "github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"

// After is the topology that may exist after the steps, of which some may not have had an effect. It has the objects
// from before, and those that were declared and bound since.
func After(t topology.Topology, done []Step) topology.Topology {
	t = t.Clone()
	for _, step := range done {
		switch s := step.(type) {
		case DeclareExchange:
			t.Exchanges[s.Exchange.Name] = s.Exchange
		case DeclareQueue:
			t.Queues[s.Queue.Name] = s.Queue
		case Bind:
			t.Bindings.Add(s.Binding)
		case SetPolicy:
			t.Policies[s.Policy.Name] = s.Policy
		}
	}
	return t
}

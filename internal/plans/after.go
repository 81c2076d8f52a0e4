package plans

import "github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"

// After is what may exist once the steps have been done, of which some may not have had an effect:
// what was there before, and what was declared and bound since.
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

package plantest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Same compares what two brokers have.
func Same(t Fataler, got, want topology.Topology, when string) {
	t.Helper()
	if differences := slices.Concat(
		unequal("exchange", got.Exchanges, want.Exchanges, topology.Exchange.Equal),
		unequal("queue", got.Queues, want.Queues, topology.Queue.Equal),
		unequal("policy", got.Policies, want.Policies, topology.Policy.Equal),
		unequal("owner's mark", got.Owners, want.Owners, func(struct{}, struct{}) bool { return true }),
		unequal("binding", got.Bindings, want.Bindings, func(struct{}, struct{}) bool { return true }),
	); len(differences) > 0 {
		t.Fatalf("%s:\n%s", when, strings.Join(differences, "\n"))
	}
}

func unequal[K comparable, V any](kind string, got, want map[K]V, equal func(V, V) bool) []string {
	var differences []string
	for key, value := range want {
		if have, exists := got[key]; !exists {
			differences = append(differences, fmt.Sprintf("%s %v is missing", kind, key))
		} else if !equal(have, value) {
			differences = append(differences, fmt.Sprintf("%s %v is %v", kind, key, have))
		}
	}
	for key := range got {
		if _, exists := want[key]; !exists {
			differences = append(differences, fmt.Sprintf("%s %v is too much", kind, key))
		}
	}
	slices.Sort(differences)
	return differences
}

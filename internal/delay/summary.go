package delay

import (
	"fmt"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Summary is the cascade in one line. The topology is its expansion.
func (c Cascade) Summary(t topology.Topology) string {
	return fmt.Sprintf("%s of base %d, %s, delays up to %s in steps of %s", plaintext.Count(c.Levels, "level"), c.Base,
		counts(t), plaintext.Duration(c.Scale().Longest()), plaintext.Duration(c.Resolution))
}

// Summary is the ladder in one line. The topology is its expansion.
func (l Ladder) Summary(t topology.Topology) string {
	delays := plaintext.Count(len(l.Delays), "delay")
	shortest, longest := rung(l.Delays[0]), rung(l.Delays[len(l.Delays)-1])
	if shortest == longest {
		return fmt.Sprintf("%s of %s, %s", delays, plaintext.Duration(longest), counts(t))
	}
	return fmt.Sprintf("%s from %s to %s, %s", delays, plaintext.Duration(shortest), plaintext.Duration(longest),
		counts(t))
}

func counts(t topology.Topology) string {
	return plaintext.Count(len(t.Exchanges), "exchange") + ", " + plaintext.Count(len(t.Queues), "queue") + ", " +
		plaintext.Count(len(t.Bindings), "binding")
}

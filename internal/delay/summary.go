package delay

import (
	"fmt"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Summary is the cascade in one line. The topology is its expansion.
func (c Cascade) Summary(t topology.Topology) string {
	if !c.IsUniform() {
		return fmt.Sprintf("%s: delays up to %s in steps of %s, %s", UnitsInWords(c.Units),
			plaintext.Duration(c.MaxDelay), plaintext.Duration(c.Scale().Resolution()), objectCounts(t))
	}
	return fmt.Sprintf("%s of base %d, %s, delays up to %s in steps of %s", plaintext.Count(c.Levels, "level"), c.Base,
		objectCounts(t), plaintext.Duration(c.Scale().Longest), plaintext.Duration(c.Resolution))
}

// UnitsInWords are units in a sentence: "days, hours and minutes".
func UnitsInWords(units []time.Duration) string {
	return plaintext.List(plaintext.Texts(units, unitInWords), " and ")
}

// Summary is the ladder in one line. The topology is its expansion.
func (l Ladder) Summary(t topology.Topology) string {
	delays := plaintext.Count(len(l.Delays), "delay")
	shortest, longest := delayOf(l.Delays[0]), delayOf(l.Delays[len(l.Delays)-1])
	if shortest == longest {
		return fmt.Sprintf("%s of %s, %s", delays, plaintext.Duration(longest), objectCounts(t))
	}
	return fmt.Sprintf("%s from %s to %s, %s", delays, plaintext.Duration(shortest), plaintext.Duration(longest),
		objectCounts(t))
}

func objectCounts(t topology.Topology) string {
	return plaintext.Count(len(t.Exchanges), "exchange") + ", " + plaintext.Count(len(t.Queues), "queue") + ", " +
		plaintext.Count(len(t.Bindings), "binding")
}

// Package delay turns the few words that describe a delay cascade or a ladder into all its objects. These are
// exchanges, queues, bindings and policies. It also computes the keys that go with them.
//
// In come a Config or a LadderConfig. Resolve decides what they leave open, and checks them: whatever RabbitMQ would
// refuse is an error there, as far as it can be known. Out come a Cascade or a Ladder, and Expand turns these into a
// topology. A Scale has the routing keys of publishers, a Hop the binding keys between levels, a Destination that of a
// receiver. Mermaid draws a cascade, and Summary says it in a line.
//
// The package is pure. It knows nothing of Terraform and of requests. The way back is that of internal/recognize.
package delay

import (
	"cmp"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Preset is the cascade that a framework declares by itself when it starts. RabbitMQ refuses a declaration
// that differs in a single argument, so a preset leaves nothing to choose.
type Preset string

// The presets: NServiceBus from version 7 on and 4.3 to 6, Celery from version 5.5 on (kombu 5.5) with quorum
// and with classic queues.
const (
	NServiceBus   Preset = "nservicebus"
	NServiceBusV1 Preset = "nservicebus_v1"
	Celery        Preset = "celery"
	CeleryClassic Preset = "celery_classic"
)

// Config describes a cascade as it is given: by Units, or in the uniform form, by Base, Levels and Resolution. Resolve
// puts its defaults in place of the zero values of all these, of MaxDelay, ExchangeName, QueueName, DeliveryExchange,
// QueueType, QueueArguments and Lookahead. The other values mean what they say.
type Config struct {
	Vhost string
	// Preset fixes everything but the vhost and who creates the delivery exchange; empty for none.
	Preset Preset
	// Prefix is what the framework of the preset puts before all names, empty for none.
	Prefix string
	// Name is the beginning of all names that are not given.
	Name string
	// Units are what a 1 stands for in each word of a key, 1 to 12, the largest first, each a multiple of the next.
	// They are days, hours, minutes and seconds, unless Levels, Base or Preset is given. None are left in the uniform
	// form.
	Units []time.Duration
	// Base is what the delays are written in, 2 to 10. It is 2 in the uniform form unless given.
	Base int
	// Levels is the number of levels, 1 to MaxLevels. In the uniform form it or MaxDelay is given, or both if MaxDelay
	// takes so many. A Cascade with units has as many levels.
	Levels int
	// MaxDelay is the longest delay that has to be possible. Units then have queues up to that, 30 days unless given.
	MaxDelay time.Duration
	// Resolution is the shortest TTL of level 0, in whole milliseconds. Level k has Base^k times as much. It is 1 s in
	// the uniform form unless given.
	Resolution time.Duration

	ExchangeName     Format
	QueueName        Format
	DeliveryExchange string
	// CreateDeliveryExchange makes the delivery exchange a part of the cascade.
	CreateDeliveryExchange bool

	QueueType QueueType
	// QueueArguments are the further arguments of delay queues. Nil stands for those that Resolve puts there.
	QueueArguments topology.Arguments
	QuorumOptions
	// Lookahead is the number of words that a level exchange looks at, 1 to Levels.
	Lookahead int
	// StrictKeys makes the entry exchange take only keys with all words and an address.
	StrictKeys bool
	// InternalLevels makes the exchanges below the entry refuse publishers.
	InternalLevels bool
	// ParkUnroutable adds an alternate exchange and a queue for what no binding takes.
	ParkUnroutable bool
}

// Cascade is a configuration in which everything is decided and checked, as Resolve makes it. Where internal/recognize
// still looks for one, it is a part of that.
type Cascade Config

// IsUniform tells whether it is of the uniform form: a base says so, or levels without units.
func (c Cascade) IsUniform() bool { return c.Base != 0 || c.Levels != 0 && len(c.Units) == 0 }

// Scale is that of the cascade.
func (c Cascade) Scale() Scale {
	if c.IsUniform() {
		return c.uniform().Scale()
	}
	return unitsReaching(c.Units, c.MaxDelay)
}

func (c Cascade) uniform() Uniform { return Uniform{c.Base, c.Levels, c.Resolution} }

func setDefault[T comparable](value *T, otherwise T) {
	*value = cmp.Or(*value, otherwise)
}

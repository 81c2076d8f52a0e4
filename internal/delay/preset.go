package delay

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// presets are the cascades with default names and arguments taken from the frameworks' sources: NServiceBus.RabbitMQ,
// DelayInfrastructure.cs; kombu, transport/native_delayed_delivery.py.
var presets = map[Preset]struct {
	names, delivery string
	// name is what stands for the name of the cascade, where none is given.
	name      string
	queueType QueueType
	arguments topology.Arguments
	// untyped says that the framework leaves the type to the broker.
	untyped bool
	// prefixes says that the framework can put a prefix before all names.
	prefixes bool
}{
	NServiceBus: {"nsb.v2.delay-level-%02d", "nsb.v2.delay-delivery", "nsb.v2", Quorum, usualArguments(Quorum), false,
		false},
	NServiceBusV1: {"nsb.delay-level-%02d", "nsb.delay-delivery", "nsb", Classic,
		topology.Arguments{"x-queue-mode": "lazy"}, true, false},
	Celery: {"celery_delayed_%d", "celery_delayed_delivery", "celery", Quorum, usualArguments(Quorum), false, true},
	CeleryClassic: {"celery_delayed_%d", "celery_delayed_delivery", "celery", Classic,
		topology.Arguments{"x-overflow": "reject-publish"}, false, true},
}

const presetLevels = 28

// before is what stands before all names of the preset, as kombu writes it.
func (c Cascade) before() string {
	if c.Prefix == "" {
		return ""
	}
	return c.Prefix + "_"
}

// cutPrefix is the prefix with which the format of a preset gives the other one. Not ok is another format.
func cutPrefix(format, of string) (prefix string, ok bool) {
	before, ok := strings.CutSuffix(format, of)
	if !ok || before == "" {
		return "", ok
	}
	prefix, ok = strings.CutSuffix(before, "_")
	return strings.ReplaceAll(prefix, "%%", "%"), ok && prefix != ""
}

// Presets are all of them, sorted.
func Presets() []Preset { return slices.Sorted(maps.Keys(presets)) }

// applyPreset fills in the values that the preset fixes. A value that is given beside it has to be the same.
func (c *Cascade) applyPreset(errs *Errors) {
	if c.Preset == "" {
		if c.Prefix != "" {
			errs.add("prefix", "is %q without a preset; give name, with which all names begin", c.Prefix)
		}
		return
	}
	p, known := presets[c.Preset]
	if !known {
		errs.add("preset", "is %q; it can be %s", c.Preset, orList(Presets()))
		return
	}
	if c.Prefix != "" && !p.prefixes {
		errs.add("prefix", "is %q; preset %q has no prefix, leave prefix out", c.Prefix, c.Preset)
		return
	}
	names := Format(Escape(c.before()) + p.names)
	setDefault(&c.Base, DefaultBase)
	if c.Base != DefaultBase {
		errs.add("base", "is %d; presets are base %d, leave base out", c.Base, DefaultBase)
		c.Base = DefaultBase
	}
	fix(errs, c.Preset, "resolution", &c.Resolution, time.Second)
	fix(errs, c.Preset, "exchange_name", &c.ExchangeName, names)
	fix(errs, c.Preset, "queue_name", &c.QueueName, names)
	fix(errs, c.Preset, "delivery_exchange", &c.DeliveryExchange, c.before()+p.delivery)
	fix(errs, c.Preset, "queue_type", &c.QueueType, p.queueType)
	if c.QueueArguments != nil && !c.QueueArguments.Equal(p.arguments) {
		errs.add("queue_arguments", "is given, and preset %q has %s; leave queue_arguments out", c.Preset,
			topology.ValueText(p.arguments))
	}
	c.QueueArguments = maps.Clone(p.arguments)
	for _, each := range c.QuorumOptions.given() {
		errs.add(each.attribute, "is given, and the queues of preset %q have none; leave %s out", c.Preset,
			each.attribute)
	}
	fix(errs, c.Preset, "lookahead", &c.Lookahead, 1)
	fix(errs, c.Preset, "strict_keys", &c.StrictKeys, false)
	fix(errs, c.Preset, "internal_levels", &c.InternalLevels, false)
	if c.MaxDelay == 0 || c.Levels != 0 {
		fix(errs, c.Preset, "levels", &c.Levels, presetLevels)
	} else if levels, err := levelsFor(DefaultBase, c.MaxDelay, time.Second); err != nil || levels != presetLevels {
		errs.add("max_delay", "is %s; preset %q reaches %s, leave max_delay out", c.MaxDelay, c.Preset,
			Uniform{DefaultBase, presetLevels, time.Second}.longest())
	}
}

func fix[T comparable](errs *Errors, preset Preset, attribute string, given *T, fixed T) {
	var unset T
	if *given != unset && *given != fixed {
		errs.add(attribute, "is %v; preset %q has %v, leave %s out", *given, preset, fixed, attribute)
	}
	*given = fixed
}

package lifecycle_test

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// block is what a configuration has at an address: a cascade or a ladder.
type block struct {
	kind, name        string
	levels, lookahead int
	resolution, reach time.Duration
	strict, internal  bool
	parks, creates    bool
	classic, atMost   bool // queues that dead-letter at most once, of either type
	delivery, queues  string
	delays            []string // of a ladder
	keys              int      // of a ladder: the first of its own keys, 0 for none
	leaves            string   // by which key, or to which queue
	guard             plan.Guard
	adopts, ahead     bool
}

// attributes are what a change may draw anew.
var attributes = map[string]func(t *rapid.T, b *block){
	"name":       func(t *rapid.T, b *block) { b.name = one(t, "m", "n") },
	"levels":     func(t *rapid.T, b *block) { b.levels = one(t, 2, 3, 4) },
	"lookahead":  func(t *rapid.T, b *block) { b.lookahead = one(t, 1, 2, 4) },
	"resolution": func(t *rapid.T, b *block) { b.resolution = one(t, time.Second, 2*time.Second) },
	"reach": func(t *rapid.T, b *block) {
		b.reach = time.Duration(one(t, 1, 2, 5, 11, 12, 30, 40)) * time.Second
	},
	"strict":   func(_ *rapid.T, b *block) { b.strict = !b.strict },
	"internal": func(_ *rapid.T, b *block) { b.internal = !b.internal },
	"parks":    func(_ *rapid.T, b *block) { b.parks = !b.parks },
	"creates":  func(_ *rapid.T, b *block) { b.creates = !b.creates },
	"type":     func(_ *rapid.T, b *block) { b.classic = !b.classic },
	"at most":  func(_ *rapid.T, b *block) { b.atMost = !b.atMost },
	"delivery": func(t *rapid.T, b *block) { b.delivery = one(t, "", "end", events) },
	"queues":   func(t *rapid.T, b *block) { b.queues = one(t, "", "q") },
	"delays": func(t *rapid.T, b *block) {
		b.delays = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"1s", "3s", "10s", "1h"}), 1, 4, rapid.ID).
			Draw(t, "delays")
	},
	"keys":   func(t *rapid.T, b *block) { b.keys = one(t, 0, 1, 2) },
	"leaves": func(t *rapid.T, b *block) { b.leaves = one(t, "", "key", "queue") },
	"guard": func(t *rapid.T, b *block) {
		b.guard = one(t, plan.Guard{}, plan.Guard{Drain: 20 * time.Second}, plan.Guard{Force: true})
	},
	"ahead": func(_ *rapid.T, b *block) { b.ahead = !b.ahead },
}

func one[T any](t *rapid.T, values ...T) T { return rapid.SampledFrom(values).Draw(t, "value") }

// events is a delivery exchange that nobody creates.
const events = "events"

func anyBlock(t *rapid.T) block {
	b := block{levels: 3, lookahead: 2, resolution: time.Second, reach: 30 * time.Second, creates: true,
		name: one(t, "m", "n"), delays: []string{"1s", "10s"},
		kind: one(t, "uniform", "uniform", "units", "units", "ladder", "ladder")}
	if rapid.IntRange(0, 24).Draw(t, "preset") == 24 {
		b.kind = string(delay.CeleryClassic)
	}
	for range rapid.IntRange(0, 5).Draw(t, "attributes") {
		b.alter(t)
	}
	return b
}

func (b *block) alter(t *rapid.T) {
	names := []string{"name", "parks", "type", "at most", "creates", "delivery", "queues", "guard", "ahead"}
	switch b.kind {
	case "uniform":
		names = append(names, "levels", "lookahead", "resolution", "strict", "internal")
	case "units":
		names = append(names, "reach", "reach", "reach", "lookahead", "strict", "internal")
	case "ladder":
		names = append(names, "delays", "delays", "delays", "keys", "leaves")
	default:
		names = []string{"parks", "creates", "guard", "ahead"}
	}
	attributes[one(t, names...)](t, b)
}

// config is that of a cascade.
func (b block) config() delay.Config {
	c := delay.Config{Name: b.name, ParkUnroutable: b.parks, CreateDeliveryExchange: b.creates,
		DeliveryExchange: b.deliversTo(), QueueType: b.queueType(), QueueArguments: b.arguments(),
		StrictKeys: b.strict, InternalLevels: b.internal}
	switch b.kind {
	case "uniform":
		c.Levels, c.Resolution, c.Lookahead = b.levels, b.resolution, min(b.lookahead, b.levels)
		if b.queues != "" {
			c.QueueName = delay.Format(b.name + ".wait-%d")
		}
	case "units":
		c.Units = []time.Duration{12 * time.Second, 3 * time.Second, time.Second}
		c.MaxDelay, c.Lookahead = b.reach, min(b.lookahead, len(c.Units))
		if b.queues != "" {
			c.QueueName = delay.Format(b.name + ".wait-%s")
		}
	default:
		return delay.Config{Preset: delay.Preset(b.kind), ParkUnroutable: b.parks, CreateDeliveryExchange: true}
	}
	return c
}

func (b block) queueType() delay.QueueType {
	if b.classic {
		return delay.Classic
	}
	return delay.Quorum
}

func (b block) arguments() topology.Arguments {
	if b.atMost {
		return topology.Arguments{}
	}
	return nil
}

func (b block) deliversTo() string {
	if b.delivery == "end" {
		return b.name + ".end"
	}
	return b.delivery
}

// ladder is that of a ladder.
func (b block) ladder() delay.LadderConfig {
	l := delay.LadderConfig{Name: b.name, Delays: b.delays, ParkUnroutable: b.parks, CreateDeliveryExchange: b.creates,
		DeliveryExchange: b.deliversTo(), QueueType: b.queueType(), QueueArguments: b.arguments()}
	switch b.leaves {
	case "key":
		l.DeadLetterRoutingKey = "late.x"
	case "queue":
		l.DeliverToQueue, l.DeliveryExchange, l.CreateDeliveryExchange = application, "", false
	}
	if b.queues != "" {
		l.QueueName = delay.Format(b.name + ".wait-%s")
	}
	if b.keys > 0 {
		l.BindingKeys = map[string]string{}
		for i, label := range b.delays {
			l.BindingKeys[label] = fmt.Sprintf("k%d.#", (i+b.keys)%len(b.delays))
		}
	}
	return l
}

// normal has nothing that cannot be beside something else. Who delivers to events does not create it, and who
// delivers elsewhere does.
func (b block) normal() block {
	b.creates = b.creates || b.delivery != events
	if b.delivery == events {
		b.creates = false
	}
	return b
}

// declares is what the block stands for.
func (b block) declares() (topology.Topology, error) {
	if b.kind == "ladder" {
		l, err := b.ladder().Resolve()
		if err != nil {
			return topology.New(), err
		}
		return l.Expand(), nil
	}
	c, err := b.config().Resolve()
	if err != nil {
		return topology.New(), err
	}
	return c.Expand(), nil
}

// asks are the keys of some messages, with their delays. All keys of small ones are among them.
func (b block) asks() map[string]time.Duration {
	asks := map[string]time.Duration{}
	if b.kind == "ladder" {
		l, _ := b.ladder().Resolve()
		for label, key := range l.Keys() {
			key, _, _ = cutKey(key)
			asks[key+".x"], _ = delay.ParseLabel(label)
		}
		return asks
	}
	c, _ := b.config().Resolve()
	scale := c.Scale()
	for n := range 48 {
		wait := time.Duration(n) * scale.Resolution()
		if key, err := scale.RoutingKey(wait, "x"); err == nil {
			asks[key] = wait
		}
	}
	return asks
}

// cutKey is the first word of a key.
func cutKey(key string) (first, rest string, found bool) {
	for i, r := range key {
		if r == '.' {
			return key[:i], key[i+1:], true
		}
	}
	return key, "", false
}

// how says what Terraform makes of a change from one block to the other: it replaces, rebuilds or updates. It is to
// blocks what alteredBy of the provider's resources is to attributes.
func how(had, gets block) (replaces bool, options engine.Options) {
	before, _ := had.declares()
	after, _ := gets.declares()
	options = engine.Options{Adopt: gets.adopts, Guard: gets.guard}
	if (had.kind == "ladder") != (gets.kind == "ladder") || before.Entry != after.Entry {
		return true, options
	}
	same := gets
	same.reach, same.creates, same.delays, same.keys = had.reach, had.creates, had.delays, had.keys
	options.Rebuild = true
	x, err := same.declares()
	if err != nil || !before.WithoutPolicies().SameObjects(x.WithoutPolicies()) {
		return false, options
	}
	for name, q := range after.Queues {
		if was, exists := before.Queues[name]; exists && !was.Equal(q) {
			return false, options
		}
	}
	options.Rebuild = gets.kind == "ladder" && takesTwoWays(before, after)
	return false, options
}

// takesTwoWays is that of the provider's ladders.
func takesTwoWays(before, after topology.Topology) bool {
	entry := after.Exchanges[after.Entry]
	return slices.ContainsFunc(before.Bindings.Sorted(), func(old topology.Binding) bool {
		return len(after.Bindings.Where(func(b topology.Binding) bool {
			return old.Source == after.Entry && b.Source == after.Entry && old.Destination != b.Destination &&
				delay.KeysMeet(delay.ExchangeType(entry.Type), old.RoutingKey, b.RoutingKey)
		})) > 0
	})
}

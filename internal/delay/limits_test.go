package delay_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
)

// Each limit is one that a value may have, and no more.
func TestLimits(t *testing.T) {
	const dead = "dead_letter_routing_key"
	scale, err := delay.Config{Name: "t", Levels: 1, CreateDeliveryExchange: true}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	ladder := func(c delay.LadderConfig) error {
		c.Name, c.CreateDeliveryExchange = "t", true
		_, err := c.Resolve()
		return err
	}
	longest, over := strings.Repeat("k", delay.MaxKeyBytes), strings.Repeat("k", delay.MaxKeyBytes+1)
	for name, test := range map[string]struct{ at, beyond func() error }{
		"bytes of a key": {
			func() error { return parsed(scale.Scale(), "1."+longest[2:]) },
			func() error { return parsed(scale.Scale(), "1."+over[2:]) },
		},
		dead: {
			func() error {
				return ladder(delay.LadderConfig{Delays: []string{"1s"}, DeadLetterRoutingKey: longest})
			},
			func() error { return ladder(delay.LadderConfig{Delays: []string{"1s"}, DeadLetterRoutingKey: over}) },
		},
		"binding_keys": {
			func() error {
				return ladder(delay.LadderConfig{Delays: []string{"1s"},
					BindingKeys: map[string]string{"1s": longest}})
			},
			func() error {
				return ladder(delay.LadderConfig{Delays: []string{"1s"}, BindingKeys: map[string]string{"1s": over}})
			},
		},
		"the shortest label": {func() error { return label("1ms") }, func() error { return label("999us") }},
		"the longest label":  {func() error { return label("3650d") }, func() error { return label("3650d1ms") }},
		"the longest max_delay": {
			func() error { return units(delay.MaxTTL, delay.MaxTTL) },
			func() error { return units(delay.MaxTTL, delay.MaxTTL+time.Millisecond) },
		},
		"the longest unit": {
			func() error { return units(delay.MaxTTL, delay.MaxTTL) },
			func() error { return units(delay.MaxTTL+time.Millisecond, delay.MaxTTL+time.Millisecond) },
		},
	} {
		if err := test.at(); err != nil {
			t.Errorf("%s: the limit is refused: %v", name, err)
		}
		if test.beyond() == nil {
			t.Errorf("%s: more than the limit is allowed", name)
		}
	}
}

func parsed(s delay.Scale, key string) error { _, _, err := s.ParseRoutingKey(key); return err }

func label(text string) error { _, err := delay.ParseLabel(text); return err }

func units(unit, maxDelay time.Duration) error {
	_, err := delay.Config{Name: "t", Units: []time.Duration{unit}, MaxDelay: maxDelay,
		CreateDeliveryExchange: true}.Resolve()
	return err
}

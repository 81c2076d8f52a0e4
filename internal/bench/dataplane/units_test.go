package dataplane

import (
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
)

// A delay is as many steps in every step that a cascade can have.
func TestUnitsInSteps(t *testing.T) {
	days := Units{Units: delay.CommonUnits()[:4], Longest: delay.DefaultMaxDelay}
	for _, test := range []struct {
		units      Units
		name, key  string
		firstSteps int64
		queues     int
	}{
		{Units{Base: 2, Levels: 28}, "base 2, 28 levels",
			"0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.1.0.1.0.1.0.0.0.1.1.0.0.0.d", 4096, 28},
		{Units{Base: 10, Levels: 8}, "base 10, 8 levels", "0.0.0.0.5.4.0.0.d", 5000, 72},
		{days, "d.h.m.s", "0.1.30.0.d", 3600, 171},
	} {
		for _, step := range []time.Duration{time.Millisecond, unitsBurstStep, time.Second} {
			c, err := test.units.config("t", step).Resolve()
			if err != nil {
				t.Fatal(err)
			}
			const hourAndHalf = 5400
			queues := c.Expand().Queues
			ttl := queues[firstQueue(c, hourAndHalf)].Arguments["x-message-ttl"]
			if name, key := test.units.String(), key(c, hourAndHalf); name != test.name || key != test.key ||
				ttl != test.firstSteps*step.Milliseconds() || len(queues)-1 != test.queues {
				t.Errorf("%s in steps of %s: the key is %q, the first TTL %v, and there are %d queues", name, step,
					key, ttl, len(queues))
			}
		}
	}
}

package delay_test

import (
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
)

func TestSummary(t *testing.T) {
	for want, config := range map[string]delay.Config{
		"28 levels of base 2, 30 exchanges, 29 queues, 435 bindings, delays up to 8 years 185 days in steps of 1 s": {
			Levels: 28, CreateDeliveryExchange: true, ParkUnroutable: true},
		"1 level of base 10, 1 exchange, 9 queues, 10 bindings, delays up to 900 ms in steps of 100 ms": {
			Base: 10, Levels: 1, Resolution: 100 * time.Millisecond},
	} {
		config.Name, config.Vhost = "tasks", "/"
		resolved, err := config.Resolve()
		if err != nil {
			t.Fatal(err)
		}
		if got := resolved.Summary(resolved.Expand()); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

func TestLadderSummary(t *testing.T) {
	for want, delays := range map[string][]string{
		"3 delays from 5 s to 36 h, 3 exchanges, 4 queues, 4 bindings": {"1m", "36h", "5s"},
		"1 delay of 5 s, 3 exchanges, 2 queues, 2 bindings":            {"5s"},
	} {
		resolved, err := delay.LadderConfig{Name: "retry", Vhost: "/", Delays: delays, CreateDeliveryExchange: true,
			ParkUnroutable: true}.Resolve()
		if err != nil {
			t.Fatal(err)
		}
		if got := resolved.Summary(resolved.Expand()); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

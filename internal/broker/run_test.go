package broker

import (
	"context"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plans"
)

func TestIsAtLeast(t *testing.T) {
	for version, want := range map[string]bool{
		"3.10.8": false, "4.0.5": false, "4.2.9": false, "4.3.0": true, "4.3.6": true, "4.10.0": true,
		"5.0.0-rc.1": true, "": false, "unknown": false,
	} {
		if got := isAtLeast(version, 4, 3); got != want {
			t.Errorf("%q: got %t", version, got)
		}
	}
}

// The wait for durable queues ends with its operation.
func TestAwaitDurableEnds(t *testing.T) {
	for atOnce, want := range map[bool]Kind{false: Timeout, true: ""} {
		client, err := New(Config{Endpoint: "http://127.0.0.1:1", BindsAtOnce: atOnce})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err = client.Run(ctx, "/", plans.Plan{{Steps: []plans.Step{plans.AwaitDurable{}}}})
		if want == "" && err != nil || want != "" && !IsKind(err, want) || time.Since(began) > durableAfter/2 {
			t.Errorf("binds at once: %t: %v after %s", atOnce, err, time.Since(began))
		}
	}
}

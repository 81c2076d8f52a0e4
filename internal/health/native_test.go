package health_test

import (
	"strings"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/health"
)

// Brokers from 4.4 on have one piece of information. It is neither an error nor a warning.
func TestNative(t *testing.T) {
	t.Parallel()
	for broker, want := range map[string]bool{"3.10.8": false, "4.0.5": false, "4.3.6": false, "4.3.6-rc.1": false,
		"": false, "unknown": false, "4.4.0-beta.1": true, "4.4.0-rc.1": true, "4.4.0": true, "4.4.1+1.gabc": true,
		"4.10.0": true, "5.0.0": true} {
		found := health.Native(broker, "tasks.d.h.m.s")
		if len(found) == 0 && !want {
			continue
		}
		if len(found) != 1 || !want {
			t.Errorf("%q: it says %v", broker, found)
			continue
		}
		f := found[0]
		if f.Severity != "info" || f.Object != `exchange "tasks.d.h.m.s"` || f.Cause != "RabbitMQ "+broker ||
			!strings.Contains(f.Effect, "x-opt-delivery-time") {
			t.Errorf("%q: it says %+v", broker, f)
		}
	}
}

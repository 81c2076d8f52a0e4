package cascade

import (
	"fmt"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// A cascade with default names is recognized wherever its creation broke off, once there is a queue that
// shows type and resolution.
func TestRecognizeRemains(t *testing.T) {
	for _, c := range []Config{
		{Name: "t", Levels: 4,
			StrictKeys: true, InternalLevels: true, ParkUnroutable: true, CreateDeliveryExchange: true},
		{Name: "50%.t", Levels: 1, Resolution: 7 * time.Millisecond,
			StrictKeys: true, InternalLevels: true, ParkUnroutable: true, CreateDeliveryExchange: true},
		{Name: "t.delay-01", Levels: 12, Resolution: time.Minute, QueueType: Classic,
			StrictKeys: true, InternalLevels: true, CreateDeliveryExchange: true},
		{Name: "t", Levels: 2, MaxLength: 5, StrictKeys: true, InternalLevels: true, ParkUnroutable: true},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			complete := declared(t, c)
			steps := topology.Diff(complete.there, topology.New()).Steps()
			delays := 0
			for made, step := range steps {
				if q, ok := step.(topology.DeclareQueue); ok && q.Queue.Arguments["x-message-ttl"] != nil {
					delays++
				}
				b := &fakeBroker{t: t, there: topology.New().After(steps[:made+1]), delivery: complete.delivery}
				got, err := Recognize(t.Context(), b, "", complete.there.Entry)
				if delays == 0 {
					continue
				}
				if err != nil {
					t.Fatalf("after %s: %v", step, err)
				}
				expandsTo(t, got, c)
			}
		})
	}
}

func TestNoRemains(t *testing.T) {
	c := Config{Name: "t", Levels: 4, CreateDeliveryExchange: true, ParkUnroutable: true}
	for _, entry := range []string{"t.delay-3", "t.delay-003", "t.delay-40", "t.delay-99999999999999999999", ".delay-03", "u.delay-03"} {
		if got, err := Recognize(t.Context(), declared(t, c), "/", entry); err == nil {
			t.Errorf("%q is taken for the entry of %+v", entry, got)
		}
	}
}

package acceptance

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
)

// TestVhostIsDeletedMeanwhile deletes the vhost at every request of an operation, which waits for the end of that or
// goes on meanwhile. A destroy is done by it. All else says that there is no such vhost, and nothing of
// permissions.
func TestVhostIsDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	b := brokertest.Shared(t)
	for _, verb := range []string{"create", "update", "destroy"} {
		// with quorum queues, RabbitMQ 3.10.8 would lose its at-least-once dead-lettering
		o := interrupted{cascadeType, delay.Classic, 2, verb}
		points := o.points(newVhost(t))
		for i := range points {
			for _, waits := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, %s, waits: %t", verb, points[i], waits), func(t *testing.T) {
					loseVhost(t, b, o, points, i, waits, verb)
				})
			}
		}
	}
}

// loseVhost deletes the vhost and looks at what the next operation says.
func loseVhost(t *testing.T, b *brokertest.Broker, o interrupted, points []point, i int, waits bool, verb string) {
	t.Parallel()
	v := newVhost(t)
	u := newUser(t, b, v.name)
	u.grant([3]string{".*", ".*", ".*"})
	v.broker = u.broker()
	a := o.prepare(v)
	gone := make(chan struct{})
	a.strike(points[i], failure{kills, once})
	a.proxy.kill = func() {
		go func() {
			defer close(gone)
			v.try(v.api.DeleteVhost(v.name))
		}()
		if waits {
			<-gone
		}
	}
	_, diagnostics := a.operate()
	if !a.proxy.hasStruck() {
		t.Fatal("the vhost was not deleted")
	}
	<-gone
	text := errorText(diagnostics)
	// a part of it was still there
	says := strings.Contains(text, "vhost not found") ||
		strings.Contains(text, "somebody else changed the cascade meanwhile")
	// Policies are read beside all else, which may have been there before.
	mustFail := waits && verb != "destroy" && !strings.Contains(points[i].path, "policies")
	if hasErrors(diagnostics) && (len(diagnostics) != 1 || !says || strings.Contains(text, "permission")) ||
		!hasErrors(diagnostics) && mustFail {
		t.Errorf("%d errors: %s", len(diagnostics), text)
	}
}

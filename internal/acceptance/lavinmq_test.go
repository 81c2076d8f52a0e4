package acceptance

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// LavinMQ answers like RabbitMQ, and loses messages where RabbitMQ does not. Every way to it ends in one error that
// says so, and nothing is changed. A run asks RabbitMQ once who it is.
func TestLavinMQ(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	v.declareQueue("orders", nil)
	given := attributes{"vhost": v.name, "name": "t", "levels": 3}
	ladder := attributes{"vhost": v.name, "name": "l", "delays": textSet("5s")}
	destination := attributes{"vhost": v.name, "delivery_exchange": "t.delivery", "levels": 3, "address": "orders",
		"queue": "orders"}
	forced := attributes{"force_destroy": true}
	ofRabbitMQ := map[string]*protocol{cascadeType: newProtocol(t, v.broker, nil), destinationType: v.destination()}
	ofRabbitMQ[cascadeType].mustApply(given.with(forced))
	ofRabbitMQ[destinationType].mustApply(destination.with(forced))
	before := v.objects()

	var isLavinMQ atomic.Bool
	var asked atomic.Int32
	front := newRewriter(t, v.broker, func(path string, object map[string]any) {
		if path != "/api/overview" {
			return
		}
		asked.Add(1)
		if isLavinMQ.Load() {
			delete(object, "rabbitmq_version")
			object["product_name"], object["lavinmq_version"] = "LavinMQ", "2.9.1"
		}
	})
	isLavinMQ.Store(true)
	fresh := func(typeName string) *protocol { return newProtocolOf(t, typeName, front, nil) }
	there := func(typeName string) *protocol { return ofRabbitMQ[typeName].with(front, nil) }
	destroy := func(typeName string) []*tfprotov6.Diagnostic {
		p := there(typeName)
		return p.apply(t.Context(), p.plan(t.Context(), nil))
	}
	unseen := newProtocolOf(t, ladderType, v.broker, nil).plan(t.Context(), ladder)
	other := given.with(attributes{"name": "u"})
	entry := attributes{"vhost": v.name, "entry_exchange": "t.delay-02"}
	for what, diagnostics := range map[string][]*tfprotov6.Diagnostic{
		"the plan of a cascade":      fresh(cascadeType).plan(t.Context(), other).diagnostics,
		"the plan of a ladder":       fresh(ladderType).plan(t.Context(), ladder).diagnostics,
		"the plan of a destination":  fresh(destinationType).plan(t.Context(), destination).diagnostics,
		"an apply":                   fresh(ladderType).apply(t.Context(), unseen),
		"a refresh of a cascade":     there(cascadeType).refresh(t.Context()),
		"a refresh of a destination": there(destinationType).refresh(t.Context()),
		"a destroy of a cascade":     destroy(cascadeType),
		"a destroy of a destination": destroy(destinationType),
		"an import":                  fresh(cascadeType).importState(t.Context(), importID(v.name, "t.delay-02")),
		"a data source":              fresh(cascadeType).read(t.Context(), cascadeType, entry),
		"a probe": fresh(cascadeType).read(t.Context(), "rabbitmqdelay_probe",
			entry.with(attributes{"delay": "1s"})),
	} {
		text := errorText(diagnostics)
		for _, says := range []string{"the broker is LavinMQ", "it is LavinMQ 2.9.1", "ignores if-empty",
			"dead-letters at most once", "takes the queue type quorum", "Give the endpoint of a RabbitMQ"} {
			if strings.Count(text, says) != 1 {
				t.Errorf("%s does not say %q once: %s", what, says, text)
			}
		}
	}
	v.mustHold(before)

	isLavinMQ.Store(false)
	asked.Store(0)
	p := there(cascadeType)
	noErrors(t, p.refresh(t.Context()))
	noErrors(t, p.read(t.Context(), cascadeType, entry))
	p.planOn(t.Context(), p.state, p.private, object(t, p.resource, given))
	if n := asked.Load(); n != 1 {
		t.Errorf("a run asks %d times who the broker is", n)
	}
}

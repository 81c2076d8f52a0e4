package acceptance

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
)

// LavinMQ answers like RabbitMQ, and loses messages where RabbitMQ does not. Every way to it ends in one error that
// says so, and nothing is changed. A run asks RabbitMQ once who it is.
func TestLavinMQ(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	v.DeclareQueue("orders", nil)
	given := harness.Attributes{"vhost": v.Name, "name": "t", "levels": 3}
	ladder := harness.Attributes{"vhost": v.Name, "name": "l", "delays": harness.TextList("5s")}
	destination := harness.Attributes{"vhost": v.Name, "delivery_exchange": "t.delivery", "levels": 3,
		"address": "orders", "queue": "orders"}
	forced := harness.Attributes{"force_destroy": true}
	ofRabbitMQ := map[string]*harness.Protocol{harness.CascadeType: harness.NewProtocol(t, v.Broker, nil),
		harness.DestinationType: v.Destination()}
	ofRabbitMQ[harness.CascadeType].MustApply(given.With(forced))
	ofRabbitMQ[harness.DestinationType].MustApply(destination.With(forced))
	before := v.Objects()

	var isLavinMQ atomic.Bool
	var asked atomic.Int32
	front := harness.NewRewriter(t, v.Broker, func(path string, object map[string]any) {
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
	fresh := func(typeName string) *harness.Protocol { return harness.NewProtocolOf(t, typeName, front, nil) }
	there := func(typeName string) *harness.Protocol { return ofRabbitMQ[typeName].With(front, nil) }
	destroy := func(typeName string) []*tfprotov6.Diagnostic {
		p := there(typeName)
		return p.Apply(t.Context(), p.Plan(t.Context(), nil))
	}
	unseen := harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil).Plan(t.Context(), ladder)
	other := given.With(harness.Attributes{"name": "u"})
	entry := harness.Attributes{"vhost": v.Name, "entry_exchange": "t.delay-02"}
	for what, diagnostics := range map[string][]*tfprotov6.Diagnostic{
		"the plan of a cascade":      fresh(harness.CascadeType).Plan(t.Context(), other).Diagnostics,
		"the plan of a ladder":       fresh(harness.LadderType).Plan(t.Context(), ladder).Diagnostics,
		"the plan of a destination":  fresh(harness.DestinationType).Plan(t.Context(), destination).Diagnostics,
		"an apply":                   fresh(harness.LadderType).Apply(t.Context(), unseen),
		"a refresh of a cascade":     there(harness.CascadeType).Refresh(t.Context()),
		"a refresh of a destination": there(harness.DestinationType).Refresh(t.Context()),
		"a destroy of a cascade":     destroy(harness.CascadeType),
		"a destroy of a destination": destroy(harness.DestinationType),
		"an import": fresh(harness.CascadeType).ImportState(t.Context(),
			harness.ImportID(v.Name, "t.delay-02")),
		"a data source": fresh(harness.CascadeType).Read(t.Context(), harness.CascadeType, entry),
		"a probe": fresh(harness.CascadeType).Read(t.Context(), "rabbitmqdelay_probe",
			entry.With(harness.Attributes{"delay": "1s"})),
	} {
		text := harness.ErrorText(diagnostics)
		for _, says := range []string{"the broker is LavinMQ", "it is LavinMQ 2.9.1", "ignores if-empty",
			"dead-letters at most once", "takes the queue type quorum", "Give the endpoint of a RabbitMQ"} {
			if strings.Count(text, says) != 1 {
				t.Errorf("%s does not say %q once: %s", what, says, text)
			}
		}
	}
	v.MustHold(before)

	isLavinMQ.Store(false)
	asked.Store(0)
	p := there(harness.CascadeType)
	harness.NoErrors(t, p.Refresh(t.Context()))
	harness.NoErrors(t, p.Read(t.Context(), harness.CascadeType, entry))
	p.PlanOn(t.Context(), p.State, p.Private, harness.NewObject(t, p.Resource, given))
	if n := asked.Load(); n != 1 {
		t.Errorf("a run asks %d times who the broker is", n)
	}
}

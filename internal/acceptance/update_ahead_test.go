package acceptance

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

const (
	wouldBeRefused = "The apply will fail, as things are. "
	existAlready   = "Objects of the cascade exist already"
)

// A max_delay that grows adds a queue, and somebody has one of that name. The plan says so, as the apply does.
func TestPlanOfUpdateSaysWhatExists(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	p := harness.NewProtocol(t, v.Broker, nil)
	given := harness.Attributes{"vhost": v.Name, "name": "t", "units": harness.TextList("1h"), "max_delay": "2h",
		"queue_type": "classic"}
	more := given.With(harness.Attributes{"max_delay": "3h"})
	p.MustApply(more)
	third := v.Objects().Queues["t.3h"]
	p.MustApply(given)
	refuses := func(summary string) {
		t.Helper()
		before := v.Objects()
		plan := p.Plan(t.Context(), more)
		harness.NoErrors(t, plan.Diagnostics)
		harness.MustSay(t, "the plan", harness.WarningText(plan.Diagnostics), summary+`: cascade "t.h"`, wouldBeRefused,
			`queue "t.3h"`)
		harness.MustSay(t, "the apply", harness.ErrorText(p.Apply(t.Context(), plan)), summary, `queue "t.3h"`)
		v.MustHold(before)
	}

	v.DeclareQueue("t.3h", nil)
	refuses("Objects of the cascade exist and differ")
	v.Try(v.API.DeleteQueue(v.Name, "t.3h"))
	v.DeclareQueue("t.3h", third.Arguments)
	refuses(existAlready)

	for name, adopt := range map[string]any{"an adoption": true,
		"an unknown adopt": tftypes.NewValue(tftypes.Bool, tftypes.UnknownValue)} {
		plan := p.Plan(t.Context(), more.With(harness.Attributes{"adopt": adopt}))
		harness.NoErrors(t, plan.Diagnostics)
		if text := harness.WarningText(plan.Diagnostics); text != "" {
			t.Errorf("the plan of %s says: %s", name, text)
		}
	}
	p.MustApply(more.With(harness.Attributes{"adopt": true}))
	p.MustApply(nil)
	v.MustHold(topology.New())
}

// What another resource has adopted, an update does not change. The plan says so, also without a refresh.
func TestPlanOfUpdateSaysWhoOwns(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	p := harness.NewProtocol(t, v.Broker, nil)
	given := harness.Attributes{"vhost": v.Name, "name": "t", "levels": 2, "queue_type": "classic"}
	p.MustApply(given)
	adopts := harness.Attributes{"adopt": true}
	harness.NewProtocol(t, v.Broker, nil).MustApply(given.With(adopts))
	other := harness.Attributes{"lookahead": 1}
	plan := p.Plan(t.Context(), given.With(other))
	harness.NoErrors(t, plan.Diagnostics)
	summary := fmt.Sprintf("Another resource owns the cascade with entry exchange %q in vhost %q\n", "t.delay-01",
		v.Name)
	harness.MustSay(t, "the plan", harness.WarningText(plan.Diagnostics), summary, wouldBeRefused)
	harness.MustSay(t, "the apply", harness.ErrorText(p.Apply(t.Context(), plan)), summary)
	plan = p.Plan(t.Context(), given.With(other).With(adopts))
	if text := harness.WarningText(plan.Diagnostics); text != "" {
		t.Errorf("the plan of an adoption says: %s", text)
	}
	harness.NoErrors(t, p.Apply(t.Context(), plan))
}

// A plan of what stays as it is asks the broker nothing. That of an update asks for what it adds, and for its entry.
func TestRequestsOfPlansOfUpdates(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	counted := harness.NewGateway(t, v.Broker, nil, nil)
	through := *v.Broker
	through.Endpoint = counted.URL
	p := harness.NewProtocol(t, &through, nil)
	given := harness.Attributes{"vhost": v.Name, "name": "t", "units": harness.TextList("1m", "1s"), "max_delay": "10m",
		"queue_type": "classic"}
	p.MustApply(given)
	const aside = 4 + 2 // exchanges, bindings of the entry, two kinds of policies, and what a run asks of the broker
	for name, is := range map[string]struct {
		change harness.Attributes
		most   int32
	}{
		"nothing changes":  {nil, 0},
		"a word changes":   {harness.Attributes{"drain_timeout": "1m"}, aside},
		"max_delay grows":  {harness.Attributes{"max_delay": "15m"}, aside + 5},
		"what is unlike":   {harness.Attributes{"lookahead": 1}, aside},
		"max_delay shrink": {harness.Attributes{"max_delay": "8m"}, aside + 2},
	} {
		before := counted.Requests.Load()
		harness.NoErrors(t, p.Plan(t.Context(), given.With(is.change)).Diagnostics)
		made := counted.Requests.Load() - before
		t.Logf("%s: %d requests", name, made)
		if made > is.most {
			t.Errorf("%s: the plan makes %d requests, the limit is %d", name, made, is.most)
		}
	}
}

// One ladder lets go of the delivery exchange that another one takes in the same plan. It is no obstacle.
func TestPlanOfUpdateTakesADeliveryExchange(t *testing.T) {
	t.Parallel()
	for name, is := range map[string]struct {
		before  harness.Attributes
		summary string
	}{
		"an update": {harness.Attributes{"delivery_exchange": "d", "create_delivery_exchange": false},
			"Delivery exchange differs"},
		"a rebuild": {harness.Attributes{"delivery_exchange": "e"}, "Objects of the ladder exist and differ"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := harness.NewVhost(t)
			first := harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil)
			other := first.Of(harness.LadderType)
			ladder := harness.Attributes{"vhost": v.Name, "delays": harness.TextList("5s"), "queue_type": "classic"}
			// Without force_destroy, a destroy leaves a delivery exchange that queues use.
			first.MustApply(ladder.With(harness.Attributes{"name": "a", "delivery_exchange": "d",
				"park_unroutable": true, "force_destroy": true}))
			second := ladder.With(harness.Attributes{"name": "b", "park_unroutable": false})
			other.MustApply(second.With(is.before))
			takes := second.With(harness.Attributes{"delivery_exchange": "d"})

			plan := other.Plan(t.Context(), takes)
			harness.NoErrors(t, plan.Diagnostics)
			harness.MustSay(t, "the plan", harness.WarningText(plan.Diagnostics), is.summary, wouldBeRefused)
			harness.MustSay(t, "the apply", harness.ErrorText(other.Apply(t.Context(), plan)), is.summary)

			first.NewRun()
			goes := first.PlanWithin(t.Context(), nil)
			plan = other.PlanWithin(t.Context(), takes)
			harness.NoErrors(t, plan.Diagnostics)
			if text := harness.WarningText(plan.Diagnostics); strings.Contains(text, is.summary) {
				t.Errorf("beside a destroy of the other one, the plan says: %s", text)
			}
			harness.NoErrors(t, first.Apply(t.Context(), goes))
			harness.NoErrors(t, other.Apply(t.Context(), plan))
			other.MustApply(nil)
			v.MustHold(topology.New())
		})
	}
}

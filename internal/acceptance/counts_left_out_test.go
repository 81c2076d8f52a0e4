package acceptance

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
)

// RabbitMQ 4.3.0 to 4.3.3 leave out the counts of quorum queues that come from 3.13. Then the data sources have null. A
// plan says that it does not know, and a destroy is refused.
func TestCountsAreLeftOut(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	given := harness.Attributes{"vhost": v.Name, "name": "t", "levels": 3, "resolution": "1h"}
	p := harness.NewProtocol(t, v.Broker, nil)
	p.MustApply(given)
	v.Publish("t.delay-02", "1.0.0.later", "")
	v.Eventually("the counts are up to date", func() bool {
		return v.Counted("t.delay-02") == 1 && v.HasStatistics()
	})
	before := v.Objects()
	var all atomic.Bool
	front := withoutCounts(v, func(queue string) bool { return all.Load() || queue == "t.delay-00" })

	found, diagnostics := harness.NewProtocol(t, front, nil).Observe(t.Context(), harness.CascadeType,
		harness.Attributes{"vhost": v.Name, "entry_exchange": "t.delay-02"})
	harness.NoErrors(t, diagnostics)
	whole := harness.Fields(t, found)
	var queues []tftypes.Value
	if err := whole["queues"].As(&queues); err != nil {
		t.Fatal(err)
	}
	textOf := func(value tftypes.Value) (text string) {
		t.Helper()
		if err := value.As(&text); err != nil || text == "" {
			t.Fatalf("%s is no text (%v)", value, err)
		}
		return text
	}
	lowest, highest := harness.Fields(t, queues[0]), harness.Fields(t, queues[2])
	for name, is := range map[string]struct {
		value tftypes.Value
		want  any
	}{
		"messages": {whole["messages"], nil}, "unroutable_messages": {whole["unroutable_messages"], 0},
		"messages of the lowest level":       {lowest["messages"], nil},
		"consumers of the lowest level":      {lowest["consumers"], nil},
		"latest_arrival of the lowest level": {lowest["latest_arrival"], nil},
		"messages of the highest level":      {highest["messages"], 1},
		"consumers of the highest level":     {highest["consumers"], 0},
		"latest_arrival":                     {whole["latest_arrival"], nil},
		"next_arrival":                       {whole["next_arrival"], textOf(highest["latest_arrival"])},
	} {
		if !is.value.Equal(tftypes.NewValue(is.value.Type(), is.want)) {
			t.Errorf("%s are %s, want %v", name, is.value, is.want)
		}
	}
	broken := p.With(front, nil)
	says := func(what, part string, configuration harness.Attributes) harness.PlannedChange {
		t.Helper()
		harness.NoErrors(t, broken.Refresh(t.Context()))
		plan := broken.Plan(t.Context(), configuration)
		if text := harness.WarningText(plan.Diagnostics); !strings.Contains(text, part) {
			t.Errorf("the plan of %s does not say %q: %s", what, part, text)
		}
		return plan
	}
	rebuilt := given.With(harness.Attributes{"resolution": "2h"})
	says("a rebuild", "1 message is on the way through it now, by the last count, which may be some seconds old. "+
		"There may be more: RabbitMQ leaves out the counts of some queues.", rebuilt)

	all.Store(true)
	const unknown = "How many messages wait is not known: RabbitMQ leaves out the counts of some queues."
	says("a rebuild", unknown, rebuilt)
	v.Purge("t.delay-02") // which AMQP would count
	plan := says("a destroy", unknown, nil)
	text := harness.ErrorText(broken.Apply(t.Context(), plan))
	harness.MustSay(t, "the error of the destroy", text, "does not say how many there are",
		"RabbitMQ 4.3.0 to 4.3.3 leave out the counts", "Nothing of it is gone")
	v.MustHold(before)
}

// withoutCounts is the broker behind a gateway that leaves out the counts of some queues.
func withoutCounts(v *harness.Vhost, of func(queue string) bool) *brokertest.Broker {
	v.T.Helper()
	return harness.NewRewriter(v.T, v.Broker, func(_ string, object map[string]any) {
		name, _ := object["name"].(string)
		if !of(name) {
			return
		}
		for _, field := range []string{"messages", "messages_ready", "messages_unacknowledged", "consumers",
			"reductions"} {
			delete(object, field)
		}
	})
}

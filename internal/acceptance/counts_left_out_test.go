package acceptance

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
)

// RabbitMQ 4.3.0 to 4.3.3 leave out the counts of quorum queues that come from 3.13. Then the data sources have null. A
// plan says that it does not know, and a destroy is refused.
func TestCountsAreLeftOut(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	given := attributes{"vhost": v.name, "name": "t", "levels": 3, "resolution": "1h"}
	p := newProtocol(t, v.broker, nil)
	p.mustApply(given)
	v.publish("t.delay-02", "1.0.0.later", "")
	v.eventually("the counts are up to date", func() bool {
		return v.counted("t.delay-02") == 1 && v.hasStatistics()
	})
	before := v.objects()
	var all atomic.Bool
	front := v.withoutCounts(func(queue string) bool { return all.Load() || queue == "t.delay-00" })

	found, diagnostics := newProtocol(t, front, nil).observe(t.Context(), cascadeType, attributes{"vhost": v.name,
		"entry_exchange": "t.delay-02"})
	noErrors(t, diagnostics)
	whole := fields(t, found)
	var queues []tftypes.Value
	if err := whole["queues"].As(&queues); err != nil {
		t.Fatal(err)
	}
	lowest, highest := fields(t, queues[0]), fields(t, queues[2])
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
	} {
		if !is.value.Equal(tftypes.NewValue(is.value.Type(), is.want)) {
			t.Errorf("%s are %s, want %v", name, is.value, is.want)
		}
	}
	broken := p.with(front, nil)
	says := func(what, part string, configuration attributes) plannedChange {
		t.Helper()
		noErrors(t, broken.refresh(t.Context()))
		plan := broken.plan(t.Context(), configuration)
		if text := warningText(plan.diagnostics); !strings.Contains(text, part) {
			t.Errorf("the plan of %s does not say %q: %s", what, part, text)
		}
		return plan
	}
	rebuilt := given.with(attributes{"resolution": "2h"})
	says("a rebuild", "1 message is on the way through it now, by the last count, which may be some seconds old. "+
		"There may be more: RabbitMQ leaves out the counts of some of its queues.", rebuilt)

	all.Store(true)
	const unknown = "How many messages wait in it is not known: RabbitMQ leaves out the counts of some of its queues."
	says("a rebuild", unknown, rebuilt)
	v.purge("t.delay-02") // which AMQP would count
	plan := says("a destroy", unknown, nil)
	text := errorText(broken.apply(t.Context(), plan))
	mustSay(t, "the error of the destroy", text, "does not say how many there are",
		"RabbitMQ 4.3.0 to 4.3.3 leave out the counts", "Nothing of it is gone")
	v.mustHold(before)
}

// withoutCounts is the broker behind a gateway that leaves out the counts of some queues.
func (v *vhost) withoutCounts(of func(queue string) bool) *brokertest.Broker {
	v.Helper()
	return newRewriter(v, v.broker, func(_ string, object map[string]any) {
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

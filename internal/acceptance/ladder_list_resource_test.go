package acceptance

import (
	"fmt"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
)

// Ladders are found beside cascades, and neither is taken for the other. The configuration that Terraform writes plans
// to no change.
func TestListLadders(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	harness.NewProtocol(t, v.Broker, nil).MustApply(harness.Attributes{"vhost": v.Name, "name": "tasks", "levels": 5})
	admin := harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil)
	for _, configuration := range []harness.Attributes{
		{"name": "retry", "delays": harness.TextList("1h", "5s", "90s")},
		{
			"entry_exchange": "order.delay.exchange", "queue_name": "order.delay.queue",
			"delivery_exchange": "order.close.exchange", "dead_letter_routing_key": "order.close.queue",
			"delays": harness.TextList("30m"), "queue_type": "classic", "park_unroutable": false,
		},
		{
			"entry_exchange": "upload", "entry_exchange_type": "direct", "delays": harness.TextList("7s", "5m"),
			"binding_keys": stringMap(map[string]string{"7s": "retry.1", "5m": "retry.2"}),
			"queue_names":  stringMap(map[string]string{"7s": "first", "5m": "second"}), "deliver_to_queue": "uploads",
			"park_unroutable": false,
		},
	} {
		admin.State = tftypes.NewValue(admin.Resource, nil)
		admin.MustApply(configuration.With(harness.Attributes{"vhost": v.Name}))
	}
	u := harness.NewUser(t, v.Broker, v.Name)
	u.Grant([3]string{"^$", "^$", "^$"})
	p := harness.NewProtocolOf(t, harness.LadderType, u.Broker(), nil)
	found := map[string]string{}
	for _, l := range p.Query(t.Context(), nil, true, 100) {
		harness.NoErrors(t, l.Diagnostics)
		found[l.Entry] = l.Name
		imported := harness.NewProtocolOf(t, harness.LadderType, u.Broker(), nil)
		harness.NoErrors(t, imported.ImportIdentity(t.Context(), l.Vhost, l.Entry))
		if !imported.State.Equal(l.Resource) {
			differences, err := imported.State.Diff(l.Resource)
			t.Errorf("%s differs from what is imported: %s %v", l.Entry, differences, err)
		}
		plan := imported.Plan(t.Context(), imported.Generated(t.Context(), l.Resource))
		harness.NoErrors(t, plan.Diagnostics)
		if !plan.IsEmpty(imported.State) {
			differences, _ := imported.State.Diff(plan.State)
			t.Errorf("%s: with the configuration that is generated the plan has %s", l.Entry, differences)
		}
	}
	want := map[string]string{"retry.entry": "retry (5s, 90s, 1h)",
		"order.delay.exchange": "order.delay.exchange (30m)", "upload": "upload (7s, 5m)"}
	if fmt.Sprint(found) != fmt.Sprint(want) {
		t.Errorf("found %q, want %q", found, want)
	}
	cascades := harness.NewProtocol(t, u.Broker(), nil).Query(t.Context(), nil, false, 100)
	if len(cascades) != 1 || cascades[0].Entry != "tasks.delay-04" {
		t.Errorf("there are %d cascades", len(cascades))
	}
}

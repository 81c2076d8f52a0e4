package acceptance

import (
	"fmt"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Ladders are found beside cascades, and neither is taken for the other. The configuration that Terraform writes plans
// to no change.
func TestListLadders(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	newProtocol(t, v.broker, nil).mustApply(attributes{"vhost": v.name, "name": "tasks", "levels": 5})
	admin := newProtocolOf(t, ladderType, v.broker, nil)
	for _, configuration := range []attributes{
		{"name": "retry", "delays": textSet("1h", "5s", "90s")},
		{
			"entry_exchange": "order.delay.exchange", "queue_name": "order.delay.queue",
			"delivery_exchange": "order.close.exchange", "dead_letter_routing_key": "order.close.queue",
			"delays": textSet("30m"), "queue_type": "classic", "park_unroutable": false,
		},
	} {
		admin.state = tftypes.NewValue(admin.resource, nil)
		admin.mustApply(configuration.with(attributes{"vhost": v.name}))
	}
	u := newUser(t, v.broker, v.name)
	u.grant([3]string{"^$", "^$", "^$"})
	p := newProtocolOf(t, ladderType, u.broker(), nil)
	found := map[string]string{}
	for _, l := range p.query(t.Context(), nil, true, 100) {
		noErrors(t, l.diagnostics)
		found[l.entry] = l.name
		imported := newProtocolOf(t, ladderType, u.broker(), nil)
		noErrors(t, imported.importIdentity(t.Context(), l.vhost, l.entry))
		if !imported.state.Equal(l.resource) {
			differences, err := imported.state.Diff(l.resource)
			t.Errorf("%s differs from what is imported: %s %v", l.entry, differences, err)
		}
		plan := imported.plan(t.Context(), imported.generated(t.Context(), l.resource))
		noErrors(t, plan.diagnostics)
		if !plan.isEmpty(imported.state) {
			differences, _ := imported.state.Diff(plan.state)
			t.Errorf("%s: with the configuration that is generated the plan has %s", l.entry, differences)
		}
	}
	want := map[string]string{"retry.entry": "retry (5s, 90s, 1h)",
		"order.delay.exchange": "order.delay.exchange (30m)"}
	if fmt.Sprint(found) != fmt.Sprint(want) {
		t.Errorf("found %q, want %q", found, want)
	}
	cascades := newProtocol(t, u.broker(), nil).query(t.Context(), nil, false, 100)
	if len(cascades) != 1 || cascades[0].entry != "tasks.delay-04" {
		t.Errorf("there are %d cascades", len(cascades))
	}
}

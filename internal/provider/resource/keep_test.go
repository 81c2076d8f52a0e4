package resource

import (
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
)

// A name that reads like a duration is a name: "1m" is not "60s".
func TestNamesAreNoDurations(t *testing.T) {
	for _, attribute := range []string{"address", "queue", "exchange", "delivery_exchange"} {
		plan, state := nothing(destinations), nothing(destinations)
		planned := types.StringValue("1m")
		plan[attribute], state[attribute] = planned, types.StringValue("60s")
		if destinations.KeepEqual(plan, state); !plan[attribute].Equal(planned) {
			t.Errorf("%s stays %s", attribute, plan[attribute])
		}
	}
}

// What the state says in other words is kept, whatever else is unknown.
func TestEqualBesideUnknownValues(t *testing.T) {
	plan, state := known(nil), known(nil)
	written := func(text string) attr.Value { return tfvalue.Duration{StringValue: types.StringValue(text)} }
	units := types.ListValueMust(tfvalue.DurationType{}, []attr.Value{tfvalue.DurationValue(8 * time.Second),
		tfvalue.DurationValue(4 * time.Second), tfvalue.DurationValue(2 * time.Second),
		tfvalue.DurationValue(time.Second)})
	for name, is := range map[string][2]attr.Value{
		"units":         {units, units},
		"base":          {types.Int64Value(2), types.Int64Value(2)},
		"resolution":    {written("1000ms"), tfvalue.DurationValue(time.Second)},
		"drain_timeout": {written("24h"), written("1d")},
		"max_delay":     {tfvalue.DurationValue(12 * time.Second), tfvalue.DurationValue(15 * time.Second)},
		"exchange_name": {types.StringValue("t.%d"), types.StringValue("t.%1d")},
		"queue_name":    {types.StringValue("q.%d"), types.StringValue("q.%1d")},
	} {
		plan[name], state[name] = is[0], is[1]
	}
	plan["delivery_exchange"] = types.StringUnknown()
	cascades.KeepEqual(plan, state)
	for _, name := range []string{"resolution", "drain_timeout", "max_delay", "exchange_name", "queue_name"} {
		if !plan[name].Equal(state[name]) {
			t.Errorf("%s is planned as %s, and is %s", name, plan[name], state[name])
		}
	}
}

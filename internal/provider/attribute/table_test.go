package attribute

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// retries is what the attributes of these tests describe.
type retries struct {
	name  string
	times int
	wait  time.Duration
}

// table has the attributes of retries. No more than three are possible, and three by default.
var table = Table[retries]{
	Attributes: []Attribute[retries]{
		{Name: "name", Required: true, Field: Text(func(r *retries) *string { return &r.name })},
		{Name: "times", Decided: true, Field: Count(func(r *retries) *int { return &r.times })},
		{Name: "wait", Field: Duration(func(r *retries) *time.Duration { return &r.wait })},
		{
			Name: "entry", From: []string{"name"}, Schema: tfvalue.ComputedText(""),
			Show: func(_ *Resolved[retries], there topology.Topology, _ attr.Value) attr.Value {
				return types.StringValue(there.Entry)
			},
		},
		{
			Name: "summary", From: []string{"times"}, Schema: tfvalue.ComputedText(""),
			Show: func(r *Resolved[retries], _ topology.Topology, _ attr.Value) attr.Value {
				return types.StringValue(r.Summary)
			},
		},
	},
	Resolve: func(given retries) (r Resolved[retries], err error) {
		if r.Config = given; given.times == 0 {
			r.Config.times = 3
		}
		if r.Config.times > 3 {
			return r, delay.Errors{{Attribute: "times", Message: "are too many"}}
		}
		r.Desired.Entry, r.Summary = given.name+".entry", fmt.Sprintf("%d retries", r.Config.times)
		return r, nil
	},
}

// given is a configuration with these values.
func given(further Values) Values {
	config := Values{"name": types.StringValue("t"), "wait": tfvalue.DurationValue(time.Second),
		"times": types.Int64Null(), "entry": types.StringNull(), "summary": types.StringNull()}
	maps.Copy(config, further)
	return config
}

// A value that its type does not take is an error on the attribute, not a value that is left out.
func TestInvalidValues(t *testing.T) {
	s := schema.Schema{Attributes: table.Schema()}
	for name, wrong := range map[string]tftypes.Value{
		"wait":  tftypes.NewValue(tftypes.String, "5 minutes"),
		"times": tftypes.NewValue(tftypes.Number, 1.5),
	} {
		raw := map[string]tftypes.Value{}
		for each, attribute := range s.Attributes {
			raw[each] = tftypes.NewValue(attribute.GetType().TerraformType(t.Context()), nil)
		}
		raw[name] = wrong
		_, diags := ValuesOf(t.Context(), tfsdk.State{Schema: s,
			Raw: tftypes.NewValue(s.Type().TerraformType(t.Context()), raw)})
		if len(diags) != 1 {
			t.Errorf("%s is %s: %v", name, wrong, diags)
			continue
		}
		if at, ok := diags[0].(diag.DiagnosticWithPath); !ok || !at.Path().Equal(path.Root(name)) {
			t.Errorf("%s is %s: %v", name, wrong, diags)
		}
	}
}

// What depends on an unknown value is planned as unknown, and all else as it is.
func TestPlanOfUnknownValues(t *testing.T) {
	entry, summary, times := types.StringValue("t.entry"), types.StringValue("3 retries"), types.Int64Value(3)
	unknown := types.StringUnknown()
	for name, is := range map[string]struct{ config, want Values }{
		"nothing":   {nil, Values{"times": times, "entry": entry, "summary": summary}},
		"the name":  {Values{"name": types.StringUnknown()}, Values{"entry": unknown, "summary": summary}},
		"the times": {Values{"times": types.Int64Unknown()}, Values{"entry": entry, "summary": unknown}},
	} {
		config := given(is.config)
		plan := maps.Clone(config)
		if errs := table.SetComputed(plan, config, nil); len(errs) > 0 {
			t.Errorf("%s is unknown: %v", name, errs)
		}
		for attribute, want := range is.want {
			if !plan[attribute].Equal(want) {
				t.Errorf("%s is unknown: %s is planned as %s, want %s", name, attribute, plan[attribute], want)
			}
		}
	}
	config := given(Values{"name": types.StringUnknown(), "times": types.Int64Value(5)})
	var errs delay.Errors
	if _, found := table.Computed(config, nil); !errors.As(found, &errs) || errs[0].Attribute != "times" {
		t.Errorf("too many retries beside an unknown name: %v", found)
	}
}

// Where something valid cannot be found for unknown values, nothing is known.
func TestNothingCanBeSaid(t *testing.T) {
	strict := Table[retries]{Attributes: table.Attributes, Resolve: func(given retries) (Resolved[retries], error) {
		if given.name != "a" {
			return Resolved[retries]{}, delay.Errors{{Attribute: "name", Message: "is another one"}}
		}
		return table.Resolve(given)
	}}
	config := given(Values{"name": types.StringUnknown()})
	plan := maps.Clone(config)
	if errs := strict.SetComputed(plan, config, nil); len(errs) > 0 || !plan["summary"].IsUnknown() {
		t.Errorf("of a name that has to be a, this is planned: %v %v", plan, errs)
	}
}

// The state keeps its texts for the same durations, also for each of the timeouts.
func TestSameDurations(t *testing.T) {
	text := func(text string) tfvalue.Duration { return tfvalue.Duration{StringValue: types.StringValue(text)} }
	limits := func(create, read string) timeouts.Value {
		of := map[string]attr.Type{"create": types.StringType, "read": types.StringType}
		return timeouts.Value{Object: types.ObjectValueMust(of,
			map[string]attr.Value{"create": types.StringValue(create), "read": types.StringValue(read)})}
	}
	timed := Table[retries]{Attributes: append([]Attribute[retries]{{Name: "timeouts"}}, table.Attributes...)}
	state := given(Values{"wait": text("60s"), "name": types.StringValue("60s"), "timeouts": limits("60s", "2m")})
	plan := given(Values{"wait": text("1m"), "name": types.StringValue("1m"), "timeouts": limits("1m", "3m")})
	timed.KeepEqual(plan, state)
	for name, want := range map[string]attr.Value{
		"wait": text("60s"), "name": types.StringValue("1m"), "timeouts": limits("60s", "3m"),
	} {
		if !plan[name].Equal(want) {
			t.Errorf("%s is planned as %s, want %s", name, plan[name], want)
		}
	}
}

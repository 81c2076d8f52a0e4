package resource

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay/delaytest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/attribute"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// planned is a plan of the configuration.
func planned(t *testing.T, config, state attribute.Values) attribute.Values {
	t.Helper()
	if errs := cascades.Check(config); len(errs) > 0 {
		t.Fatal(errs)
	}
	plan := maps.Clone(config)
	if errs := cascades.SetComputed(plan, config, state); len(errs) > 0 {
		t.Fatal(errs)
	}
	if state != nil {
		cascades.KeepEqual(plan, state)
	}
	return plan
}

// What an import writes, and a generated configuration has of it, plans nothing. So does a configuration in other
// words.
func TestImportedArgumentsPlanNothing(t *testing.T) {
	for name, test := range map[string]struct {
		of    delay.Config
		words attr.Value // of a configuration, if they are others
	}{
		"the default": {delay.Config{}, types.DynamicNull()},
		"only TTL and dead-letter exchange": {delay.Config{QueueArguments: topology.Arguments{}},
			types.DynamicValue(types.MapValueMust(types.StringType, map[string]attr.Value{}))},
		"lazy": {delay.Config{QueueType: delay.Classic, QueueArguments: topology.Arguments{"x-queue-mode": "lazy"}},
			types.DynamicValue(types.MapValueMust(types.StringType,
				map[string]attr.Value{"x-queue-mode": types.StringValue("lazy")}))},
		"limits": {delay.Config{QuorumOptions: delay.QuorumOptions{MaxLength: 7},
			QueueArguments: topology.Arguments{"x-expires": int64(5), "plugin": []any{true, 1.5}}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			test.of.Vhost, test.of.Name, test.of.Levels, test.of.Base = "/", "t", 28, 2
			state, err := cascades.Imported(delay.Config(delaytest.Resolve(t, test.of)))
			if err != nil {
				t.Fatal(err)
			}
			config := maps.Clone(state)
			for _, a := range cascades.Attributes {
				if a.Show != nil {
					config[a.Name] = tfvalue.Null(config[a.Name].Type(t.Context()))
				}
			}
			config["units"] = types.ListNull(tfvalue.DurationType{})
			plansNothing(t, config, state)
			if test.words != nil {
				config["queue_arguments"] = test.words
				plansNothing(t, config, state)
			}
		})
	}
}

func plansNothing(t *testing.T, config, state attribute.Values) {
	t.Helper()
	plan := planned(t, config, state)
	for name, value := range state {
		if !plan[name].Equal(value) {
			t.Errorf("%s is planned as %s, and is %s", name, plan[name], value)
		}
	}
}

// Other arguments rebuild the cascade. The usual ones, written out, are no others.
func TestOtherArgumentsRebuild(t *testing.T) {
	usual := types.DynamicValue(types.ObjectValueMust(map[string]attr.Type{"x-dead-letter-strategy": types.StringType,
		"x-overflow": types.StringType}, map[string]attr.Value{
		"x-dead-letter-strategy": types.StringValue("at-least-once"),
		"x-overflow":             types.StringValue("reject-publish")}))
	for name, is := range map[string]struct {
		before, after attr.Value
		rebuilds      bool
	}{
		"the usual ones": {types.DynamicNull(), usual, false},
		"none":           {types.DynamicNull(), tfvalue.ArgumentsValue(topology.Arguments{}), true},
		"one more": {tfvalue.ArgumentsValue(topology.Arguments{}), object("x-expires", types.Int64Value(5)),
			true},
		"not known yet": {types.DynamicNull(), object("x-expires", types.Int64Unknown()), true},
	} {
		state := planned(t, known(attribute.Values{"queue_arguments": is.before}), nil)
		plan := planned(t, known(attribute.Values{"queue_arguments": is.after}), state)
		altered := altering(t, cascades, state, plan)
		if slices.ContainsFunc(altered, path.Root("queue_arguments").Equal) != is.rebuilds {
			t.Errorf("%s: altered by %s", name, altered)
		}
	}
}

// A value that cannot be meant is an error, and says what to write.
func TestWrongValuesSayWhatToWrite(t *testing.T) {
	ladder := nothing(ladders)
	ladder["name"] = types.StringValue("t")
	for name, values := range map[string]map[string]attr.Value{
		"queue_arguments": {
			`is no object; write one such as { x-queue-mode = "lazy" }`: types.DynamicValue(types.StringValue("lazy")),
		},
		"delivery_exchange": {
			`is "", the default exchange, which takes no bindings; leave it out, and bind the queue with a ` +
				"rabbitmqdelay_destination": types.StringValue(""),
			`is "amq.default", the default exchange, which takes no bindings; leave it out, and bind the queue with ` +
				"a rabbitmqdelay_destination": types.StringValue("amq.default"),
		},
	} {
		for want, value := range values {
			ofLadder := maps.Clone(ladder)
			ofLadder[name] = value
			for _, errs := range []delay.Errors{cascades.Check(known(attribute.Values{name: value})),
				ladders.Check(ofLadder)} {
				if len(errs) != 1 || errs[0].Attribute != name || !strings.Contains(errs[0].Message, want) {
					t.Errorf("%s %s: got %v, want %s", name, value, errs, want)
				}
			}
		}
	}
}

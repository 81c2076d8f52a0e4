package resource

import (
	"maps"
	"slices"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/attribute"
)

// Only the parts of the plan that depend on an unknown value are unknown. A fault that known values alone have is an
// error already.
func TestLadderWithUnknownValues(t *testing.T) {
	delays := types.ListValueMust(types.StringType, []attr.Value{types.StringValue("5s"), types.StringValue("1m")})
	for name, test := range map[string]struct {
		change  attribute.Values
		unknown []string
	}{
		"nothing":   {attribute.Values{}, nil},
		"the vhost": {attribute.Values{"vhost": types.StringUnknown()}, nil},
		"the name": {attribute.Values{"name": types.StringUnknown()}, []string{"bindings", "delivery_exchange",
			"entry_exchange", "exchanges", "publisher", "queue_name", "queues"}},
		"the delays": {attribute.Values{"delays": types.ListUnknown(types.StringType)},
			[]string{"bindings", "publisher", "queues", "summary"}},
		"one delay": {attribute.Values{"delays": types.ListValueMust(types.StringType,
			[]attr.Value{types.StringValue("5s"), types.StringUnknown()})},
			[]string{"bindings", "publisher", "queues", "summary"}},
		"the fixed key": {attribute.Values{"dead_letter_routing_key": types.StringUnknown()},
			[]string{"bindings", "delivery_exchange_type", "levels", "queues"}},
		"the type": {attribute.Values{"queue_type": types.StringUnknown()},
			[]string{"queue_arguments", "queue_type", "queues"}},
	} {
		config := nothing(ladders)
		config["name"], config["delays"] = types.StringValue("t"), delays
		maps.Copy(config, test.change)
		c, errs := ladders.Computed(config, nil)
		if got := unknown(ladders, c); len(errs) > 0 || !slices.Equal(got, test.unknown) {
			t.Errorf("%s: unknown are %q, want %q %v", name, got, test.unknown, errs)
		}
	}
	config := nothing(ladders)
	config["name"], config["delays"] = types.StringUnknown(), delays
	config["queue_type"] = types.StringValue("stream")
	if _, errs := ladders.Computed(config, nil); len(errs) == 0 {
		t.Error("a queue type that does not exist is no error while the name is unknown")
	}
}

// A new name may do for the delays that are left alone.
func TestLadderWithOneDelayLeft(t *testing.T) {
	ladder := func(queueName string, delays ...string) attribute.Values {
		config := nothing(ladders)
		config["name"], config["queue_name"] = types.StringValue("t"), types.StringValue(queueName)
		config["delays"], _ = types.ListValueFrom(t.Context(), types.StringType, delays)
		if errs := ladders.SetComputed(config, maps.Clone(config), nil); len(errs) > 0 {
			t.Fatal(errs)
		}
		return config
	}
	altered := altering(t, ladders, ladder("t.delay-%s", "5s", "1m"), ladder("wait", "5s"))
	if !slices.ContainsFunc(altered, path.Root("queue_name").Equal) {
		t.Errorf("altered by %s", altered)
	}
}

package resource

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/attribute"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
)

var unknownDuration = tfvalue.Unknown(tfvalue.DurationType{})

// known is like a configuration of three lines, with further values.
func known(further attribute.Values) attribute.Values {
	config := nothing(cascades)
	config["name"], config["levels"] = types.StringValue("t"), types.Int64Value(4)
	maps.Copy(config, further)
	return config
}

// nothing is a configuration that gives no attribute.
func nothing[C any](k *kind[C]) attribute.Values {
	config := attribute.Values{}
	for name, a := range k.Schema() {
		config[name] = tfvalue.Null(a.GetType())
	}
	return config
}

func TestKnownConfigurationIsKnown(t *testing.T) {
	c, errs := cascades.Computed(known(nil), nil)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, name := range unknown(cascades, c) {
		t.Errorf("%s is not fully known: %s", name, c[name])
	}
	if got := c["max_delay"]; !got.Equal(tfvalue.DurationValue(15 * time.Second)) {
		t.Errorf("max_delay is %s", got)
	}
	if got := c["entry_exchange"]; !got.Equal(types.StringValue("t.delay-03")) {
		t.Errorf("entry_exchange is %s", got)
	}
}

// object is a value of queue_arguments with one argument.
func object(name string, value attr.Value) types.Dynamic {
	return types.DynamicValue(types.ObjectValueMust(map[string]attr.Type{name: value.Type(context.Background())},
		map[string]attr.Value{name: value}))
}

// Only what depends on the unknown value is unknown.
func TestUnknownValues(t *testing.T) {
	tests := map[string]struct {
		set     attribute.Values
		unknown []string
	}{
		"vhost": {attribute.Values{"vhost": types.StringUnknown()}, nil},
		"name": {attribute.Values{"name": types.StringUnknown()},
			[]string{"entry_exchange", "exchange_name", "queue_name", "delivery_exchange", "exchanges", "queues",
				"bindings", "publisher", "policies"}},
		"name beside a name of the entry": {attribute.Values{"name": types.StringUnknown(),
			"exchange_name": types.StringValue("x%d"), "queue_name": types.StringValue("q%d")},
			[]string{"delivery_exchange", "exchanges", "queues", "bindings", "publisher", "policies"}},
		"base": {attribute.Values{"base": types.Int64Unknown()}, []string{"base", "units", "max_delay", "publisher",
			"queue_name", "queues", "bindings", "summary"}},
		"base and queue_name": {attribute.Values{"base": types.Int64Unknown(), "queue_name": types.StringUnknown()},
			[]string{"base", "units", "max_delay", "publisher", "queue_name", "queues", "bindings", "summary"}},
		"levels": {attribute.Values{"levels": types.Int64Unknown()}, []string{"base", "levels", "resolution", "units",
			"max_delay", "lookahead", "entry_exchange", "exchange_name", "queue_name", "exchanges", "queues",
			"bindings", "publisher", "summary"}},
		"levels beside a base": {attribute.Values{"levels": types.Int64Unknown(), "base": types.Int64Value(2)},
			[]string{"levels", "max_delay", "lookahead", "entry_exchange", "exchanges", "queues", "bindings",
				"publisher", "summary", "units"}},
		"max_delay": {attribute.Values{"levels": types.Int64Null(), "max_delay": unknownDuration},
			[]string{"max_delay", "queues", "bindings", "publisher", "summary"}},
		"max_delay beside a base": {attribute.Values{"levels": types.Int64Null(), "base": types.Int64Value(2),
			"max_delay": unknownDuration}, []string{"levels", "max_delay", "lookahead", "entry_exchange",
			"exchanges", "queues", "bindings", "publisher", "summary", "units"}},
		"units": {attribute.Values{"levels": types.Int64Null(), "units": types.ListUnknown(tfvalue.DurationType{})},
			[]string{"units", "lookahead", "entry_exchange", "exchanges", "queues", "bindings", "publisher",
				"summary"}},
		"resolution": {attribute.Values{"resolution": unknownDuration},
			[]string{"resolution", "units", "max_delay", "publisher", "queues", "bindings", "summary"}},
		"exchange_name": {attribute.Values{"exchange_name": types.StringUnknown()},
			[]string{"entry_exchange", "exchange_name", "exchanges", "publisher", "queues", "bindings"}},
		"queue_name": {attribute.Values{"queue_name": types.StringUnknown()},
			[]string{"queue_name", "queues", "bindings"}},
		"delivery_exchange": {attribute.Values{"delivery_exchange": types.StringUnknown()},
			[]string{"delivery_exchange", "exchanges", "queues", "bindings"}},
		"delivery_exchange without a name": {attribute.Values{"name": types.StringNull(),
			"exchange_name": types.StringValue("x%d"), "queue_name": types.StringValue("q%d"),
			"park_unroutable": types.BoolValue(false), "delivery_exchange": types.StringUnknown()},
			[]string{"delivery_exchange", "exchanges", "queues", "bindings"}},
		"queue_type beside an argument of one type": {attribute.Values{"queue_type": types.StringUnknown(),
			"queue_arguments": object("x-queue-mode", types.StringValue("lazy"))}, []string{"queue_type", "queues"}},
		"create_delivery_exchange": {attribute.Values{"create_delivery_exchange": types.BoolUnknown()},
			[]string{"exchanges", "summary", "policies", "delivery_exchange_type"}},
		"queue_type": {attribute.Values{"queue_type": types.StringUnknown()},
			[]string{"queue_type", "queue_arguments", "queues"}}, // of the queues, that of unroutable messages
		"max_length": {attribute.Values{"max_length": types.Int64Unknown()}, []string{"queues"}},
		"queue_arguments": {attribute.Values{"queue_arguments": types.DynamicUnknown()},
			[]string{"queue_arguments", "queues"}},
		"one of the queue_arguments": {attribute.Values{"queue_arguments": object("x-expires", types.NumberUnknown())},
			[]string{"queue_arguments", "queues"}},
		"queue_leader_locator": {attribute.Values{"queue_leader_locator": types.StringUnknown()},
			[]string{"queues"}},
		"quorum_initial_group_size": {attribute.Values{"quorum_initial_group_size": types.Int64Unknown()},
			[]string{"queues"}},
		"lookahead": {attribute.Values{"lookahead": types.Int64Unknown()},
			[]string{"lookahead", "bindings", "summary"}},
		"strict_keys": {attribute.Values{"strict_keys": types.BoolUnknown()},
			[]string{"strict_keys", "bindings"}},
		"internal_levels": {attribute.Values{"internal_levels": types.BoolUnknown()}, []string{"exchanges"}},
		"park_unroutable": {attribute.Values{"park_unroutable": types.BoolUnknown()},
			[]string{"park_unroutable", "exchanges", "queues", "bindings", "summary", "policies"}},
		"preset": {attribute.Values{"preset": types.StringUnknown(), "levels": types.Int64Null()},
			[]string{"base", "bindings", "delivery_exchange", "entry_exchange", "exchange_name", "exchanges", "levels",
				"lookahead", "max_delay", "park_unroutable", "policies", "publisher", "queue_arguments", "queue_name",
				"queue_type", "queues", "resolution", "strict_keys", "summary", "units"}},
		"max_delay beside units that do not reach the default": {attribute.Values{"levels": types.Int64Null(),
			"units":     types.ListValueMust(tfvalue.DurationType{}, []attr.Value{tfvalue.DurationValue(time.Minute)}),
			"max_delay": unknownDuration},
			[]string{"bindings", "max_delay", "publisher", "queues", "summary"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			plan := known(test.set)
			if errs := cascades.SetComputed(plan, maps.Clone(plan), nil); len(errs) > 0 {
				t.Fatal(errs)
			}
			slices.Sort(test.unknown)
			if got := unknown(cascades, plan); !slices.Equal(got, test.unknown) {
				t.Errorf("unknown: %v, want %v", got, test.unknown)
			}
		})
	}
}

// An error that goes by known values alone is reported at once; others wait.
func TestChecksOfUnknownValues(t *testing.T) {
	tests := map[string]struct {
		set  attribute.Values
		want []string
	}{
		"bad format beside an unknown name": {
			attribute.Values{"name": types.StringUnknown(), "queue_name": types.StringValue("q")}, nil,
		},
		"bad format beside an unknown vhost": {
			attribute.Values{"vhost": types.StringUnknown(), "queue_name": types.StringValue("q")},
			[]string{"queue_name"},
		},
		"a format of the uniform form beside unknown levels": {
			attribute.Values{"levels": types.Int64Unknown(), "exchange_name": types.StringValue("x%d")}, nil,
		},
		"a format of units beside unknown units": {
			attribute.Values{"levels": types.Int64Null(), "units": types.ListUnknown(tfvalue.DurationType{}),
				"exchange_name": types.StringValue("x%s")}, nil,
		},
		"one unknown unit beside levels": {
			attribute.Values{"units": types.ListValueMust(tfvalue.DurationType{}, []attr.Value{
				tfvalue.DurationValue(8 * time.Second), unknownDuration,
				tfvalue.DurationValue(2 * time.Second), tfvalue.DurationValue(time.Second)})}, nil,
		},
		"lookahead beside unknown levels": {
			attribute.Values{"levels": types.Int64Unknown(), "lookahead": types.Int64Value(30)}, nil,
		},
		"impossible lookahead beside unknown levels": {
			attribute.Values{"levels": types.Int64Unknown(), "lookahead": types.Int64Value(40)}, nil,
		},
		"levels and an unknown max_delay": {
			attribute.Values{"max_delay": unknownDuration}, nil,
		},
		"too many levels beside an unknown name": {
			attribute.Values{"name": types.StringUnknown(), "levels": types.Int64Value(30)}, []string{"levels"},
		},
		"many levels beside an unknown resolution": {
			attribute.Values{"resolution": unknownDuration, "levels": types.Int64Value(35)}, nil,
		},
		"too many levels for any resolution": {
			attribute.Values{"resolution": unknownDuration, "levels": types.Int64Value(40)}, nil,
		},
		"an argument of its own beside unknown ones": {
			attribute.Values{"queue_type": types.StringUnknown(),
				"queue_arguments": object("x-message-ttl", types.Int64Value(5))}, nil,
		},
		"an argument of one type beside an unknown queue_type": {
			attribute.Values{"queue_type": types.StringUnknown(),
				"queue_arguments": object("x-queue-mode", types.StringValue("lazy"))}, nil,
		},
		"max_length beside an unknown queue_type": {
			attribute.Values{"queue_type": types.StringUnknown(), "max_length": types.Int64Value(5)}, nil,
		},
		"missing levels beside an unknown resolution": {
			attribute.Values{"resolution": unknownDuration, "base": types.Int64Value(2),
				"levels": types.Int64Null()}, nil,
		},
		"an unknown resolution alone": { // which may be null
			attribute.Values{"resolution": unknownDuration, "levels": types.Int64Null()}, nil,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, errs := cascades.Computed(known(test.set), nil)
			var got []string
			for _, e := range errs {
				got = append(got, e.Attribute)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("errors on %v, want %v", got, test.want)
			}
		})
	}
}

// unknown are the computed attributes that are not fully known.
func unknown[C any](k *kind[C], c attribute.Values) (names []string) {
	for _, a := range k.Attributes {
		if (a.Decided || a.Show != nil) && (c[a.Name] == nil || !tfvalue.IsFullyKnown(c[a.Name])) {
			names = append(names, a.Name)
		}
	}
	slices.Sort(names)
	return names
}

func elements(value attr.Value) map[string]attr.Value {
	of, _ := value.(types.Map)
	return of.Elements()
}

// BenchmarkExpand is what it takes to work out all computed values of 28 levels with full lookahead.
func BenchmarkExpand(b *testing.B) {
	config := known(attribute.Values{"levels": types.Int64Value(28)})
	for b.Loop() {
		if _, errs := cascades.Computed(config, nil); len(errs) > 0 {
			b.Fatal(errs)
		}
	}
}

// With another exchange than the entry, the messages of a publisher would arrive at once.
func TestPublisherHasTheEntry(t *testing.T) {
	none, minutes := types.Int64Null(), types.ListValueMust(tfvalue.DurationType{},
		[]attr.Value{tfvalue.DurationValue(time.Minute)})
	for entry, given := range map[string]attribute.Values{
		"t.d.h.m.s": {"levels": none}, "t.delay-03": nil,
		"t.m":        {"levels": none, "units": minutes, "max_delay": tfvalue.DurationValue(time.Minute)},
		"t.delay-01": {"levels": types.Int64Value(2), "base": types.Int64Value(10)},
		"nsb.v2.delay-level-27": {"levels": none, "name": types.StringNull(),
			"preset": types.StringValue("nservicebus")},
	} {
		c, errs := cascades.Computed(known(given), nil)
		publisher, is := c["publisher"].(types.Object)
		if len(errs) > 0 || !is || !publisher.Attributes()["entry_exchange"].Equal(types.StringValue(entry)) {
			t.Errorf("the publisher for entry %q has %s (%v)", entry, publisher, errs)
		}
	}
}

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
				"bindings", "publisher"}},
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
		"max_delay": {attribute.Values{"levels": types.Int64Null(), "max_delay": tfvalue.DurationUnknown()},
			[]string{"max_delay", "queues", "bindings", "publisher", "summary"}},
		"max_delay beside a base": {attribute.Values{"levels": types.Int64Null(), "base": types.Int64Value(2),
			"max_delay": tfvalue.DurationUnknown()}, []string{"levels", "max_delay", "lookahead", "entry_exchange",
			"exchanges", "queues", "bindings", "publisher", "summary", "units"}},
		"units": {attribute.Values{"levels": types.Int64Null(), "units": types.ListUnknown(tfvalue.DurationType{})},
			[]string{"units", "lookahead", "entry_exchange", "exchanges", "queues", "bindings", "publisher",
				"summary"}},
		// The names of the queues are known; their TTL is not.
		"resolution": {attribute.Values{"resolution": tfvalue.DurationUnknown()},
			[]string{"resolution", "units", "max_delay", "publisher", "queues", "summary"}},
		"exchange_name": {attribute.Values{"exchange_name": types.StringUnknown()},
			[]string{"entry_exchange", "exchange_name", "exchanges", "publisher", "queues", "bindings"}},
		"queue_name": {attribute.Values{"queue_name": types.StringUnknown()},
			[]string{"queue_name", "queues", "bindings"}},
		"delivery_exchange": {attribute.Values{"delivery_exchange": types.StringUnknown()},
			[]string{"delivery_exchange", "exchanges", "queues", "bindings"}},
		"create_delivery_exchange": {attribute.Values{"create_delivery_exchange": types.BoolUnknown()},
			[]string{"exchanges", "summary"}},
		"queue_type": {attribute.Values{"queue_type": types.StringUnknown()},
			[]string{"queue_type", "queue_arguments", "queues"}}, // of the queues, that of unroutable messages
		"max_length":      {attribute.Values{"max_length": types.Int64Unknown()}, nil},
		"queue_arguments": {attribute.Values{"queue_arguments": types.DynamicUnknown()}, []string{"queue_arguments"}},
		"one of the queue_arguments": {attribute.Values{"queue_arguments": object("x-expires", types.NumberUnknown())},
			[]string{"queue_arguments"}},
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
			[]string{"park_unroutable", "exchanges", "queues", "bindings", "summary"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c, errs := cascades.Computed(known(test.set), nil)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			slices.Sort(test.unknown)
			if got := unknown(cascades, c); !slices.Equal(got, test.unknown) {
				t.Errorf("unknown: %v, want %v", got, test.unknown)
			}
		})
	}
}

// The delivery exchange is unknown, and the cascade does not create it. Only the lowest level's dead-letter exchange
// and the bindings that lead to it are unknown.
func TestKnownElementsOfUnknownValues(t *testing.T) {
	c, errs := cascades.Computed(known(attribute.Values{"delivery_exchange": types.StringUnknown(),
		"create_delivery_exchange": types.BoolValue(false), "lookahead": types.Int64Value(1)}), nil)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if !tfvalue.IsFullyKnown(c["exchanges"]) {
		t.Errorf("exchanges: %s", c["exchanges"])
	}
	for name, queue := range elements(c["queues"]) {
		if want := name == "t.delay-00"; tfvalue.IsFullyKnown(queue) == want {
			t.Errorf("queue %s: %s", name, queue)
		}
	}
	for source, lines := range elements(c["bindings"]) {
		if want := source == "t.delay-00"; tfvalue.IsFullyKnown(lines) == want {
			t.Errorf("bindings of %s: %s", source, lines)
		}
	}
}

// An error that no unknown value would mend is reported at once; others wait.
func TestChecksOfUnknownValues(t *testing.T) {
	tests := map[string]struct {
		set  attribute.Values
		want []string
	}{
		"bad format beside an unknown name": {
			attribute.Values{"name": types.StringUnknown(), "queue_name": types.StringValue("q")},
			[]string{"queue_name"},
		},
		"lookahead beside unknown levels": {
			attribute.Values{"levels": types.Int64Unknown(), "lookahead": types.Int64Value(30)}, nil,
		},
		"impossible lookahead beside unknown levels": {
			attribute.Values{"levels": types.Int64Unknown(), "lookahead": types.Int64Value(40)}, nil,
		},
		"levels and an unknown max_delay": {
			attribute.Values{"max_delay": tfvalue.DurationUnknown()}, nil,
		},
		"too many levels beside an unknown name": {
			attribute.Values{"name": types.StringUnknown(), "levels": types.Int64Value(30)}, []string{"levels"},
		},
		"many levels beside an unknown resolution": {
			attribute.Values{"resolution": tfvalue.DurationUnknown(), "levels": types.Int64Value(35)}, nil,
		},
		"too many levels for any resolution": {
			attribute.Values{"resolution": tfvalue.DurationUnknown(), "levels": types.Int64Value(40)},
			[]string{"levels"},
		},
		"an argument of its own beside unknown ones": {
			attribute.Values{"queue_type": types.StringUnknown(),
				"queue_arguments": object("x-message-ttl", types.Int64Value(5))}, []string{"queue_arguments"},
		},
		"an argument of one type beside an unknown queue_type": {
			attribute.Values{"queue_type": types.StringUnknown(),
				"queue_arguments": object("x-queue-mode", types.StringValue("lazy"))}, nil,
		},
		"max_length beside an unknown queue_type": {
			attribute.Values{"queue_type": types.StringUnknown(), "max_length": types.Int64Value(5)}, nil,
		},
		"missing levels beside an unknown resolution": {
			attribute.Values{"resolution": tfvalue.DurationUnknown(), "base": types.Int64Value(2),
				"levels": types.Int64Null()}, []string{"levels"},
		},
		"an unknown resolution alone": { // which may be null
			attribute.Values{"resolution": tfvalue.DurationUnknown(), "levels": types.Int64Null()}, nil,
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

// Where only one of the values will do, nothing else is unknown.
func TestOnlyOneValueWillDo(t *testing.T) {
	for name, config := range map[string]attribute.Values{
		"queue_type": known(attribute.Values{"queue_type": types.StringUnknown(), "max_length": types.Int64Value(5)}),
		"base":       known(attribute.Values{"base": types.Int64Unknown(), "queue_name": types.StringValue("t.%d")}),
		"lookahead":  known(attribute.Values{"lookahead": types.Int64Unknown(), "levels": types.Int64Value(1)}),
		"strict_keys": known(attribute.Values{"strict_keys": types.BoolUnknown(), "preset": types.StringValue("celery"),
			"name": types.StringNull(), "levels": types.Int64Null()}),
	} {
		c, errs := cascades.Computed(config, nil)
		if got := unknown(cascades, c); len(errs) > 0 || len(got) > 0 {
			t.Errorf("%s: unknown are %q %v", name, got, errs)
		}
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

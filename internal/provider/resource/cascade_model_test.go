package resource

import (
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
)

// known is a model like that of a configuration of three lines.
func known() cascadeModel {
	return cascadeModel{
		declaredModel: declaredModel{Name: types.StringValue("t")}, Levels: types.Int64Value(4),
	}
}

func TestForecastOfKnownConfigurationIsKnown(t *testing.T) {
	c, errs := known().forecast(t.Context())
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for name, value := range c {
		if name != "delivery_exchange_type" && unknownWithin(value) {
			t.Errorf("%s is not fully known: %s", name, value)
		}
	}
	if got := c["max_delay"]; !got.Equal(tfvalue.DurationValue(15 * time.Second)) {
		t.Errorf("max_delay is %s", got)
	}
	if got := c["entry_exchange"]; !got.Equal(types.StringValue("t.delay-03")) {
		t.Errorf("entry_exchange is %s", got)
	}
}

// Only what depends on the unknown value is unknown.
func TestForecastOfUnknownValues(t *testing.T) {
	tests := map[string]struct {
		set     func(*cascadeModel)
		unknown []string
	}{
		"vhost": {func(m *cascadeModel) { m.Vhost = types.StringUnknown() }, nil},
		"name": {func(m *cascadeModel) { m.Name = types.StringUnknown() },
			[]string{"entry_exchange", "exchange_name", "queue_name", "delivery_exchange", "exchanges", "queues",
				"bindings", "publisher"}},
		"base": {func(m *cascadeModel) { m.Base = types.Int64Unknown() }, []string{"base", "max_delay", "publisher",
			"queue_name", "queues", "bindings", "summary"}},
		"base and queue_name": {func(m *cascadeModel) {
			m.Base, m.QueueName = types.Int64Unknown(), types.StringUnknown()
		}, []string{"base", "max_delay", "publisher", "queue_name", "queues", "bindings", "summary"}},
		"levels": {func(m *cascadeModel) { m.Levels = types.Int64Unknown() }, []string{"levels", "max_delay",
			"lookahead", "entry_exchange", "exchanges", "queues", "bindings", "publisher", "summary"}},
		"max_delay": {func(
			m *cascadeModel) {
			m.Levels = types.Int64Null()
			m.MaxDelay = timetypes.NewGoDurationUnknown()
		},
			[]string{"levels", "max_delay", "lookahead", "entry_exchange", "exchanges", "queues", "bindings",
				"publisher", "summary"}},
		// The names of the queues are known; their TTL is not.
		"resolution": {func(m *cascadeModel) { m.Resolution = timetypes.NewGoDurationUnknown() },
			[]string{"resolution", "max_delay", "publisher", "queues", "summary"}},
		"exchange_name": {func(m *cascadeModel) { m.ExchangeName = types.StringUnknown() },
			[]string{"entry_exchange", "exchange_name", "exchanges", "publisher", "queues", "bindings"}},
		"queue_name": {func(m *cascadeModel) { m.QueueName = types.StringUnknown() },
			[]string{"queue_name", "queues", "bindings"}},
		"delivery_exchange": {func(m *cascadeModel) { m.DeliveryExchange = types.StringUnknown() },
			[]string{"delivery_exchange", "exchanges", "queues", "bindings"}},
		"create_delivery_exchange": {func(m *cascadeModel) { m.CreateDeliveryExchange = types.BoolUnknown() },
			[]string{"exchanges", "summary"}},
		"queue_type": {func(m *cascadeModel) { m.QueueType = types.StringUnknown() },
			[]string{"queue_type", "queue_arguments", "queues"}}, // of the queues, that of unroutable messages
		"max_length": {func(m *cascadeModel) { m.MaxLength = types.Int64Unknown() }, []string{"queue_arguments"}},
		"queue_leader_locator": {func(m *cascadeModel) { m.QueueLeaderLocator = types.StringUnknown() },
			[]string{"queue_arguments", "queues"}},
		"quorum_initial_group_size": {func(m *cascadeModel) { m.QuorumInitialGroupSize = types.Int64Unknown() },
			[]string{"queue_arguments", "queues"}},
		"lookahead": {func(m *cascadeModel) { m.Lookahead = types.Int64Unknown() },
			[]string{"lookahead", "bindings", "summary"}},
		"strict_keys": {func(m *cascadeModel) { m.StrictKeys = types.BoolUnknown() },
			[]string{"strict_keys", "bindings"}},
		"internal_levels": {func(m *cascadeModel) { m.InternalLevels = types.BoolUnknown() }, []string{
			"internal_levels", "exchanges",
		}},
		"park_unroutable": {func(m *cascadeModel) { m.ParkUnroutable = types.BoolUnknown() },
			[]string{"park_unroutable", "exchanges", "queues", "bindings", "summary"}},
	}
	for attribute, test := range tests {
		t.Run(attribute, func(t *testing.T) {
			m := known()
			test.set(&m)
			c, errs := m.forecast(t.Context())
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			var unknown []string
			for name, value := range c {
				if name != "delivery_exchange_type" && unknownWithin(value) {
					unknown = append(unknown, name)
				}
			}
			slices.Sort(unknown)
			slices.Sort(test.unknown)
			if !slices.Equal(unknown, test.unknown) {
				t.Errorf("unknown: %v, want %v", unknown, test.unknown)
			}
		})
	}
}

// The delivery exchange is unknown, and the cascade does not create it. Only the lowest level's dead-letter exchange
// and the bindings that lead to it are unknown.
func TestForecastKeepsKnownElements(t *testing.T) {
	m := known()
	m.DeliveryExchange = types.StringUnknown()
	m.CreateDeliveryExchange = types.BoolValue(false)
	m.Lookahead = types.Int64Value(1)
	c, errs := m.forecast(t.Context())
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if unknownWithin(c["exchanges"]) {
		t.Errorf("exchanges: %s", c["exchanges"])
	}
	for name, queue := range elements(c["queues"]) {
		if want := name == "t.delay-00"; unknownWithin(queue) != want {
			t.Errorf("queue %s: %s", name, queue)
		}
	}
	for source, lines := range elements(c["bindings"]) {
		if want := source == "t.delay-00"; unknownWithin(lines) != want {
			t.Errorf("bindings of %s: %s", source, lines)
		}
	}
}

// An error that no unknown value would mend is reported at once; others wait.
func TestForecastDefersChecks(t *testing.T) {
	tests := map[string]struct {
		set  func(*cascadeModel)
		want []string
	}{
		"bad format beside an unknown name": {func(
			m *cascadeModel) {
			m.Name = types.StringUnknown()
			m.QueueName = types.StringValue("q")
		},
			[]string{"queue_name"}},
		"lookahead beside unknown levels": {func(
			m *cascadeModel) {
			m.Levels = types.Int64Unknown()
			m.Lookahead = types.Int64Value(30)
		}, nil},
		"impossible lookahead beside unknown levels": {func(
			m *cascadeModel) {
			m.Levels = types.Int64Unknown()
			m.Lookahead = types.Int64Value(40)
		}, nil},
		"levels and an unknown max_delay": {func(
			m *cascadeModel) {
			m.MaxDelay = timetypes.NewGoDurationUnknown()
		}, nil},
		"too many levels beside an unknown name": {func(
			m *cascadeModel) {
			m.Name = types.StringUnknown()
			m.Levels = types.Int64Value(30)
		}, []string{"levels"}},
		"many levels beside an unknown resolution": {func(m *cascadeModel) {
			m.Resolution = timetypes.NewGoDurationUnknown()
			m.Levels = types.Int64Value(35)
		}, nil},
		"too many levels for any resolution": {func(m *cascadeModel) {
			m.Resolution = timetypes.NewGoDurationUnknown()
			m.Levels = types.Int64Value(40)
		}, []string{"levels"}},
		"max_length beside an unknown queue_type": {func(
			m *cascadeModel) {
			m.QueueType = types.StringUnknown()
			m.MaxLength = types.Int64Value(5)
		}, nil},
		"missing levels beside an unknown resolution": {func(
			m *cascadeModel) {
			m.Resolution = timetypes.NewGoDurationUnknown()
			m.Levels = types.Int64Null()
		},
			[]string{"levels"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := known()
			test.set(&m)
			_, errs := m.forecast(t.Context())
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

func elements(value attr.Value) map[string]attr.Value {
	of, _ := value.(types.Map)
	return of.Elements()
}

func unknownWithin(value attr.Value) bool {
	if value.IsUnknown() {
		return true
	}
	var inner map[string]attr.Value
	switch v := value.(type) {
	case types.Map:
		inner = v.Elements()
	case types.Object:
		inner = v.Attributes()
	case types.List:
		for _, element := range v.Elements() {
			if unknownWithin(element) {
				return true
			}
		}
	}
	for _, element := range inner {
		if unknownWithin(element) {
			return true
		}
	}
	return false
}

// BenchmarkExpand is what it takes to work out all computed values of 28 levels with full lookahead.
func BenchmarkExpand(b *testing.B) {
	for b.Loop() {
		resolved, err := delay.Config{Vhost: "/", Name: "t", Levels: 28, CreateDeliveryExchange: true,
			StrictKeys: true, InternalLevels: true, ParkUnroutable: true}.Resolve()
		if err != nil {
			b.Fatal(err)
		}
		compute(resolved)
	}
}

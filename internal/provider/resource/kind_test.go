package resource

import (
	"context"
	"maps"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay/delaytest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/attribute"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// A usual value is null. A value that was unusual once is planned and read with its value from then on.
func TestUsualIsNull(t *testing.T) {
	resolved, err := delay.Config{Name: "tasks", Vhost: "/", Levels: 2, QueueType: delay.Quorum,
		CreateDeliveryExchange: true, ParkUnroutable: true}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	d := tfvalue.OfCascade(resolved)
	desired := d.Queues(d.Desired, nil)
	const queue = "tasks.delay-01"
	for _, name := range []string{"type", "durable", "auto_delete", "exclusive", "arguments"} {
		if value := at(desired, queue, name); !value.IsNull() {
			t.Errorf("%s is %s", name, value)
		}
	}
	if at(desired, "tasks.unroutable", "arguments").IsNull() {
		t.Error("the arguments of the queue of unroutable messages are in no attribute")
	}

	changed := d.Desired
	changed.Queues = maps.Clone(changed.Queues)
	changed.Queues[queue] = topology.Queue{Name: queue, Durable: true,
		Arguments: topology.Arguments{"x-message-ttl": int64(2000), "x-overflow": "drop-head"}}
	state := d.Queues(changed, desired)
	for name, want := range map[string]attr.Value{
		"type": types.StringValue("classic"), "durable": types.BoolNull(),
		"arguments": types.MapValueMust(types.StringType, map[string]attr.Value{
			"x-overflow": types.StringValue("drop-head")}),
	} {
		if got := at(state, queue, name); !got.Equal(want) {
			t.Errorf("of the changed queue, %s is %s", name, got)
		}
	}
	changed.Queues["tasks.delay-00"] = topology.Queue{Name: "tasks.delay-00", Durable: true}
	if got := at(d.Queues(changed, desired), "tasks.delay-00", "arguments"); got.IsNull() || len(elements(got)) > 0 {
		t.Errorf("a queue without arguments has %s", got)
	}
	plan := d.Queues(d.Desired, state)
	for name, want := range map[string]attr.Value{
		"type": types.StringValue("quorum"), "durable": types.BoolNull(), "arguments": d.QueueArguments(),
	} {
		if got := at(plan, queue, name); !got.Equal(want) {
			t.Errorf("the plan of its repair has %s %s", name, got)
		}
	}
	if repaired := d.Queues(d.Desired, plan); !repaired.Equal(plan) {
		t.Errorf("after the apply, the queues are\n%s, not\n%s", repaired, plan)
	}
}

// at is the value that a path of keys leads to.
func at(value attr.Value, keys ...string) attr.Value {
	for _, key := range keys {
		switch v := value.(type) {
		case types.Map:
			value = v.Elements()[key]
		case types.Object:
			value = v.Attributes()[key]
		default:
			return nil
		}
	}
	return value
}

// A statement about a configuration with unknown values holds for every value that these turn out to have.
func TestKnownIsTrue(t *testing.T) {
	t.Run("cascade", func(t *testing.T) {
		knownIsTrue(t, cascades, rapid.Map(delaytest.AnyConfig(),
			func(c delay.Config) delay.Config { return configOf(delay.Cascade(c)) }))
	})
	t.Run("preset", func(t *testing.T) {
		knownIsTrue(t, cascades, rapid.Custom(func(t *rapid.T) delay.Config {
			c := delay.Config{Vhost: "/", Preset: rapid.SampledFrom(delay.Presets()).Draw(t, "preset"),
				Name:                   rapid.SampledFrom([]string{"", "t"}).Draw(t, "name"),
				CreateDeliveryExchange: rapid.Bool().Draw(t, "create delivery exchange"),
				ParkUnroutable:         rapid.Bool().Draw(t, "park unroutable")}
			if strings.HasPrefix(string(c.Preset), "celery") {
				c.Prefix = rapid.SampledFrom([]string{"", "tasks"}).Draw(t, "prefix")
			}
			return configOf(delaytest.Resolve(t, c))
		}))
	})
	t.Run("ladder", func(t *testing.T) { knownIsTrue(t, ladders, delaytest.AnyLadder()) })
	t.Run("ladder with keys", func(t *testing.T) { knownIsTrue(t, ladders, delaytest.AnyKeyedLadder()) })
}

func knownIsTrue[C any](t *testing.T, k *kind[C], configurations *rapid.Generator[C]) {
	rapid.Check(t, func(t *rapid.T) {
		c := configurations.Draw(t, "configuration")
		config := given(k, &c)
		leaveOut(t, k, config)
		want, errs := k.Computed(config, nil)
		if len(errs) > 0 {
			t.Skip("not valid")
		}
		for _, a := range k.Attributes {
			if a.Field != nil && rapid.IntRange(0, 4).Draw(t, a.Name) == 0 {
				config[a.Name] = tfvalue.Unknown(config[a.Name].Type(context.Background()))
			}
		}
		got, errs := k.Computed(config, nil)
		if len(errs) > 0 {
			t.Fatalf("errors of %v: %s", config, errs)
		}
		for name, value := range got {
			if config[name].IsNull() && !agrees(value, want[name]) {
				t.Errorf("%s is said to be %s, and is %s", name, value, want[name])
			}
		}
	})
}

// altering are the attributes that alter objects between two valid plans.
func altering[C any](t *testing.T, k *kind[C], state, plan attribute.Values) path.Paths {
	t.Helper()
	before, diags := k.known(state)
	after, more := k.known(plan)
	if diags.HasError() || more.HasError() {
		t.Fatal(diags, more)
	}
	return k.alteredBy(state, plan, before, after)
}

// leaveOut leaves some of the values to the provider.
func leaveOut[C any](t *rapid.T, k *kind[C], config attribute.Values) {
	for _, a := range k.Attributes {
		if a.Decided && rapid.IntRange(0, 2).Draw(t, a.Name+" is left out") == 0 {
			config[a.Name] = tfvalue.Null(config[a.Name].Type(context.Background()))
		}
	}
}

// given is the configuration that gives a C.
func given[C any](k *kind[C], c *C) attribute.Values {
	config := nothing(k)
	maps.Copy(config, k.Values(c))
	for name, value := range config {
		if text, ok := value.(tfvalue.Duration); ok && tfvalue.DurationOf(text) == 0 {
			config[name] = tfvalue.Duration{}
		}
	}
	return config
}

// agrees tells whether the known parts of a value are as they turn out to be.
func agrees(said, is attr.Value) bool {
	if said.IsUnknown() || said.Equal(is) {
		return true
	}
	saidElements, isElements := parts(said), parts(is)
	return len(saidElements) > 0 && maps.EqualFunc(saidElements, isElements, agrees)
}

func parts(value attr.Value) map[string]attr.Value {
	switch v := value.(type) {
	case types.Map:
		return v.Elements()
	case types.Object:
		return v.Attributes()
	}
	return nil
}

package resource

import (
	"maps"
	"slices"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/attribute"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
)

// keyed is the plan of a ladder with these attributes.
func keyed(t *testing.T, config attribute.Values) attribute.Values {
	t.Helper()
	all := nothing(ladders)
	all["name"], all["entry_exchange_type"] = types.StringValue("t"), types.StringValue("topic")
	maps.Copy(all, config)
	plan := maps.Clone(all)
	if errs := ladders.SetComputed(plan, all, nil); len(errs) > 0 {
		t.Fatal(errs)
	}
	return plan
}

func textList(texts ...string) attr.Value {
	values := make([]attr.Value, len(texts))
	for i, text := range texts {
		values[i] = types.StringValue(text)
	}
	return types.ListValueMust(types.StringType, values)
}

// Keys change in place, unless a message would meet an old way and a new one. A delay comes and goes with its key and
// its name.
func TestChangesOfKeys(t *testing.T) {
	ab, ba := map[string]string{"5s": "a", "1m": "b"}, map[string]string{"5s": "b", "1m": "a"}
	abc := map[string]string{"5s": "a", "1m": "b", "1h": "c"}
	two, three := textList("5s", "1m"), textList("5s", "1m", "1h")
	for name, test := range map[string]struct {
		before, after attribute.Values
		rebuilds      bool
	}{
		"keys": {attribute.Values{"delays": two},
			attribute.Values{"delays": two, "binding_keys": tfvalue.TextsByKey(ab)}, false},
		"keys change places": {attribute.Values{"delays": two, "binding_keys": tfvalue.TextsByKey(ab)},
			attribute.Values{"delays": two, "binding_keys": tfvalue.TextsByKey(ba)}, true},
		"a delay is added": {attribute.Values{"delays": two, "binding_keys": tfvalue.TextsByKey(ab),
			"queue_names": tfvalue.TextsByKey(ab)}, attribute.Values{"delays": three,
			"binding_keys": tfvalue.TextsByKey(abc), "queue_names": tfvalue.TextsByKey(abc)}, false},
		"a delay is removed": {attribute.Values{"delays": three, "binding_keys": tfvalue.TextsByKey(abc)},
			attribute.Values{"delays": two, "binding_keys": tfvalue.TextsByKey(ab)}, false},
		"queues get other names": {attribute.Values{"delays": two, "queue_names": tfvalue.TextsByKey(ab)},
			attribute.Values{"delays": two, "queue_names": tfvalue.TextsByKey(map[string]string{"5s": "a", "1m": "c"})},
			true},
		"names in place of a format": {attribute.Values{"delays": two},
			attribute.Values{"delays": two, "queue_names": tfvalue.TextsByKey(ab)}, true},
		"the same names": {attribute.Values{"delays": two}, attribute.Values{"delays": two,
			"queue_names": tfvalue.TextsByKey(map[string]string{"5s": "t.delay-5s", "1m": "t.delay-1m"})}, false},
		"the type of the entry": {attribute.Values{"delays": two, "binding_keys": tfvalue.TextsByKey(ab)},
			attribute.Values{"delays": two, "binding_keys": tfvalue.TextsByKey(ab),
				"entry_exchange_type": types.StringValue("direct")}, true},
	} {
		altered := altering(t, ladders, keyed(t, test.before), keyed(t, test.after))
		if len(altered) > 0 != test.rebuilds {
			t.Errorf("%s: altered by %s, want a rebuild %t", name, altered, test.rebuilds)
		}
	}
}

// Unknown keys leave names and queues as they are, and unknown delays and keys the entry.
func TestUnknownKeys(t *testing.T) {
	texts := types.MapType{ElemType: types.StringType}
	for name, test := range map[string]struct {
		config  attribute.Values
		unknown []string
	}{
		"delays": {attribute.Values{"delays": types.ListUnknown(types.StringType),
			"binding_keys": tfvalue.TextsByKey(map[string]string{"5s": "a", "1m": "b"})},
			[]string{"bindings", "publisher", "queues", "summary"}},
		"keys": {attribute.Values{"delays": textList("5s", "1m"), "binding_keys": tfvalue.Unknown(texts)},
			[]string{"bindings", "delivery_exchange_type", "levels", "publisher"}},
		"one of the keys": {attribute.Values{"delays": textList("5s", "1m"), "binding_keys": types.MapValueMust(
			types.StringType, map[string]attr.Value{"5s": types.StringUnknown(), "1m": types.StringUnknown()})},
			[]string{"bindings", "delivery_exchange_type", "levels", "publisher"}},
		"keys of a direct entry": {attribute.Values{"delays": textList("5s", "1m"),
			"binding_keys": tfvalue.Unknown(texts), "entry_exchange_type": types.StringValue("direct")},
			[]string{"bindings", "delivery_exchange_type", "levels", "publisher"}},
		"names": {attribute.Values{"delays": textList("5s", "1m"), "queue_names": tfvalue.Unknown(texts)},
			[]string{"bindings", "queue_name", "queues"}},
		"names beside a format": {attribute.Values{"delays": textList("5s", "1m"),
			"queue_name": types.StringValue("q-%s"), "queue_names": tfvalue.Unknown(texts)},
			[]string{"bindings", "queues"}},
	} {
		config := nothing(ladders)
		config["name"] = types.StringValue("t")
		maps.Copy(config, test.config)
		plan := maps.Clone(config)
		errs := ladders.SetComputed(plan, config, nil)
		if got := unknown(ladders, plan); len(errs) > 0 || !slices.Equal(got, test.unknown) {
			t.Errorf("%s: unknown are %q, want %q %v", name, got, test.unknown, errs)
		}
	}
}

// New keys of a direct entry that look like patterns are a warning, once.
func TestLiteralKeys(t *testing.T) {
	ladder := func(kind, key string) attribute.Values {
		return keyed(t, attribute.Values{"delays": textList("5s"), "entry_exchange_type": types.StringValue(kind),
			"binding_keys": tfvalue.TextsByKey(map[string]string{"5s": key})})
	}
	for _, test := range []struct {
		state, plan attribute.Values
		warns       bool
	}{
		{nil, ladder("direct", "a.*"), true},
		{nil, ladder("direct", "#"), true},
		{nil, ladder("direct", "a*.b"), false},
		{nil, ladder("topic", "a.*"), false},
		{ladder("direct", "a.*"), ladder("direct", "a.*"), false},
		{ladder("topic", "a.*"), ladder("direct", "a.*"), true},
		{ladder("direct", "a"), ladder("direct", "a.*"), true},
	} {
		diags := warnLiteral(planning[delay.LadderConfig]{state: test.state, plan: test.plan})
		if warns := len(diags) > 0; warns != test.warns || diags.HasError() {
			t.Errorf("from %s to %s, the plan says %v", test.state["binding_keys"], test.plan["binding_keys"], diags)
		}
	}
}

// Who creates a delivery exchange cannot be said beside the queue that takes its place. An import writes true.
func TestDeliveryExchangeBesideAQueue(t *testing.T) {
	for value, refused := range map[types.Bool]bool{types.BoolNull(): false, types.BoolUnknown(): false,
		types.BoolValue(true): false, types.BoolValue(false): true} {
		config := nothing(ladders)
		config["create_delivery_exchange"] = value
		if errs := checkDeliversToQueue(config); len(errs) > 0 {
			t.Errorf("%s without a queue: %v", value, errs)
		}
		config["deliver_to_queue"] = types.StringValue("work")
		if errs := checkDeliversToQueue(config); (len(errs) > 0) != refused {
			t.Errorf("%s: %v", value, errs)
		}
	}
}

package provider

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/vmihailenco/msgpack/v5"
)

// What is packed and unpacked is what it was, to the byte, whatever it holds; and nothing but a text, null or unknown is left for the framework.
func TestPacking(t *testing.T) {
	t.Parallel()
	p := newServer(t)
	known := p.plan(t.Context(), attributes{"name": "t", "levels": 3}).state
	partly := p.plan(t.Context(), attributes{"name": "t", "levels": 3, "lookahead": tftypes.NewValue(tftypes.Number, tftypes.UnknownValue)}).state
	if partly.IsFullyKnown() || known.Equal(partly) {
		t.Fatal("nothing is unknown in the second plan")
	}
	for name, object := range map[string]tftypes.Value{
		"known": known, "partly known": partly, "without values": object(t, p.resource, nil),
		"null": tftypes.NewValue(p.resource, nil), "unknown": p.proposed(tftypes.NewValue(p.resource, nil), object(t, p.resource, nil)),
	} {
		before := dynamic(t, p.resource, object)
		value := before
		if err := pack(&value); err != nil {
			t.Fatalf("%s: %s", name, err)
		}
		if object.IsNull() {
			if value != before {
				t.Error("null was packed")
			}
			continue
		}
		framework := tftypes.Object{AttributeTypes: map[string]tftypes.Type{}}
		for attribute, typ := range p.resource.AttributeTypes {
			framework.AttributeTypes[attribute] = typ
		}
		for _, attribute := range packedAttributes {
			framework.AttributeTypes[attribute] = tftypes.String
		}
		if _, err := value.Unmarshal(framework); err != nil {
			t.Errorf("%s: the framework cannot read it: %s", name, err)
		}
		if err := unpack(&value); err != nil {
			t.Fatalf("%s: %s", name, err)
		}
		if !bytes.Equal(value.MsgPack, before.MsgPack) {
			t.Errorf("%s: other bytes came out than went in", name)
		}
	}
}

// What Terraform does not send is an error, and no panic.
func TestUnreadablePacking(t *testing.T) {
	t.Parallel()
	list, err := msgpack.Marshal([]string{"exchanges"})
	if err != nil {
		t.Fatal(err)
	}
	number, err := msgpack.Marshal(map[string]int{"queues": 1})
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]*tfprotov6.DynamicValue{
		"JSON": {JSON: []byte(`{}`)}, "a list": {MsgPack: list}, "an end": {MsgPack: number[:len(number)-1]}, "nothing": {MsgPack: []byte{}}, "no text": {MsgPack: number},
	} {
		if err := unpack(&value); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// What comes out of a state is what the framework makes of it, whoever wrote it.
func TestPackedState(t *testing.T) {
	t.Parallel()
	for typeName, configuration := range map[string]attributes{
		cascadeType: {"name": "t", "levels": 3},
		ladderType:  {"name": "t", "delays": textSet("5s", "1m")},
	} {
		p := newServerOf(t, typeName)
		packing, ok := p.server.(*server)
		if !ok {
			t.Fatalf("a server of type %T", p.server)
		}
		known := p.plan(t.Context(), configuration).state
		for name, alter := range map[string]func(state, queue map[string]any){
			"as it is":             func(map[string]any, map[string]any) {},
			"no values":            func(state, _ map[string]any) { state["queues"], state["bindings"] = nil, nil },
			"an attribute missing": func(state, _ map[string]any) { delete(state, "exchanges") },
			"less of a queue":      func(_, queue map[string]any) { delete(queue, "exclusive") },
			"more of a queue":      func(_, queue map[string]any) { queue["further"] = []int{1} },
			"a fraction":           func(_, queue map[string]any) { queue["message_ttl"] = 0.5 },
			"no queue":             func(state, _ map[string]any) { state["queues"] = map[string]any{"t": nil} },
			"a text as queue":      func(state, _ map[string]any) { state["queues"] = map[string]any{"t": "t"} },
			"a number as line":     func(state, _ map[string]any) { state["bindings"] = map[string]any{"t": []int{1}} },
			"a list as map":        func(state, _ map[string]any) { state["bindings"] = []string{"t"} },
		} {
			state := child(t, plain(t, known))
			queues := child(t, state["queues"])
			alter(state, child(t, queues[slices.Sorted(maps.Keys(queues))[0]]))
			text, err := json.Marshal(state)
			if err != nil {
				t.Fatal(err)
			}
			upgraded := func(server tfprotov6.ProviderServer) *tfprotov6.UpgradeResourceStateResponse {
				resp, err := server.UpgradeResourceState(t.Context(), &tfprotov6.UpgradeResourceStateRequest{TypeName: typeName, RawState: &tfprotov6.RawState{JSON: text}})
				if err != nil {
					t.Fatalf("%s, %s: %s", typeName, name, err)
				}
				return resp
			}
			ours, frameworks := upgraded(p.server), upgraded(packing.plain)
			switch {
			case !slices.EqualFunc(ours.Diagnostics, frameworks.Diagnostics, func(x, y *tfprotov6.Diagnostic) bool { return x.Detail == y.Detail }):
				t.Errorf("%s, %s: the framework says %v instead of %v", typeName, name, frameworks.Diagnostics, ours.Diagnostics)
			case len(ours.Diagnostics) == 0 && !p.value(ours.UpgradedState).Equal(p.value(frameworks.UpgradedState)):
				t.Errorf("%s, %s: the framework makes another state of it", typeName, name)
			case name == "as it is" && !p.value(ours.UpgradedState).Equal(known):
				t.Errorf("%s: it is not what it was", typeName)
			}
		}
	}
}

// child is an object in an object.
func child(t *testing.T, value any) map[string]any {
	t.Helper()
	object, ok := value.(map[string]any)
	if !ok {
		t.Fatalf("%v is no object", value)
	}
	return object
}

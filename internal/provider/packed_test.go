package provider

import (
	"bytes"
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

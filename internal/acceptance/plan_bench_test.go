package acceptance

import (
	"encoding/json"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// BenchmarkPlan is what the provider itself takes, without a broker, for 28 levels with full lookahead.
func BenchmarkPlan(b *testing.B) {
	p := newServer(b)
	configuration := attributes{"name": "t", "levels": 28}
	created := p.plan(b.Context(), configuration)
	noErrors(b, created.diagnostics)
	b.Run("schema", func(b *testing.B) {
		for b.Loop() {
			newServer(b)
		}
	})
	b.Run("validate", func(b *testing.B) { benchmarkValidate(b, p, configuration) })
	b.Run("read the state", func(b *testing.B) { benchmarkReadState(b, p, created.state) })
	b.Run("create", func(b *testing.B) {
		for b.Loop() {
			p.planOn(b.Context(), tftypes.NewValue(p.resource, nil), nil, created.config)
		}
	})
	b.Run("unchanged", func(b *testing.B) {
		for b.Loop() {
			p.planOn(b.Context(), created.state, nil, created.config)
		}
	})
}

func benchmarkValidate(b *testing.B, p *protocol, configuration attributes) {
	for b.Loop() {
		config := object(p.t, p.resource, configuration)
		_, err := p.server.ValidateResourceConfig(b.Context(),
			&tfprotov6.ValidateResourceConfigRequest{TypeName: p.typeName, Config: dynamic(p.t, p.resource,
				config)})
		if err != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkReadState(b *testing.B, p *protocol, created tftypes.Value) {
	state, err := json.Marshal(plain(b, created))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		_, err := p.server.UpgradeResourceState(b.Context(),
			&tfprotov6.UpgradeResourceStateRequest{TypeName: p.typeName, Version: p.version,
				RawState: &tfprotov6.RawState{JSON: state}})
		if err != nil {
			b.Fatal(err)
		}
	}
}

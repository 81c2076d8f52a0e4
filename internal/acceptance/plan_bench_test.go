package acceptance

import (
	"encoding/json"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
)

// BenchmarkPlan is what the provider itself takes, without a broker, for 28 levels with full lookahead.
func BenchmarkPlan(b *testing.B) {
	p := harness.NewServer(b)
	configuration := harness.Attributes{"name": "t", "levels": 28}
	created := p.Plan(b.Context(), configuration)
	harness.NoErrors(b, created.Diagnostics)
	b.Run("schema", func(b *testing.B) {
		for b.Loop() {
			harness.NewServer(b)
		}
	})
	b.Run("validate", func(b *testing.B) { benchmarkValidate(b, p, configuration) })
	b.Run("read the state", func(b *testing.B) { benchmarkReadState(b, p, created.State) })
	b.Run("create", func(b *testing.B) {
		for b.Loop() {
			p.PlanOn(b.Context(), tftypes.NewValue(p.Resource, nil), nil, created.Config)
		}
	})
	b.Run("unchanged", func(b *testing.B) {
		for b.Loop() {
			p.PlanOn(b.Context(), created.State, nil, created.Config)
		}
	})
}

func benchmarkValidate(b *testing.B, p *harness.Protocol, configuration harness.Attributes) {
	for b.Loop() {
		config := harness.NewObject(p.T, p.Resource, configuration)
		_, err := p.Server.ValidateResourceConfig(b.Context(),
			&tfprotov6.ValidateResourceConfigRequest{TypeName: p.TypeName, Config: harness.Dynamic(p.T, p.Resource,
				config)})
		if err != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkReadState(b *testing.B, p *harness.Protocol, created tftypes.Value) {
	state, err := json.Marshal(harness.Plain(b, created))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		_, err := p.Server.UpgradeResourceState(b.Context(),
			&tfprotov6.UpgradeResourceStateRequest{TypeName: p.TypeName, Version: p.Version,
				RawState: &tfprotov6.RawState{JSON: state}})
		if err != nil {
			b.Fatal(err)
		}
	}
}

package resource

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
)

// operationModel is the part of the model of every resource that says how operations go.
type operationModel struct {
	Adopt        types.Bool           `tfsdk:"adopt"`
	ForceDestroy types.Bool           `tfsdk:"force_destroy"`
	DrainTimeout timetypes.GoDuration `tfsdk:"drain_timeout"`
	Timeouts     timeouts.Value       `tfsdk:"timeouts"`
}

// defaultOperation is the part of an import.
func defaultOperation() operationModel {
	return operationModel{
		Adopt: types.BoolValue(false), ForceDestroy: types.BoolValue(false),
		Timeouts: timeouts.Value{Object: types.ObjectNull(map[string]attr.Type{"create": types.StringType,
			"read": types.StringType, "update": types.StringType, "delete": types.StringType})},
	}
}

// guard says what to do about messages that wait, or are on their way, before anything is taken away.
func (m *operationModel) guard() plan.Guard {
	return plan.Guard{Force: m.ForceDestroy.ValueBool(), Drain: tfvalue.DurationOf(m.DrainTimeout)}
}

func (m *operationModel) options() engine.Options {
	return engine.Options{Adopt: m.Adopt.ValueBool(), Guard: m.guard()}
}

// timeoutOf is one of the timeouts, with its value where it is not given.
type timeoutOf func(ctx context.Context, usual time.Duration) (time.Duration, diag.Diagnostics)

// checkDrainTimeout makes sure that each operation that waits has the time for it.
func (m *operationModel) checkDrainTimeout(ctx context.Context) diag.Diagnostics {
	return append(m.checkDrainFits(ctx, "delete", m.Timeouts.Delete),
		m.checkDrainFits(ctx, "update", m.Timeouts.Update)...)
}

func (m *operationModel) checkDrainFits(ctx context.Context, operation string, timeout timeoutOf) diag.Diagnostics {
	if !tfvalue.IsGiven(m.DrainTimeout) {
		return nil
	}
	drain := tfvalue.DurationOf(m.DrainTimeout)
	limit, diags := timeout(ctx, defaultWriteTimeout+drain)
	if limit <= drain && !diags.HasError() {
		diags.AddAttributeError(path.Root("drain_timeout"), "Invalid drain_timeout",
			fmt.Sprintf("drain_timeout is %s, which does not fit into timeouts.%s, %s. Make that longer, or "+
				"leave it out.",
				delay.DurationText(drain), operation, delay.DurationText(limit)))
	}
	return diags
}

// keep implements declaration for what every resource has.
func (m *operationModel) keep(state *operationModel) {
	keepDuration(&m.DrainTimeout, state.DrainTimeout)
	keepTimeouts(&m.Timeouts, state.Timeouts)
}

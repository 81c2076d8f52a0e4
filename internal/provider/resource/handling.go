package resource

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/connection"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
)

// handlingDocs describe the attributes that say how operations go.
type handlingDocs struct{ forceDestroy, drainTimeout string }

// handling are the attributes of every resource that say how operations go.
func handling[C any](docs handlingDocs) []attribute[C] {
	return []attribute[C]{
		{name: "force_destroy", schema: offByDefault(docs.forceDestroy), value: false},
		{name: "drain_timeout", check: checkDuration, schema: schema.StringAttribute{Optional: true,
			CustomType: tfvalue.DurationType{}, MarkdownDescription: docs.drainTimeout}},
		{name: "timeouts", schema: timeoutsAttribute(context.Background(), " plus `drain_timeout`")},
	}
}

func offByDefault(doc string) schema.Attribute {
	return schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(false),
		MarkdownDescription: doc}
}

// defaultWriteTimeout is how long an operation that writes may take unless the timeouts attribute says otherwise.
const defaultWriteTimeout = 10 * time.Minute

// timeoutsAttribute is the timeouts attribute. Drained says what comes on top of the default where a drain may be
// waited for.
func timeoutsAttribute(ctx context.Context, drained string) schema.Attribute {
	say := func(operation string, limit time.Duration, more string) string {
		return fmt.Sprintf("How long %s may take, such as `90s` or `1h30m`. Default: `%.0fm`%s.", operation,
			limit.Minutes(), more)
	}
	attribute, _ := timeouts.Attributes(ctx, timeouts.Opts{
		Create: true, CreateDescription: say("a create", defaultWriteTimeout, ""),
		Read: true, ReadDescription: say("a refresh", connection.DefaultReadTimeout, ""),
		Update: true, UpdateDescription: say("an update", defaultWriteTimeout, drained),
		Delete: true, DeleteDescription: say("a destroy", defaultWriteTimeout, drained) + " Has to be applied before " +
			"a destroy.",
	}).(schema.SingleNestedAttribute)
	for name, each := range attribute.Attributes {
		text, _ := each.(schema.StringAttribute)
		text.Validators = []validator.String{tfvalue.PositiveDuration{}}
		attribute.Attributes[name] = text
	}
	return attribute
}

func (v values) timeouts() timeouts.Value {
	given, _ := v["timeouts"].(timeouts.Value)
	return given
}

func (v values) writeTimeout(ctx context.Context, verb string) (time.Duration, diag.Diagnostics) {
	switch given, drain := v.timeouts(), v.options().Guard.Drain; verb {
	case "create":
		return given.Create(ctx, defaultWriteTimeout)
	case "update":
		return given.Update(ctx, defaultWriteTimeout+drain)
	default:
		return given.Delete(ctx, defaultWriteTimeout+drain)
	}
}

// options say how operations go, and what to do about messages that wait, or are on their way.
func (v values) options() engine.Options {
	return engine.Options{Adopt: v.isTrue("adopt"),
		Guard: plan.Guard{Force: v.isTrue("force_destroy"), Drain: durationIn(v["drain_timeout"])}}
}

// checkDrainTimeout makes sure that each operation that waits has the time for it.
func (v values) checkDrainTimeout(ctx context.Context) (diags diag.Diagnostics) {
	drain := v.options().Guard.Drain
	if !tfvalue.IsGiven(v["drain_timeout"]) {
		return nil
	}
	for _, operation := range []string{"delete", "update"} {
		limit, more := v.writeTimeout(ctx, operation)
		if limit <= drain && !more.HasError() {
			more.Append(diagnose.Invalid(path.Root("drain_timeout"), fmt.Errorf("drain_timeout is %s, which does not "+
				"fit into timeouts.%s, %s. Make that longer, or leave it out", delay.DurationText(drain), operation,
				delay.DurationText(limit))))
		}
		diags.Append(more...)
	}
	return diags
}

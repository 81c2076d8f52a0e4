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
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/attribute"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/connection"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
)

// handlingDocs describe the attributes that say how operations go.
type handlingDocs struct{ forceDestroy, drainTimeout string }

// handling are the attributes of every resource that say how operations go.
func handling[C any](docs handlingDocs) []attribute.Attribute[C] {
	return []attribute.Attribute[C]{
		{Name: "force_destroy", Schema: offByDefault(docs.forceDestroy), Default: false},
		{Name: "drain_timeout", Check: attribute.CheckDuration, Schema: schema.StringAttribute{Optional: true,
			CustomType: tfvalue.DurationType{}, MarkdownDescription: docs.drainTimeout}},
		{Name: "timeouts", Schema: timeoutsAttribute()},
	}
}

func offByDefault(doc string) schema.Attribute {
	return schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(false),
		MarkdownDescription: doc}
}

// defaultWriteTimeout is how long an operation that writes may take unless the timeouts attribute says otherwise.
const defaultWriteTimeout = 10 * time.Minute

func timeoutsAttribute() schema.Attribute {
	const drained = " plus `drain_timeout`"
	say := func(operation string, limit time.Duration, more string) string {
		return fmt.Sprintf("How long %s may take, such as `90s`, `1h30m` or `1d`. Default: `%.0fm`%s.", operation,
			limit.Minutes(), more)
	}
	nested, _ := timeouts.Attributes(context.Background(), timeouts.Opts{
		Create: true, CreateDescription: say("a create", defaultWriteTimeout, ""),
		Read: true, ReadDescription: say("a refresh", connection.DefaultReadTimeout, ""),
		Update: true, UpdateDescription: say("an update", defaultWriteTimeout, drained),
		Delete: true, DeleteDescription: say("a destroy", defaultWriteTimeout, drained) + " Apply the value before a " +
			"destroy.",
	}).(schema.SingleNestedAttribute)
	for name, each := range nested.Attributes {
		text, _ := each.(schema.StringAttribute)
		text.Validators = []validator.String{tfvalue.PositiveDuration{}}
		nested.Attributes[name] = text
	}
	return nested
}

// timeoutOf is how long the attribute says that an operation may take. The library of that attribute is not asked: it
// reads Go's syntax, which has no days.
func timeoutOf(v attribute.Values, operation string, otherwise time.Duration) time.Duration {
	given, _ := v["timeouts"].(timeouts.Value)
	if limit, isGiven := tfvalue.DurationIn(given.Attributes()[operation]); isGiven {
		return limit
	}
	return otherwise
}

func writeTimeout(v attribute.Values, verb string) time.Duration {
	switch drain := optionsOf(v).Guard.Drain; verb {
	case "create":
		return timeoutOf(v, "create", defaultWriteTimeout)
	case "update":
		return timeoutOf(v, "update", defaultWriteTimeout+drain)
	default:
		return timeoutOf(v, "delete", defaultWriteTimeout+drain)
	}
}

// optionsOf says how operations go, and what to do about messages that wait, or are on their way.
func optionsOf(v attribute.Values) engine.Options {
	return engine.Options{Adopt: v.IsTrue("adopt"),
		Guard: plan.Guard{Force: v.IsTrue("force_destroy"), Drain: v.Duration("drain_timeout")}}
}

// checkDrainTimeout makes sure that each operation that waits has the time for it.
func checkDrainTimeout(v attribute.Values) (diags diag.Diagnostics) {
	if !tfvalue.IsGiven(v["drain_timeout"]) {
		return nil
	}
	drain := v.Duration("drain_timeout")
	for _, operation := range []string{"delete", "update"} {
		if limit := writeTimeout(v, operation); limit <= drain {
			diags.Append(diagnose.Invalid(path.Root("drain_timeout"), fmt.Errorf("drain_timeout is %s, which does not "+
				"fit into timeouts.%s, %s. Make that longer, or leave it out", delay.DurationText(drain), operation,
				delay.DurationText(limit))))
		}
	}
	return diags
}

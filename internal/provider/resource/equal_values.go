package resource

import (
	"context"
	"maps"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
)

// Equal is equal: a plan keeps the state's value where the configuration has the same value in other words, so that
// there is no difference. Terraform allows a plan the value of the state in place of the configured one. The framework
// compares by meaning the values that come back from an apply and a refresh, but not the planned ones (1.19.0).

func keepDuration(planned *timetypes.GoDuration, state timetypes.GoDuration) {
	if tfvalue.IsGiven(*planned) && tfvalue.IsGiven(state) && sameDuration(planned.StringValue, state.StringValue) {
		*planned = state
	}
}

// keepTimeouts keeps each of the durations. Their own type compares texts.
func keepTimeouts(planned *timeouts.Value, state timeouts.Value) {
	if !tfvalue.IsGiven(*planned) || !tfvalue.IsGiven(state) {
		return
	}
	kept := maps.Clone(planned.Attributes())
	for operation, value := range kept {
		after, isText := value.(types.String)
		before, wasText := state.Attributes()[operation].(types.String)
		if isText && wasText && tfvalue.IsGiven(after) && tfvalue.IsGiven(before) && sameDuration(after, before) {
			kept[operation] = before
		}
	}
	planned.Object = types.ObjectValueMust(planned.AttributeTypes(context.Background()), kept)
}

func sameDuration(x, y types.String) bool {
	one, err := time.ParseDuration(x.ValueString())
	other, otherErr := time.ParseDuration(y.ValueString())
	return err == nil && otherErr == nil && one == other
}

// keepNames keeps a format of names if both give the same.
func keepNames(planned *types.String, state types.String, same func(planned, state string) bool) {
	if tfvalue.IsGiven(*planned) && tfvalue.IsGiven(state) && same(planned.ValueString(), state.ValueString()) {
		*planned = state
	}
}

// keep keeps the values common to all resources that stand for a topology.
func (d *declaredModel) keep(state *declaredModel) {
	d.operationModel.keep(&state.operationModel)
	tfvalue.WriteOut(&d.Exchanges, state.Exchanges, func(types.Object) map[string]attr.Value {
		return tfvalue.UsualExchange
	})
	tfvalue.WriteOut(&d.Queues, state.Queues, func(queue types.Object) map[string]attr.Value {
		return tfvalue.UsualQueue(d.QueueType, !queue.Attributes()["message_ttl"].IsNull(), d.QueueArguments)
	})
}

// keep implements declaration.
func (m *cascadeModel) keep(state *cascadeModel) {
	m.declaredModel.keep(&state.declaredModel)
	keepDuration(&m.Resolution, state.Resolution)
	keepDuration(&m.MaxDelay, state.MaxDelay)
	if !tfvalue.IsGiven(m.Base) || !tfvalue.IsGiven(m.Levels) {
		return
	}
	base, levels := int(m.Base.ValueInt64()), int(m.Levels.ValueInt64())
	if tfvalue.IsGiven(m.Resolution) && tfvalue.IsGiven(m.MaxDelay) {
		// An import takes the longest delay that is possible. A shorter one for which it takes as many levels is no
		// difference.
		longest := tfvalue.DurationValue(m.scale().Longest())
		if sameDuration(longest.StringValue, state.MaxDelay.StringValue) {
			m.MaxDelay = state.MaxDelay
		}
	}
	keepNames(&m.ExchangeName, state.ExchangeName, func(planned, state string) bool {
		return delay.Format(planned).Same(delay.Format(state), levels)
	})
	keepNames(&m.QueueName, state.QueueName, func(planned, state string) bool {
		return delay.Format(planned).SameQueues(delay.Format(state), base, levels)
	})
}

// keep implements declaration. The delays are labels of routing keys: "60s" and "1m" are two.
func (m *ladderModel) keep(state *ladderModel) {
	m.declaredModel.keep(&state.declaredModel)
	if !m.delaysKnown() {
		return
	}
	keepNames(&m.QueueName, state.QueueName, func(planned, state string) bool {
		return delay.LabelFormat(planned).Same(delay.LabelFormat(state), m.config().Delays)
	})
}

package tfvalue

import (
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
)

// PublisherTypes are the attributes of publisher: what an application needs to compute routing keys, in numbers that
// need no parsing.
var PublisherTypes = map[string]attr.Type{
	"entry_exchange": types.StringType, "base": types.Int64Type, "levels": types.Int64Type,
	"resolution_ms": types.Int64Type, "max_delay_ms": types.Int64Type,
}

// PublisherDescription is that of the attribute.
const PublisherDescription = "The values from which an application computes routing keys, in one object to hand over " +
	"with `jsonencode`. They are `entry_exchange`, `base`, `levels`, and in milliseconds `resolution_ms` and " +
	"`max_delay_ms`, the longest delay that the levels can give. [Publishing](../guides/publishing.md) has programs " +
	"that read it."

// PublisherValue is the value for a cascade.
func PublisherValue(c delay.Cascade) types.Object {
	milliseconds := func(d time.Duration) attr.Value { return types.Int64Value(d.Milliseconds()) }
	return types.ObjectValueMust(PublisherTypes, map[string]attr.Value{
		"entry_exchange": types.StringValue(c.Exchange(c.Levels - 1)),
		"base":           types.Int64Value(int64(c.Base)),
		"levels":         types.Int64Value(int64(c.Levels)),
		"resolution_ms":  milliseconds(c.Resolution),
		"max_delay_ms":   milliseconds(c.Scale().Longest),
	})
}

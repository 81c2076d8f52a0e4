package resource

import (
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
)

// emptyValues are the errors on values that are given and say nothing.
type emptyValues delay.Errors

func (e *emptyValues) add(attribute, format string, args ...any) {
	*e = append(*e, delay.AttributeError{Attribute: attribute, Message: fmt.Sprintf(format, args...)})
}

func (e *emptyValues) texts(given map[string]types.String) {
	for _, attribute := range slices.Sorted(maps.Keys(given)) {
		if value := given[attribute]; tfvalue.IsGiven(value) && value.ValueString() == "" {
			e.add(attribute, "is empty; give it a value or leave it out")
		}
	}
}

func (e *emptyValues) count(attribute string, value types.Int64) {
	if n := value.ValueInt64(); tfvalue.IsGiven(value) && n < 1 {
		e.add(attribute, "is %d; it has to be 1 or more", n)
	}
}

func (e *emptyValues) duration(attribute string, value timetypes.GoDuration) {
	if d := tfvalue.DurationOf(value); tfvalue.IsGiven(value) && d <= 0 {
		e.add(attribute, "is %s; it has to be positive", delay.DurationText(d))
	}
}

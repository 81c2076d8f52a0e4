package query

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize"
)

// observedCascade is what flows in a cascade.
type observedCascade struct {
	observedDeclared
	Units      []tfvalue.Duration `tfsdk:"units"`
	Base       types.Int64        `tfsdk:"base"`
	Levels     types.Int64        `tfsdk:"levels"`
	Resolution tfvalue.Duration   `tfsdk:"resolution"`
	MaxDelay   tfvalue.Duration   `tfsdk:"max_delay"`
	Lookahead  types.Int64        `tfsdk:"lookahead"`
	Publisher  types.Object       `tfsdk:"publisher"`
	Queues     []observedLevel    `tfsdk:"queues"`
}

type observedLevel struct {
	Level types.Int64 `tfsdk:"level"`
	Digit types.Int64 `tfsdk:"digit"`
	observedQueue
}

func cascadeSchema() schema.Schema {
	return schema.Schema{
		MarkdownDescription: "Shows a delay cascade as it is right now, whoever declared it, for `check` blocks and " +
			"dashboards. The attributes show messages and consumers for each level, until when messages wait, and " +
			"everything that changes their fate.\n\n" +
			readOff,
		Attributes: observedAttributes(recognize.KindCascade, map[string]schema.Attribute{
			"level": observedNumber("Level."),
			"digit": observedNumber("Number in the word of the level that the queue is for; always 1 in base 2."),
		}, map[string]schema.Attribute{
			"entry_exchange": entryAttribute("The exchange that publishers use: the exchange of the highest level."),
			"units": schema.ListAttribute{Computed: true, ElementType: tfvalue.DurationType{},
				MarkdownDescription: "Duration that a 1 stands for in each word of a routing key, the largest first."},
			"base":   observedNumber("Base that delays are written in. Null with days, hours or other units."),
			"levels": observedNumber("Number of words before the address in a routing key, in every form."),
			"resolution": schema.StringAttribute{Computed: true, CustomType: tfvalue.DurationType{},
				MarkdownDescription: "Step of all delays, and shortest TTL."},
			"max_delay": schema.StringAttribute{Computed: true, CustomType: tfvalue.DurationType{},
				MarkdownDescription: "Longest delay in the uniform form. With units, the longest TTL of a queue, and " +
					"`publisher.max_delay_ms` is the longest delay."},
			"lookahead": observedNumber("How many words of the " +
				"routing key an exchange looks at."),
			"publisher": schema.ObjectAttribute{Computed: true, AttributeTypes: tfvalue.PublisherTypes,
				MarkdownDescription: tfvalue.PublisherDescription},
		}),
	}
}

// look reads the configuration off the broker, and then what there is of it.
func (m *observedCascade) look(ctx context.Context, o *observation) error {
	found, err := recognize.Cascade(ctx, o.vhost, o.subject.Vhost, o.subject.Desired.Entry)
	if err != nil {
		return err
	}
	seen, err := m.observeDeclared(ctx, o, tfvalue.OfCascade(found), found.Levels)
	if err != nil {
		return err
	}
	for _, unit := range found.Scale().Units {
		m.Units = append(m.Units, tfvalue.DurationValue(unit))
	}
	if found.IsUniform() {
		m.Base = types.Int64Value(int64(found.Base))
	}
	m.Levels = types.Int64Value(int64(found.Levels))
	m.Publisher = tfvalue.PublisherValue(o.subject.Desired.Entry, found.Scale())
	m.Resolution = tfvalue.DurationValue(found.Scale().Resolution())
	m.MaxDelay = tfvalue.DurationValue(found.MaxDelay)
	m.Lookahead = types.Int64Value(int64(found.Lookahead))
	m.Queues = []observedLevel{}
	for level := range found.Levels {
		inLowerLevels := found.Scale().TTL(level, 1) - found.Scale().Resolution()
		for _, q := range found.DelayQueues(level) {
			if queue, exists := observedQueueOf(seen, q.Name, q.TTL+inLowerLevels); exists {
				m.include(queue)
				m.Queues = append(m.Queues, observedLevel{types.Int64Value(int64(q.Level)),
					types.Int64Value(int64(q.Number)), queue})
			}
		}
	}
	return nil
}

package query

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize"
)

// observedLadder is what flows in a ladder.
type observedLadder struct {
	observedDeclared
	EntryExchangeType    types.String   `tfsdk:"entry_exchange_type"`
	BindingKeys          types.Map      `tfsdk:"binding_keys"`
	Levels               types.Int64    `tfsdk:"levels"`
	DeadLetterRoutingKey types.String   `tfsdk:"dead_letter_routing_key"`
	DeliverToQueue       types.String   `tfsdk:"deliver_to_queue"`
	Publisher            types.Object   `tfsdk:"publisher"`
	Queues               []observedRung `tfsdk:"queues"`
}

type observedRung struct {
	Delay types.String `tfsdk:"delay"`
	observedQueue
}

func ladderSchema() schema.Schema {
	return schema.Schema{
		MarkdownDescription: "Shows a ladder as it is right now, whoever declared it, for `check` blocks and " +
			"dashboards. The attributes show messages and consumers for each delay, and everything that changes the " +
			"fate of messages.\n\n" +
			readOff,
		Attributes: observedAttributes(recognize.KindLadder, map[string]schema.Attribute{
			"delay": observedText("The delay as `delays` has it, such as `30s`."),
		}, map[string]schema.Attribute{
			"entry_exchange":      entryAttribute("The exchange that publishers use."),
			"entry_exchange_type": observedText("Type of the entry exchange: `topic` or `direct`."),
			"binding_keys": schema.MapAttribute{Computed: true, ElementType: types.StringType,
				MarkdownDescription: "Keys of the bindings by delay, such as `{ \"30s\" = \"30s.*.#\" }`."},
			"levels": observedNumber(tfvalue.LadderLevelsDescription),
			"dead_letter_routing_key": observedText(
				"Routing key with which every message leaves the ladder; null if messages keep " +
					"their own."),
			"deliver_to_queue": observedText("Queue to which every message goes, through the default exchange; null " +
				"if there is a delivery exchange."),
			"publisher": schema.ObjectAttribute{Computed: true, AttributeTypes: tfvalue.LadderPublisherTypes,
				MarkdownDescription: tfvalue.LadderPublisherDescription},
		}),
	}
}

// look reads the configuration off the broker, and then what there is of it.
func (m *observedLadder) look(ctx context.Context, o *observation) error {
	ladder, err := recognize.Ladder(ctx, o.vhost, o.subject.Vhost, o.subject.Desired.Entry)
	if err != nil {
		return err
	}
	m.EntryExchangeType = types.StringValue(string(ladder.EntryExchangeType))
	m.BindingKeys = tfvalue.TextsByKey(ladder.Keys())
	m.Levels = tfvalue.NumberOrNull(ladder.Levels())
	m.DeadLetterRoutingKey = tfvalue.TextOrNull(ladder.DeadLetterRoutingKey)
	m.DeliverToQueue = tfvalue.TextOrNull(ladder.DeliverToQueue)
	seen, err := m.observeDeclared(ctx, o, tfvalue.OfLadder(ladder), ladder.Levels())
	if err != nil {
		return err
	}
	m.Publisher = tfvalue.LadderPublisherValue(ladder)
	m.Queues = []observedRung{}
	for _, label := range ladder.Delays {
		name := ladder.Queue(label)
		delay := time.Duration(seen.Queues[name].TTLMillis()) * time.Millisecond
		if queue, exists := observedQueueOf(seen, name, delay); exists {
			m.include(queue)
			m.Queues = append(m.Queues, observedRung{types.StringValue(label), queue})
		}
	}
	return nil
}

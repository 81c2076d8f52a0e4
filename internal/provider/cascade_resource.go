package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
)

var (
	_ resource.ResourceWithConfigure      = (*cascadeResource)(nil)
	_ resource.ResourceWithValidateConfig = (*cascadeResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*cascadeResource)(nil)
	_ resource.ResourceWithIdentity       = (*cascadeResource)(nil)
	_ resource.ResourceWithImportState    = (*cascadeResource)(nil)
)

func newCascadeResource() resource.Resource { return &cascadeResource{} }

type cascadeResource struct {
	lifecycle[cascadeModel, *cascadeModel]
}

func (r *cascadeResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_cascade"
}

func (r *cascadeResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "A delay cascade: a ladder of queues with time-to-live 1, 2, 4, 8 … times the resolution, joined by dead-letter exchanges and topic " +
			"bindings. An application publishes to the entry exchange with a routing key that carries the delay in binary, and the message arrives at the " +
			"delivery exchange when the delay is over.\n\n" +
			"Every exchange, queue, argument and binding is known in the plan; the state holds what the broker has, so that every deviation shows as a " +
			"difference, and one apply repairs it.",
		Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "Beginning of all names that are not given. Required unless there is a `preset`, or `exchange_name`, `queue_name` and `delivery_exchange` are given and `park_unroutable` is `false`.",
			},
			"preset": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "A cascade exactly as a framework declares it when it starts: `nservicebus` (7 and later), `nservicebus_v1` (4.3 to 6), `celery` (5.5 and later, " +
					"quorum queues) or `celery_classic`. It fixes everything but `vhost`, `create_delivery_exchange` and what concerns Terraform alone. A change " +
					"replaces the cascade unless the objects stay the same.",
			},
			"vhost": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString(defaultVhost),
				MarkdownDescription: "Virtual host. It has to exist. Default: `/`. A change replaces the cascade.",
			},
			"levels": schema.Int64Attribute{
				Optional: true, Computed: true,
				MarkdownDescription: fmt.Sprintf("Number of delay queues, 1 to %d. With n levels any delay up to 2ⁿ-1 times the resolution is possible. RabbitMQ accepts no "+
					"time-to-live over ten years, so at a resolution of one second it is at most 29. Exactly one of `levels` and `max_delay` is given; the other is "+
					"computed. A change replaces the cascade.", cascade.MaxLevels),
			},
			"max_delay": schema.StringAttribute{
				Optional: true, Computed: true, CustomType: timetypes.GoDurationType{},
				MarkdownDescription: "Longest delay that has to be possible, such as `36h`: the cascade gets the smallest number of levels that reaches it. " +
					"If `levels` is given, the longest delay that they can give.",
			},
			"resolution": schema.StringAttribute{
				Optional: true, Computed: true, CustomType: timetypes.GoDurationType{},
				MarkdownDescription: "Time-to-live of level 0 and step of all delays, `1ms` or a multiple of it. Default: `1s`. A change replaces the cascade.",
			},
			"exchange_name": schema.StringAttribute{
				Optional: true, Computed: true,
				MarkdownDescription: "Names of the level exchanges, as a format with one integer verb for the level, such as `%d` or `%02d`; a literal percent sign is `%%`. " +
					"Default: `<name>.delay-%02d`. A change replaces the cascade.",
			},
			"queue_name": schema.StringAttribute{
				Optional: true, Computed: true,
				MarkdownDescription: "Names of the delay queues, likewise. Default: `<name>.delay-%02d`. A change replaces the cascade.",
			},
			"delivery_exchange": schema.StringAttribute{
				Optional: true, Computed: true,
				MarkdownDescription: "Topic exchange at the end of the cascade. Applications bind their queues to it; those bindings are never touched or listed. " +
					"Default: `<name>.delivery`. A change replaces the cascade.",
			},
			"create_delivery_exchange": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(true),
				MarkdownDescription: "Whether the delivery exchange belongs to the cascade. If `false`, it has to exist as a topic exchange. Default: `true`.",
			},
			"queue_type": schema.StringAttribute{
				Optional: true, Computed: true,
				MarkdownDescription: "`quorum` or `classic`. Quorum queues hand a message on at least once: `x-dead-letter-strategy` is `at-least-once` and `x-overflow` is " +
					"`reject-publish`. Classic queues dead-letter at most once. Default: `quorum`. A change replaces the cascade.",
			},
			"max_length": schema.Int64Attribute{
				Optional: true,
				MarkdownDescription: "Largest number of messages in each delay queue, for quorum queues only. A full queue refuses publishers and holds back the level above it. " +
					"Default: no limit. A change replaces the cascade.",
			},
			"lookahead": schema.Int64Attribute{
				Optional: true, Computed: true,
				MarkdownDescription: "How many digits of the routing key a level exchange looks at, 1 to `levels`. With 1, the classic chain, a message passes one exchange for " +
					"every clear bit; with `levels` every hop is routed once. Default: all levels, the fastest. Changes in place, without losing or doubling a message.",
			},
			"strict_keys": schema.BoolAttribute{
				Optional: true, Computed: true,
				MarkdownDescription: "Whether the entry exchange takes only routing keys with all digits and a destination. Otherwise a malformed key may wait for half " +
					"the range before it goes astray. Default: `true`. Changes in place.",
			},
			"park_unroutable": schema.BoolAttribute{
				Optional: true, Computed: true,
				MarkdownDescription: "Whether every exchange of the cascade gets an alternate exchange with a queue, both named `<name>.unroutable`, where messages with a malformed " +
					"key or without a destination are kept. Default: `true`. A change replaces the cascade.",
			},
			"adopt": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(false),
				MarkdownDescription: "Whether to take over objects that exist already and match exactly. Otherwise existing objects are an error that names them, before anything is " +
					"written. Default: `false`.",
			},
			"force_destroy": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(false),
				MarkdownDescription: "Whether a destroy or replacement deletes queues with the messages that wait in them. Has to be applied before the destroy. Default: `false`.",
			},
			"drain_timeout": schema.StringAttribute{
				Optional: true, CustomType: timetypes.GoDurationType{},
				MarkdownDescription: "How long a destroy or replacement waits for the cascade to run empty, with its entry closed, such as `10m`. If it does not, the entry is opened " +
					"again and the error says what still waits. Has to be applied before the destroy. `timeouts.delete`, if it is given, has to be longer. Default: no " +
					"waiting, a cascade that holds messages is not destroyed.",
			},
			"timeouts": timeouts.Attributes(ctx, timeouts.Opts{Create: true, Read: true, Update: true, Delete: true}),
			"entry_exchange": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "The exchange to publish to: that of the highest level.",
			},
			"exchanges": schema.MapNestedAttribute{
				Computed:            true,
				MarkdownDescription: "The exchanges of the cascade by name.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"type":               schema.StringAttribute{Computed: true, MarkdownDescription: "Exchange type."},
					"durable":            schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether the exchange survives a restart of the broker."},
					"auto_delete":        schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether the exchange goes with its last binding."},
					"internal":           schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether the exchange refuses publishers."},
					"alternate_exchange": schema.StringAttribute{Computed: true, MarkdownDescription: "Exchange that takes what no binding takes."},
					"arguments":          schema.MapAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "Further arguments; what is not text is written as JSON."},
				}},
			},
			"queues": schema.MapNestedAttribute{
				Computed:            true,
				MarkdownDescription: "The queues of the cascade by name.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"level":                schema.Int64Attribute{Computed: true, MarkdownDescription: "Level of a delay queue, null for the queue of unroutable messages."},
					"type":                 schema.StringAttribute{Computed: true, MarkdownDescription: "Queue type."},
					"message_ttl":          schema.Int64Attribute{Computed: true, MarkdownDescription: "How long a message waits, in milliseconds (`x-message-ttl`)."},
					"dead_letter_exchange": schema.StringAttribute{Computed: true, MarkdownDescription: "Where a message goes when it has waited (`x-dead-letter-exchange`)."},
					"durable":              schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether the queue survives a restart of the broker."},
					"auto_delete":          schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether the queue goes with its last consumer."},
					"exclusive":            schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether the queue belongs to one connection."},
					"arguments":            schema.MapAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "Further arguments; what is not text is written as JSON."},
				}},
			},
			"bindings": schema.MapAttribute{
				Computed: true, ElementType: linesType,
				MarkdownDescription: "The bindings of the cascade by source exchange, each as a line `<routing key> -> queue <name>` or `<routing key> -> exchange <name>`.",
			},
		},
	}
}

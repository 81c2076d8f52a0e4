package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
)

var (
	_ resource.ResourceWithConfigure      = (*cascadeResource)(nil)
	_ resource.ResourceWithValidateConfig = (*cascadeResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*cascadeResource)(nil)
	_ resource.ResourceWithIdentity       = (*cascadeResource)(nil)
	_ resource.ResourceWithImportState    = (*cascadeResource)(nil)
)

func newCascadeResource(packs bool) resource.Resource {
	return &cascadeResource{lifecycle[cascadeModel, *cascadeModel]{packs: packs}}
}

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
			"difference, and one apply repairs it.\n\n" +
			rebuildDescription("cascade"),
		Attributes: r.attributes(ctx, "cascade", "a topic exchange", "a destroy, a replacement or a rebuild", levelPosition, map[string]schema.Attribute{
			"name": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "Beginning of all names that are not given. Required unless there is a `preset`, or `exchange_name`, `queue_name` and `delivery_exchange` are given and `park_unroutable` is `false`. " +
					"A change replaces the cascade if the entry exchange gets another name, and rebuilds it if other " +
					"objects do.",
			},
			"preset": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "A cascade exactly as a framework declares it when it starts: `nservicebus` (7 and later), `nservicebus_v1` (4.3 to 6), `celery` (5.5 and later, " +
					"quorum queues) or `celery_classic`. It fixes everything but `vhost`, `create_delivery_exchange` and what concerns Terraform alone. A change " +
					"replaces the cascade if the entry exchange gets another name, and rebuilds it if other objects " +
					"change.",
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
					"If `levels` is given, the longest delay that they can give. A change replaces the cascade unless the number of levels stays the same.",
			},
			"resolution": schema.StringAttribute{
				Optional: true, Computed: true, CustomType: timetypes.GoDurationType{},
				MarkdownDescription: "Time-to-live of level 0 and step of all delays, `1ms` or a multiple of it. " +
					"Default: `1s`. A change rebuilds the cascade.",
			},
			"exchange_name": schema.StringAttribute{
				Optional: true, Computed: true,
				MarkdownDescription: "Names of the level exchanges, as a format with one integer verb for the level, such as `%d` or `%02d`; a literal percent sign is `%%`. " +
					"Default: `<name>.delay-%02d`. A change replaces the cascade, or rebuilds it if the entry " +
					"exchange keeps its name.",
			},
			"queue_name": schema.StringAttribute{
				Optional: true, Computed: true,
				MarkdownDescription: "Names of the delay queues, likewise. Default: `<name>.delay-%02d`. A change " +
					"rebuilds the cascade.",
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
			"internal_levels": schema.BoolAttribute{
				Optional: true, Computed: true,
				MarkdownDescription: "Whether the exchanges below the entry are internal: they take messages from " +
					"the cascade alone, " +
					"and the broker refuses those of publishers. After a change of `levels` an old entry does so, " +
					"too. RabbitMQ leaves such " +
					"exchanges out of exported definitions, see [the " +
					"limits](../guides/guarantees.md#where-the-limits-are). " +
					"Default: `true`, with a `preset` `false`. A change rebuilds the cascade.",
			},
			"entry_exchange": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "The exchange to publish to: that of the highest level.",
			},
		}),
	}
}

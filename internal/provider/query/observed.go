package query

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/health"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/connection"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// observation is one look at what there is behind an entry exchange.
type observation struct {
	vhost   *rabbit.Vhost
	subject diagnose.Subject
}

// observedDeclared is the part of the model that all these data sources have.
type observedDeclared struct {
	Vhost            types.String      `tfsdk:"vhost"`
	EntryExchange    types.String      `tfsdk:"entry_exchange"`
	DeliveryExchange types.String      `tfsdk:"delivery_exchange"`
	QueueType        types.String      `tfsdk:"queue_type"`
	Summary          types.String      `tfsdk:"summary"`
	Messages         types.Int64       `tfsdk:"messages"`
	NextArrival      types.String      `tfsdk:"next_arrival"`
	LatestArrival    types.String      `tfsdk:"latest_arrival"`
	Unroutable       types.Int64       `tfsdk:"unroutable_messages"`
	Findings         []observedFinding `tfsdk:"findings"`
}

// observe looks at the objects behind the entry exchange.
func (m *observedDeclared) observe(
	ctx context.Context, client *rabbit.Client, kind string, look func(context.Context, *observation) error,
) diag.Diagnostics {
	ctx, cancel := context.WithTimeout(ctx, connection.DefaultReadTimeout)
	defer cancel()
	vhost := client.Vhost(tfvalue.VhostOf(m.Vhost))
	o := &observation{vhost, diagnose.OfEntry(kind, vhost.Name(), m.EntryExchange.ValueString())}
	return o.subject.NotObserved(look(ctx, o))
}

// observeDeclared reads what there is of something with so many levels, 0 if they do not reach the delivery
// exchange.
func (m *observedDeclared) observeDeclared(
	ctx context.Context, o *observation, shows tfvalue.ObjectMaps, levels int,
) (engine.Observation, error) {
	o.subject.Desired = shows.Desired
	seen, err := engine.Observe(ctx, o.vhost, o.subject.Desired)
	if err != nil {
		return seen, err
	}
	m.DeliveryExchange = tfvalue.TextOrNull(o.subject.Desired.Delivery)
	m.QueueType = shows.QueueType
	m.Summary = types.StringValue(shows.Summary)
	waits := diagnose.CountWaiting(o.subject.Desired, seen.State)
	m.Messages = waits.Delayed.Value()
	if o.subject.Desired.Parking() != "" {
		m.Unroutable = waits.Parked.Value()
	}
	m.Findings, err = o.observedFindings(ctx, seen, levels)
	return seen, err
}

type observedQueue struct {
	Name          types.String `tfsdk:"name"`
	MessageTTL    types.Int64  `tfsdk:"message_ttl"`
	Messages      types.Int64  `tfsdk:"messages"`
	LatestArrival types.String `tfsdk:"latest_arrival"`
	Consumers     types.Int64  `tfsdk:"consumers"`
	Leader        types.String `tfsdk:"leader"`
	Members       types.Int64  `tfsdk:"members"`
	OnlineMembers types.Int64  `tfsdk:"online_members"`
}

// observedQueueOf shows a queue whose messages are delivered after longest, at the latest.
func observedQueueOf(seen engine.Observation, name string, longest time.Duration) (q observedQueue, exists bool) {
	queue, exists := seen.Queues[name]
	status := seen.Status[name]
	q = observedQueue{
		Name: types.StringValue(name), Messages: types.Int64PointerValue(status.Messages),
		Consumers: types.Int64PointerValue(status.Consumers), Leader: tfvalue.TextOrNull(status.Leader),
	}
	if queue.Delays() {
		q.MessageTTL = types.Int64Value(queue.TTLMillis())
	}
	if status.Messages != nil && *status.Messages > seen.Overdue[name].Messages {
		leaves := time.Now()
		if status.LastDelayed.After(leaves) {
			leaves = status.LastDelayed
		}
		q.LatestArrival = types.StringValue(leaves.Add(longest).UTC().Format(time.RFC3339))
	}
	if status.Members > 0 {
		q.Members, q.OnlineMembers = types.Int64Value(int64(status.Members)), types.Int64Value(int64(status.Online))
	}
	return q, exists
}

// include counts a queue in for when the next and the last of all messages arrive, at the latest. A queue of which
// RabbitMQ does not say how many wait can only make the next one sooner, but the last one later.
func (m *observedDeclared) include(q observedQueue) {
	if q.LatestArrival.IsNull() {
		return
	}
	latest := q.LatestArrival.ValueString() // as text, these times sort by time
	if m.NextArrival.IsNull() || latest < m.NextArrival.ValueString() {
		m.NextArrival = q.LatestArrival
	}
	if !m.Messages.IsNull() && latest > m.LatestArrival.ValueString() {
		m.LatestArrival = q.LatestArrival
	}
}

type observedFinding struct {
	Severity types.String `tfsdk:"severity"`
	Object   types.String `tfsdk:"object"`
	Cause    types.String `tfsdk:"cause"`
	Effect   types.String `tfsdk:"effect"`
}

// observedAttributes are what each of these data sources has, and the further ones. The position is what tells one
// queue from another.
func observedAttributes(
	kind string,
	position, more map[string]schema.Attribute,
) map[string]schema.Attribute {
	say := func(format string) string { return fmt.Sprintf(format, kind) }
	queue := map[string]schema.Attribute{
		"name": observedText("Name of the queue."),
		"message_ttl": observedNumber("Declared TTL of the queue, in milliseconds: how long a message waits. Null " +
			"if the queue is declared without a TTL."),
		"messages": observedNumber("Messages that wait in the queue; null if RabbitMQ does not say, as in the first " +
			"seconds of a queue."),
		"latest_arrival": observedText(
			"Latest time at which the last of these messages arrives, if the broker is in time (RFC 3339, UTC). " +
				"Overdue messages do not count. Null if no message waits, or if `messages` is null. The next message " +
				"may arrive at any time before: RabbitMQ does not tell how long a message has waited."),
		"leader":         observedText("Node of the queue's leader; null for a classic queue, or without a leader."),
		"members":        observedNumber("Number of nodes that hold the queue; null for a classic queue."),
		"online_members": observedNumber("Number of these nodes that are online; null for a classic queue."),
		"consumers":      observedNumber("Consumers, of which there should be none; null if RabbitMQ does not say."),
	}
	maps.Copy(queue, position)
	attributes := map[string]schema.Attribute{
		"vhost":             vhostAttribute,
		"delivery_exchange": observedText(say("Exchange at the end of the %s.")),
		"queue_type":        observedText("`quorum` or `classic`."),
		"summary":           observedText(say("The %s in one line: its parts and its delays.")),
		"queues": schema.ListNestedAttribute{
			Computed: true,
			MarkdownDescription: "The delay queues, the shortest delay first. A missing queue is among the findings " +
				"instead.",
			NestedObject: schema.NestedAttributeObject{Attributes: queue},
		},
		"messages": observedNumber("Messages that wait in all delay queues together; null if RabbitMQ does not give " +
			"the count of each queue."),
		"next_arrival": observedText("Latest time at which the next of all these messages arrives: the earliest " +
			"`latest_arrival` of the queues. The message may arrive at any time before. Null if no message is known " +
			"to wait."),
		"latest_arrival": observedText("Latest time at which the last of all these messages arrives. Null if no " +
			"message waits, or if `messages` is null."),
		"unroutable_messages": observedNumber(
			say("Messages in the queue of unroutable messages; null if the %s has none, or if RabbitMQ does not " +
				"say.")),
		"findings": schema.ListNestedAttribute{
			Computed: true,
			MarkdownDescription: say("Causes that change the fate of messages. A healthy %s has none, but for " +
				"information of the severity `info`. The provider looks at the first hundred queues and hundred " +
				"exchanges behind the delivery exchange. The first ten bindings of the delivery exchange for another " +
				"number of levels are among the findings."),
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"severity": observedText(
					"`error` if messages are lost, leave early, arrive twice or do not get on. `warning` if messages " +
						"may be late, or if the effect is not known. `info` if nothing happens to messages: a broker " +
						"from RabbitMQ 4.4 on could delay by itself."),
				"object": observedText("The object that has the cause, such as `queue \"orders.30m\"`."),
				"cause":  observedText("The cause, such as `missing` or `policy \"ttl\"`."),
				"effect": observedText("The effect on messages."),
			}},
		},
	}
	maps.Copy(attributes, more)
	return attributes
}

var vhostAttribute = schema.StringAttribute{Optional: true, MarkdownDescription: "Virtual host. Default: `/`.",
	Validators: tfvalue.NotEmpty}

func entryAttribute(description string) schema.StringAttribute {
	return schema.StringAttribute{Required: true, MarkdownDescription: description, Validators: tfvalue.NotEmpty}
}

// readOff ends the descriptions of data sources that look at something declared.
const readOff = "The data source reads the configuration off the broker, as an import does. Numbers of messages come " +
	"from the management API, which lags by up to nine seconds."

// observedText and observedNumber are attributes of what a data source returns.
func observedText(description string) schema.StringAttribute {
	return schema.StringAttribute{Computed: true, MarkdownDescription: description}
}

func observedNumber(description string) schema.Int64Attribute {
	return schema.Int64Attribute{Computed: true, MarkdownDescription: description}
}

// observedFindings are the findings, with levels as in observeDeclared.
func (o *observation) observedFindings(
	ctx context.Context, seen engine.Observation, levels int,
) ([]observedFinding, error) {
	var found []health.Finding
	for _, damage := range health.Damages(o.subject.Desired, seen.Topology, seen.Status) {
		if damage.Severity != health.Harmless {
			found = append(found, damage.Finding)
		}
	}
	found = append(found, seen.Findings...)
	if levels > 0 {
		astray, err := o.astray(ctx, seen.Delivers, levels)
		if err != nil {
			return nil, err
		}
		found = append(found, astray...)
	}
	found = append(found, health.Native(o.vhost.Client().Version(ctx), o.subject.Desired.Entry)...)
	findings := []observedFinding{}
	for _, f := range found {
		findings = append(findings, observedFinding{
			Severity: types.StringValue(string(f.Severity)), Object: types.StringValue(plaintext.Line(f.Object)),
			Cause: types.StringValue(plaintext.Line(f.Cause)), Effect: types.StringValue(plaintext.Line(f.Effect)),
		})
	}
	return findings, nil
}

// mostAstray is how many bindings for another number of levels are among the findings.
const mostAstray = 10

// astray are the bindings of the delivery exchange that are made for another number of levels than anything that ends
// there has.
func (o *observation) astray(
	ctx context.Context, bindings []topology.Binding, levels int,
) ([]health.Finding, error) {
	there := map[int]bool{levels: true}
	var found []health.Finding
	for _, b := range topology.Plain(bindings) {
		d, err := recognize.Destination(o.subject.Vhost, b)
		if err != nil || d.Match != delay.Exact || there[d.Levels] {
			continue
		}
		if len(there) == 1 { // something else may end there, too
			others, err := engine.LevelsInto(ctx, o.vhost, o.subject.Desired.Delivery)
			if err != nil {
				return nil, err
			}
			maps.Copy(there, others)
			there[0] = true // so that nobody looks again
		}
		if there[d.Levels] || len(found) == mostAstray {
			continue
		}
		found = append(found, health.Finding{
			Severity: health.Error, Object: topology.BindingObject(b),
			Cause: fmt.Sprintf("made for levels = %d, not %d", d.Levels, levels),
			Effect: fmt.Sprintf("the binding takes no message of the %s. Messages for %q are unroutable, unless "+
				"something else is bound for them", o.subject.Kind, d.Address),
		})
	}
	return found, nil
}

package recognize

import (
	"cmp"
	"maps"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// ladder is the one whose entry the exchange is, as its own bindings show.
func (o *objects) ladder(entry string) (delay.Ladder, error) {
	if err := o.checkEntry(entry); err != nil {
		return delay.Ladder{}, err
	}
	all := o.rungs(entry)
	if len(all) == 0 {
		return delay.Ladder{}, notThis(
			`it has no binding like that of a ladder's rung, to a queue with a key such as "30s.*.#"`)
	}
	name, parks := o.parking(o.exchange(entry))
	given := delay.LadderConfig{Vhost: o.vhost, Name: name, ParkUnroutable: parks, EntryExchange: entry}
	own, err := ownRungs(all, delay.DefaultQueueName(cmp.Or(name, given.DerivedName(), entry)))
	if err != nil {
		return delay.Ladder{}, err
	}
	q := own.typical(all)
	given.QueueName, given.Delays = own.format, slices.Sorted(maps.Keys(own.queues))
	given.QueueType, given.QuorumOptions = delay.QueueType(q.Type()), delay.QuorumOptionsOf(q)
	given.QueueArguments = delay.QueueArgumentsOf(q)
	given.DeliveryExchange = q.DeadLetterExchange()
	given.DeadLetterRoutingKey = q.Arguments.Text("x-dead-letter-routing-key")
	if given.DeliverToQueue = q.DeadLetterQueue(); given.DeliverToQueue != "" {
		given.DeadLetterRoutingKey = ""
	}
	for _, r := range all {
		// Without it, messages with its key would be unroutable after an apply.
		if r.whole && own.queues[r.label] == "" && r.queue.DeadLetterExchange() == given.DeliveryExchange &&
			r.queue.DeadLetterQueue() == given.DeliverToQueue {
			return delay.Ladder{}, notThisf("queue %q holds messages for %s and leads to the same delivery exchange, "+
				"but is not called like the others, %q. If the delay is not one of its own, remove the binding",
				r.queue.Name, r.label, given.QueueName)
		}
	}
	if !parks {
		given.Name = given.DerivedName()
	}
	l, err := withDelivery(o, func(creates bool) (delay.Ladder, error) {
		given.CreateDeliveryExchange = creates
		return given.Resolve()
	})
	if err != nil {
		return delay.Ladder{}, notThisf("its objects do not make a valid ladder: %s", err)
	}
	return l, nil
}

// rung is a queue to which the entry is bound with the key of a delay. One that is gone has only its name.
type rung struct {
	label string
	queue topology.Queue
	// whole says that a message waits in the queue for as long as its key says, and goes on then.
	whole bool
}

// rungs are those of the entry, whosever they are.
func (o *objects) rungs(entry string) []rung {
	var rungs []rung
	for _, b := range o.bindings(entry) {
		label, ok := delay.ParseRungKey(b.RoutingKey)
		if !ok || b.DestinationType != topology.ToQueue || b.Arguments != "" {
			continue
		}
		wait, err := delay.ParseLabel(label)
		q := o.queue(b.Destination)
		q.Name = b.Destination
		whole := err == nil && q.TTLMillis() == wait.Milliseconds() &&
			q.DeadLetterExchange()+q.DeadLetterQueue() != ""
		rungs = append(rungs, rung{label, q, whole})
	}
	slices.SortStableFunc(rungs, func(x, y rung) int { return cmp.Compare(x.label, y.label) })
	return rungs
}

// rungNaming is a format and, by label, the queues that are called like this.
type rungNaming struct {
	format delay.LabelFormat
	queues map[string]string
	whole  int // how many of the queues are
}

// typical is the first queue that is whole and has the same arguments as most of these, apart from its time.
func (n rungNaming) typical(all []rung) topology.Queue {
	shows := func(q topology.Queue) string {
		arguments := maps.Clone(q.Arguments)
		delete(arguments, "x-message-ttl")
		return arguments.JSON()
	}
	like := map[string]int{}
	var whole []topology.Queue
	for _, r := range all {
		if r.whole && n.queues[r.label] == r.queue.Name {
			whole = append(whole, r.queue)
			like[shows(r.queue)]++
		}
	}
	return topRanked(whole, func(q topology.Queue) int { return like[shows(q)] })[0]
}

// ownRungs are those with the usual names or, if there are none, with the format of most of them, and of most that are
// whole. The others somebody else has bound.
func ownRungs(all []rung, usual delay.LabelFormat) (rungNaming, error) {
	var namings []rungNaming
	for _, r := range all {
		for _, format := range labelFormats(r) {
			if n := nameAll(format, all); n.whole > 0 {
				namings = append(namings, n)
			}
		}
	}
	if len(namings) == 0 {
		return rungNaming{}, notThis("no queue behind it has the x-message-ttl that its binding's key names, and an " +
			"x-dead-letter-exchange")
	}
	if i := slices.IndexFunc(namings, func(n rungNaming) bool { return n.format == usual }); i >= 0 {
		return namings[i], nil
	}
	namings = topRanked(topRanked(namings, func(n rungNaming) int { return len(n.queues) }),
		func(n rungNaming) int { return n.whole })
	for _, other := range namings {
		if !maps.Equal(other.queues, namings[0].queues) {
			return rungNaming{}, notThisf("its queues can be called %q or %q, and nothing shows which: remove the "+
				"bindings that are not its own", namings[0].format, other.format)
		}
	}
	return namings[0], nil
}

// nameAll applies a format to all labels. Without a verb it is the name of a single queue, which has to be whole.
func nameAll(format delay.LabelFormat, all []rung) rungNaming {
	n := rungNaming{format: format, queues: map[string]string{}}
	hasVerb := format.Name("1s") != format.Name("2s")
	for _, r := range all {
		if format.Name(r.label) != r.queue.Name || !hasVerb && !r.whole {
			continue
		}
		if r.whole && n.queues[r.label] == "" {
			n.whole++
		}
		n.queues[r.label] = r.queue.Name
	}
	return n
}

// labelFormats are the formats that give the queue its name, the likeliest first: the label stands rather at the end.
func labelFormats(r rung) []delay.LabelFormat {
	var formats []delay.LabelFormat
	for _, f := range textFormats(r.queue.Name, r.label) {
		formats = append(formats, delay.LabelFormat(f))
	}
	return append(formats, delay.LabelFormat(delay.Escape(r.queue.Name)))
}

package recognize

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// ladder is the one whose entry the exchange is, as its own bindings show.
func (o *objects) ladder(entry string) (delay.Ladder, error) {
	if err := o.checkLadderEntry(entry); err != nil {
		return delay.Ladder{}, err
	}
	name, parks := o.nameByParking(o.exchange(entry))
	given := delay.LadderConfig{Vhost: o.vhost, Name: name, ParkUnroutable: parks, EntryExchange: entry}
	usual := delay.DefaultQueueName(cmp.Or(name, given.DerivedName(), entry))
	all := o.rungs(entry)
	nameRungs := nameLabelledRungs
	if len(all) == 0 {
		all, nameRungs = o.keyedRungs(entry), nameKeyedRungs
		if len(all) == 0 {
			return delay.Ladder{}, o.noRungs(entry)
		}
		given.EntryExchangeType, given.BindingKeys = delay.ExchangeType(o.exchange(entry).Type), map[string]string{}
		for _, r := range all {
			given.BindingKeys[r.label] = r.key
		}
	}
	own, err := nameRungs(all, usual)
	if err == nil {
		err = o.checkWays(given, all, own.typical(all))
	}
	if err != nil {
		return delay.Ladder{}, err
	}
	q := own.typical(all)
	given.QueueName, given.Delays = own.format, slices.Sorted(maps.Keys(own.queues))
	if own.format == "" {
		given.QueueNames = own.queues
	}
	given.QueueType, given.QuorumOptions = delay.QueueType(q.Type()), delay.QuorumOptionsOf(q)
	given.QueueArguments = delay.QueueArgumentsOf(q)
	given.DeliveryExchange = q.DeadLetterExchange()
	given.DeadLetterRoutingKey = q.Arguments.Text("x-dead-letter-routing-key")
	if given.DeliverToQueue = q.DeadLetterQueue(); given.DeliverToQueue != "" {
		given.DeadLetterRoutingKey = ""
	}
	if err := checkNoStray(given, all, own); err != nil {
		return delay.Ladder{}, err
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

// checkNoStray refuses a queue with another name that is like those of the ladder. Without it, messages with its key
// would be unroutable after an apply.
func checkNoStray(given delay.LadderConfig, all []rung, own rungNaming) error {
	for _, r := range all {
		if r.whole && own.queues[r.label] == "" && r.queue.DeadLetterExchange() == given.DeliveryExchange &&
			r.queue.DeadLetterQueue() == given.DeliverToQueue {
			return notThisf("queue %q holds messages for %s and leads to the same delivery exchange, but is not "+
				"called like the other queues, %q. If the delay is not one of its own, remove the binding",
				r.queue.Name, r.label, given.QueueName)
		}
	}
	return nil
}

// checkLadderEntry makes sure that an exchange can be the entry of a ladder.
func (o *objects) checkLadderEntry(name string) error {
	e := o.exchange(name)
	if err := noEntry(e); err != nil && e.Name != "" {
		return err
	}
	if e.Type != string(delay.Direct) {
		return o.checkEntry(name)
	}
	if rungs := o.rungs(name); len(rungs) > 0 {
		return notThisf("it is a direct exchange, and no message has a key such as %q of its bindings", rungs[0].key)
	}
	return nil
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
		whole := err == nil && q.TTLMillis() == wait.Milliseconds() && q.DeadLetterObject() != ""
		rungs = append(rungs, rung{label, b.RoutingKey, q, whole})
	}
	slices.SortStableFunc(rungs, func(x, y rung) int { return cmp.Compare(x.label, y.label) })
	return rungs
}

// keyedRungs are those of an entry with keys of its own: the queues that hold messages for a time and hand them on.
// The label is that time, and any other queue is somebody else's. An exchange with keys of a cascade has none.
func (o *objects) keyedRungs(entry string) []rung {
	var rungs []rung
	hops, _ := o.hops(entry)
	for _, b := range o.bindings(entry) {
		if len(hops) > 0 || b.DestinationType != topology.ToQueue || b.Arguments != "" {
			continue
		}
		q := o.queue(b.Destination)
		if q.TTLMillis() > 0 && endOf(q) != "" {
			label := delay.DurationText(time.Duration(q.TTLMillis()) * time.Millisecond)
			rungs = append(rungs, rung{label, b.RoutingKey, q, true})
		}
	}
	slices.SortStableFunc(rungs, func(x, y rung) int { return cmp.Compare(x.queue.TTLMillis(), y.queue.TTLMillis()) })
	return rungs
}

// checkWays makes sure that each message of a ladder takes one way, through one of its queues.
func (o *objects) checkWays(given delay.LadderConfig, all []rung, typical topology.Queue) error {
	if given.BindingKeys != nil {
		if err := twoWays(given.EntryExchangeType, all); err != nil {
			return err
		}
		if err := o.checkNoChain(given.EntryExchange, typical.DeadLetterExchange()); err != nil {
			return err
		}
	}
	if typical.DeadLetterExchange() == given.EntryExchange {
		return notThisf("its delay queues, such as queue %q, lead back to it, and a ladder has another exchange at "+
			"its end"+sideBySide, typical.Name)
	}
	return nil
}

// checkNoChain refuses an entry whose end is the next level of a chain. The entry leads there past the queue, too.
func (o *objects) checkNoChain(entry, end string) error {
	for _, b := range o.bindings(entry) {
		if !b.LeadsTo(topology.ToExchange, end) {
			continue
		}
		if key := o.keyToDelay(end, func(string) bool { return true }); key != "" {
			return notThisf("it leads to exchange %q with key %q, and that goes on to a further delay queue with "+
				"key %q. So it is a chain with keys of its own"+seeGuide+"a cascade beside it", end, b.RoutingKey, key)
		}
	}
	return nil
}

// nameKeyedRungs makes sure that queues behind one entry are those of one ladder, and finds out how they are called.
func nameKeyedRungs(all []rung, usual delay.Format) (rungNaming, error) {
	own := rungNaming{queues: map[string]string{}, whole: len(all)}
	for i, r := range all {
		first := all[0].queue
		switch {
		case endOf(r.queue) != endOf(first):
			return rungNaming{}, notThisf("its delay queues lead to different ends, and a ladder has one: queue %q "+
				"leads to %s, and queue %q to %s"+sideBySide, first.Name, endOf(first), r.queue.Name, endOf(r.queue))
		case own.queues[r.label] == r.queue.Name:
			return rungNaming{}, notThisf("it leads to queue %q with two keys, %q and %q, and a delay of a ladder has "+
				"one"+sideBySide, r.queue.Name, all[i-1].key, r.key)
		case own.queues[r.label] != "":
			return rungNaming{}, notThisf("queues %q and %q both hold messages for %s, and each delay of a ladder has "+
				"one queue"+sideBySide, own.queues[r.label], r.queue.Name, r.label)
		}
		own.queues[r.label] = r.queue.Name
	}
	for _, format := range append([]delay.Format{usual}, labelFormats(all[0])...) {
		if own.format == "" && len(nameAll(format, all).queues) == len(all) {
			own.format = format
		}
	}
	return own, nil
}

// rungNaming is a format and, by label, the queues that are called like this.
type rungNaming struct {
	format delay.Format
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

// nameLabelledRungs finds those with the usual names or, if there are none, with the format of most of them, and of
// most that are whole. The others somebody else has bound.
func nameLabelledRungs(all []rung, usual delay.Format) (rungNaming, error) {
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
func nameAll(format delay.Format, all []rung) rungNaming {
	n := rungNaming{format: format, queues: map[string]string{}}
	hasVerb := format.Labelled("1s") != format.Labelled("2s")
	for _, r := range all {
		if format.Labelled(r.label) != r.queue.Name || !hasVerb && !r.whole {
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
func labelFormats(r rung) []delay.Format {
	return append(textFormats(r.queue.Name, r.label), delay.Format(delay.Escape(r.queue.Name)))
}

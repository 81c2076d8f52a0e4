package cascade

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// RecognizeLadder reads the ladder behind the entry exchange off a broker. The bindings of the entry say which delays
// there are. It recognizes a rung whose queue is missing or damaged as long as another queue is sound. It cannot find a
// rung that the entry does not lead to. A queue with another kind of name that leads elsewhere, such as one of another
// ladder, is a stranger's.
func RecognizeLadder(ctx context.Context, look Lookup, vhost, entry string) (Ladder, error) {
	r := &recognizer{look: look, vhost: vhost}
	l, err := r.recognizeLadder(ctx, entry)
	if err != nil {
		err = r.otherEntry(ctx, KindLadder, entry, err)
		return Ladder{}, fmt.Errorf("recognize the ladder behind exchange %q in vhost %q: %w", entry, vhost, err)
	}
	return l, nil
}

func (r *recognizer) recognizeLadder(ctx context.Context, name string) (Ladder, error) {
	if err := r.readEntry(ctx, name); err != nil {
		return Ladder{}, err
	}
	l := LadderConfig{Vhost: r.vhost, EntryExchange: name}
	rungs, err := r.rungs(ctx)
	if err != nil {
		return Ladder{}, err
	}
	if l.Name, l.ParkUnroutable, err = r.parking(ctx); err != nil {
		return Ladder{}, err
	}
	own, err := l.ownRungs(rungs)
	if err != nil {
		return Ladder{}, err
	}
	l.QueueName, l.Delays = own.format, slices.Sorted(maps.Keys(own.queues))
	l.readQueue(own)
	if err := l.checkOthers(rungs); err != nil {
		return Ladder{}, err
	}
	around := shared{name: l.Name, parks: l.ParkUnroutable, delivery: l.DeliveryExchange}
	if l.CreateDeliveryExchange, err = r.ownsDelivery(ctx, around); err != nil {
		return Ladder{}, err
	}
	if l.Name == "" {
		l.Name = l.derivedName()
	}
	resolved, err := l.Resolve()
	if err != nil {
		return Ladder{}, notThisf("its objects do not make a valid ladder: %s", err)
	}
	return resolved, nil
}

// boundRung is a queue to which the entry is bound with the key of a delay. One that is gone has only its name.
type boundRung struct {
	label string
	queue topology.Queue
}

// isWhole tells whether a message waits in the queue for as long as its key says, and goes on then.
func (b boundRung) isWhole() bool {
	return b.queue.Arguments["x-message-ttl"] == rung(b.label).Milliseconds() && b.queue.DeadLetterExchange() != ""
}

// rungs are the queues to which the entry is bound with the keys of delays, whosever they are.
func (r *recognizer) rungs(ctx context.Context) ([]boundRung, error) {
	var rungs []boundRung
	for _, b := range r.bindings {
		label, ok := strings.CutSuffix(b.RoutingKey, ".#")
		label = strings.TrimSuffix(label, ".*")
		_, err := ParseLabel(label)
		if !ok || err != nil || b.DestinationType != topology.ToQueue || b.Arguments != "" {
			continue
		}
		q, exists, err := r.look.Queue(ctx, b.Destination)
		if err != nil {
			return nil, err
		}
		if !exists {
			q.Name = b.Destination
		}
		rungs = append(rungs, boundRung{label, q})
	}
	if len(rungs) == 0 {
		return nil, notThis(`it has no binding like that of a ladder's rung, to a queue with a key such as "30s.*.#"`)
	}
	return rungs, nil
}

// naming is a format and the queues, by label, that have their names from it.
type naming struct {
	format LabelFormat
	queues map[string]topology.Queue
	whole  int // how many of the queues are
	usual  int // 1 if the format is the default
}

// compare tells which of two is rather that of the ladder: one with the default names, or which more delays agree on.
func (n naming) compare(other naming) int {
	return cmp.Or(
		cmp.Compare(n.usual, other.usual),
		cmp.Compare(len(n.queues), len(other.queues)),
		cmp.Compare(n.whole, other.whole),
	)
}

// ownRungs tells the ladder's own queues from those that somebody has bound beside.
func (l LadderConfig) ownRungs(rungs []boundRung) (naming, error) {
	name := l.Name
	if name == "" {
		name, _ = strings.CutSuffix(l.EntryExchange, defaultEntryName)
	}
	usual := LabelFormat(Escape(name) + defaultRung)
	var best, rival naming
	for _, each := range rungs {
		for _, format := range labelFormats(each) {
			n := nameAll(format, rungs)
			if format == usual {
				n.usual = 1
			}
			switch order := n.compare(best); {
			case n.whole == 0 || maps.EqualFunc(n.queues, best.queues, topology.Queue.Equal):
			case order > 0:
				best, rival = n, naming{}
			case order == 0:
				rival = n
			}
		}
	}
	switch {
	case best.whole == 0:
		return naming{}, notThis("no queue behind it has the x-message-ttl that its binding's key names, " +
			"and an x-dead-letter-exchange")
	case rival.whole > 0:
		return naming{}, notThisf("its queues can be called %q or %q, and nothing shows which: "+
			"remove the bindings that are not its own", best.format, rival.format)
	}
	return best, nil
}

// nameAll applies a format to all labels. Without a verb it is the name of a single queue, which has to be whole.
func nameAll(format LabelFormat, rungs []boundRung) naming {
	n := naming{format: format, queues: map[string]topology.Queue{}}
	single := format.check(2) != ""
	for _, each := range rungs {
		whole := each.isWhole()
		if format.Name(each.label) != each.queue.Name || single && !whole {
			continue
		}
		if _, twice := n.queues[each.label]; whole && !twice {
			n.whole++
		}
		n.queues[each.label] = each.queue
	}
	return n
}

// labelFormats are the formats that give the queue its name, the likeliest first: the label stands rather at the end.
func labelFormats(b boundRung) []LabelFormat {
	var formats []LabelFormat
	name := b.queue.Name
	for at := strings.LastIndex(name, b.label); at >= 0; at = strings.LastIndex(name[:at+len(b.label)-1], b.label) {
		formats = append(formats, LabelFormat(Escape(name[:at])+"%s"+Escape(name[at+len(b.label):])))
	}
	return append(formats, LabelFormat(Escape(name)))
}

// readQueue reads off the shortest label's whole queue what all of them have.
func (l *LadderConfig) readQueue(own naming) {
	for _, label := range l.Delays {
		q := own.queues[label]
		if !(boundRung{label, q}).isWhole() {
			continue
		}
		l.QueueType = QueueType(q.Type())
		l.DeliveryExchange = q.DeadLetterExchange()
		l.DeadLetterRoutingKey, _ = q.Arguments["x-dead-letter-routing-key"].(string)
		l.QuorumOptions = quorumOptionsOf(q)
		return
	}
}

// checkOthers refuses a ladder with a delay whose queue is called otherwise: without it, messages with its key
// would be unroutable after an apply.
func (l LadderConfig) checkOthers(rungs []boundRung) error {
	for _, each := range rungs {
		if slices.Contains(l.Delays, each.label) || !each.isWhole() ||
			each.queue.DeadLetterExchange() != l.DeliveryExchange {
			continue
		}
		return notThisf(
			"queue %q holds messages for %s and leads to the same delivery exchange, but is not called like the "+
				"others, %q. If the delay is not one of its own, remove the binding",
			each.queue.Name,
			each.label,
			l.QueueName,
		)
	}
	return nil
}

// derivedName is the name from which the default names would be the names that are there.
func (l LadderConfig) derivedName() string {
	if name, ok := strings.CutSuffix(string(l.QueueName), defaultRung); ok {
		return strings.ReplaceAll(name, "%%", "%")
	}
	for _, each := range []struct{ name, suffix string }{{l.EntryExchange, defaultEntryName},
		{l.DeliveryExchange, defaultDelivery}} {
		if name, ok := strings.CutSuffix(each.name, each.suffix); ok {
			return name
		}
	}
	return ""
}

package cascade

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// RecognizeLadder reads the configuration of the ladder behind the entry exchange off a broker. The bindings of the
// entry say which delays there are; a rung whose queue is missing or damaged is recognized as long as another
// one is not. A rung that the entry does not lead to cannot be found.
func RecognizeLadder(ctx context.Context, look Lookup, vhost, entry string) (Ladder, error) {
	r := &recognizer{look: look, vhost: vhost}
	l, err := r.recognizeLadder(ctx, entry)
	if err != nil {
		err = r.elsewhere(ctx, KindLadder, entry, err)
		return Ladder{}, fmt.Errorf("recognize the ladder behind exchange %q in vhost %q: %w", entry, vhost, err)
	}
	return l, nil
}

func (r *recognizer) recognizeLadder(ctx context.Context, name string) (Ladder, error) {
	if err := r.readEntry(ctx, name); err != nil {
		return Ladder{}, err
	}
	l := Ladder{Vhost: r.vhost, EntryExchange: name}
	rungs, err := r.rungs(ctx)
	if err != nil {
		return Ladder{}, err
	}
	l.Delays = slices.Sorted(maps.Keys(rungs))
	var shows *topology.Queue // the first rung whose queue is there and looks right
	for _, label := range l.Delays {
		if q := rungs[label]; q.Arguments["x-message-ttl"] == rung(label).Milliseconds() && q.DeadLetterExchange() != "" {
			shows = &q
			break
		}
	}
	if shows == nil {
		return Ladder{}, notThis("no queue behind it has the x-message-ttl that its binding's key names, " +
			"and an x-dead-letter-exchange")
	}
	l.QueueType = QueueType(shows.Type())
	l.DeliveryExchange = shows.DeadLetterExchange()
	l.DeadLetterRoutingKey, _ = shows.Arguments["x-dead-letter-routing-key"].(string)
	if limit, ok := shows.Arguments["x-max-length"].(int64); ok && l.QueueType == Quorum {
		l.MaxLength = limit
	}
	names := map[string]string{}
	for label, q := range rungs {
		names[label] = q.Name
	}
	if l.QueueName, err = labelFormat(names); err != nil {
		return Ladder{}, err
	}
	if l.Name, l.ParkUnroutable, err = r.parking(ctx); err != nil {
		return Ladder{}, err
	}
	if l.CreateDeliveryExchange, err = r.ownsDelivery(ctx, l.parts()); err != nil {
		return Ladder{}, err
	}
	if l.Name == "" {
		l.Name = l.derivedName()
	}
	if _, err := l.Resolve(); err != nil {
		return Ladder{}, notThisf("what is there does not make a valid ladder: %s", err)
	}
	return l, nil
}

// rungs are the queues behind the entry by the labels under which they are bound. A queue that is gone has only its name.
func (r *recognizer) rungs(ctx context.Context) (map[string]topology.Queue, error) {
	rungs := map[string]topology.Queue{}
	for _, b := range r.bindings {
		label, ok := strings.CutSuffix(b.RoutingKey, ".#")
		label = strings.TrimSuffix(label, ".*")
		ttl, err := ParseLabel(label)
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
		if _, twice := rungs[label]; twice && q.Arguments["x-message-ttl"] != ttl.Milliseconds() {
			continue // somebody else's queue, bound beside
		}
		rungs[label] = q
	}
	if len(rungs) == 0 {
		return nil, notThis(`it has no binding like that of a ladder's rung, to a queue with a key such as "30s.*.#"`)
	}
	return rungs, nil
}

// labelFormat is the format that gives all queues their names, by their labels.
func labelFormat(names map[string]string) (LabelFormat, error) {
	labels := slices.Sorted(maps.Keys(names))
	first := labels[0]
	name := names[first]
	for at := strings.LastIndex(name, first); at >= 0; at = strings.LastIndex(name[:at+len(first)-1], first) {
		format := LabelFormat(Escape(name[:at]) + "%s" + Escape(name[at+len(first):]))
		if !slices.ContainsFunc(labels, func(label string) bool { return format.Name(label) != names[label] }) {
			return format, nil
		}
		if at == 0 {
			break
		}
	}
	if len(names) == 1 {
		return LabelFormat(Escape(name)), nil
	}
	return "", notThisf("no format with %%s in the place of the delay names all its queues: %s",
		strings.Join(slices.Sorted(maps.Values(names)), ", "))
}

// derivedName is the name from which the default names would be the names that are there.
func (l Ladder) derivedName() string {
	if name, ok := strings.CutSuffix(string(l.QueueName), defaultRung); ok {
		return strings.ReplaceAll(name, "%%", "%")
	}
	for _, each := range []struct{ name, suffix string }{{l.EntryExchange, defaultEntryName}, {l.DeliveryExchange, defaultDelivery}} {
		if name, ok := strings.CutSuffix(each.name, each.suffix); ok {
			return name
		}
	}
	return ""
}

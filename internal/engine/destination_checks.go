package engine

import (
	"context"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/health"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Read lists the bindings of the delivery exchange.
func (d *Destination) Read(ctx context.Context) ([]topology.Binding, error) {
	return d.Vhost.BindingsFrom(ctx, d.Binding.Source)
}

// Find lists the bindings of the delivery exchange, and which of the leftovers are there. If the binding is not, the
// last of these takes its place: an update got further than it could see.
func (d *Destination) Find(ctx context.Context, leftovers []topology.Binding) (
	there []topology.Binding, binding topology.Binding, left []topology.Binding, err error,
) {
	binding = d.Binding
	if there, err = d.Read(ctx); err == nil {
		left, err = d.present(ctx, leftovers)
	}
	if err != nil {
		return nil, binding, nil, err
	}
	if last := len(left) - 1; !d.isIn(there) && last >= 0 {
		binding, left = left[last], left[:last]
		there, err = (&Destination{d.Vhost, binding}).Read(ctx)
	}
	return there, binding, left, err
}

// Limit is what makes the queue that is the destination refuse messages, and whether the queue exists.
func (d *Destination) Limit(ctx context.Context) (limit string, exists bool, err error) {
	queue, status, exists, err := d.Vhost.QueueStatus(ctx, d.Binding.Destination)
	return health.Refuses(queue, status), exists, err
}

// present are those of the bindings that are there, in the same order.
func (d *Destination) present(ctx context.Context, bindings []topology.Binding) ([]topology.Binding, error) {
	ctx, cancel := context.WithTimeout(ctx, undoTimeout)
	defer cancel()
	from := map[string][]topology.Binding{}
	var present []topology.Binding
	for _, b := range bindings {
		if _, known := from[b.Source]; !known {
			there, err := d.Vhost.BindingsFrom(ctx, b.Source)
			if err != nil {
				return nil, err
			}
			from[b.Source] = there
		}
		if slices.Contains(from[b.Source], b) {
			present = append(present, b)
		}
	}
	return present, nil
}

func (d *Destination) isIn(there []topology.Binding) bool { return slices.Contains(there, d.Binding) }

// checkEnds makes sure of what the binding is to connect. Limit is what makes a queue refuse messages.
func (d *Destination) checkEnds(ctx context.Context) (limit string, err error) {
	look := d.Vhost
	source, exists, err := look.Exchange(ctx, d.Binding.Source)
	if err != nil {
		return "", err
	}
	var delivery, destination error
	switch {
	case !exists:
		delivery = &DeliveryError{Exchange: d.Binding.Source, Missing: true}
	case source.Type != "topic":
		delivery = &DeliveryError{Exchange: d.Binding.Source, Type: source.Type}
	}
	if d.Binding.DestinationType == topology.ToQueue {
		limit, exists, err = d.Limit(ctx)
	} else {
		_, exists, err = look.Exchange(ctx, d.Binding.Destination)
	}
	switch {
	case err != nil:
		destination = err
	case !exists:
		destination = &MissingError{d.Binding.DestinationType, d.Binding.Destination}
	}
	return limit, allErrors(delivery, destination)
}

// CheckNames checks the names by the keys that lead to them and from them. It refuses those that lead into a cascade or
// ladder rather than behind it: the error then is, or wraps, a *MisnamedError.
func (d *Destination) CheckNames(ctx context.Context) error {
	look := d.Vhost
	delays, err := recognize.Delays(ctx, look, d.Binding.Source)
	if err != nil {
		return err
	}
	var delivery error
	if delays {
		delivery = &MisnamedError{DelaysBehind, d.Binding}
	}
	if d.Binding.DestinationType == topology.ToExchange {
		circles, err := recognize.LeadsTo(ctx, look, d.Binding.Destination, d.Binding.Source)
		if circles {
			return allErrors(delivery, &MisnamedError{GoesInCircles, d.Binding}, err)
		}
		return allErrors(delivery, err)
	}
	delays, err = d.isDelayQueue(ctx, look)
	if delays {
		return allErrors(delivery, &MisnamedError{IsDelayQueue, d.Binding})
	}
	return allErrors(delivery, err)
}

// isDelayQueue tells whether the queue that is the destination is one of a cascade or ladder.
func (d *Destination) isDelayQueue(ctx context.Context, look recognize.Lookup) (bool, error) {
	queue, _, err := look.Queue(ctx, d.Binding.Destination)
	if err != nil || !queue.Delays() || queue.DeadLetterExchange() == "" {
		return false, err
	}
	inbound, err := d.Vhost.Inbound(ctx, nil, []string{queue.Name})
	return slices.ContainsFunc(inbound.Sorted(), recognize.LeadsOn), err
}

// OtherLevels are the numbers of levels of the cascades that end in the delivery exchange, if none of them is that of
// the binding. The bindings to the exchange show them at once, but not that a ladder ends there, too. So a seeming
// fault is looked at once more.
func (d *Destination) OtherLevels(ctx context.Context) (map[int]bool, error) {
	own, err := recognize.Destination(d.Vhost.Name(), d.Binding)
	if err != nil || own.Match != delay.Exact {
		return nil, err
	}
	inbound, err := d.Vhost.Inbound(ctx, []string{d.Binding.Source}, nil)
	if err != nil {
		return nil, err
	}
	there := map[int]bool{}
	for b := range inbound {
		if levels, ok := recognize.LevelsOf(b); ok {
			there[levels] = true
		}
	}
	if len(there) == 0 || there[own.Levels] {
		return nil, nil
	}
	return LevelsInto(ctx, d.Vhost, d.Binding.Source)
}

// LevelsInto are the numbers of levels of all that ends in the delivery exchange.
func LevelsInto(ctx context.Context, vhost *rabbit.Vhost, delivery string) (map[int]bool, error) {
	inventory, err := Inventory(ctx, vhost, func(e topology.Exchange) bool { return e.Name == delivery })
	if err != nil {
		return nil, err
	}
	there := map[int]bool{}
	for _, one := range inventory.All(ctx) {
		if one.Delivery == delivery {
			there[one.Levels] = true
		}
	}
	return there, nil
}

// LosesOverdue tells whether the destination is a quorum queue behind a cascade of classic queues.
func (d *Destination) LosesOverdue(ctx context.Context) (bool, error) {
	isQuorum, err := d.IsQuorum(ctx)
	if err != nil || !isQuorum {
		return false, err
	}
	return d.isBehindClassic(ctx)
}

// IsQuorum tells whether the destination is a quorum queue.
func (d *Destination) IsQuorum(ctx context.Context) (bool, error) {
	if d.Binding.DestinationType != topology.ToQueue {
		return false, nil
	}
	queue, exists, err := d.Vhost.Queue(ctx, d.Binding.Destination)
	return exists && queue.Type() == "quorum", err
}

// isBehindClassic tells whether a cascade whose messages the binding takes has classic delay queues. The bindings to
// the delivery exchange show no ladder.
func (d *Destination) isBehindClassic(ctx context.Context) (bool, error) {
	inbound, err := d.Vhost.Inbound(ctx, []string{d.Binding.Source}, nil)
	if err != nil {
		return false, err
	}
	own, _ := recognize.Destination(d.Vhost.Name(), d.Binding)
	for _, b := range inbound.Sorted() {
		levels, ok := recognize.LowestOf(b)
		if !ok || own.Match == delay.Exact && own.Levels != levels {
			continue
		}
		if classic, err := d.hasClassic(ctx, b.Source); classic || err != nil {
			return classic, err
		}
	}
	return false, nil
}

// hasClassic tells whether an exchange leads into a classic delay queue. All delay queues of a cascade are of one type.
func (d *Destination) hasClassic(ctx context.Context, exchange string) (bool, error) {
	look := d.Vhost
	bindings, err := look.BindingsFrom(ctx, exchange)
	for _, b := range bindings {
		if b.DestinationType != topology.ToQueue || !recognize.LeadsOn(b) {
			continue
		}
		queue, _, err := look.Queue(ctx, b.Destination)
		if err != nil || queue.Delays() {
			return queue.Delays() && queue.Type() == "classic", err
		}
	}
	return false, err
}

// Inventory is all that a vhost has, if one of its exchanges is worth it.
func Inventory(
	ctx context.Context, vhost *rabbit.Vhost, worth func(topology.Exchange) bool,
) (*recognize.Inventory, error) {
	there, err := vhost.Inventory(ctx, worth)
	return recognize.NewInventory(vhost.Name(), there), err
}

// uncovered are those of the bindings whose messages the wanted binding does not take.
func (d *Destination) uncovered(bindings []topology.Binding) []topology.Binding {
	own, _ := recognize.Destination(d.Vhost.Name(), d.Binding)
	return slices.DeleteFunc(slices.Clone(bindings), func(b topology.Binding) bool {
		other, err := recognize.Destination(d.Vhost.Name(), b)
		return err == nil && b.Source == d.Binding.Source && own.TakesAll(other)
	})
}

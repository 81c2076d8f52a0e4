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

// destination is a binding from an exchange of others to a queue or exchange of others. It says where messages go that
// come out of a cascade or ladder.
type destination struct {
	vhost   *rabbit.Vhost
	binding topology.Binding
}

// check finds the faults of a destination, new or not. It refuses names that lead into a cascade or ladder
// rather than behind it: the error then is, or wraps, a *MisnamedError. What the plan says of the delivery exchange is
// not asked for.
func (d destination) check(ctx context.Context, options Options, isNew bool) (problems []Problem, err error) {
	if isNew {
		if err := d.checkNames(ctx); err != nil {
			return nil, err
		}
	}
	if isNew && !options.DeliveryPlanned {
		there, err := d.otherLevels(ctx)
		if err != nil {
			return nil, err
		}
		if len(there) > 0 {
			problems = append(problems, Problem{Other, &LevelsError{d.binding, there}})
		}
	}
	loses := false
	if options.BehindClassic || isNew && !options.DeliveryPlanned {
		loses, err = d.isQuorum(ctx)
	}
	if err == nil && loses && !options.BehindClassic {
		loses, err = d.isBehindClassic(ctx)
	}
	if loses {
		problems = append(problems, Problem{Other, &LosesOverdueError{d.binding}})
	}
	return problems, err
}

// checkEnds makes sure of what the binding is to connect.
func (d destination) checkEnds(ctx context.Context) (problems []Problem, err error) {
	delivery, err := d.checkDelivery(ctx)
	if err != nil {
		return nil, err
	}
	var exists bool
	if d.binding.DestinationType == topology.ToQueue {
		var queue topology.Queue
		var status health.QueueStatus
		queue, status, exists, err = d.vhost.QueueStatus(ctx, d.binding.Destination)
		if limit := health.Refuses(queue, status); limit != "" {
			problems = append(problems, Problem{Other, &LimitError{d.binding.Destination, limit}})
		}
	} else {
		_, exists, err = d.vhost.Exchange(ctx, d.binding.Destination)
	}
	if err == nil && !exists {
		err = &MissingError{d.binding.DestinationType, d.binding.Destination}
	}
	return problems, allErrors(delivery, err)
}

// checkDelivery finds the fault of the delivery exchange, nil if it has none.
func (d destination) checkDelivery(ctx context.Context) (fault, err error) {
	source, exists, err := d.vhost.Exchange(ctx, d.binding.Source)
	switch {
	case err != nil:
		return nil, err
	case !exists:
		return &DeliveryError{Exchange: d.binding.Source, Missing: true}, nil
	case source.Type != "topic":
		return &DeliveryError{Exchange: d.binding.Source, Type: source.Type}, nil
	}
	return nil, nil
}

// checkNames checks the names by the keys that lead to them and from them.
func (d destination) checkNames(ctx context.Context) error {
	delays, err := recognize.Delays(ctx, d.vhost, d.binding.Source)
	if err != nil {
		return err
	}
	var delivery error
	if delays {
		delivery = &MisnamedError{DelaysBehind, d.binding}
	}
	if d.binding.DestinationType == topology.ToExchange {
		circles, err := recognize.LeadsTo(ctx, d.vhost, d.binding.Destination, d.binding.Source)
		if circles {
			return allErrors(delivery, &MisnamedError{GoesInCircles, d.binding}, err)
		}
		return allErrors(delivery, err)
	}
	delays, err = d.isDelayQueue(ctx)
	if delays {
		return allErrors(delivery, &MisnamedError{IsDelayQueue, d.binding})
	}
	return allErrors(delivery, err)
}

// isDelayQueue tells whether the queue that is the destination is one of a cascade or ladder.
func (d destination) isDelayQueue(ctx context.Context) (bool, error) {
	queue, _, err := d.vhost.Queue(ctx, d.binding.Destination)
	if err != nil || !queue.Delays() || queue.DeadLetterExchange()+queue.DeadLetterQueue() == "" {
		return false, err
	}
	inbound, err := d.vhost.Inbound(ctx, nil, []string{queue.Name})
	return slices.ContainsFunc(inbound.Sorted(), recognize.LeadsOn), err
}

// otherLevels are the numbers of levels of the cascades that end in the delivery exchange, if none of them is that of
// the binding. The bindings to the exchange show them at once, but not that a ladder ends there, too. So a seeming
// fault is looked at once more.
func (d destination) otherLevels(ctx context.Context) (map[int]bool, error) {
	own, err := recognize.Destination(d.vhost.Name(), d.binding)
	if err != nil || own.Match != delay.Exact {
		return nil, err
	}
	inbound, err := d.vhost.Inbound(ctx, []string{d.binding.Source}, nil)
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
	if there, err = LevelsInto(ctx, d.vhost, d.binding.Source); there[own.Levels] {
		return nil, err
	}
	return there, err
}

// LevelsInto are the numbers of levels of all that ends in the delivery exchange.
func LevelsInto(ctx context.Context, vhost *rabbit.Vhost, delivery string) (map[int]bool, error) {
	inventory, err := Inventory(ctx, vhost, func(e topology.Exchange) bool { return e.Name == delivery })
	if err != nil {
		return nil, err
	}
	there := map[int]bool{}
	for _, one := range inventory.All(ctx) {
		if one.Delivery == delivery && !one.Shared {
			there[one.Levels] = true
		}
	}
	return there, nil
}

func (d destination) isQuorum(ctx context.Context) (bool, error) {
	if d.binding.DestinationType != topology.ToQueue {
		return false, nil
	}
	queue, exists, err := d.vhost.Queue(ctx, d.binding.Destination)
	return exists && queue.Type() == "quorum", err
}

// isBehindClassic tells whether a cascade whose messages the binding takes has classic delay queues. The bindings to
// the delivery exchange show no ladder.
func (d destination) isBehindClassic(ctx context.Context) (bool, error) {
	inbound, err := d.vhost.Inbound(ctx, []string{d.binding.Source}, nil)
	if err != nil {
		return false, err
	}
	own, _ := recognize.Destination(d.vhost.Name(), d.binding)
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
func (d destination) hasClassic(ctx context.Context, exchange string) (bool, error) {
	bindings, err := d.vhost.BindingsFrom(ctx, exchange)
	for _, b := range bindings {
		if b.DestinationType != topology.ToQueue || !recognize.LeadsOn(b) {
			continue
		}
		queue, _, err := d.vhost.Queue(ctx, b.Destination)
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

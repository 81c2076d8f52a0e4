package engine

import (
	"context"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/health"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// check finds the faults of a destination, new or not. It refuses names that lead into a cascade or ladder
// rather than behind it: the error then is, or wraps, a *MisnamedError. What the plan says of the delivery exchange is
// not asked for.
func (r *bindingChange) check(ctx context.Context, isNew bool) (problems []Problem, err error) {
	if isNew {
		if err := r.checkNames(ctx); err != nil {
			return nil, err
		}
	}
	if isNew && !r.change.Options.DeliveryPlanned {
		there, err := r.otherLevels(ctx)
		if err != nil {
			return nil, err
		}
		if len(there) > 0 {
			problems = append(problems, Problem{Other, &LevelsError{r.to, there}})
		}
	}
	loses := false
	if r.change.Options.BehindClassic || isNew && !r.change.Options.DeliveryPlanned {
		loses, err = r.isQuorum(ctx)
	}
	if loses && !r.change.Options.BehindClassic {
		loses, err = r.isBehindClassic(ctx)
	}
	if loses {
		problems = append(problems, Problem{Other, &LosesOverdueError{r.to}})
	}
	return problems, err
}

// checkEnds makes sure of what the binding is to connect.
func (r *bindingChange) checkEnds(ctx context.Context) (problems []Problem, err error) {
	delivery, err := r.faultOfDelivery(ctx)
	if err != nil {
		return nil, err
	}
	var exists bool
	if r.to.DestinationType == topology.ToQueue {
		var queue topology.Queue
		var status health.QueueStatus
		queue, status, exists, err = r.vhost.QueueStatus(ctx, r.to.Destination)
		if limit := health.Refuses(queue, status); limit != "" {
			problems = append(problems, Problem{Other, &LimitError{r.to.Destination, limit}})
		}
	} else {
		_, exists, err = r.vhost.Exchange(ctx, r.to.Destination)
	}
	if err == nil && !exists {
		err = &MissingError{r.to.DestinationType, r.to.Destination}
	}
	return problems, allErrors(delivery, err)
}

// faultOfDelivery finds the fault of the delivery exchange, nil if it has none.
func (r *bindingChange) faultOfDelivery(ctx context.Context) (fault, err error) {
	source, exists, err := r.vhost.Exchange(ctx, r.to.Source)
	switch {
	case err != nil:
		return nil, err
	case !exists:
		return &DeliveryError{Exchange: r.to.Source, Missing: true}, nil
	case source.Type != "topic":
		return &DeliveryError{Exchange: r.to.Source, Type: source.Type}, nil
	}
	return nil, nil
}

// checkNames checks the names by the keys that lead to them and from them.
func (r *bindingChange) checkNames(ctx context.Context) error {
	delays, err := recognize.Delays(ctx, r.vhost, r.to.Source)
	if err != nil {
		return err
	}
	var delivery error
	if delays {
		delivery = &MisnamedError{DelaysBehind, r.to}
	}
	if r.to.DestinationType == topology.ToExchange {
		circles, err := recognize.LeadsTo(ctx, r.vhost, r.to.Destination, r.to.Source)
		if circles {
			return allErrors(delivery, &MisnamedError{GoesInCircles, r.to}, err)
		}
		return allErrors(delivery, err)
	}
	delays, err = r.isDelayQueue(ctx)
	if delays {
		return allErrors(delivery, &MisnamedError{IsDelayQueue, r.to})
	}
	return allErrors(delivery, err)
}

// isDelayQueue tells whether the queue that is the destination is one of a cascade or ladder.
func (r *bindingChange) isDelayQueue(ctx context.Context) (bool, error) {
	queue, _, err := r.vhost.Queue(ctx, r.to.Destination)
	if err != nil || !queue.Delays() || queue.DeadLetterObject() == "" {
		return false, err
	}
	inbound, err := r.vhost.Inbound(ctx, nil, []string{queue.Name})
	return slices.ContainsFunc(inbound.Sorted(), recognize.LeadsOn), err
}

// otherLevels are the numbers of levels of the cascades that end in the delivery exchange, if none of them is that of
// the binding. The bindings to the exchange show them at once, but not that a ladder ends there, too. So a seeming
// fault is looked at once more.
func (r *bindingChange) otherLevels(ctx context.Context) (map[int]bool, error) {
	own, err := recognize.Destination(r.vhost.Name(), r.to)
	if err != nil || own.Match != delay.Exact {
		return nil, err
	}
	inbound, err := r.vhost.Inbound(ctx, []string{r.to.Source}, nil)
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
	if there, err = LevelsInto(ctx, r.vhost, r.to.Source); there[own.Levels] {
		return nil, err
	}
	return there, err
}

// LevelsInto are the numbers of levels of all that ends in the delivery exchange.
func LevelsInto(ctx context.Context, vhost Reader, delivery string) (map[int]bool, error) {
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

func (r *bindingChange) isQuorum(ctx context.Context) (bool, error) {
	if r.to.DestinationType != topology.ToQueue {
		return false, nil
	}
	queue, exists, err := r.vhost.Queue(ctx, r.to.Destination)
	return exists && queue.Type() == "quorum", err
}

// isBehindClassic tells whether a cascade whose messages the binding takes has classic delay queues. The bindings to
// the delivery exchange show no ladder.
func (r *bindingChange) isBehindClassic(ctx context.Context) (bool, error) {
	inbound, err := r.vhost.Inbound(ctx, []string{r.to.Source}, nil)
	if err != nil {
		return false, err
	}
	own, _ := recognize.Destination(r.vhost.Name(), r.to)
	for _, b := range inbound.Sorted() {
		levels, ok := recognize.LowestOf(b)
		if !ok || own.Match == delay.Exact && own.Levels != levels {
			continue
		}
		if classic, err := r.hasClassic(ctx, b.Source); classic || err != nil {
			return classic, err
		}
	}
	return false, nil
}

// hasClassic tells whether an exchange leads into a classic delay queue. All delay queues of a cascade are of one type.
func (r *bindingChange) hasClassic(ctx context.Context, exchange string) (bool, error) {
	bindings, err := r.vhost.BindingsFrom(ctx, exchange)
	for _, b := range bindings {
		if b.DestinationType != topology.ToQueue || !recognize.LeadsOn(b) {
			continue
		}
		queue, _, err := r.vhost.Queue(ctx, b.Destination)
		if err != nil || queue.Delays() {
			return queue.Delays() && queue.Type() == "classic", err
		}
	}
	return false, err
}

// Inventory is all that a vhost has, if one of its exchanges is worth it.
func Inventory(
	ctx context.Context, vhost Reader, worth func(topology.Exchange) bool,
) (*recognize.Inventory, error) {
	there, err := vhost.Inventory(ctx, worth)
	return recognize.NewInventory(vhost.Name(), there), err
}

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// previewBindings says what a destination would meet. The names of a binding that is there already are not asked for.
func (e *Engine) previewBindings(ctx context.Context, c Change) []Problem {
	r := c.bindingChange(e.vhost(c.Vhost))
	if e.silent.Load() {
		return nil
	}
	waits := e.previewWaiting(ctx, r)
	if len(c.After.Bindings) == 0 {
		return waits
	}
	isNew := !slices.Contains(r.before, r.to)
	problems, err := r.check(ctx, isNew)
	problems = append(problems, waits...)
	_, isMisnamed := errors.AsType[*MisnamedError](err)
	switch {
	case isMisnamed:
		return append([]Problem{{Refused, err}}, problems...)
	case err == nil && isNew:
		var more []Problem
		more, err = r.preview(ctx)
		problems = append(more, problems...)
	}
	if err != nil && (isNew || rabbit.IsKind(err, rabbit.LavinMQ)) {
		return e.unusable(ctx, err)
	}
	e.isAway(ctx, err)
	return problems
}

// preview says what a destination that is new would meet, besides its names.
func (r *bindingChange) preview(ctx context.Context) (problems []Problem, err error) {
	var delivery error
	if !r.change.Options.DeliveryPlanned {
		if delivery, err = r.faultOfDelivery(ctx); err != nil {
			return nil, err
		}
	}
	there, err := r.vhost.HasDestination(ctx, r.to)
	if err != nil {
		return nil, err
	}
	var missing error
	if !there && !r.change.Options.DestinationPlanned {
		missing = &MissingError{r.to.DestinationType, r.to.Destination}
	}
	permissions, err := previewPermissions(ctx, r.vhost, *ofBindings(r.to))
	if err != nil {
		return nil, err
	}
	if refusal := allErrors(delivery, missing, permissions); refusal != nil {
		problems = append(problems, Problem{Refused, refusal})
	}
	if !there {
		return problems, nil
	}
	bound, err := r.vhost.BindingsFrom(ctx, r.to.Source)
	if err != nil {
		return nil, err
	}
	behind, err := LookBeyond(ctx, r.vhost, r.to, bound)
	return append(problems, behind...), err
}

// WaitingError is for messages that may be on their way to bindings that go. Nothing is refused for it.
type WaitingError struct {
	// Gone are bindings of one exchange.
	Gone []topology.Binding
	// To takes all of these messages then. If it has no source, nothing does, and the change proves that none is left.
	To topology.Binding
	// Messages are as many by the last count, and Uncounted tells whether RabbitMQ leaves some out.
	Messages  int64
	Uncounted bool
}

func (e *WaitingError) Error() string {
	return fmt.Sprintf("%d messages are on their way to %d bindings that go", e.Messages, len(e.Gone))
}

// previewWaiting says how many messages are on their way to the bindings that go. Those that get to the same queue or
// exchange all the same do not count.
func (e *Engine) previewWaiting(ctx context.Context, r *bindingChange) (problems []Problem) {
	moves := func(b topology.Binding) bool { return !delay.Replaces(r.to, b) }
	if gone := allBut(r.before, r.to); !slices.ContainsFunc(gone, moves) {
		return nil
	}
	s := e.survey(ctx, r.vhost)
	if s.err != nil {
		return nil // the apply asks again
	}
	r.there = s.inventory.There.Bindings
	gone := existing(allBut(r.before, r.to), r.there)
	needed := r.needed(gone)
	led := slices.DeleteFunc(gone, func(b topology.Binding) bool {
		return !delay.TakesAll(r.to, b) || !moves(b)
	})
	for _, waiting := range []WaitingError{{Gone: needed}, {Gone: led, To: r.to}} {
		s.count(ctx, &waiting)
		if waiting.Messages > 0 || waiting.Uncounted {
			problems = append(problems, Problem{Other, &waiting})
		}
	}
	return problems
}

// survey is what a vhost has and what waits there. All previews of a run have one.
type survey struct {
	once      sync.Once
	inventory *recognize.Inventory
	counts    map[string]*rabbit.QueueCount
	err       error
}

func (e *Engine) survey(ctx context.Context, vhost Reader) *survey {
	of, _ := e.surveys.LoadOrStore(vhost.Name(), &survey{})
	s, _ := of.(*survey)
	s.once.Do(func() {
		s.inventory, s.err = Inventory(ctx, vhost, func(topology.Exchange) bool { return true })
		if s.err == nil {
			s.counts, s.err = vhost.CountAll(ctx)
		}
	})
	return s
}

// count counts what waits before the bindings that go.
func (s *survey) count(ctx context.Context, w *WaitingError) {
	if len(w.Gone) == 0 {
		return
	}
	for _, q := range s.inventory.Upstream(ctx, w.Gone) {
		if n := s.counts[q.Name]; n != nil && n.IsCounted {
			w.Messages += n.Messages
		} else {
			w.Uncounted = true
		}
	}
}

package broker

import (
	"context"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Connect begins to open the AMQP connection of a plan that is yet to be made, while what is needed for it is read, and as many
// channels as it takes to look into so many queues. It waits for nothing.
func (r *Runner) Connect(ctx context.Context, queues int) { r.openAMQP(r.logging(ctx), false, queues) }

// Look begins the first look for a plan that begins with a proof that the queues are empty, while what else is needed for the plan
// is read. It gives the look a head start: beside many requests it would take longer, and so would the wait for the next.
// Read is what has been read just now: the bindings of the exchanges that it owns are not asked for again.
// Without AMQP it does nothing: each look would get messages and put them back.
func (r *Runner) Look(ctx context.Context, queues []topology.Queue, read topology.Topology) {
	if len(queues) == 0 {
		return
	}
	ctx, giveUp := context.WithCancel(r.logging(ctx))
	ahead := &lookAhead{queues: queues, known: ownBindings(read), done: make(chan struct{}), giveUp: giveUp}
	r.ahead = ahead
	looked := make(chan struct{})
	go func() {
		defer close(ahead.done)
		if r.amqp(ctx) != nil {
			ahead.seen, ahead.err = r.look(ctx, queues, nil)
		}
		close(looked)
		if ahead.seen != nil && ahead.err == nil {
			ahead.err = r.learn(ctx, queues, ahead.seen, ahead.known)
		}
	}()
	select {
	case <-looked:
	case <-time.After(headStart):
	}
}

// ownBindings are the bindings of the exchanges that a topology owns, by their source.
func ownBindings(t topology.Topology) map[string][]topology.Binding {
	own := map[string][]topology.Binding{}
	for name := range t.Exchanges {
		if t.Owns(name) {
			own[name] = nil
		}
	}
	for b := range t.Bindings {
		if t.Owns(b.Source) {
			own[b.Source] = append(own[b.Source], b)
		}
	}
	return own
}

// headStart is more than a look takes where the broker is near.
const headStart = 300 * time.Millisecond

// lookAhead is a look that was made before the run began to change anything.
type lookAhead struct {
	queues []topology.Queue
	known  map[string][]topology.Binding // read before, by their source
	giveUp context.CancelFunc
	done   chan struct{} // closed when there is a result; without AMQP there is none
	seen   *sight
	err    error
}

// endLook waits for the look that was begun ahead, and returns it, nil if there is none. Nobody gets it twice.
func (r *Runner) endLook() *lookAhead {
	ahead := r.ahead
	if ahead != nil {
		<-ahead.done
		ahead.giveUp()
		r.ahead = nil
	}
	return ahead
}

// firstLook is the one that was begun ahead, if that was at these queues and found nothing, for what waited then may be gone; and if it
// was not so long ago that it would only take a third look, as long after the second. One that is made instead of it does not ask for the
// bindings that were read before.
func (r *Runner) firstLook(ctx context.Context, queues []topology.Queue) (*sight, error) {
	var known map[string][]topology.Binding
	if ahead := r.endLook(); ahead != nil && covers(ahead.queues, queues) {
		known = ahead.known
		if ahead.err != nil || ahead.seen != nil && len(ahead.seen.waiting) == 0 && isRecent(ahead.seen.policies.shortestStay(queues), time.Since(ahead.seen.began)) {
			return ahead.seen, ahead.err
		}
	}
	seen, err := r.look(ctx, queues, nil)
	if err == nil {
		err = r.learn(ctx, queues, seen, known)
	}
	return seen, err
}

func isRecent(stay, age time.Duration) bool { return twoAreEnough(stay, age) || age < 2*settling }

package broker

import (
	"context"
	"slices"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// proof is that queues certainly held nothing at a time.
type proof struct {
	queues []topology.Queue
	at     time.Time
	// stay is the shortest time that a message spends in one of the queues.
	stay time.Duration
}

// covers tells whether all of the queues are among those.
func covers(those, queues []topology.Queue) bool {
	return !slices.ContainsFunc(queues, func(q topology.Queue) bool { return !slices.ContainsFunc(those, q.Equal) })
}

// holds is true while what has come into one of the queues since cannot have left it again, unless somebody consumes from it: to count
// nothing then says that they are still empty.
func (p proof) holds() bool { return time.Since(p.at) < p.stay }

// areConsumed tells whether there is somebody who takes messages out of one of the queues.
func areConsumed(counted map[string]QueueDepth) bool {
	for _, depth := range counted {
		if depth.Consumers > 0 {
			return true
		}
	}
	return false
}

// without is what is left of the proof when steps begin to run: nothing is known of a queue that they change.
func (p proof) without(steps []topology.Step) proof {
	changed := map[string]bool{}
	for _, step := range steps {
		switch s := step.(type) {
		case topology.DeclareQueue:
			changed[s.Queue.Name] = true
		case topology.DeleteQueue:
			changed[s.Queue.Name] = true
		}
	}
	p.queues = slices.DeleteFunc(slices.Clone(p.queues), func(q topology.Queue) bool { return changed[q.Name] })
	return p
}

// keepProof proves again and again what is proven, until it is stopped: while the steps of a phase run, messages may come in. To
// delete the exchanges of ten cascades takes RabbitMQ 4.0.5 longer than the second that a message spends in the first queue, and
// a proof that is made when they are gone takes as long as the totals take to be up to date. It does not say if something has come in:
// that is for the next verification, which then has no proof to rely on. The broker is near enough for most phases to end before the
// first time. Without AMQP it does nothing, see Look, and where no later phase verifies, nobody needs it.
func (r *Runner) keepProof(ctx context.Context) (stop func()) {
	stopping, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for r.proof.holds() && r.open() != nil {
			select {
			case <-time.After(time.Until(r.proof.at.Add(r.proof.stay / 4))):
			case <-stopping:
				return
			}
			began := time.Now()
			if !r.nothingCame(ctx, r.proof.queues) || !r.proof.holds() {
				return
			}
			r.proof.at = began
		}
	}()
	return func() {
		close(stopping)
		<-stopped
	}
}

// nothingCame tells whether queues are empty that certainly were a moment ago. There must be nobody who takes messages out of them.
func (r *Runner) nothingCame(ctx context.Context, queues []topology.Queue) bool {
	counted, waiting, err := r.count(ctx, queues)
	if err != nil || len(waiting) > 0 || areConsumed(counted) {
		return false
	}
	waiting, err = r.held(ctx, queues)
	return err == nil && len(waiting) == 0
}

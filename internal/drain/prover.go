// Package drain proves that queues are empty, so that no message is deleted with one. Queues come in. Nothing goes out,
// or a [*NotEmptyError] that says what waits where.
//
// Begin with [NewProver], one for each operation, and [Prover.Prepare]. Tell it of each change by [Prover.Closed] and
// [Prover.Changed]. Call [Prover.VerifyEmpty] for a look, a wait or a proof, and [Prover.Left] immediately before a
// queue is deleted.
//
// Pure rules decide what counts prove, and never ask a broker: read rules.go first ([Proof.Judge]), then
// surroundings.go and proven.go. The counts come from one counter for the operation (counter.go). It asks the queues
// themselves over AMQP, or the management API alone where there is no AMQP. A connection that ends is opened again.
//
// It never deletes or closes anything.
package drain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Prover finds out whether queues of one vhost are empty, for one operation. It counts them over AMQP if a connection
// can be had when it first needs one, and through the management API otherwise.
type Prover struct {
	vhost *rabbit.Vhost
	// choosing is held by who chooses the counter, which is nil until then.
	choosing chan struct{}
	counter  *counter
	// filled has the queues in which AMQP has counted messages: so it reaches the broker that has them. What they had
	// by an old count of the management API may have left since. Without it, a drain ends in a dispute.
	filled sync.Map
	// hasStatistics is set once RabbitMQ is known to collect statistics.
	hasStatistics atomic.Bool

	mutex  sync.Mutex
	proven Proven
	// closed is when exchanges were last deleted or unbound, by their names.
	closed map[string]time.Time
}

// NewProver is for one operation. It makes no request.
func NewProver(vhost *rabbit.Vhost) *Prover {
	return &Prover{vhost: vhost, choosing: make(chan struct{}, 1), closed: map[string]time.Time{}}
}

// Prepare makes sure that a given address for AMQP works, before anything is changed. A limit or a refusal is no
// exception: whoever gives an address wants AMQP. A derived address may fail. Once the operation has begun, the
// management API takes the place of AMQP that is refused or too slow. To break off would leave more undone.
func (p *Prover) Prepare(ctx context.Context) error {
	if !p.vhost.Client().IsAMQPGiven() || p.counter != nil {
		return nil
	}
	for began := time.Now(); ; {
		conn, err := p.vhost.Connect(ctx)
		if err == nil {
			p.counter = &counter{vhost: p.vhost, conn: conn, filled: &p.filled}
			return nil
		}
		if !rabbit.MayPass(err) || time.Since(began) >= p.vhost.Client().RetryTimeout() {
			return p.vhost.NotUsable(ctx, err)
		}
		if err := p.vhost.Client().Wait(ctx, polling); err != nil {
			return err
		}
	}
}

// Close ends the connection, if there is one.
func (p *Prover) Close() {
	p.choosing <- struct{}{}
	defer func() { <-p.choosing }()
	if p.counter != nil {
		p.counter.close()
		p.counter = nil
	}
}

// Question is which queues are to be empty, in the order in which messages move from one to the next.
type Question struct {
	Queues []topology.Queue
	// Wait is how long the queues may take to run empty.
	Wait time.Duration
	// Why is what the messages are in the way of.
	Why string
	// FirstLook is for a first look, before anything is closed: it ends with what can be seen at once.
	FirstLook bool
	// NothingMoves is set when nothing moves from queue to queue any more.
	NothingMoves bool
}

// VerifyEmpty fails with a *NotEmptyError unless nothing waits in the queues. It gives up before its time where waiting
// does not help. A message that came just when the entry was closed may be parked, and the entry would only stay closed
// for longer. RabbitMQ removes an exchange and its bindings one after the other (TestDrain).
func (p *Prover) VerifyEmpty(ctx context.Context, q Question) error {
	deadline := time.Now().Add(q.Wait)
	for {
		waiting, err := p.waiting(ctx, q)
		if err != nil || len(waiting) == 0 {
			return err
		}
		if !time.Now().Before(deadline) || anyStays(q.Queues, waiting) {
			return &NotEmptyError{Vhost: p.vhost.Name(), Why: q.Why, Queues: waiting}
		}
		if err := p.untilNextLook(ctx, q.Queues, deadline); err != nil {
			return err
		}
	}
}

// untilNextLook waits until it is worth looking at queues that hold messages: until none is ready, or one is where it
// stays.
func (p *Prover) untilNextLook(ctx context.Context, queues []topology.Queue, deadline time.Time) error {
	for {
		if err := p.vhost.Client().Wait(ctx, polling); err != nil || !time.Now().Before(deadline) {
			return err
		}
		ready, err := p.Ready(ctx, queues)
		if err != nil {
			return err
		}
		waiting := slices.DeleteFunc(ready, func(d QueueDepth) bool { return d.Messages == 0 })
		if len(waiting) == 0 || anyStays(queues, waiting) {
			return nil
		}
	}
}

// Ready counts the messages of queues that are ready. Where there is no AMQP, the counts may be old.
func (p *Prover) Ready(ctx context.Context, queues []topology.Queue) (depths []QueueDepth, err error) {
	err = p.withCounter(ctx, func(c *counter) error {
		depths, err = c.ready(ctx, queues)
		return err
	})
	return depths, err
}

// waiting are the queues that hold messages. It is empty only if none does for certain. Where an earlier proof still
// holds, it is renewed, for less than a new one takes.
func (p *Prover) waiting(ctx context.Context, q Question) (waiting []QueueDepth, err error) {
	err = p.withCounter(ctx, func(c *counter) error {
		if isRenewed, err := p.renew(ctx, c, q.Queues); err != nil || isRenewed {
			return err
		}
		var proven *Proven
		waiting, proven, err = p.prove(ctx, c, q.Queues, Proof{FirstLook: q.FirstLook, NothingMoves: q.NothingMoves})
		if proven != nil {
			p.mutex.Lock()
			defer p.mutex.Unlock()
			p.proven = *proven
		}
		return err
	})
	return waiting, err
}

// renew renews an earlier proof that still holds, if nothing has come into the queues since. It waits until all is in
// the queues that was routed to them. Otherwise a message could come in after the look, and its TTL could be over
// before the last look into its queue (TestEachFactCounts).
func (p *Prover) renew(ctx context.Context, c *counter, queues []topology.Queue) (isRenewed bool, err error) {
	earlier := p.lastProof()
	if !earlier.HoldsAt(time.Now(), queues) || !c.isOverAMQP() {
		return false, nil
	}
	if err := p.Settle(ctx, nil); err != nil {
		return false, err
	}
	began := time.Now()
	ready, err := c.ready(ctx, queues)
	if err != nil {
		return false, err
	}
	came := slices.ContainsFunc(ready, func(d QueueDepth) bool { return !isIdle(d.Messages, d.Consumers) })
	if came || !earlier.HoldsAt(time.Now(), queues) {
		return false, nil
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.proven = earlier.Renewed(queues, began)
	return true, nil
}

func (p *Prover) lastProof() Proven {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.proven
}

// prove looks at the queues until the looks prove that they are empty, or that messages wait in some. What that takes
// is decided by Proof. Proven is nil unless they are empty, and were looked at more than once.
func (p *Prover) prove(
	ctx context.Context, c *counter, queues []topology.Queue, of Proof,
) (waiting []QueueDepth, proven *Proven, err error) {
	of.Began = time.Now()
	seen, err := p.observe(ctx, c, queues)
	if err != nil {
		return nil, nil, err
	}
	of.Queues = seen.known
	var verdict Verdict
	for {
		if err := seen.count(ctx, verdict.Lacks); err != nil {
			return nil, nil, p.notCounted(ctx, verdict, err)
		}
		verdict = of.Judge(seen.counts)
		switch {
		case len(verdict.Waiting) > 0:
			return seen.depths(verdict.Waiting), nil, nil
		case len(verdict.Disputed) > 0:
			return nil, nil, p.disagree(verdict.Disputed[0])
		case verdict.Empty && of.FirstLook:
			return nil, nil, nil
		case verdict.Empty:
			proven := of.Proven(queues, verdict)
			return nil, &proven, nil
		}
		if err := p.needStatistics(ctx, verdict.Uncounted()); err != nil {
			return nil, nil, err
		}
		if err := p.vhost.Client().Wait(ctx, verdict.Pause); err != nil {
			return nil, nil, p.notCounted(ctx, verdict, err)
		}
	}
}

// observe finds out what has to be known of the queues to count them, and takes the old counts of quorum queues.
func (p *Prover) observe(ctx context.Context, c *counter, queues []topology.Queue) (*observation, error) {
	o := &observation{counter: c, queues: queues, ticks: map[string]*Ticks{}}
	group, together := errgroup.WithContext(ctx)
	var surroundings Surroundings
	group.Go(func() (err error) {
		surroundings, o.overdue, err = readSurroundings(together, p.vhost, queues)
		return err
	})
	group.Go(func() error { return o.countOld(together) })
	if err := group.Wait(); err != nil {
		return nil, err
	}
	surroundings.Version = c.version(ctx)
	var hiding []string
	for _, q := range queues {
		known := surroundings.Known(q, c.isOverAMQP(), o.overdue)
		_, known.Filled = p.filled.Load(q.Name)
		if isQuorum(q) {
			o.ticks[q.Name] = &Ticks{}
			if known.MayHide {
				hiding = append(hiding, q.Name)
			}
		}
		o.known = append(o.known, known)
	}
	return o, p.needStatistics(ctx, hiding)
}

// disagree is for a queue in which messages are ready by the management API, and none is by AMQP.
func (p *Prover) disagree(count Count) error {
	return &rabbit.Error{Kind: rabbit.Unavailable, Op: p.vhost.Counting(count.Queue),
		Reason: fmt.Sprintf("the management API says that %d are ready, and AMQP that none is", count.ReadyOfAll),
		Hint: "nothing is deleted while it is not certain that the queue is empty. Make sure that both reach the " +
			"same broker: amqp_uri is the address for AMQP. If they do, messages pass through the queue: try again " +
			"when none do"}
}

// notCounted is for a wait that ended before RabbitMQ had counted all queues.
func (p *Prover) notCounted(ctx context.Context, verdict Verdict, err error) error {
	uncounted := verdict.Uncounted()
	if len(uncounted) == 0 || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	return &rabbit.Error{Kind: rabbit.Unavailable, Op: p.vhost.Counting(uncounted[0]),
		Reason: "RabbitMQ has not counted them since the way into the queue was closed",
		Hint: "a quorum queue counts itself at intervals (quorum_tick_interval, five seconds by default). The " +
			"management API takes over the count at other intervals (collect_statistics_interval). Nothing " +
			"is deleted before that: give timeouts more time than both, or look at the queue's state. " + halfDone}
}

// needStatistics fails where RabbitMQ does not say when it has counted the queues.
func (p *Prover) needStatistics(ctx context.Context, queues []string) error {
	if len(queues) == 0 || p.hasStatistics.Load() {
		return nil
	}
	has, err := p.vhost.Client().HasStatistics(ctx)
	if err != nil {
		return err
	}
	if has {
		p.hasStatistics.Store(true)
		return nil
	}
	return &rabbit.Error{Kind: rabbit.Unavailable, Op: p.vhost.Counting(queues[0]),
		Reason: "RabbitMQ's statistics are switched off (management_agent.disable_metrics_collector), and only they " +
			"tell whether a quorum queue keeps a message after its time, or delays one by itself",
		Hint: "nothing is deleted while that is not certain. Switch the statistics on, or make sure of it yourself " +
			"and set force_destroy = true"}
}

// Closed notes that an exchange no longer leads anywhere, or not to all that it did.
func (p *Prover) Closed(exchange string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.closed[exchange] = time.Now()
}

// Changed notes that nothing is known any more of a queue.
func (p *Prover) Changed(queue string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.proven = p.proven.WithoutQueue(queue)
}

// closedAt is lastOf those that this operation has closed.
func (p *Prover) closedAt(sources []string) time.Time {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return lastOf(p.closed, sources)
}

// Settle waits until what the sources had routed when they were closed is in the queues.
func (p *Prover) Settle(ctx context.Context, sources []string) error {
	return p.vhost.Client().Wait(ctx, time.Until(p.closedAt(sources).Add(Settling)))
}

// Left counts what a queue holds immediately before it is deleted, none if it is certainly empty. A proof from after
// its ways in were closed leaves only publishers who name the queue: no message is ready in it, then. Without such a
// proof there has to be one. What such a publisher has a queue delay by itself, since the tick of the proof, nobody can
// see. The sources are the exchanges that led into the queue, nil if they are not known.
func (p *Prover) Left(ctx context.Context, q topology.Queue, sources []string) (waiting []QueueDepth, err error) {
	if err := p.Settle(ctx, sources); err != nil {
		return nil, err
	}
	err = p.withCounter(ctx, func(c *counter) error {
		if earlier := p.lastProof(); earlier.Covers(q, p.closedAt(sources)) {
			if isEmpty, err := c.isStillEmpty(ctx, q, earlier); err != nil || isEmpty {
				return err
			}
		}
		waiting, _, err = p.prove(ctx, c, []topology.Queue{q}, Proof{NothingMoves: true})
		return err
	})
	return waiting, err
}

// VerifyServed fails for a queue that was declared and that nobody serves.
func (p *Prover) VerifyServed(ctx context.Context, q topology.Queue) error {
	err := p.withCounter(ctx, func(c *counter) error { return c.verifyServed(ctx, q) })
	if e, is := errors.AsType[*rabbit.Error](err); is &&
		(e.Kind == rabbit.Unavailable || e.Kind == rabbit.Timeout && ctx.Err() == nil) {
		return &rabbit.Error{Kind: rabbit.Unavailable, Op: fmt.Sprintf("declare %s in vhost %q",
			topology.QueueObject(q.Name), p.vhost.Name()), Reason: e.Reason, Hint: halfDone}
	}
	return err
}

// withCounter does something with the counter of the operation. Where its connection ends meanwhile, all of it is done
// again over another one, for as long as a request is tried again.
func (p *Prover) withCounter(ctx context.Context, do func(*counter) error) error {
	var failing time.Time
	for {
		c, err := p.choose(ctx)
		if err == nil {
			err = do(c)
		}
		ended, is := errors.AsType[*endedError](err)
		switch {
		case !is:
			return err
		case rabbit.RefusesAMQP(ended.err): // which has another counter chosen
			continue
		case failing.IsZero():
			failing = time.Now()
			p.vhost.Client().Warn(ctx, "AMQP failed, and is tried again", ended.err)
		}
		if time.Since(failing) >= p.vhost.Client().RetryTimeout() {
			return p.vhost.Disconnected(ended.err)
		}
		if err := p.vhost.Client().Wait(ctx, polling); err != nil {
			return err
		}
	}
}

// choose chooses the counter, unless that is done. One that counts over AMQP gets another connection if its own has
// ended. It is no choice where the broker does not let the user ask over AMQP. Nothing proven before is renewed: if the
// node has ended, too, its queues say for moments that nothing is ready.
func (p *Prover) choose(ctx context.Context) (*counter, error) {
	select {
	case p.choosing <- struct{}{}:
		defer func() { <-p.choosing }()
	case <-ctx.Done():
		return nil, p.ended(ctx)
	}
	before := p.counter
	if before != nil && before.failure.Load() == nil {
		return before, nil
	}
	var conn *rabbit.Conn
	var err error
	if before != nil {
		before.close()
		err = before.failure.Load().err
		p.mutex.Lock()
		p.proven = Proven{}
		p.mutex.Unlock()
	}
	if !rabbit.RefusesAMQP(err) {
		conn, err = p.vhost.Connect(ctx)
	}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, p.ended(ctx)
	case before != nil && !rabbit.RefusesAMQP(err):
		return nil, &endedError{err}
	default:
		p.vhost.Client().Warn(ctx, "no AMQP, everything goes through the management API", err)
	}
	p.counter = &counter{vhost: p.vhost, conn: conn, filled: &p.filled}
	return p.counter, nil
}

func (p *Prover) ended(ctx context.Context) error {
	return p.vhost.Client().Interrupted("wait for queues", ctx.Err())
}

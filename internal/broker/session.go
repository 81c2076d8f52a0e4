package broker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-log/tflog"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/emptiness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// session is the AMQP connection of a run: none, one that is being opened in the background, or one that is open.
type session struct {
	vhostAPI
	mutex sync.Mutex
	// tried is nil before anybody wants to have AMQP, and closed when it is open or cannot be opened.
	tried   chan struct{}
	giveUp  context.CancelFunc
	current *amqpConn // nil: only the management API can be asked
	closing sync.WaitGroup
	// filled has the queues in which AMQP has counted messages: so it reaches the broker that has them. What they had
	// by an old count of the management API may have left since. Without it, a drain ends in a dispute.
	filled sync.Map
}

// openAMQP begins to open a connection with that many channels, unless there is one or was an attempt. It waits for
// nothing, and does not fail: without AMQP, everything goes through the management API. It returns a channel that is
// closed when there is a connection or none can be had.
func (s *session) openAMQP(ctx context.Context, channels int) (tried chan struct{}) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.tried != nil {
		return s.tried
	}
	tried = make(chan struct{})
	s.tried = tried
	// The run may want it for longer than who is the first to want it. It ends with the run.
	ctx, s.giveUp = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(tried)
		opened, err := s.dialAMQP(ctx, s.vhost)
		if err != nil {
			tflog.SubsystemWarn(ctx, subsystem, "no AMQP, everything goes through the management API",
				map[string]any{"error": plaintext.Line(err.Error())})
			return
		}
		opened.openChannels(ctx, channels)
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.current = opened
	}()
	return tried
}

// amqp waits for the connection. It is nil if there is none.
func (s *session) amqp(ctx context.Context) *amqpConn {
	select {
	case <-s.openAMQP(ctx, 0):
		return s.openConn()
	case <-ctx.Done():
		return nil
	}
}

// openConn is the connection if it is open by now.
func (s *session) openConn() *amqpConn {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.current
}

// version is that of the broker, empty if it cannot be found out. AMQP tells it without a further request.
func (s *session) version(ctx context.Context) string {
	if conn := s.openConn(); conn != nil {
		return conn.version()
	}
	o, err := s.overview(s.newCall(ctx))
	if err != nil {
		return ""
	}
	return o.Version
}

// abandon goes on without AMQP.
func (s *session) abandon(ctx context.Context, failed *amqpConn, err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.current == failed {
		tflog.SubsystemWarn(ctx, subsystem, "AMQP failed, going on through the management API",
			map[string]any{"error": plaintext.Line(err.Error())})
		failed.close()
		s.current = nil
	}
}

// Release ends the AMQP connection in the background, and Close waits for that. Whoever wants one afterwards opens
// another.
func (s *session) Release() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if released := s.current; released != nil {
		s.giveUp()
		s.tried, s.current = nil, nil
		s.closing.Go(released.close)
	}
}

// Close ends the connection, or the attempt to open one.
func (s *session) Close() {
	s.mutex.Lock()
	tried, giveUp := s.tried, s.giveUp
	s.mutex.Unlock()
	if tried != nil {
		giveUp()
		<-tried
		s.Release()
	}
	s.closing.Wait()
}

// errNoAMQP is for a connection that broke off.
var errNoAMQP = errors.New("AMQP is gone")

// patience is how slow an answer may be. For a quorum queue whose leader does not answer, RabbitMQ says after five
// seconds that it is empty (stat in rabbit_quorum_queue).
const patience = 3 * time.Second

// overSession asks a queue over AMQP. A queue that does not exist holds nothing.
func (s *session) overSession(
	ctx context.Context, q topology.Queue, question func(*amqpConn, context.Context, string) (QueueDepth, bool,
		error),
) (QueueDepth, error) {
	conn := s.amqp(ctx)
	if conn == nil {
		return QueueDepth{Name: q.Name}, errNoAMQP
	}
	began := time.Now()
	depth, exists, err := question(conn, ctx, q.Name)
	switch {
	case ctx.Err() != nil:
		return depth, s.failed(s.counting(q.Name), ctx.Err())
	case err != nil:
		s.abandon(ctx, conn, err)
		return depth, errNoAMQP
	case time.Since(began) > patience:
		return depth, s.uncountable(q.Name, "it took too long to answer")
	case !exists:
		// That is also the answer for a queue on a node that is down.
		_, known, err := s.queue(ctx, s.vhost, q.Name)
		if err == nil && known {
			err = s.uncountable(q.Name, "it exists, but is not available")
		}
		return QueueDepth{Name: q.Name}, err
	}
	return depth, nil
}

// leader asks a quorum queue for a message, which only its leader has, and puts it back. A queue without a leader, for
// moments after its node started, says that nothing is ready, but it does not answer this (TestQueueWithoutLeader).
// That counts as a delivery of a message that came just now, so nobody asks where a policy limits these. Nor does
// anybody where the queue may delay a message that is put back.
//
// If there seems to have been no leader a moment ago, it asks again, for two reasons. By then, the messages that a
// client had got from the leader before are back. And the deletion of a queue in the first millisecond of its leader
// can cost the node its at-least-once dead-lettering. That is for good (3.10.8; issue 16652 of RabbitMQ).
func (s *session) leader(ctx context.Context, q topology.Queue) (QueueDepth, error) {
	depth, err := s.overSession(ctx, q, (*amqpConn).peek)
	if err != nil || depth.Messages > 0 || depth.isPrompt {
		return depth, err
	}
	if err := s.pause(ctx, emptiness.Settling); err != nil {
		return depth, err
	}
	return s.overSession(ctx, q, (*amqpConn).peek)
}

// ready counts the messages of queues that are ready, for a wait: where there is no AMQP, the counts may be old.
func (s *session) ready(ctx context.Context, queues []topology.Queue) ([]QueueDepth, error) {
	if s.amqp(ctx) != nil {
		depths, err := each(ctx, queues, func(ctx context.Context, q topology.Queue) (QueueDepth, error) {
			depth, err := s.overSession(ctx, q, (*amqpConn).depth)
			if q.Type() == "stream" {
				depth.Messages = 0 // by the statistics, and 1 for some seconds where a new one is empty
			}
			s.noteFilled(depth)
			return depth, err
		})
		if !errors.Is(err, errNoAMQP) {
			return depths, err
		}
	}
	totals, err := s.totals(ctx, queues)
	depths := make([]QueueDepth, len(queues))
	for i, q := range queues {
		depths[i] = QueueDepth{Name: q.Name, Messages: totals[q.Name].messages, Consumers: totals[q.Name].consumers}
	}
	return depths, err
}

// served fails for a queue that was declared and that nobody serves.
func (s *session) served(ctx context.Context, q topology.Queue) error {
	if _, err := s.total(ctx, q); err != nil || !isQuorum(q) {
		return err
	}
	depth, err := s.overSession(ctx, q, (*amqpConn).depth)
	if err == nil && depth.Messages == 0 {
		_, err = s.overSession(ctx, q, (*amqpConn).peek) // nobody knows the queue yet: there is nothing to deliver
	}
	if !errors.Is(err, errNoAMQP) {
		return err
	}
	for deadline := time.Now().Add(2 * streamLag); ; { // its leader counts it
		if info, err := s.totalInfo(ctx, q, "?columns="+tickColumns); err != nil || info == nil ||
			info.Reductions.n != nil {
			return err
		}
		if time.Now().After(deadline) {
			return s.uncountable(q.Name, "it has not been counted since it was declared")
		}
		if err := s.pause(ctx, polling); err != nil {
			return err
		}
	}
}

// noteFilled notes that AMQP has counted messages in a queue: so it reaches the broker that has them.
func (s *session) noteFilled(depth QueueDepth) {
	if depth.Messages > 0 {
		s.filled.Store(depth.Name, true)
	}
}

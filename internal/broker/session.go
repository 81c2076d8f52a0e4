package broker

import (
	"context"
	"sync"

	"github.com/hashicorp/terraform-plugin-log/tflog"
)

// session is the AMQP connection of a run: none, one that is being opened in the background, or one that is open.
type session struct {
	mutex sync.Mutex
	// tried is nil before anybody wants to have AMQP, and closed when it is open or cannot be opened.
	tried   chan struct{}
	giveUp  context.CancelFunc
	current *amqpSession // nil: only the management API can be asked
	closing sync.WaitGroup
	// early is set where that was tried for bindings. Whoever has to look into a queue then tries once more.
	early bool
}

// openAMQP begins to open a connection. It waits for nothing, and does not fail: without AMQP, everything goes through the
// management API. It returns what is closed when there is a connection, with that many channels, or none can be had.
func (r *Runner) openAMQP(ctx context.Context, early bool, channels int) (tried chan struct{}) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.tried != nil {
		return r.tried
	}
	tried = make(chan struct{})
	r.tried, r.early = tried, early
	// The run may want it for longer than who is the first to want it. It ends with the run.
	ctx, r.giveUp = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(tried)
		opened, err := r.dialAMQP(ctx, r.vhost)
		if err != nil {
			tflog.SubsystemDebug(ctx, subsystem, "no AMQP, everything goes through the management API", map[string]any{"error": err.Error()})
			return
		}
		opened.openChannels(ctx, channels)
		r.mutex.Lock()
		defer r.mutex.Unlock()
		r.current = opened
	}()
	return tried
}

// amqp waits for the connection. It is nil if there is none.
func (r *Runner) amqp(ctx context.Context) *amqpSession {
	for {
		tried := r.openAMQP(ctx, false, 0)
		select {
		case <-tried:
		case <-ctx.Done():
			return nil
		}
		if opened := r.open(); opened != nil || !r.mayTryAgain(tried) {
			return opened
		}
	}
}

// mayTryAgain tells whether there is or can be another attempt than that one: the broker may have been starting then.
func (s *session) mayTryAgain(tried chan struct{}) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.tried == tried && s.early {
		s.giveUp()
		s.tried, s.early = nil, false
	}
	return s.tried != tried
}

// open is the connection if it is open by now.
func (s *session) open() *amqpSession {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.current
}

// abandon goes on without AMQP.
func (s *session) abandon(ctx context.Context, failed *amqpSession, err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.current == failed {
		tflog.SubsystemDebug(ctx, subsystem, "AMQP failed, going on through the management API", map[string]any{"error": err.Error()})
		failed.close()
		s.current = nil
	}
}

// Release ends the AMQP connection in the background, and Close waits for that. Whoever wants one afterwards opens another.
func (s *session) Release() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if released := s.current; released != nil {
		s.giveUp()
		s.tried, s.early, s.current = nil, false, nil
		s.closing.Go(released.close)
	}
}

// Close ends what runs in the background: a look, and the connection or the attempt to open one.
func (r *Runner) Close() {
	if r.ahead != nil {
		r.ahead.giveUp()
		r.endLook()
	}
	r.end()
}

func (s *session) end() {
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

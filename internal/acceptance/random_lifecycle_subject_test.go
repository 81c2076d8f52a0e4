package acceptance

import (
	"math"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
)

// What every vhost has by itself: an exchange and queues with a consumer.
const events = "events"

var receivers = []string{"r0", "r1"}

// deadLetterRetry is when a quorum queue offers a message again that found no way.
const deadLetterRetry = 5 * time.Second

// subject is what a random lifecycle runs on: Terraform with its state, a vhost, and a second state for the same vhost.
type subject struct {
	*walker
	*harness.Vhost
	second     *walker
	writesLeft atomic.Int64 // until the broker is away from the first one
	arriving   map[string]*brokertest.Collector
}

func newSubject(t testing.TB, b *brokertest.Broker) *subject {
	s := &subject{Vhost: harness.OpenVhost(t, b, brokertest.Vhost(t, b)), arriving: map[string]*brokertest.Collector{}}
	s.stay()
	front := *b
	front.Endpoint = harness.NewGateway(t, b, nil, s.isAway).URL
	s.walker, s.second = newWalker(t, &front, s.Vhost.Name), newWalker(t, b, s.Vhost.Name)
	s.DeclareExchange(events, "topic")
	for _, queue := range receivers {
		s.DeclareQueue(queue, nil)
		s.arriving[queue] = s.Consume(queue)
	}
	return s
}

func (s *subject) stay() { s.writesLeft.Store(math.MaxInt64) }

func (s *subject) isAway(w http.ResponseWriter, r *http.Request) bool {
	left := s.writesLeft.Load()
	if r.Method != http.MethodGet {
		left = s.writesLeft.Add(-1)
	}
	if left < 0 {
		http.Error(w, "no server is available to handle this request", http.StatusServiceUnavailable)
	}
	return left < 0
}

func (s *subject) apply(p *walk, how schedule) string {
	if how.Fails > 0 {
		s.writesLeft.Store(int64(how.Fails))
		defer s.stay()
	}
	return s.walker.apply(p, how)
}

// takeAll takes the messages that are ready in a queue.
func (s *subject) takeAll(queue string) (bodies []string) {
	channel, err := s.Conn.Channel()
	if err != nil {
		s.Vhost.T.Fatal(err)
	}
	defer func() { _ = channel.Close() }()
	for {
		delivery, ok, err := channel.Get(queue, true)
		if err != nil {
			s.Vhost.T.Fatal(err)
		}
		if !ok {
			return bodies
		}
		bodies = append(bodies, string(delivery.Body))
	}
}

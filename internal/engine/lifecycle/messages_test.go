package lifecycle_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan/plantest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology/topologytest"
)

// application is the queue that gets all messages.
const application = plantest.Application

// message is one that the broker has confirmed.
type message struct {
	name, key string
	delay     time.Duration
	at, due   time.Duration // when it came, and when it leaves its queue
	queue     string        // where it waits, empty at its end
	excused   bool          // something was damaged while it was under way
}

// retry is when a quorum queue offers a message again that found no way.
const retry = 3 * time.Minute

// never is when a message leaves that is parked.
const never = time.Duration(math.MaxInt64)

// traffic moves messages through a broker, with a clock of its own. It counts them there.
type traffic struct {
	*plantest.Broker
	now      time.Duration
	messages []*message // under way, or parked
	sent     int
	// damaged excuses messages that are under way.
	damaged bool
	// doubles tells whether messages may come twice.
	doubles bool
	wrong   []string
}

func (r *traffic) say(m *message, format string, args ...any) {
	if !m.excused {
		r.wrong = append(r.wrong, fmt.Sprintf("message %s with key %q: %s", m.name, m.key,
			fmt.Sprintf(format, args...)))
	}
}

// publish sends a message, unless the broker refuses or returns it.
func (r *traffic) publish(entry, key string, wait time.Duration) {
	r.sent++
	m := &message{name: fmt.Sprintf("%d to %s", r.sent, entry), key: key, delay: wait, at: r.now, excused: r.damaged}
	r.spread(m, topologytest.Route(r.Topology, entry, key))
}

// spread brings a message into queues. More than one of them double it.
func (r *traffic) spread(m *message, queues []string) {
	if len(queues) > 1 && !r.doubles {
		r.say(m, "it is doubled into %s", strings.Join(queues, ", "))
	}
	for _, name := range queues {
		r.put(*m, name)
	}
}

func (r *traffic) put(m message, queue string) {
	q := r.Queues[queue]
	if !q.Delays() && !strings.HasSuffix(queue, ".unroutable") { // somebody consumes it
		if r.now-m.at < m.delay {
			r.say(&m, "it arrives after %s, not %s", r.now-m.at, m.delay)
		}
		return
	}
	m.queue, m.due = queue, r.now+time.Duration(q.TTLMillis())*time.Millisecond
	if !q.Delays() {
		m.due = never
	}
	r.Messages[queue]++
	r.messages = append(r.messages, &m)
}

// let lets time pass.
func (r *traffic) let(pass time.Duration) {
	until := r.now + pass
	for {
		m := r.next()
		if m == nil || m.due > until {
			break
		}
		r.now = max(r.now, m.due)
		r.expire(m)
	}
	r.now = until
}

// next is the message that leaves its queue first.
func (r *traffic) next() *message {
	if len(r.messages) == 0 {
		return nil
	}
	return slices.MinFunc(r.messages, func(a, b *message) int { return cmp.Compare(a.due, b.due) })
}

func (r *traffic) expire(m *message) {
	q := r.Queues[m.queue]
	key := cmp.Or(q.Arguments.Text("x-dead-letter-routing-key"), m.key)
	m.excused = m.excused || r.damaged
	queues := topologytest.Route(r.Topology, q.DeadLetterExchange(), key)
	if len(queues) == 0 && q.AtLeastOnce() {
		m.due += retry
		return
	}
	if len(queues) == 0 {
		r.say(m, "it is lost behind queue %q", m.queue)
	}
	r.take(m)
	m.key = key
	r.spread(m, queues)
}

// take takes a message out of its queue.
func (r *traffic) take(m *message) {
	r.Messages[m.queue]--
	r.messages = slices.DeleteFunc(r.messages, func(other *message) bool { return other == m })
}

// gone drops what has gone with a queue.
func (r *traffic) gone(queue string, excused bool) {
	for _, m := range r.messages {
		if m.queue == queue && !excused {
			m.excused = false
			r.say(m, "it goes with queue %q", queue)
		}
	}
	r.messages = slices.DeleteFunc(r.messages, func(m *message) bool { return m.queue == queue })
	delete(r.Messages, queue)
}

// drain lets all messages arrive, and takes those that are parked.
func (r *traffic) drain() {
	for tries := 0; len(r.messages) > 0 && tries < 1000; tries++ {
		if m := r.next(); m.due == never {
			r.take(m)
		} else {
			r.let(max(0, m.due-r.now))
		}
	}
	for _, m := range slices.Clone(r.messages) {
		r.say(m, "it does not leave queue %q", m.queue)
		r.take(m)
	}
}

// waitFor lets time pass until queues are empty, at most so much.
func (r *traffic) waitFor(look plan.VerifyEmpty) {
	waits := func(q topology.Queue) bool { return r.Messages[q.Name] > 0 }
	for until := r.now + look.Wait; slices.ContainsFunc(look.Queues, waits); {
		m := r.next()
		if m == nil || m.due > until {
			r.let(until - r.now)
			return
		}
		r.let(max(0, m.due-r.now))
	}
}

// excuse excuses all messages that are under way.
func (r *traffic) excuse() {
	r.damaged = true
	for _, m := range r.messages {
		m.excused = true
	}
}

// sorted are the keys of a map.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

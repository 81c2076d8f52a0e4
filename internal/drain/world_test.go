package drain

import (
	"fmt"
	"slices"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/policy"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// The model of a broker for the search in search_test.go: queues in a row, and all that can happen to a message there.
// All is a value that can be compared, and each event makes another one.

// unit is a step of time. A message is on its way to a queue for one unit at the most, so for less than Settling to all
// of them. It leaves a queue in the unit in which it is due.
const unit = Settling / 4

// never is later than all that the search looks at.
const never = 127

const mostQueues, mostMessages = 2, 2

// place is where a message is.
type place int8

const (
	nowhere  place = iota // also: not published yet
	onItsWay              // routed, and not in its queue yet
	isReady
	isHeld    // got, and not acknowledged
	isKept    // overdue
	isDelayed // by the queue itself
)

// message is in a queue, or on its way to it. Until is when it is due there, or by when it arrives.
type message struct {
	at           place
	queue, until int8
	// from says that the queue before has it until it arrives: dead-lettered at least once.
	from bool
	// isEarly says that it was in a queue when the last look began.
	isEarly bool
}

// noted is what a queue notes at a tick.
type noted struct{ reductions, messages, ready, delayed int8 }

// queueState is a queue, without its messages.
type queueState struct {
	isLeaderless, isConsumed bool
	// note is that of its last tick, and api what the management API has. If it has taken over only the reductions, the
	// next answer is the last one that has the counts before.
	note, api noted
	isHalf    bool
	ticks     int8 // that are still to come
}

// brokerState is the broker at a time.
type brokerState struct {
	now      int8
	messages [mostMessages]message
	queues   [mostQueues]queueState
	// isCutOff is set once no exchange leads from queue to queue, or into one.
	isCutOff  bool
	publishes int8 // that are still to come, below the entry
	// names are publishers to come who name a queue, once it is cut off. Fails are leaders that are still to go.
	names, fails int8
}

// nature is what a queue of the model does.
type nature struct {
	stay                           int8 // in units, 0 for never
	classic, overdue, delays, gets bool
	// prompt has the management API take over each count at once.
	prompt bool
}

// queue is the queue as the provider declares it, with a number.
func (n nature) queue(i int) topology.Queue {
	q := topology.Queue{Name: fmt.Sprint(i), Arguments: topology.Arguments{"x-queue-type": "quorum"}}
	if n.classic {
		q.Arguments["x-queue-type"] = "classic"
	}
	if n.stay > 0 {
		q.Arguments["x-message-ttl"] = int64(n.stay) * unit.Milliseconds()
		q.Arguments["x-dead-letter-exchange"] = fmt.Sprint("behind ", i)
	}
	if !n.classic && n.stay > 0 {
		q.Arguments["x-dead-letter-strategy"], q.Arguments["x-overflow"] = "at-least-once", "reject-publish"
	}
	return q
}

// surroundings are those of such queues, on RabbitMQ 4.3. Behind a queue that keeps no overdue message all is parked.
func surroundings(natures []nature) Surroundings {
	s := Surroundings{Version: "4.3.6", Exchanges: map[string]topology.Exchange{"": {}, "park": {Name: "park",
		Type: "fanout"}}, Bindings: map[string][]topology.Binding{"park": {{Source: "park",
		DestinationType: topology.ToQueue, Destination: "parked"}}},
		Receivers: map[string]Receiver{"parked": {topology.Queue{Name: "parked"}, true}}}
	for i, n := range natures {
		q := n.queue(i)
		behind := topology.Exchange{Name: q.DeadLetterExchange(), Type: "topic"}
		if !n.overdue {
			behind.Arguments = topology.Arguments{"alternate-exchange": "park"}
		}
		s.Exchanges[behind.Name], s.Bindings[behind.Name] = behind, nil
		if n.delays {
			s.Policies = append(s.Policies, policy.New("retry "+q.Name, "^"+q.Name+"$", "queues", 0,
				topology.Arguments{"delayed-retry-type": "all"}))
		}
	}
	return s
}

// isIn tells whether a queue has the message, as it counts itself.
func (m message) isIn(queue int) bool {
	if m.at == onItsWay {
		return m.from && int(m.queue) == queue+1
	}
	return m.at != nowhere && int(m.queue) == queue
}

// count is what a queue has at the moment.
func (b brokerState) count(queue int) (n noted) {
	for _, m := range b.messages {
		if !m.isIn(queue) {
			continue
		}
		n.messages++
		switch m.at {
		case isReady:
			n.ready++
		case isDelayed:
			n.delayed++
		}
	}
	return n
}

// readyIn are the messages that AMQP counts.
func (b brokerState) readyIn(queue int) int64 {
	if b.queues[queue].isLeaderless {
		return 0
	}
	return int64(b.count(queue).ready)
}

func (b brokerState) consumers(queue int) int64 {
	if b.queues[queue].isConsumed {
		return 1
	}
	return 0
}

// holds tells whether a message is in one of the queues, or on its way into one.
func (b brokerState) holds(queues int) bool {
	for _, m := range b.messages {
		if m.at != nowhere && (m.at != onItsWay || int(m.queue) < queues) {
			return true
		}
	}
	return false
}

// String names the place in a trace.
func (p place) String() string {
	return []string{"nowhere", "on its way", "ready", "held", "overdue", "delayed"}[p]
}

// event is what the broker, or somebody on it, may do next.
type event struct {
	name string
	then brokerState
}

// events are all that may happen without time.
func (b brokerState) events(natures []nature) (all []event) {
	add := func(then brokerState, format string, args ...any) {
		all = append(all, event{fmt.Sprintf(format, args...), then})
	}
	for i, m := range b.messages {
		for _, next := range b.moves(natures, m) {
			then := b
			then.messages[i] = next
			add(then, "message %d: %v to %v, queue %d", i, m.at, next.at, next.queue)
		}
	}
	for i, q := range b.queues[:len(natures)] {
		switch {
		case q.isLeaderless:
			then := b
			then.queues[i].isLeaderless = false
			add(then, "queue %d has a leader", i)
			continue
		case q.isConsumed:
			add(b.withoutConsumer(i), "the consumer of queue %d goes", i)
		}
		if b.fails > 0 {
			then := b
			then.fails--
			then.queues[i].isLeaderless = true
			add(then, "queue %d has no leader", i)
		}
		all = append(all, b.ticking(natures, i)...)
	}
	return append(all, b.publishing(natures)...)
}

// withoutConsumer has back in the queue what its consumer held.
func (b brokerState) withoutConsumer(queue int) brokerState {
	b.queues[queue].isConsumed = false
	for i, m := range b.messages {
		if m.at == isHeld && m.isIn(queue) {
			b.messages[i].at = isReady
		}
	}
	return b
}

// publishing is what a publisher may do below the entry, or one who names a queue.
func (b brokerState) publishing(natures []nature) (all []event) {
	free := slices.IndexFunc(b.messages[:], func(m message) bool { return m.at == nowhere })
	if free < 0 || b.isCutOff && b.names == 0 || !b.isCutOff && b.publishes == 0 {
		return nil
	}
	for i := range natures {
		then := b
		if b.isCutOff {
			then.names--
		} else {
			then.publishes--
		}
		then.messages[free] = message{at: onItsWay, queue: int8(i), until: b.now + 1}
		all = append(all, event{fmt.Sprintf("message %d is published to queue %d", free, i), then})
	}
	return all
}

// ticking is what the queue and the management API may do about its counts.
func (b brokerState) ticking(natures []nature, i int) (all []event) {
	q := b.queues[i]
	if natures[i].classic {
		return nil
	}
	if count := b.count(i); q.ticks > 0 {
		then := b
		count.reductions = q.note.reductions + 1
		then.queues[i].note = count
		then.queues[i].ticks--
		if natures[i].prompt {
			then.queues[i].api = count
		}
		all = append(all, event{fmt.Sprintf("queue %d counts %d", i, count.messages), then})
	}
	if q.note.reductions != q.api.reductions {
		whole, half := b, b
		whole.queues[i].api, whole.queues[i].isHalf = q.note, false
		half.queues[i].api.reductions, half.queues[i].isHalf = q.note.reductions, true
		all = append(all, event{fmt.Sprintf("the API takes over the count of queue %d", i), whole},
			event{fmt.Sprintf("the API takes over half of the count of queue %d", i), half})
	}
	return all
}

// moves are the ways that a message can go now.
func (b brokerState) moves(natures []nature, m message) (all []message) {
	if m.at == nowhere || int(m.queue) < len(natures) && b.queues[m.queue].isLeaderless {
		return nil
	}
	become := func(at place) { next := m; next.at = at; all = append(all, next) }
	switch m.at {
	case onItsWay:
		if int(m.queue) == len(natures) {
			return []message{{}}
		}
		m.from, m.until = false, never
		if stay := natures[m.queue].stay; stay > 0 {
			m.until = b.now + stay
		}
		become(isReady)
	case isReady:
		if n := natures[m.queue]; n.delays {
			become(isDelayed)
		}
		if b.queues[m.queue].isConsumed {
			become(isHeld)
		}
		if b.now >= m.until {
			all = append(all, b.deadLettered(natures, m)...)
		}
	case isHeld:
		become(isReady)
	case isKept:
		if !b.isCutOff {
			all = append(all, b.onward(natures, m))
		}
	case isDelayed:
		become(isReady)
	}
	return all
}

// deadLettered is what becomes of a message that is due.
func (b brokerState) deadLettered(natures []nature, m message) (all []message) {
	n := natures[m.queue]
	if !n.classic && (n.overdue || b.isCutOff) {
		kept := m
		kept.at = isKept
		all = append(all, kept)
	}
	if !b.isCutOff {
		all = append(all, b.onward(natures, m))
	}
	return all
}

func (b brokerState) onward(natures []nature, m message) message {
	return message{at: onItsWay, queue: m.queue + 1, until: b.now + 1, from: !natures[m.queue].classic,
		isEarly: m.isEarly}
}

// later is the broker one unit later. It is not possible while a message has to arrive, or to leave, before that.
func (b brokerState) later() (brokerState, bool) {
	for _, m := range b.messages {
		waits := int(m.queue) < mostQueues && b.queues[m.queue].isLeaderless
		if (m.at == onItsWay || m.at == isReady) && m.until <= b.now && !waits {
			return b, false
		}
	}
	b.now++
	return b, true
}

func atUnit(units int8) time.Time { return began.Add(time.Duration(units) * unit) }

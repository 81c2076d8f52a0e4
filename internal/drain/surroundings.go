package drain

import (
	"maps"
	"slices"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/policy"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/version"
)

// Surroundings is what a vhost has, as far as it is known, that decides about messages in queues.
type Surroundings struct {
	// Version is that of RabbitMQ, empty if nobody knows it.
	Version   string
	Exchanges map[string]topology.Exchange
	Policies  policy.Policies
	// Bindings are by their source.
	Bindings  map[string][]topology.Binding
	Receivers map[string]Receiver
}

// Receiver is a queue that messages get to. A queue that is gone is one that is not served: what it has not confirmed
// comes again.
type Receiver struct {
	topology.Queue
	// IsServed tells whether somebody is there to take messages.
	IsServed bool
}

// Unknown is what has to be found out first: exchanges whose bindings, and receivers that are not known.
type Unknown struct{ Exchanges, Receivers []string }

// mostReceivers is how many queues are worth to be asked for beside those that are to be empty. With more of them it
// takes less time to wait until all messages are counted.
const mostReceivers = 100

// MayKeepOverdue are the queues that may keep a message after its time, or what it takes to tell.
//
//	a queue                                   keeps such a message   source
//	does not dead-letter at least once        never                  topology.Queue.AtLeastOnce (3.10)
//	does, and no queue takes the message      until one does         TestOldCounts
//	does, and a queue refuses the message     for 3 to 6 minutes     rabbit_fifo_dlx_worker.erl (3.10.8 to 4.3.5):
//	                                                                 once to twice
//	                                                                 dead_letter_worker_publisher_confirm_timeout
//	does, and every queue takes the message   never                  TestStatisticsOff
//
// So it does not if two things are certain. Each exchange that messages get to is a fanout with a queue bound to it, or
// has such an alternate exchange by argument. And no queue that they get to refuses one, because it is full or nobody
// serves it.
func (s Surroundings) MayKeepOverdue(queues []topology.Queue) (map[string]bool, Unknown) {
	keep, caught := map[string]bool{}, map[string]bool{}
	for _, q := range queues {
		if !s.atLeastOnce(q) {
			continue
		}
		keep[q.Name] = true
		alternate := s.Exchanges[s.Exchanges[q.DeadLetterExchange()].AlternateExchange()]
		if alternate.Type == "fanout" {
			caught[q.DeadLetterExchange()] = true
		}
	}
	allTake, unknown := s.allTake(slices.Sorted(maps.Keys(caught)), queues)
	for _, q := range queues {
		if allTake && caught[q.DeadLetterExchange()] {
			delete(keep, q.Name)
		}
	}
	return keep, unknown
}

// leadsOn tells whether each message that gets to an exchange gets into a queue, if the queues take it.
func (s Surroundings) leadsOn(exchange string) bool {
	takesAll := func(name string) bool {
		return s.Exchanges[name].Type == "fanout" && slices.ContainsFunc(s.Bindings[name], leadsToQueue)
	}
	return takesAll(exchange) || takesAll(s.Exchanges[exchange].AlternateExchange())
}

func leadsToQueue(b topology.Binding) bool { return b.DestinationType == topology.ToQueue }

// atLeastOnce tells whether the queue may dead-letter at least once, by its arguments and by policies.
func (s Surroundings) atLeastOnce(q topology.Queue) bool {
	return q.Type() == "quorum" && s.Policies.MayBe(q, "dead-letter-strategy", "at-least-once") &&
		s.Policies.MayBe(q, "overflow", "reject-publish")
}

// allTake tells whether it is certain that each message that gets to the exchanges gets into queues, and that these
// take every one. Of those that are looked into, the arguments are known.
func (s Surroundings) allTake(exchanges []string, looked []topology.Queue) (bool, Unknown) {
	reached, unbound := s.reached(exchanges)
	if len(unbound) > 0 {
		return false, Unknown{Exchanges: unbound}
	}
	receivers := maps.Clone(s.Receivers)
	for _, q := range looked {
		receivers[q.Name] = Receiver{q, true}
	}
	unknown := map[string]bool{}
	for _, exchange := range reached {
		if !s.leadsOn(exchange) {
			return false, Unknown{}
		}
		for _, b := range s.Bindings[exchange] {
			receiver, isKnown := receivers[b.Destination]
			switch {
			case !leadsToQueue(b):
			case !isKnown:
				unknown[b.Destination] = true
			case !receiver.IsServed || s.mayRefuse(receiver.Queue):
				return false, Unknown{}
			}
		}
	}
	if len(unknown) > mostReceivers {
		return false, Unknown{}
	}
	return len(unknown) == 0, Unknown{Receivers: slices.Sorted(maps.Keys(unknown))}
}

// reached are all exchanges that messages get to from some, as far as that is known, and those of them whose bindings
// are not.
func (s Surroundings) reached(from []string) (reached, unknown []string) {
	reached = slices.Clone(from)
	for i := 0; i < len(reached); i++ { // it grows
		bindings, isKnown := s.Bindings[reached[i]]
		if !isKnown {
			unknown = append(unknown, reached[i])
		}
		next := s.alternates(reached[i])
		for _, b := range bindings {
			if !leadsToQueue(b) {
				next = append(next, b.Destination)
			}
		}
		for _, name := range next {
			if name != "" && !slices.Contains(reached, name) {
				reached = append(reached, name)
			}
		}
	}
	return reached, unknown
}

// alternates are what may be the alternate exchange of an exchange, by its argument and by policies.
func (s Surroundings) alternates(exchange string) []string {
	alternates := []string{s.Exchanges[exchange].AlternateExchange()}
	for _, definition := range s.Policies.Possible(exchange) {
		alternates = append(alternates, definition.Text("alternate-exchange"))
	}
	return alternates
}

// mayRefuse tells whether a queue may refuse messages because it is full.
func (s Surroundings) mayRefuse(q topology.Queue) bool {
	_, length := s.Policies.Lowest(q, "max-length")
	_, size := s.Policies.Lowest(q, "max-length-bytes")
	return (length || size) && s.Policies.MayBe(q, "overflow", "reject-publish") // or reject-publish-dlx
}

// Known says how a queue has to be counted, over AMQP or without. Overdue are the queues that may keep a message after
// its time. Policies are as they were read: one that is set after that is not known.
func (s Surroundings) Known(q topology.Queue, overAMQP bool, overdue map[string]bool) Queue {
	known := Queue{Name: q.Name, Moves: All, NeedsNoLeader: true, Stay: s.shortestStay(q)}
	if q.Type() != "quorum" {
		return known
	}
	known.NeedsNoLeader = false
	known.DelaysItself = s.mayDelay(q)
	known.MayHide = !overAMQP || overdue[q.Name] || known.DelaysItself || s.countsDeliveries(q)
	if overAMQP {
		known.Moves = Ready
	}
	return known
}

// shortestStay is the shortest time that a message spends in the queue, zero if messages do not leave it by themselves.
// Of messages that have an expiration themselves it is not known, and where policies cannot be read it is next to none.
func (s Surroundings) shortestStay(q topology.Queue) time.Duration {
	millis, expire := s.Policies.Lowest(q, "message-ttl")
	if !expire {
		return 0
	}
	return max(time.Duration(millis)*time.Millisecond, time.Millisecond)
}

// countsDeliveries tells whether the queue lets go of a message that was delivered and put back a few times. Since 4.0
// all do after 20 times, which is more than looks can do to one.
func (s Surroundings) countsDeliveries(q topology.Queue) bool {
	const harmless = 20
	limit, isLimited := s.Policies.Lowest(q, "delivery-limit")
	return isLimited && limit < harmless
}

// mayDelay tells whether a quorum queue may delay messages by itself (rabbit_fifo.erl). Such a message is not ready. It
// is in the count of all at the next tick, and comes back when its time is there.
//
//	RabbitMQ     delays                                             source
//	before 4.3   nothing
//	4.3          what a client has got and put back, if a policy    TestDelayedByTheQueue (4.3.6)
//	             or an argument says so
//	             what a client of AMQP 1.0 puts back with a time    TestDelayedByAClient (4.3.6)
//	4.4          also what is published with a time                 pull request 16583 of RabbitMQ
//
// That of a client of AMQP 1.0 shows nowhere: only an old count of all messages has it, from the next tick on.
func (s Surroundings) mayDelay(q topology.Queue) bool {
	return !version.Before(s.Version, 4, 4) || slices.ContainsFunc(policy.Retries,
		func(kind string) bool { return s.Policies.MayBe(q, "delayed-retry-type", kind) })
}

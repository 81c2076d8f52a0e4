package drain

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// No single figure of RabbitMQ says that a queue is empty (3.10.8, 4.0.5, 4.3.6; TestNothingIsOverlooked and
// TestOldCounts of internal/rabbit):
//
//	count   asked over       is exact                    leaves out
//	Ready   AMQP             at once                     messages that a consumer holds, or that a quorum queue keeps
//	                                                     after their time or delays by itself; all of them while it
//	                                                     has no leader
//	All     management API   classic queues: at once     nothing
//	                         quorum queues: at a tick    what came since the tick
//	Leader  AMQP             the queue has a leader      everything else
//
// Where the leader of a quorum queue is slow, RabbitMQ says that nothing is ready. So a late answer is no count. A
// quorum queue counts itself at a tick: every five seconds by default (quorum_tick_interval). It may keep a
// message after its time, see [Surroundings.MayKeepOverdue], or delay one by itself, see [Surroundings.Known].

// Kind says what a count counts.
type Kind int

// The kinds of counts.
const (
	// Ready are the messages that are ready.
	Ready Kind = iota
	// All are all messages: ready, held by a consumer, and kept after their time.
	All
	// Leader is no number: the queue has a leader.
	Leader
)

// Count is an answer about one queue.
type Count struct {
	Queue string
	Kind  Kind
	// AsOf is a time that the count is not older than, zero if nobody knows one. Answered is when the answer was there.
	AsOf, Answered time.Time
	Messages       int64
	// ReadyOfAll is how many of all messages are ready, and Delayed how many the queue delays by itself. It delays the
	// first of these until NextDelayed, and the last until LastDelayed.
	ReadyOfAll, Delayed      int64
	NextDelayed, LastDelayed time.Time
	Consumers                int64
}

// Queue is what has to be known of a queue before it is counted.
type Queue struct {
	Name string
	// Stay is the shortest time that a message spends in the queue. Zero is for a queue that messages do not leave by
	// themselves.
	Stay time.Duration
	// Moves is the kind that counts what moves through the queue.
	Moves Kind
	// MayHide is set for a queue that may hold messages which are not ready: only a count of all proves it empty.
	MayHide bool
	// DelaysItself is set for one that may delay a message by itself: it may be ready for no time at all.
	DelaysItself bool
	// NeedsNoLeader is set for a queue whose counts are exact without one: a classic queue.
	NeedsNoLeader bool
	// Filled is set where a message was ready earlier on: a count of all that is older may still have it.
	Filled bool
}

// needs are the counts that a round takes of a quorum queue. Old is one of any tick.
type needs struct{ ready, leader, old, ticked bool }

// needs says what the next round takes, by the count that is lacking: Ready if none is.
func (q Queue) needs(lacks Kind) needs {
	return needs{ready: q.Moves == Ready, leader: lacks == Leader, old: lacks == All && !q.MayHide,
		ticked: lacks == All || q.MayHide && lacks != Leader}
}

// Proof is what there is to prove.
type Proof struct {
	Queues []Queue
	// Began is when the proof began. A count as of then or later is new.
	Began time.Time
	// FirstLook asks for what can be seen at once. It proves nothing of what comes in later.
	FirstLook bool
	// NothingMoves is set when nothing moves from one queue to another any more.
	NothingMoves bool
}

// Settling is the shortest time between two looks. It is more than a message takes from one queue to the next. It is
// also more than a message takes into a queue after its channel has routed it. The exchange or the binding may be gone
// just then.
const Settling = 100 * time.Millisecond

// Verdict is what the counts say.
type Verdict struct {
	// Waiting are the last counts of the queues that hold messages.
	Waiting []Count
	// Disputed are queues in which no message is ready by themselves, and some are by the management API.
	Disputed []Count
	// Empty tells whether it is proven that the queues held no message, and Since from when on. After a first look it
	// says only that none was seen, and Since is zero.
	Empty bool
	Since time.Time
	// stay is the shortest time for which a message that comes into one of the queues is ready.
	stay time.Duration
	// Lacks are the counts that are missing, by queue. Another count of what moves is always welcome.
	Lacks map[string]Kind
	// Pause is how long to wait before the next look.
	Pause time.Duration
}

// Uncounted are the queues that have to count all messages once more.
func (v Verdict) Uncounted() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(v.Lacks)) {
		if v.Lacks[name] == All {
			names = append(names, name)
		}
	}
	return names
}

// Judge says what the counts prove, which are in the order of their answers. A queue whose last count has messages is
// Waiting or Disputed at once. For a first look one count of each queue is enough, unless an older one leaves a doubt.
// Otherwise the queues are empty
//
//   - if nothing moves: each queue was counted in one round after the other, and none held a message. The rounds went
//     on for as long as a message could have been on its way unseen.
//   - And if nothing hides: a queue that may hold more than it shows counted all since then, and the others have a
//     leader. What one has hidden may move on meanwhile, so the counts of queues that it passes unseen follow each
//     other.
func (p Proof) Judge(counts []Count) Verdict {
	rounds := p.rounds(counts)
	settled, proven := p.nothingMovesSince(rounds)
	v := Verdict{Lacks: map[string]Kind{}, Pause: pause(rounds), stay: p.shortestStay()}
	left := settled // by then, whatever the queues so far had hidden has left them, or was counted
	for _, q := range p.Queues {
		since := settled
		if p.passesUnseen(q, rounds) {
			since = left
		}
		seen := p.see(q, counts)
		if seen.consumed { // by somebody who may take a message at once, and hold it
			v.stay = 0
		}
		if depth, holds := seen.waiting(); holds {
			v.Waiting = append(v.Waiting, depth)
		}
		if seen.isDisputed() {
			v.Disputed = append(v.Disputed, seen.all)
		}
		if kind, lacking := p.lacks(seen, since, proven); lacking {
			v.Lacks[q.Name] = kind
		} else if proven && !p.FirstLook && seen.needsCountOfAll() {
			last := countedAll(q, since, counts).Add(Settling)
			left = slices.MaxFunc([]time.Time{left, last}, time.Time.Compare)
		}
	}
	v.Empty = (proven || p.FirstLook) && len(v.Lacks) == 0 && len(v.Waiting) == 0 && len(v.Disputed) == 0
	if v.Empty && !p.FirstLook {
		v.Since = p.since(rounds, settled, v.stay)
	}
	if len(v.Uncounted()) > 0 {
		v.Pause = max(v.Pause, 250*time.Millisecond)
	}
	return v
}

// passesUnseen tells whether a message may come into the queue and leave it between two looks.
func (p Proof) passesUnseen(q Queue, rounds []round) bool {
	return !p.NothingMoves && q.Stay > 0 && q.Stay < unseen(rounds)
}

// countedAll is when the first count of all was there that is not older than a time.
func countedAll(q Queue, since time.Time, counts []Count) time.Time {
	i := slices.IndexFunc(counts, func(c Count) bool {
		return c.Queue == q.Name && c.Kind == All && !c.AsOf.Before(since)
	})
	return counts[i].Answered
}

// lacks tells which count of a queue is missing, if one is. Settled is the time from which on nothing moves, if that is
// proven, or a later one.
func (p Proof) lacks(seen queueCounts, settled time.Time, proven bool) (Kind, bool) {
	switch {
	case p.FirstLook:
		return All, !seen.counted() || seen.doubtful() && seen.all.AsOf.IsZero()
	case seen.needsCountOfAll():
		return All, !proven || seen.all.AsOf.Before(settled)
	case !seen.NeedsNoLeader:
		return Leader, !proven || seen.leader.Before(settled)
	}
	return 0, false
}

// since is the last time at which the queues provably held nothing. That is when the last round began, if the rounds
// since nothing moves followed each other fast enough. Between two of them, no message had the time to enter a queue
// and to leave its ready messages. Where one needs no time for that, it is the time from which on nothing moves.
func (p Proof) since(rounds []round, settled time.Time, stay time.Duration) time.Time {
	last := len(rounds) - 1
	for i := last; rounds[i].start.After(settled); i-- {
		if rounds[i].end.Sub(rounds[i-1].start) >= stay {
			return settled
		}
	}
	return rounds[last].start
}

// shortestStay is the shortest time for which a message that comes into one of the queues is ready.
func (p Proof) shortestStay() time.Duration {
	shortest := time.Duration(math.MaxInt64)
	for _, q := range p.Queues {
		switch {
		case q.DelaysItself:
			return 0
		case q.Stay > 0:
			shortest = min(shortest, q.Stay)
		}
	}
	return shortest
}

// round is a time in which each queue was counted, and held nothing that moves.
type round struct{ start, end time.Time }

// rounds are the rounds so far, none if anything that moves was seen.
func (p Proof) rounds(counts []Count) []round {
	var rounds []round
	var current round
	after, counted := p.Began, map[string]bool{}
	for _, c := range counts {
		i := slices.IndexFunc(p.Queues, func(q Queue) bool { return q.Name == c.Queue })
		if i < 0 || p.Queues[i].Moves != c.Kind || c.AsOf.Before(after) {
			continue
		}
		if c.Messages > 0 {
			return nil
		}
		if len(counted) == 0 || c.AsOf.Before(current.start) {
			current.start = c.AsOf
		}
		if counted[c.Queue] = true; len(counted) == len(p.Queues) {
			current.end = c.Answered
			rounds = append(rounds, current)
			after, counted = current.end, map[string]bool{}
		}
	}
	return rounds
}

// nothingMovesSince is the time from which on nothing moves, if the rounds prove that.
//
// A message that no round has seen was in no queue for longer than the time between two counts of it. So its way is at
// most as long as the TTLs below that, which fall from queue to queue, and the time between queues. Who was
// not seen in a round after that is not on its way any more.
func (p Proof) nothingMovesSince(rounds []round) (since time.Time, proven bool) {
	last := len(rounds) - 1
	if last < 1 {
		return time.Time{}, false
	}
	way := Settling
	for _, q := range p.Queues {
		if p.passesUnseen(q, rounds) {
			way += q.Stay
		}
	}
	for _, r := range rounds[1:] {
		if !r.start.Before(rounds[0].start.Add(way)) {
			return r.start, true
		}
	}
	return time.Time{}, false
}

// unseen is the longest time between two counts of a queue.
func unseen(rounds []round) (longest time.Duration) {
	for i := 1; i < len(rounds); i++ {
		longest = max(longest, rounds[i].end.Sub(rounds[i-1].start))
	}
	return longest
}

// pause is the time to the next round: a broker that is slow to answer is slow to move messages, too.
func pause(rounds []round) time.Duration {
	wait := Settling
	for _, r := range rounds {
		wait = max(wait, min(4*r.end.Sub(r.start), time.Second))
	}
	return wait
}

// queueCounts are all counts that the rounds have taken of one queue. The count of all that is old is one from before
// the proof began.
type queueCounts struct {
	Queue
	ready, all, old Count
	leader          time.Time
	consumed        bool
}

func (p Proof) see(q Queue, counts []Count) queueCounts {
	s := queueCounts{Queue: q}
	for _, c := range counts {
		if c.Queue != q.Name {
			continue
		}
		s.consumed = s.consumed || c.Consumers > 0
		switch {
		case c.Kind == Leader:
			s.leader = c.AsOf
		case c.Kind == Ready:
			s.ready = c
			s.Filled = s.Filled || c.Messages > 0
		case c.AsOf.Before(p.Began):
			s.old = c
		default:
			s.all = c
		}
	}
	return s
}

// waiting tells whether the queue holds messages. Where nothing else is known, an old count is enough for a refusal.
func (s queueCounts) waiting() (Count, bool) {
	depth := s.all
	if s.Moves == All && s.all.AsOf.IsZero() {
		depth = s.old
	}
	if s.ready.Messages > 0 {
		depth = s.ready
	}
	depth.Consumers = max(s.ready.Consumers, s.all.Consumers)
	return depth, depth.Messages > 0 && !s.isDisputed()
}

// isDisputed tells whether the management API has ready messages, and the queue itself has had none.
func (s queueCounts) isDisputed() bool {
	return s.Moves == Ready && s.all.ReadyOfAll > 0 && !s.Filled && !s.consumed
}

// counted tells whether there is a count of what moves, however old.
func (s queueCounts) counted() bool {
	if s.Moves == Ready {
		return !s.ready.Answered.IsZero()
	}
	return !s.all.Answered.IsZero() || !s.old.Answered.IsZero()
}

// doubtful tells whether a count whose age is not known has messages that are not known to have left.
func (s queueCounts) doubtful() bool {
	return s.old.Messages > s.old.ReadyOfAll || s.old.ReadyOfAll > 0 && !s.Filled
}

// needsCountOfAll tells whether only a count of all proves the queue empty.
func (s queueCounts) needsCountOfAll() bool { return s.MayHide || s.consumed || s.doubtful() }

// anyStays tells whether one of the queues holds messages that neither a TTL nor a consumer takes out of it.
func anyStays(queues []topology.Queue, waiting []QueueDepth) bool {
	return slices.ContainsFunc(waiting, func(depth QueueDepth) bool {
		return depth.Consumers == 0 && slices.ContainsFunc(queues, func(q topology.Queue) bool {
			return q.Name == depth.Name && !q.Delays()
		})
	})
}

// lastOf is when the last of the sources was closed. Where sources is nil, all that were closed are meant.
func lastOf(closed map[string]time.Time, sources []string) (last time.Time) {
	for source, at := range closed {
		if (sources == nil || slices.Contains(sources, source)) && at.After(last) {
			last = at
		}
	}
	return last
}

package drain

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// mostStates is where a search gives up.
const mostStates = 20_000_000

// scenario is what the search goes through: queues, what may be in them when the proof begins, and who proves.
type scenario struct {
	natures []nature
	// messages is how many there are, ticks how often each queue counts itself, and looks how often the prover looks.
	// slow is how many units all looks together may take.
	messages, ticks, looks, slow int8
	withoutAMQP                  bool
	// start, if set, is all that a message may be at first.
	start []message
	// isFilled has a message counted in each queue before the proof, as a drain does.
	isFilled bool
	// leaderless queues have no leader at first. Consumed ones have a consumer.
	leaderless, consumed []int
	// publishes is how many messages come in below the entry after the proof. With destroys, the exchanges go then,
	// and the queues after them.
	publishes int8
	destroys  bool
	// names is how many come in by the name of a queue, once the exchanges are gone. Fails is how many leaders go once
	// the proof is renewed: a renewal asks no leader.
	names, fails int8
	// isStill has the exchanges gone before the proof. After is how many units may pass behind it. IsHasty has no wait
	// after the exchanges, before the look that renews the proof.
	isStill, isHasty bool
	after            int8
	// rules are those to try, nil for the real ones.
	rules *rules
}

// rules are the real rules with one fact taken out.
type rules struct {
	known func(*Queue) // of the knowledge of a queue
	count func(*Count) // of a count
	// look is of the last look into a queue: what the management API and the queue itself count.
	look func(all, ready *Count)
	// noLeader has a look at ready messages enough for the last one.
	noLeader bool
	// read stands for that of Ticks.
	read func(t *Ticks, asked time.Time, reductions int64) time.Time
}

// phase is what the prover does.
type phase int8

const (
	pausing phase = iota
	looking
	idle // after the proof
	cutOff
	renewing
	deleting
	over
)

// asking is how far a look at a queue is.
type asking int8

const (
	first asking = iota
	second
	unanswered // by a queue without a leader
	again
	done
)

// state is the broker, and all that decides about what the prover does next.
type state struct {
	broker brokerState
	phase  phase
	// wait is how long the prover waits on, looks how often it may look, slow how long the look may still take.
	wait, looks, slow int8
	asking            [mostQueues]asking
	asked             [mostQueues]int8
	ticks             [mostQueues]Ticks
	// history are the counts, see record. Lacks are the kinds that the last look lacked, Ready for none.
	history string
	lacks   [mostQueues]int8
	// since and stay are those of the proof, and cut when the exchanges went.
	since, cut int8
	stay       time.Duration
}

type search struct {
	scenario
	queues  []topology.Queue
	known   []Queue
	seed    maphash.Seed
	visited map[uint64]struct{}
	path    []string
	loss    string
	proofs  int
}

// explore goes through all that can happen, and ends with the first loss.
func (sc scenario) explore() *search {
	s := &search{scenario: sc, seed: maphash.MakeSeed(), visited: map[uint64]struct{}{}}
	for i, n := range sc.natures {
		s.queues = append(s.queues, n.queue(i))
	}
	around := surroundings(sc.natures)
	if sc.isStill {
		clear(around.Exchanges)
	}
	overdue, _ := around.MayKeepOverdue(s.queues)
	for _, q := range s.queues {
		known := around.Known(q, !sc.withoutAMQP, overdue)
		known.Filled = sc.isFilled
		if sc.rules != nil && sc.rules.known != nil {
			sc.rules.known(&known)
		}
		s.known = append(s.known, known)
	}
	for _, b := range s.beginnings() {
		s.path = []string{fmt.Sprintf("begin with %+v", b)}
		if s.visit(s.begin(b)) {
			break
		}
	}
	return s
}

// beginnings are all brokers that the proof may meet.
func (s *search) beginnings() []brokerState {
	empty := brokerState{publishes: s.publishes, isCutOff: s.isStill, names: s.names}
	for i := range s.natures {
		empty.queues[i].ticks = s.ticks
	}
	for _, i := range s.leaderless {
		empty.queues[i].isLeaderless = true
	}
	for _, i := range s.consumed {
		empty.queues[i].isConsumed = true
	}
	all := []brokerState{empty}
	for i := range s.scenario.messages {
		var more []brokerState
		for _, b := range all {
			for _, m := range s.places(b) {
				with := b
				with.messages[i] = m
				more = append(more, with)
			}
		}
		all = more
	}
	var begun []brokerState
	for _, b := range all {
		begun = append(begun, s.notes(b)...)
	}
	return begun
}

// notes are what the queues may have noted by then: all that is there, or nothing. One that was filled may also have
// noted a message that was ready.
func (s *search) notes(b brokerState) []brokerState {
	with, isHeldAlone := b, false
	for i, n := range s.natures {
		if count := b.count(i); !n.classic {
			with.queues[i].note, with.queues[i].api = count, count
		}
	}
	for _, m := range b.messages {
		isHeldAlone = isHeldAlone || m.at == isHeld && !b.queues[m.queue].isConsumed
	}
	begun := []brokerState{with}
	if !isHeldAlone { // what a client has got, and nobody sees, was there at a tick
		begun = append(begun, b)
	}
	for i, n := range s.natures {
		if filled := with; s.isFilled && !n.classic {
			filled.queues[i].note = noted{messages: 1, ready: 1}
			filled.queues[i].api = filled.queues[i].note
			begun = append(begun, filled)
		}
	}
	return begun
}

// places are where a message may be at the beginning.
func (s *search) places(b brokerState) []message {
	if s.start != nil {
		return s.start
	}
	all := []message{{}, {at: onItsWay, until: 1}}
	for i, n := range s.natures {
		q := int8(i)
		for due := int8(0); due <= n.stay; due++ {
			m := message{at: isReady, queue: q, until: due}
			if n.stay == 0 {
				m.until = never
			}
			all = append(all, m)
		}
		all = append(all, message{at: onItsWay, queue: q + 1, until: 1, from: !n.classic})
		if n.overdue {
			all = append(all, message{at: isKept, queue: q})
		}
		if n.delays {
			all = append(all, message{at: isDelayed, queue: q})
		}
		if n.gets || b.queues[i].isConsumed {
			all = append(all, message{at: isHeld, queue: q})
		}
	}
	return all
}

// begin is the beginning of a proof, with the old counts.
func (s *search) begin(b brokerState) state {
	st := state{broker: b, phase: looking, looks: s.looks, slow: s.slow}
	for i, n := range s.natures {
		if !n.classic {
			st.history += s.old(b, i)
		}
	}
	return st
}

// record is a count in the history.
func (s *search) record(queue int, kind Kind, asOf, answered int8, messages, ready, consumers int64) string {
	return string([]byte{byte(queue), byte(kind), byte(asOf), byte(answered), byte(messages), byte(ready),
		byte(consumers)})
}

// unknownTime is the time of an old count.
const unknownTime = -1

func (s *search) old(b brokerState, i int) string {
	api := b.queues[i].api
	return s.record(i, All, unknownTime, b.now, int64(api.messages), int64(api.ready), 0)
}

// sorted has the counts in the order of their answers, and those of one unit in any one order, so that fewer states
// differ.
func sorted(history string) string {
	var counts []string
	for count := range slices.Chunk([]byte(history), 7) {
		counts = append(counts, string(count))
	}
	slices.SortStableFunc(counts, func(a, b string) int {
		return cmp.Or(cmp.Compare(a[3], b[3]), cmp.Compare(a, b))
	})
	return strings.Join(counts, "")
}

func (s *search) counts(history string) []Count {
	var counts []Count
	for i := 0; i < len(history); i += 7 {
		c := Count{Queue: s.queues[history[i]].Name, Kind: Kind(history[i+1]), AsOf: atUnit(int8(history[i+2])),
			Answered: atUnit(int8(history[i+3])), Messages: int64(history[i+4]), ReadyOfAll: int64(history[i+5]),
			Consumers: int64(history[i+6])}
		if int8(history[i+2]) == unknownTime {
			c.AsOf = time.Time{}
		}
		if s.rules != nil && s.rules.count != nil {
			s.rules.count(&c)
		}
		counts = append(counts, c)
	}
	return counts
}

// visit tells whether there is a loss in what may follow.
func (s *search) visit(st state) bool {
	if s.loss != "" || len(s.visited) > mostStates {
		return true
	}
	hash := maphash.Comparable(s.seed, st)
	if _, is := s.visited[hash]; is {
		return false
	}
	s.visited[hash] = struct{}{}
	follow := func(name string, next state) bool {
		s.path = append(s.path, name)
		if s.visit(next) {
			return true
		}
		s.path = s.path[:len(s.path)-1]
		return false
	}
	for _, e := range st.broker.events(s.natures) {
		next := st
		next.broker = e.then
		if follow(e.name, next) {
			return true
		}
	}
	if later, possible := s.later(st); possible && follow(fmt.Sprintf("it is %d", later.broker.now), later) {
		return true
	}
	for name, next := range s.prover(st) {
		if follow(name, next) {
			return true
		}
	}
	return false
}

// later lets time pass where the prover waits, or is slow.
func (s *search) later(st state) (state, bool) {
	isAsking := slices.ContainsFunc(st.asking[:len(s.natures)],
		func(a asking) bool { return a == unanswered || a == again })
	switch {
	case st.phase == over || st.broker.now >= never-20:
		return st, false
	case st.wait > 0:
		st.wait--
	case st.phase != pausing && st.slow > 0:
		st.slow--
	case st.phase == looking && isAsking && st.looks > 0 && st.broker.now < 16:
	default:
		return st, false
	}
	b, possible := st.broker.later()
	st.broker = b
	return st, possible
}

// prover is what the prover may do next.
func (s *search) prover(st state) map[string]state {
	switch st.phase {
	case pausing:
		if st.wait == 0 {
			st.phase, st.asking = looking, [mostQueues]asking{}
			for i := range st.asked {
				st.asked[i] = st.broker.now
			}
			return map[string]state{fmt.Sprintf("look at %d", st.broker.now): st}
		}
	case looking:
		return s.look(st)
	case idle:
		return s.cut(st)
	case cutOff:
		return s.lookAgain(st)
	case renewing:
		return s.renew(st)
	case deleting:
		return s.delete(st)
	}
	return nil
}

// look asks one of the queues, or comes to a verdict.
func (s *search) look(st state) map[string]state {
	all := map[string]state{}
	isDone := true
	for i := range s.natures {
		next, asks := s.ask(st, i)
		if asks {
			all[fmt.Sprintf("queue %d is asked", i)] = next
		}
		isDone = isDone && st.asking[i] == done
	}
	if isDone {
		s.judge(st, all)
	}
	return all
}

// ask asks a queue the next question of a look.
func (s *search) ask(st state, i int) (state, bool) {
	b, needs := st.broker, s.known[i].needs(Kind(st.lacks[i]))
	now := b.now
	switch {
	case st.asking[i] == first && s.natures[i].classic:
		n := b.count(i)
		st.history += s.record(i, All, st.asked[i], now, int64(n.messages), int64(n.ready), b.consumers(i))
		st.asking[i] = done
	case st.asking[i] == first:
		if needs.ready {
			st.history += s.record(i, Ready, st.asked[i], now, b.readyIn(i), 0, b.consumers(i))
		}
		st.asking[i], st.asked[i] = second, now
		if needs.leader && b.queues[i].isLeaderless {
			st.asking[i] = unanswered
		}
	case st.asking[i] == unanswered && !b.queues[i].isLeaderless:
		st.asking[i], st.wait = again, int8(Settling/unit)
	case st.asking[i] == second && needs.ticked:
		if needs.old {
			st.history += s.old(b, i)
		}
		st = s.readTick(st, i)
		st.asking[i] = done
	case (st.asking[i] == second || st.asking[i] == again && st.wait == 0) && needs.leader:
		kind, ready := Leader, b.readyIn(i)
		if ready > 0 {
			kind = Ready
		}
		st.history += s.record(i, kind, st.asked[i], now, ready, 0, 0)
		st.asking[i] = done
	case st.asking[i] == second:
		st.asking[i] = done
	default:
		return st, false
	}
	return st, true
}

// readTick asks the management API for the count of the last tick.
func (s *search) readTick(st state, i int) state {
	ticks, read := st.ticks[i], (*Ticks).Read
	if s.rules != nil && s.rules.read != nil {
		read = s.rules.read
	}
	api, asked := st.broker.queues[i].api, st.asked[i]
	if asOf := read(&ticks, atUnit(asked), int64(api.reductions)); !asOf.IsZero() {
		st.history += s.record(i, All, int8(asOf.Sub(began)/unit), st.broker.now, int64(api.messages),
			int64(api.ready), st.broker.consumers(i))
	}
	st.ticks[i] = ticks
	if q := &st.broker.queues[i]; q.isHalf {
		q.isHalf = false
		// By the next question the rest is there. It is that of the note of then, or an earlier one.
		q.api = q.note
	}
	return st
}

// judge comes to a verdict when all queues were asked.
func (s *search) judge(st state, all map[string]state) {
	st.history = sorted(st.history)
	v := s.proof().Judge(s.counts(st.history))
	st.asking = [mostQueues]asking{}
	switch {
	case len(v.Waiting)+len(v.Disputed) > 0: // nothing is deleted
	case v.Empty:
		s.proofs++
		st.since, st.stay = int8(v.Since.Sub(began)/unit), v.stay
		switch {
		case s.publishes+s.names == 0 && len(s.leaderless) == 0 && st.broker.holds(len(s.natures)):
			s.loss = "a message is there"
			all["the verdict: empty"] = st
		case s.destroys:
			st.phase, st.slow = idle, s.after
			if s.isStill {
				st.phase = deleting
			}
			all["the verdict: empty"] = st
		}
	case st.looks > 1:
		st.lacks = [mostQueues]int8{}
		for i, q := range s.queues {
			st.lacks[i] = int8(v.Lacks[q.Name])
		}
		st.looks--
		// Without AMQP, a pause is up to a second. Its length proves nothing, so the search has shorter ones.
		st.phase, st.wait = pausing, int8((min(v.Pause, 250*time.Millisecond)+unit-1)/unit)
		all[fmt.Sprintf("not yet: %v lacks", slices.Sorted(maps.Keys(v.Lacks)))] = st
	}
}

func (s *search) proof() Proof { return Proof{Queues: s.known, Began: began, NothingMoves: s.isStill} }

// proven is what the proof has proven, or its renewal.
func (s *search) proven(st state) Proven {
	return s.proof().Proven(s.queues, Verdict{Since: atUnit(st.since), stay: st.stay})
}

// cut has the exchanges go.
func (s *search) cut(st state) map[string]state {
	st.broker.isCutOff, st.cut, st.phase = true, st.broker.now, cutOff
	if !s.proven(st).HoldsAt(atUnit(st.broker.now), s.queues) {
		return nil // which takes a new proof: one that is still
	}
	if !s.isHasty {
		st.wait = int8(Settling / unit)
	}
	return map[string]state{"the exchanges go": st}
}

// lookAgain begins the look that renews the proof.
func (s *search) lookAgain(st state) map[string]state {
	if st.wait > 0 {
		return nil
	}
	for i := range st.broker.messages {
		m := &st.broker.messages[i]
		m.isEarly = m.at != nowhere && m.at != onItsWay
	}
	st.phase, st.asked[0] = renewing, st.broker.now
	return map[string]state{fmt.Sprintf("look again at %d", st.broker.now): st}
}

// renew looks once at each queue, see Prover.renew.
func (s *search) renew(st state) map[string]state {
	all := map[string]state{}
	isDone := true
	for i := range s.natures {
		if st.asking[i] == done {
			continue
		}
		isDone = false
		if isIdle(st.broker.readyIn(i), st.broker.consumers(i)) {
			next := st
			next.asking[i] = done
			all[fmt.Sprintf("queue %d is still empty", i)] = next
		}
	}
	if isDone && s.proven(st).HoldsAt(atUnit(st.broker.now), s.queues) {
		if slices.ContainsFunc(st.broker.messages[:], func(m message) bool { return m.isEarly }) {
			s.loss = "the renewed proof is wrong"
		}
		st.phase, st.since, st.asking = deleting, st.asked[0], [mostQueues]asking{}
		st.broker.fails = s.fails
		all["the proof is renewed"] = st
	}
	return all
}

// delete looks once more at each queue, and deletes it, see Prover.Left.
func (s *search) delete(st state) map[string]state {
	all := map[string]state{}
	if st.wait > 0 {
		return nil
	}
	if st.broker.now < st.cut+int8(Settling/unit) {
		st.wait = st.cut + int8(Settling/unit) - st.broker.now
		return map[string]state{"wait": st}
	}
	// The look began after the exchanges had gone, if in the same unit.
	covered := func(q topology.Queue) bool { return s.proven(st).Covers(q, atUnit(st.cut).Add(-1)) }
	for i, q := range s.queues {
		next, name := st, fmt.Sprintf("queue %d is looked into", i)
		isEmpty, needsLeader := s.lastLook(st, i)
		switch {
		case st.asking[i] == done || !covered(q):
			continue
		case st.asking[i] == second && (st.broker.queues[i].isLeaderless || st.broker.readyIn(i) > 0):
			continue
		case st.asking[i] == first && !isEmpty:
			continue
		case st.asking[i] == first && needsLeader:
			next.asking[i] = second
		default:
			next.asking[i], name = done, fmt.Sprintf("queue %d is deleted", i)
			if slices.ContainsFunc(st.broker.messages[:], func(m message) bool { return m.isIn(i) }) {
				s.loss = name + " with a message"
			}
		}
		all[name] = next
	}
	return all
}

// lastLook is the first of the two questions of the last look into a queue, see counter.isStillEmpty.
func (s *search) lastLook(st state, i int) (isEmpty, needsLeader bool) {
	api := st.broker.queues[i].api
	all := Count{Queue: s.queues[i].Name, Messages: int64(api.messages), ReadyOfAll: int64(api.ready)}
	ready := Count{Messages: st.broker.readyIn(i), Consumers: st.broker.consumers(i)}
	if s.rules != nil && s.rules.look != nil {
		s.rules.look(&all, &ready)
	}
	isEmpty, needsLeader = s.proven(st).lastLook(all, ready, s.isFilled)
	return isEmpty, needsLeader && (s.rules == nil || !s.rules.noLeader)
}

// trace is how the loss came about.
func (s *search) trace() string { return strings.Join(append(s.path, s.loss), "\n") }

package drain

import (
	"os"
	"slices"
	"testing"
	"time"
)

// byName has a message come into a queue after the proof, beside a consumer. Only the last look can see it.
var byName = scenario{natures: []nature{{stay: 60, prompt: true}}, messages: 1, looks: 5, destroys: true, names: 1,
	isStill: true, after: 4, ticks: 2, consumed: []int{0}, start: []message{{}}}

// withoutLeader has a message come so, and the leader of the queue go before the last look.
var withoutLeader = scenario{natures: []nature{{stay: 60}}, messages: 1, looks: 3, destroys: true, names: 1, fails: 1,
	after: 8, start: []message{{}}}

// TestEmptyIsEmpty goes through all that can happen to messages in small cascades while they are proven empty. The real
// rules judge, and the broker is a model. After a verdict that the queues are empty, none holds a message, and none is
// on its way into one. A queue that is deleted after a renewed proof and the last look holds none, either.
//
// The model has what internal/rabbit has measured: see the table in rules.go. Time is in units of 25 ms. A message
// leaves a queue in the unit in which it is due, and is on its way for one unit at the most. Clients of AMQP 1.0 and
// expirations of messages are not in it: they are documented limits. So are clients that get a message after a tick,
// and publishers who name a queue. In two scenarios there is one, and at least no message is deleted that is ready, or
// that a consumer has.
//
// With MODELS=all, looks and ticks are more, and the management API takes over each count whenever it likes.
func TestEmptyIsEmpty(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short, no model")
	}
	for name, sc := range map[string]scenario{
		"one queue":    {natures: []nature{{stay: 3}}, messages: 2, looks: 4, slow: 1},
		"two queues":   {natures: []nature{{stay: 6}, {stay: 3}}, messages: 1, looks: 5, slow: 1},
		"short stays":  {natures: []nature{{stay: 2}, {stay: 1}}, messages: 1, looks: 5, slow: 1},
		"two messages": {natures: []nature{{stay: 4}, {stay: 2}}, messages: 2, looks: 3},
		"classic queues": {natures: []nature{{stay: 2, classic: true}, {stay: 1, classic: true}}, messages: 1, looks: 5,
			slow: 1},
		"a queue without a TTL": {natures: []nature{{stay: 3}, {}}, messages: 1, looks: 4},
		"overdue":               {natures: []nature{{stay: 3, overdue: true}}, messages: 1, looks: 5, ticks: 2},
		"delayed": {natures: []nature{{stay: 3, delays: true, prompt: true}}, messages: 1, looks: 5,
			ticks: 2},
		"got before": {natures: []nature{{stay: 3, gets: true}}, messages: 1, looks: 5, ticks: 2},
		"a consumer": {natures: []nature{{stay: 3, prompt: true}}, messages: 1, looks: 5, ticks: 2,
			consumed: []int{0}},
		"no AMQP": {natures: []nature{{stay: 3, prompt: true}}, messages: 1, looks: 9, ticks: 5,
			withoutAMQP: true},
		"no leader": {natures: []nature{{stay: 12}}, messages: 1, looks: 3, destroys: true, after: 16,
			leaderless: []int{0}},
		"a destroy beside a publisher": {natures: []nature{{stay: 16}, {stay: 8}}, messages: 1, looks: 3,
			destroys: true, publishes: 1, after: 24},
		"a destroy of short stays": {natures: []nature{{stay: 4}, {stay: 2}}, messages: 1, looks: 5, destroys: true,
			publishes: 1, after: 12},
		"a destroy of a queue that delays": {natures: []nature{{stay: 24, delays: true, prompt: true}}, messages: 1,
			looks: 5, destroys: true, publishes: 1, after: 8, ticks: 2, start: []message{{}}},
		"a destroy of an overdue message": {natures: []nature{{stay: 3, overdue: true, prompt: true}}, messages: 1,
			looks: 5, destroys: true, after: 8, ticks: 2},
		"a destroy of what was got": {natures: []nature{{stay: 3, gets: true, prompt: true}}, messages: 1, looks: 5,
			destroys: true, after: 8, ticks: 2},
		"after a drain": {natures: []nature{{stay: 3}}, messages: 1, looks: 5, ticks: 2, isFilled: true},
		"a destroy after a drain": {natures: []nature{{stay: 8}}, messages: 1, looks: 3, destroys: true,
			publishes: 1, after: 12, ticks: 1, isFilled: true},
		"a destroy beside a publisher and a consumer": {natures: []nature{{stay: 12, prompt: true}}, messages: 1,
			looks: 5, destroys: true, publishes: 1, after: 16, ticks: 2, consumed: []int{0}, start: []message{{}}},
		"a destroy beside who names a queue":                  byName,
		"a destroy beside who names a queue without a leader": withoutLeader,
		"a destroy that looks anew": {natures: []nature{{stay: 3, prompt: true}}, messages: 1, looks: 5,
			destroys: true, isStill: true, after: 8, ticks: 2},
	} {
		t.Run(name, func(t *testing.T) {
			if os.Getenv("MODELS") == "all" {
				sc = sc.larger()
			}
			began := time.Now()
			s := sc.explore()
			t.Logf("%d states, %d proofs, %s", len(s.visited), s.proofs, time.Since(began).Round(time.Millisecond))
			switch {
			case s.loss != "":
				t.Error(s.trace())
			case len(s.visited) >= mostStates:
				t.Error("the search has not come to its end")
			case s.proofs == 0:
				t.Error("nothing was proven")
			}
		})
	}
}

// larger has more of all.
func (sc scenario) larger() scenario {
	sc.natures = slices.Clone(sc.natures)
	for i := range sc.natures {
		sc.natures[i].prompt = false
	}
	sc.looks++
	if sc.ticks > 0 {
		sc.ticks++
	}
	if sc.slow > 0 {
		sc.slow++
	}
	return sc
}

// TestEachFactCounts takes one fact after the other out of the rules. The search finds the loss.
func TestEachFactCounts(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short, no model")
	}
	unknown := func(change func(*Queue)) *rules { return &rules{known: change} }
	without := func(sc scenario, rules rules) scenario { sc.rules = &rules; return sc }
	for name, sc := range map[string]scenario{
		"delays by the queue": {natures: []nature{{stay: 3, delays: true}}, messages: 1, looks: 3,
			rules: unknown(func(q *Queue) { q.MayHide, q.DelaysItself = false, false })},
		"delays by the queue, for a renewal": {natures: []nature{{stay: 24, delays: true, prompt: true}}, messages: 1,
			looks: 5, destroys: true, publishes: 1, after: 8, ticks: 2, start: []message{{}},
			rules: unknown(func(q *Queue) { q.DelaysItself = false })},
		"overdue messages": {natures: []nature{{stay: 3, overdue: true}}, messages: 1, looks: 3,
			rules: unknown(func(q *Queue) { q.MayHide = false })},
		"short stays": {natures: []nature{{stay: 3}, {stay: 2}}, messages: 1, looks: 4, slow: 1,
			rules: unknown(func(q *Queue) { q.Stay = time.Hour })},
		"queues without a leader": {natures: []nature{{stay: 24}}, messages: 1, looks: 3, destroys: true, after: 8,
			leaderless: []int{0}, rules: unknown(func(q *Queue) { q.NeedsNoLeader = true })},
		"the age of a count": {natures: []nature{{stay: 3, overdue: true}}, messages: 1, looks: 4, ticks: 1,
			rules: &rules{read: func(_ *Ticks, asked time.Time, _ int64) time.Time { return asked }}},
		"that a count may be half old": {natures: []nature{{stay: 3, overdue: true}}, messages: 1, looks: 5, ticks: 2,
			rules: &rules{read: func(t *Ticks, asked time.Time, reductions int64) time.Time {
				if asOf := t.Read(asked, reductions); !asOf.IsZero() {
					return asOf
				}
				return t.last.after
			}}},
		"messages that are held": {natures: []nature{{stay: 3, gets: true}}, messages: 1, looks: 3,
			rules: &rules{count: func(c *Count) { c.Messages, c.ReadyOfAll = 0, 0 }}},
		"consumers": {natures: []nature{{stay: 3}}, messages: 1, looks: 3, consumed: []int{0},
			rules: &rules{count: func(c *Count) { c.Consumers = 0 }}},
		"the wait before a renewal": {natures: []nature{{stay: 16}, {stay: 8}}, messages: 1, looks: 3, destroys: true,
			publishes: 1, after: 24, isHasty: true},
		"ready messages, for the last look": without(byName,
			rules{look: func(_, ready *Count) { ready.Messages = 0 }}),
		"consumers, for the last look":  without(byName, rules{look: func(_, ready *Count) { ready.Consumers = 0 }}),
		"the leader, for the last look": without(withoutLeader, rules{noLeader: true}),
	} {
		t.Run(name, func(t *testing.T) {
			if s := sc.explore(); s.loss == "" {
				t.Errorf("no loss in %d states and %d proofs", len(s.visited), s.proofs)
			}
		})
	}
}

// TestTwoThatHide has a message that one queue keeps after its time, and then the next one. In that, the message is
// ready for less than the time between two looks. The looks are enough for a verdict only if the counts need not follow
// each other: then the search finds the loss. TestCountsFollowEachOther has the verdicts.
func TestTwoThatHide(t *testing.T) {
	if os.Getenv("MODELS") != "all" {
		t.Skip("it takes minutes: MODELS=all")
	}
	n := nature{stay: 2, overdue: true, prompt: true}
	second := n
	second.stay = 1
	sc := scenario{natures: []nature{n, second}, messages: 1, looks: 6, ticks: 2, start: []message{{at: isKept}}}
	if s := sc.explore(); s.loss != "" || len(s.visited) >= mostStates {
		t.Errorf("%d states, %d proofs: %s", len(s.visited), s.proofs, s.trace())
	}
	sc.rules = &rules{known: func(q *Queue) { q.Stay = 0 }}
	if s := sc.explore(); s.loss == "" {
		t.Errorf("no loss in %d states and %d proofs", len(s.visited), s.proofs)
	}
}

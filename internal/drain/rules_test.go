package drain

import (
	"slices"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return began.Add(time.Duration(seconds * float64(time.Second))) }

func ready(queue string, seconds float64, messages int64) Count {
	return Count{Queue: queue, Kind: Ready, AsOf: at(seconds), Answered: at(seconds + 0.01), Messages: messages}
}

// all is a count that was made at a time, or nobody knows when (-1).
func all(seconds float64, messages, ready int64) Count {
	c := Count{Queue: "q", Kind: All, AsOf: at(seconds), Answered: at(max(seconds, 0) + 9), Messages: messages,
		ReadyOfAll: ready}
	if seconds < 0 {
		c.AsOf = time.Time{}
	}
	return c
}

func leader(seconds float64) Count {
	return Count{Queue: "q", Kind: Leader, AsOf: at(seconds), Answered: at(seconds + 0.02)}
}

func consumed(c Count) Count { c.Consumers = 1; return c }

func TestJudge(t *testing.T) {
	plain := Queue{Name: "q", Moves: Ready, Stay: time.Hour}
	hides := Queue{Name: "q", Moves: Ready, Stay: time.Hour, MayHide: true}
	classic := Queue{Name: "q", Moves: All, Stay: time.Hour, NeedsNoLeader: true}
	short := Queue{Name: "q", Moves: Ready, Stay: 50 * time.Millisecond}
	filled := Queue{Name: "q", Moves: Ready, Stay: time.Hour, Filled: true}
	twice := []Count{ready("q", 0, 0), ready("q", 0.2, 0), leader(0.21)}
	for name, test := range map[string]verdictCase{
		"nothing was counted":  {Proof{Queues: []Queue{plain}}, nil, 0, false, false, Leader, true},
		"one look":             {Proof{Queues: []Queue{plain}}, twice[:1], 0, false, false, Leader, true},
		"two looks, no leader": {Proof{Queues: []Queue{plain}}, twice[:2], 0, false, false, Leader, true},
		"two looks":            {Proof{Queues: []Queue{plain}}, twice, 0, false, true, 0, false},
		"two looks in a row": {Proof{Queues: []Queue{plain}},
			[]Count{ready("q", 0, 0), ready("q", 0.02, 0), leader(0.02)}, 0, false, false, Leader, true},
		"a leader before the last look": {Proof{Queues: []Queue{plain}}, []Count{leader(0), ready("q", 0, 0),
			ready("q", 0.2, 0)}, 0, false, false, Leader, true},
		"a count from before": {Proof{Queues: []Queue{plain}},
			[]Count{ready("q", -1, 0), ready("q", 0.2, 0), leader(0.3)}, 0, false, false, Leader, true},
		"a message is ready": {Proof{Queues: []Queue{plain}},
			[]Count{ready("q", 0, 0), ready("q", 0.2, 1)}, 1, false, false, 0, false},
		"short, two looks": {Proof{Queues: []Queue{short}},
			[]Count{ready("q", 0, 0), ready("q", 0.12, 0), leader(0.12)}, 0, false, false, Leader, true},
		"short, a third look": {Proof{Queues: []Queue{short}},
			[]Count{ready("q", 0, 0), ready("q", 0.12, 0), ready("q", 0.3, 0), leader(0.3)}, 0, false, true, 0, false},
		"short and still, two looks": {Proof{Queues: []Queue{short}, NothingMoves: true},
			[]Count{ready("q", 0, 0), ready("q", 0.12, 0), leader(0.12)}, 0, false, true, 0, false},
		"hides, no count of all": {Proof{Queues: []Queue{hides}}, twice, 0, false, false, All, true},
		"hides, counted at a time unknown": {Proof{Queues: []Queue{hides}}, append(twice, all(-1, 0, 0)), 0, false,
			false, All, true},
		"hides, counted too early": {Proof{Queues: []Queue{hides}}, append(twice, all(0.1, 0, 0)), 0, false,
			false, All, true},
		"hides, counted": {Proof{Queues: []Queue{hides}}, append(twice, all(0.3, 0, 0)), 0, false,
			true, 0, false},
		"hides one": {Proof{Queues: []Queue{hides}}, append(twice, all(0.3, 1, 0)), 1, false,
			false, 0, false},
		"hid one, long ago": {Proof{Queues: []Queue{plain}}, append(twice, all(-1, 1, 0)), 0, false,
			false, All, true},
		"hid one, and no longer": {Proof{Queues: []Queue{plain}}, append(twice, all(-1, 1, 0),
			all(0.3, 0, 0)), 0, false, true, 0, false},
		"had one ready, long ago": {Proof{Queues: []Queue{plain}}, append(twice, all(-1, 1, 1)), 0, false,
			false, All, true},
		"had one ready, and it left": {Proof{Queues: []Queue{filled}}, append(twice, all(-1, 1, 1)), 0, false,
			true, 0, false},
		"had one ready, long ago, by three looks": {Proof{Queues: []Queue{plain}}, append(twice, ready("q", 0.4, 0),
			all(-1, 1, 1)), 0, false, false, All, true},
		"has one that was ready in a look": {Proof{Queues: []Queue{plain}}, []Count{ready("q", 0, 1),
			ready("q", 0.2, 0), all(0.1, 1, 1)}, 1, false, false, 0, false},
		"has one ready for others": {Proof{Queues: []Queue{plain}}, append(twice, all(-1, 1, 1),
			all(0.3, 1, 1)), 0, true, false, 0, false},
		"is consumed": {Proof{Queues: []Queue{plain}}, []Count{consumed(ready("q", 0, 0)),
			ready("q", 0.2, 0), leader(0.2)}, 0, false, false, All, true},
		"a consumer holds one": {Proof{Queues: []Queue{plain}}, []Count{consumed(ready("q", 0, 0)),
			ready("q", 0.2, 0), all(0.3, 1, 0)}, 1, false, false, 0, false},
		"classic": {Proof{Queues: []Queue{classic}}, []Count{all(0, 0, 0), all(10, 0, 0)}, 0,
			false, true, 0, false},
		"no AMQP, had one": {Proof{Queues: []Queue{{Name: "q", Moves: All, MayHide: true}}},
			[]Count{all(-1, 1, 1)}, 1, false, false, 0, false},
		"no AMQP, had one, and no longer": {
			Proof{Queues: []Queue{{Name: "q", Moves: All, MayHide: true}}},
			[]Count{all(-1, 1, 1), all(1, 0, 0), all(15, 0, 0)}, 0, false, true, 0, false,
		},
		"classic, holds one": {Proof{Queues: []Queue{classic}}, []Count{all(0, 1, 1)}, 1, false, false, 0,
			false},
		"glance": {Proof{Queues: []Queue{hides}, FirstLook: true}, append([]Count{all(-1, 0, 0)},
			twice[:1]...), 0, false, true, 0, false},
		"glance, no AMQP": {Proof{Queues: []Queue{{Name: "q", Moves: All, MayHide: true}}, FirstLook: true},
			[]Count{all(-1, 0, 0)}, 0, false, true, 0, false},
		"glance, classic": {Proof{Queues: []Queue{classic}, FirstLook: true}, []Count{all(0, 0, 0)}, 0, false, true, 0,
			false},
		"glance, classic, not counted": {Proof{Queues: []Queue{classic}, FirstLook: true}, nil, 0, false, false, All,
			true},
		"glance, not counted": {Proof{Queues: []Queue{plain}, FirstLook: true}, []Count{all(-1, 0, 0)}, 0,
			false, false, All, true},
		"glance, hid one": {Proof{Queues: []Queue{plain}, FirstLook: true}, append([]Count{all(-1, 1, 0)},
			twice[:1]...), 0, false, false, All, true},
		"glance, hides one": {Proof{Queues: []Queue{plain}, FirstLook: true},
			append([]Count{all(-1, 1, 0), all(0.1, 1, 0)}, twice[:1]...), 1, false, false, 0, false},
		"glance, hid one, and no longer": {Proof{Queues: []Queue{plain}, FirstLook: true},
			append([]Count{all(-1, 1, 0), all(0.1, 0, 0)}, twice[:1]...), 0, false, true, 0, false},
		"one of two": {Proof{Queues: []Queue{plain, {Name: "r", Moves: Ready}}}, twice, 0, false,
			false, Leader, true},
	} {
		t.Run(name, func(t *testing.T) {
			checkVerdict(t, test)
		})
	}
}

type verdictCase struct {
	proof    Proof
	counts   []Count
	waiting  int64
	disputed bool
	empty    bool
	lacks    Kind // where it is not empty, and nothing waits
	lacking  bool
}

// checkVerdict compares the verdict with the expected one.
func checkVerdict(t *testing.T, test verdictCase) {
	test.proof.Began = began
	v := test.proof.Judge(test.counts)
	if v.Empty != test.empty || len(v.Disputed) > 0 != test.disputed {
		t.Errorf("the verdict is %+v", v)
	}
	if len(v.Waiting) != int(min(test.waiting, 1)) || len(v.Waiting) > 0 &&
		v.Waiting[0].Messages != test.waiting {
		t.Errorf("waiting are %v", v.Waiting)
	}
	if test.empty || len(v.Waiting)+len(v.Disputed) > 0 {
		return
	}
	if kind, lacking := v.Lacks["q"]; lacking != test.lacking || kind != test.lacks {
		if _, other := v.Lacks["r"]; !other {
			t.Errorf("lacking are %v", v.Lacks)
		}
	}
	if v.Pause < Settling {
		t.Errorf("the pause is %s", v.Pause)
	}
}

// TestLeadersInTurn has queues whose leaders were asked in different looks, which is as good as in the same one.
func TestLeadersInTurn(t *testing.T) {
	proof := Proof{Queues: []Queue{{Name: "q", Moves: Ready}, {Name: "r", Moves: Ready}}, Began: began}
	var counts []Count
	for _, s := range []float64{0, 0.2, 0.4} {
		counts = append(counts, ready("q", s, 0), ready("r", s, 0))
		if s > 0.3 {
			counts = append(counts, leader(s))
		} else if s > 0.1 {
			counts = append(counts, Count{Queue: "r", Kind: Leader, AsOf: at(s), Answered: at(s)})
		}
	}
	if v := proof.Judge(counts); !v.Empty {
		t.Errorf("the verdict is %+v", v)
	}
}

// TestMoves has a message hop from queue to queue just before each of them is counted: no round sees it, until its way
// is over.
func TestMoves(t *testing.T) {
	queues := []Queue{
		{Name: "c", Moves: Ready, Stay: 80 * time.Millisecond}, {Name: "b", Moves: Ready, Stay: 40 * time.Millisecond},
		{Name: "a", Moves: Ready, Stay: 20 * time.Millisecond, NeedsNoLeader: true},
	}
	for i := range queues {
		queues[i].NeedsNoLeader = true
	}
	proof := Proof{Queues: queues, Began: began}
	var counts []Count
	var rounds int
	for v := (Verdict{}); !v.Empty; v = proof.Judge(counts) {
		rounds++
		for _, q := range queues {
			counts = append(counts, ready(q.Name, 0.11*float64(rounds-1), 0))
		}
	}
	// It was in queues unseen for less than two rounds and the time between them, 0.12 s. So its way takes 0.14 s, and
	// 0.1 s.
	if rounds != 4 {
		t.Errorf("it took %d rounds", rounds)
	}
}

// TestQueuesInTurn has a look that asks the second queue 90 ms after the first one. A message comes into the first one
// in between, and is on its way to the second one when the next look is over. A look is as old as its first question:
// otherwise the message is lost.
func TestQueuesInTurn(t *testing.T) {
	slow := ready("q", 0, 0)
	slow.Answered = at(0.11)
	for name, counts := range map[string][]Count{
		"answers in turn":                     {ready("q", 0, 0), ready("r", 0.09, 0)},
		"the first question is answered last": {ready("r", 0.09, 0), slow},
	} {
		t.Run(name, func(t *testing.T) {
			proof := Proof{Began: began, Queues: []Queue{
				{Name: "q", Moves: Ready, Stay: 150 * time.Millisecond, NeedsNoLeader: true},
				{Name: "r", Moves: Ready, Stay: time.Hour, NeedsNoLeader: true}}}
			counts = append(counts, ready("q", 0.2, 0), ready("r", 0.2, 0))
			if v := proof.Judge(counts); v.Empty {
				t.Errorf("a message is on its way, and the verdict is %+v", v)
			}
			v := proof.Judge(append(counts, ready("q", 0.3, 0), ready("r", 0.39, 0)))
			if !v.Empty || !v.Since.Equal(at(0.3)) {
				t.Errorf("the verdict is %+v, and not since %s", v, at(0.3))
			}
		})
	}
}

// TestSince tells how long a proof by an old count holds: as long as looks come before a message could have come and
// gone. A look takes 10 ms.
func TestSince(t *testing.T) {
	for name, test := range map[string]struct {
		pause, since float64
		delaysItself bool
	}{
		"looks in a row": {0.5, 5, false}, "looks far apart": {1.5, 1.5, false},
		"looks as far apart as a message stays":          {0.99, 0.99, false},
		"looks in a row at a queue that delays messages": {0.5, 0.5, true},
	} {
		t.Run(name, func(t *testing.T) {
			q := Queue{Name: "q", Moves: Ready, Stay: time.Second, MayHide: true, DelaysItself: test.delaysItself}
			var counts []Count
			for s := 0.0; s <= 5; s += test.pause {
				counts = append(counts, ready("q", s, 0))
			}
			proof := Proof{Queues: []Queue{q}, Began: began}
			v := proof.Judge(append(counts, all(2, 0, 0)))
			if want := at(test.since); !v.Empty || v.Since.Sub(want).Abs() >= time.Second/2 {
				t.Errorf("the verdict is %+v, and not since %s", v, want)
			}
			queues := []topology.Queue{{Name: "q"}}
			proven := proof.Proven(queues, v)
			if holds := proven.HoldsAt(v.Since, queues); holds == test.delaysItself {
				t.Errorf("the proof holds where no message is ready: %t", holds)
			}
			if !proven.Covers(queues[0], v.Since.Add(-1)) || proven.Covers(queues[0], v.Since) {
				t.Error("it is no proof of what came until then, or one of what came later")
			}
		})
	}
}

// TestCountsFollowEachOther has a message that one queue hides, and then the next one. It passes from one to the other
// after the second has counted itself, and before the first does. Only a later count of the second has it.
func TestCountsFollowEachOther(t *testing.T) {
	for name, test := range map[string]struct {
		stay         time.Duration
		nothingMoves bool
		second       float64
		empty        bool
	}{
		"counted before the first one":           {50 * time.Millisecond, false, 1, false},
		"counted just after the first one":       {50 * time.Millisecond, false, 9.05, false},
		"counted after the first one":            {50 * time.Millisecond, false, 10.2, true},
		"messages stay in the second one":        {0, false, 1, true},
		"a message would be ready in a look":     {time.Hour, false, 1, true},
		"nothing moves from the one to the next": {50 * time.Millisecond, true, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			proof := Proof{Began: began, NothingMoves: test.nothingMoves, Queues: []Queue{
				{Name: "q", Moves: Ready, Stay: time.Hour, MayHide: true},
				{Name: "r", Moves: Ready, Stay: test.stay, MayHide: true}}}
			var counts []Count
			for s := 0.0; s < 1; s += 0.25 {
				counts = append(counts, ready("q", s, 0), ready("r", s, 0))
			}
			second := all(test.second, 0, 0)
			second.Queue = "r"
			if v := proof.Judge(append(counts, all(1, 0, 0), all(2, 0, 0), second)); v.Empty != test.empty {
				t.Errorf("the verdict is %+v", v)
			}
		})
	}
}

// TestFirstLookTakesItsTime has a first look that goes on, with a count of all from before.
func TestFirstLookTakesItsTime(t *testing.T) {
	proof := Proof{Began: began, FirstLook: true, Queues: []Queue{{Name: "q", Moves: Ready, MayHide: true}}}
	counts := []Count{all(0, 0, 0)}
	for s := 0.0; s < 1; s += 0.25 {
		counts = append(counts, ready("q", s, 0))
	}
	if v := proof.Judge(counts); !v.Empty {
		t.Errorf("the verdict is %+v", v)
	}
}

// TestProvenHides tells of each queue of a proof whether its ready messages are all.
func TestProvenHides(t *testing.T) {
	proven := Proof{Queues: []Queue{{Name: "q", MayHide: true}, {Name: "r"}}}.Proven(nil, Verdict{})
	if !proven.NeedsCountOfAll("q") || proven.NeedsCountOfAll("r") || proven.NeedsCountOfAll("s") {
		t.Errorf("the proof is %+v", proven)
	}
}

// TestHoldsAt has a queue beside a delay queue that messages do not leave. What comes into it stays ready, so the
// proof holds for as long as without it.
func TestHoldsAt(t *testing.T) {
	queues := []topology.Queue{{Name: "q"}, {Name: "end"}}
	proof := Proof{Queues: []Queue{{Name: "q", Stay: time.Second}, {Name: "end"}}}
	proven := proof.Proven(queues, Verdict{Since: began, stay: proof.shortestStay()})
	if !proven.HoldsAt(at(0.9), queues) || proven.HoldsAt(at(1), queues) {
		t.Errorf("the proof is %+v", proven)
	}
}

func TestSlowBroker(t *testing.T) {
	slow := Count{Queue: "q", AsOf: at(0), Answered: at(0.2)}
	if v := (Proof{Queues: []Queue{{Name: "q"}}, Began: began}).Judge([]Count{slow}); v.Pause != 800*time.Millisecond {
		t.Errorf("the pause is %s", v.Pause)
	}
}

// TestPause has a count of all that is missing, which no tick brings within a tenth of a second.
func TestPause(t *testing.T) {
	for _, q := range []Queue{{Name: "q", Moves: Ready}, {Name: "q", Moves: Ready, MayHide: true}} {
		want := Settling
		if q.MayHide {
			want = 250 * time.Millisecond
		}
		v := Proof{Queues: []Queue{q}, Began: began}.Judge([]Count{ready("q", 0, 0)})
		if v.Pause != want {
			t.Errorf("the pause is %s, and not %s", v.Pause, want)
		}
	}
}

func TestTicks(t *testing.T) {
	type read struct {
		asked      float64
		reductions int64
		asOf       float64 // -1: not known
	}
	for name, reads := range map[string][]read{
		"one note":   {{0, 1, -1}, {5, 1, -1}, {60, 1, -1}},
		"one change": {{0, 1, -1}, {1, 2, -1}, {2, 2, -1}, {9, 2, -1}},
		// The note 2 may have been written before the question of second 3, the note 3 was not.
		"two changes":         {{0, 1, -1}, {3, 1, -1}, {4, 2, -1}, {5, 2, -1}, {9, 3, -1}, {10, 3, 3}, {11, 3, 3}},
		"three changes":       {{0, 1, -1}, {4, 2, -1}, {9, 3, -1}, {10, 3, 0}, {14, 4, -1}, {15, 4, 4}},
		"a new queue":         {{0, NoNote, -1}, {3, NoNote, -1}, {4, 7, -1}, {5, 7, -1}, {9, 8, -1}, {10, 8, 3}},
		"a note that is gone": {{0, 1, -1}, {4, 2, -1}, {9, NoNote, -1}, {10, NoNote, -1}},
		"a leader anew":       {{0, 950, -1}, {9, 7, -1}, {10, 7, -1}, {14, 8, -1}, {19, 9, -1}, {20, 9, 10}},
		"a quick leader anew": {{0, 950, -1}, {9, 7, -1}, {14, 8, -1}, {19, 9, -1}, {20, 9, 9}},
		// The node of the second answer lags behind: the note 2 was written before the first question.
		"a node without notes": {{0, 3, -1}, {1, NoNote, -1}, {2, 2, -1}, {3, 3, -1}, {4, 3, -1}},
		"an old answer":        {{0, 2, -1}, {1, 1, -1}, {2, 2, -1}, {3, 2, -1}, {5, 3, -1}, {9, 4, -1}, {10, 4, 3}},
		"an old one, then on":  {{0, 2, -1}, {1, 1, -1}, {5, 3, -1}, {6, 3, -1}, {9, 4, -1}, {10, 4, 0}},
		"two old answers":      {{0, 3, -1}, {1, 1, -1}, {2, 3, -1}, {3, 2, -1}, {4, 3, -1}, {6, 4, -1}, {7, 4, -1}},
		"many in between":      {{0, 1, -1}, {60, 2, -1}, {120, 3, -1}, {121, 3, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			var ticks Ticks
			for _, r := range reads {
				asOf := ticks.Read(at(r.asked), r.reductions)
				if r.asOf < 0 != asOf.IsZero() || r.asOf >= 0 && !asOf.Equal(at(r.asOf)) {
					t.Errorf("asked at %v: as of %s", r.asked, asOf)
				}
			}
		})
	}
}

func TestUncounted(t *testing.T) {
	v := Verdict{Lacks: map[string]Kind{"b": All, "a": All, "c": Leader}}
	if names := v.Uncounted(); !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("they are %v", names)
	}
}

// TestNeeds says what a round counts of a quorum queue. One count too few, and a proof has no end. A leader that is
// asked too often counts as a delivery of a message.
func TestNeeds(t *testing.T) {
	for name, test := range map[string]struct {
		queue Queue
		lacks Kind
		want  needs
	}{
		"nothing lacks":            {Queue{Moves: Ready}, Ready, needs{ready: true}},
		"nothing lacks, no AMQP":   {Queue{Moves: All}, Ready, needs{}},
		"a leader lacks":           {Queue{Moves: Ready}, Leader, needs{ready: true, leader: true}},
		"all lack":                 {Queue{Moves: Ready}, All, needs{ready: true, old: true, ticked: true}},
		"hides, nothing lacks":     {Queue{Moves: Ready, MayHide: true}, Ready, needs{ready: true, ticked: true}},
		"hides, all lack":          {Queue{Moves: Ready, MayHide: true}, All, needs{ready: true, ticked: true}},
		"hides, all lack, no AMQP": {Queue{Moves: All, MayHide: true}, All, needs{ticked: true}},
		"hides, a leader lacks":    {Queue{Moves: Ready, MayHide: true}, Leader, needs{ready: true, leader: true}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.queue.needs(test.lacks); got != test.want {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestLastLook says when a queue is deleted after a look. What the look has seen in it would be lost.
func TestLastLook(t *testing.T) {
	proven := Proven{known: []Queue{{Name: "q"}, {Name: "hides", MayHide: true}}}
	for name, test := range map[string]struct {
		all, ready           Count
		filled               bool
		isEmpty, needsLeader bool
	}{
		"nothing":                             {all: Count{Queue: "q"}, isEmpty: true, needsLeader: true},
		"nothing in one that hides":           {all: Count{Queue: "hides"}, isEmpty: true},
		"a message":                           {all: Count{Queue: "q", Messages: 1}},
		"a message that was ready":            {all: Count{Queue: "q", Messages: 1, ReadyOfAll: 1}},
		"a message in one that hides":         {all: Count{Queue: "hides", Messages: 1}},
		"one is ready":                        {all: Count{Queue: "q"}, ready: Count{Messages: 1}},
		"a consumer":                          {all: Count{Queue: "q"}, ready: Count{Consumers: 1}},
		"a consumer of one that hides":        {all: Count{Queue: "hides"}, ready: Count{Consumers: 1}},
		"filled, nothing":                     {all: Count{Queue: "q"}, filled: true, isEmpty: true, needsLeader: true},
		"filled, a message that is not ready": {all: Count{Queue: "q", Messages: 2, ReadyOfAll: 1}, filled: true},
		"filled, messages that have left since": {all: Count{Queue: "q", Messages: 2, ReadyOfAll: 2}, filled: true,
			isEmpty: true, needsLeader: true},
		"filled, one is ready": {all: Count{Queue: "q", Messages: 2, ReadyOfAll: 2}, ready: Count{Messages: 1},
			filled: true},
	} {
		t.Run(name, func(t *testing.T) {
			isEmpty, leader := proven.lastLook(test.all, test.ready, test.filled)
			if isEmpty != test.isEmpty || leader != test.needsLeader {
				t.Errorf("empty: %t, needs a leader: %t", isEmpty, leader)
			}
		})
	}
}

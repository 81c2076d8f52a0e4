package recognize

import (
	"maps"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay/delaytest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Where queues have different arguments, those of most are taken, or those of the first one of as many.
func TestRecognizeMixedArguments(t *testing.T) {
	none, limit := topology.Arguments{}, topology.Arguments{"x-expires": int64(1 << 38)}
	for name, test := range map[string]struct {
		base, levels int
		odd          []string // the queues with a limit
		want         topology.Arguments
	}{
		"the first one is another":     {base: 2, levels: 5, odd: []string{"t.delay-04"}, want: none},
		"the second one is another":    {base: 2, levels: 5, odd: []string{"t.delay-01"}, want: none},
		"one in the middle is another": {base: 2, levels: 5, odd: []string{"t.delay-02"}, want: none},
		"most are": {base: 2, levels: 3, odd: []string{"t.delay-02", "t.delay-00"},
			want: limit},
		"half are":                            {base: 2, levels: 2, odd: []string{"t.delay-01"}, want: limit},
		"in base 3, the first one is another": {base: 3, levels: 3, odd: []string{"t.delay-02-1"}, want: none},
	} {
		t.Run(name, func(t *testing.T) {
			want := delay.Config{Vhost: "/", Name: "t", Base: test.base, Levels: test.levels, StrictKeys: true,
				QueueArguments: none}
			b := declared(t, want)
			for _, queue := range test.odd {
				q := b.there.Queues[queue]
				q.Arguments = maps.Clone(q.Arguments)
				maps.Copy(q.Arguments, limit)
				b.there.Queues[queue] = q
			}
			got, err := Cascade(t.Context(), b, "/", b.there.Entry)
			if err != nil {
				t.Fatal(err)
			}
			want.QueueArguments = test.want
			expandsTo(t, got, want)
		})
	}
}

// Each queue with arguments of its own: those of the first one are taken, whatever the base is.
func TestRecognizeArgumentsThatNoTwoQueuesShare(t *testing.T) {
	for _, c := range []delay.Config{{Name: "t", Levels: 28}, {Name: "t", Base: 10, Levels: 2}, {Name: "t"}} {
		c.Vhost, c.StrictKeys = "/", true
		b := declared(t, c)
		number := int64(1)
		for name, q := range b.there.Queues {
			q.Arguments = maps.Clone(q.Arguments)
			q.Arguments["x-max-length"] = number
			b.there.Queues[name] = q
			number++
		}
		got, err := Cascade(t.Context(), b, "/", b.there.Entry)
		if err != nil {
			t.Fatal(err)
		}
		c.MaxLength = got.MaxLength
		if c.MaxLength == 0 {
			t.Error("it has no max_length")
		}
		expandsTo(t, got, c)
	}
}

// A queue without a type is a classic one, and lazy ones alone are no preset.
func TestRecognizeUntypedQueues(t *testing.T) {
	c := delay.Config{Vhost: "/", Name: "t", Levels: 5, QueueType: delay.Classic, Lookahead: 1,
		QueueArguments: topology.Arguments{"x-queue-mode": "lazy", "x-max-length": int64(9)}}
	b := declared(t, c)
	for name, q := range b.there.Queues {
		q.Arguments = maps.Clone(q.Arguments)
		delete(q.Arguments, "x-queue-type")
		b.there.Queues[name] = q
	}
	got, err := Cascade(t.Context(), b, "/", b.there.Entry)
	if err != nil || !got.Expand().SameObjects(delaytest.Expand(t, c)) {
		t.Errorf("it is recognized as %+v (%v)", got, err)
	}
}

// Of a ladder, the arguments of most queues are taken.
func TestRecognizeMixedLadder(t *testing.T) {
	l := delaytest.Resolve(t, delay.LadderConfig{Vhost: "/", Name: "t", Delays: []string{"1s", "5s", "1m"},
		QueueArguments: topology.Arguments{"x-overflow": "drop-head"}})
	want := l.Expand()
	b := holding(t, want.Clone())
	b.there.Queues["t.delay-1s"] = delaytest.Resolve(t, delay.LadderConfig{Vhost: "/", Name: "t",
		Delays: []string{"1s"}}).Expand().Queues["t.delay-1s"]
	got, err := Ladder(t.Context(), b, "/", b.there.Entry)
	if err != nil || !got.Expand().SameObjects(want) {
		t.Errorf("it is recognized as %+v (%v)", got, err)
	}
}

package drain

import (
	"errors"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// overAMQP is a prover that has chosen to count over AMQP, at a broker that cannot be reached.
func overAMQP(t *testing.T, retryTimeout time.Duration) *Prover {
	t.Helper()
	client, err := rabbit.New(rabbit.Config{Endpoint: "http://127.0.0.1:1", Username: "u", Password: "p",
		RetryTimeout: retryTimeout})
	if err != nil {
		t.Fatal(err)
	}
	p := NewProver(client.Vhost("v"))
	p.counter = &counter{vhost: p.vhost}
	return p
}

// A connection may end after more time than a request is tried again. The question is asked again nevertheless.
func TestCountAgain(t *testing.T) {
	ended := &endedError{errors.New("reset")}
	for name, test := range map[string]struct {
		retries time.Duration
		fails   int
		calls   int
		kind    rabbit.Kind
	}{
		"once":               {500 * time.Millisecond, 1, 2, ""},
		"again and again":    {500 * time.Millisecond, 100, 2, rabbit.Unavailable},
		"nothing tries more": {0, 1, 1, rabbit.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			err := overAMQP(t, test.retries).withCounter(t.Context(), func(*counter) error {
				if calls++; calls > test.fails {
					return nil
				}
				time.Sleep(test.retries + 100*time.Millisecond)
				return ended
			})
			isRight := err == nil && test.kind == "" || rabbit.IsKind(err, test.kind)
			if calls != test.calls || !isRight {
				t.Errorf("after %d calls the error is %v", calls, err)
			}
		})
	}
}

// A node may have ended with the connection. So no earlier proof is renewed by ready messages alone.
func TestNothingIsProvenOverAnEndedConnection(t *testing.T) {
	p := overAMQP(t, 0)
	q := topology.Queue{Name: "q"}
	p.proven = Proven{queues: []topology.Queue{q}, since: time.Now(), stay: time.Hour}
	if !p.lastProof().HoldsAt(time.Now(), []topology.Queue{q}) {
		t.Fatal("the proof does not hold")
	}
	p.counter.failure.Store(&endedError{errors.New("reset")})
	if _, err := p.choose(t.Context()); err == nil {
		t.Fatal("there is a connection")
	}
	if p.lastProof().HoldsAt(time.Now(), []topology.Queue{q}) {
		t.Error("the proof holds")
	}
}

// A queue that has changed may hold messages again: it is the others that the proof is still of.
func TestChanged(t *testing.T) {
	q, r := topology.Queue{Name: "q"}, topology.Queue{Name: "r"}
	p := Prover{proven: Proven{queues: []topology.Queue{q, r}, since: time.Now()}}
	p.Changed("q")
	if p.lastProof().Covers(q, time.Time{}) || !p.lastProof().Covers(r, time.Time{}) {
		t.Errorf("the proof is %+v", p.lastProof())
	}
}

// TestAnyStays says when it is no use to wait. A wait for what stays ends only with its time, and the entry is closed
// meanwhile.
func TestAnyStays(t *testing.T) {
	delays := topology.Queue{Name: "delays", Arguments: topology.Arguments{"x-message-ttl": int64(1),
		"x-dead-letter-exchange": "x"}}
	queues := []topology.Queue{delays, {Name: "parked"}}
	for name, test := range map[string]struct {
		waiting []QueueDepth
		want    bool
	}{
		"nothing waits":                  {nil, false},
		"a delay queue":                  {[]QueueDepth{{Name: "delays", Messages: 1}}, false},
		"parked":                         {[]QueueDepth{{Name: "parked", Messages: 1}}, true},
		"parked, and consumed":           {[]QueueDepth{{Name: "parked", Messages: 1, Consumers: 1}}, false},
		"parked, behind a delay queue":   {[]QueueDepth{{Name: "delays", Messages: 1}, {Name: "parked"}}, true},
		"in a queue that nobody asks of": {[]QueueDepth{{Name: "other", Messages: 1}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := anyStays(queues, test.waiting); got != test.want {
				t.Errorf("any stays: %t", got)
			}
		})
	}
}

// TestClosedAt says from when on nothing comes into a queue. With an earlier time, a proof would cover what came in
// after it.
func TestClosedAt(t *testing.T) {
	p := Prover{closed: map[string]time.Time{"a": at(1), "b": at(3), "c": at(2)}}
	for name, test := range map[string]struct {
		sources []string
		want    time.Time
	}{
		"not known":         {nil, at(3)},
		"none":              {[]string{}, time.Time{}},
		"one":               {[]string{"a"}, at(1)},
		"the last of two":   {[]string{"c", "a"}, at(2)},
		"one of two is not": {[]string{"d", "c"}, at(2)},
	} {
		t.Run(name, func(t *testing.T) {
			if got := p.closedAt(test.sources); !got.Equal(test.want) {
				t.Errorf("closed at %s", got)
			}
		})
	}
}

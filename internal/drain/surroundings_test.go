package drain

import (
	"maps"
	"reflect"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/policy"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// collected are the surroundings of a queue "q" of which every message gets into the queue "rest" at least.
func collected() (Surroundings, topology.Queue) {
	toQueue := func(source, queue string) topology.Binding {
		return topology.Binding{Source: source, DestinationType: topology.ToQueue, Destination: queue}
	}
	q := topology.Queue{Name: "q", Arguments: topology.Arguments{"x-queue-type": "quorum", "x-message-ttl": int64(10),
		"x-dead-letter-exchange": "next", "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}}
	return Surroundings{
		Version: "4.3.6",
		Exchanges: map[string]topology.Exchange{
			"": {}, "rest": {Name: "rest", Type: "fanout"},
			"next":    {Name: "next", Type: "topic", Arguments: topology.Arguments{"alternate-exchange": "rest"}},
			"further": {Name: "further", Type: "topic", Arguments: topology.Arguments{"alternate-exchange": "rest"}},
		},
		Bindings: map[string][]topology.Binding{
			"next": {toQueue("next", "end"), {Source: "next", DestinationType: topology.ToExchange,
				Destination: "further"}},
			"rest": {toQueue("rest", "rest")}, "further": {toQueue("further", "end")}, "other": {},
		},
		Receivers: map[string]Receiver{"end": {topology.Queue{Name: "end"}, true},
			"rest": {topology.Queue{Name: "rest"}, true}},
	}, q
}

func TestMayKeepOverdue(t *testing.T) {
	limited := func(overflow string) topology.Arguments {
		return topology.Arguments{"x-max-length": int64(1), "x-overflow": overflow}
	}
	for name, test := range map[string]struct {
		change  func(*Surroundings, *topology.Queue)
		keeps   bool
		unknown Unknown
	}{
		"every queue takes it": {func(*Surroundings, *topology.Queue) {}, false, Unknown{}},
		"at most once": {func(s *Surroundings, q *topology.Queue) {
			s.Exchanges = nil
			delete(q.Arguments, "x-dead-letter-strategy")
		}, false, Unknown{}},
		"at least once by policy": {func(s *Surroundings, q *topology.Queue) {
			s.Exchanges = nil
			delete(q.Arguments, "x-dead-letter-strategy")
			s.Policies = policy.Policies{matching("q", topology.Arguments{"dead-letter-strategy": "at-least-once"})}
		}, true, Unknown{}},
		"classic": {func(s *Surroundings, q *topology.Queue) {
			s.Exchanges, q.Arguments["x-queue-type"] = nil, "classic"
		}, false, Unknown{}},
		"no dead-letter exchange": {func(s *Surroundings, _ *topology.Queue) {
			delete(s.Exchanges, "next")
		}, true, Unknown{}},
		"no alternate exchange": {func(s *Surroundings, _ *topology.Queue) {
			s.Exchanges["next"] = topology.Exchange{Name: "next", Type: "topic"}
		}, true, Unknown{}},
		"an exchange further on has no alternate exchange": {func(s *Surroundings, _ *topology.Queue) {
			s.Exchanges["further"] = topology.Exchange{Name: "further", Type: "topic"}
		}, true, Unknown{}},
		"an exchange further on is a fanout": {func(s *Surroundings, _ *topology.Queue) {
			s.Exchanges["further"] = topology.Exchange{Name: "further", Type: "fanout"}
		}, false, Unknown{}},
		"a fanout further on has no queue": {func(s *Surroundings, _ *topology.Queue) {
			s.Exchanges["further"] = topology.Exchange{Name: "further", Type: "fanout"}
			s.Bindings["further"] = nil
		}, true, Unknown{}},
		"the alternate exchange is no fanout": {func(s *Surroundings, _ *topology.Queue) {
			s.Exchanges["rest"] = topology.Exchange{Name: "rest", Type: "topic"}
		}, true, Unknown{}},
		"the alternate exchange has no queue": {func(s *Surroundings, _ *topology.Queue) {
			s.Bindings["rest"] = nil
		}, true, Unknown{}},
		"bindings are not known": {func(s *Surroundings, _ *topology.Queue) {
			delete(s.Bindings, "further")
		}, true, Unknown{Exchanges: []string{"further"}}},
		"bindings of an alternate exchange by policy": {func(s *Surroundings, _ *topology.Queue) {
			s.Policies = policy.Policies{matching("further", topology.Arguments{"alternate-exchange": "x"})}
		}, true, Unknown{Exchanges: []string{"x"}}},
		"a receiver is not known": {func(s *Surroundings, _ *topology.Queue) {
			delete(s.Receivers, "end")
		}, true, Unknown{Receivers: []string{"end"}}},
		"a receiver is not served": {func(s *Surroundings, _ *topology.Queue) {
			s.Receivers["end"] = Receiver{}
		}, true, Unknown{}},
		"a receiver refuses": {func(s *Surroundings, _ *topology.Queue) {
			s.Receivers["end"] = Receiver{topology.Queue{Name: "end", Arguments: limited("reject-publish-dlx")}, true}
		}, true, Unknown{}},
		"a full receiver drops": {func(s *Surroundings, _ *topology.Queue) {
			s.Receivers["end"] = Receiver{topology.Queue{Name: "end", Arguments: limited("drop-head")}, true}
		}, false, Unknown{}},
		"a receiver refuses by two policies": {func(s *Surroundings, _ *topology.Queue) {
			s.Policies = policy.Policies{matching("end", topology.Arguments{"overflow": "reject-publish"}),
				matching("", topology.Arguments{"max-length-bytes": int64(1)})}
		}, true, Unknown{}},
		"policies are unreadable": {func(s *Surroundings, _ *topology.Queue) {
			s.Policies = policy.Unreadable
		}, true, Unknown{}},
	} {
		t.Run(name, func(t *testing.T) {
			s, q := collected()
			test.change(&s, &q)
			keep, unknown := s.MayKeepOverdue([]topology.Queue{q})
			if keep["q"] != test.keeps || !reflect.DeepEqual(unknown, test.unknown) {
				t.Errorf("it keeps messages: %v, unknown are %v", keep["q"], unknown)
			}
		})
	}
}

func TestKnown(t *testing.T) {
	s, q := collected()
	forever := topology.Queue{Name: "end", Arguments: topology.Arguments{"x-queue-type": "classic"}}
	once := Surroundings{Version: "4.3.6",
		Policies: policy.Policies{matching("", topology.Arguments{"delivery-limit": int64(1)})}}
	for name, test := range map[string]struct{ known, want Queue }{
		"quorum": {s.Known(q, true, nil), Queue{Name: "q", Stay: 10 * time.Millisecond, Moves: Ready}},
		"keeps overdue messages": {s.Known(q, true, map[string]bool{"q": true}),
			Queue{Name: "q", Stay: 10 * time.Millisecond, Moves: Ready, MayHide: true}},
		"no AMQP": {s.Known(q, false, nil), Queue{Name: "q", Stay: 10 * time.Millisecond, Moves: All, MayHide: true}},
		"counts deliveries": {once.Known(q, true, nil),
			Queue{Name: "q", Stay: 10 * time.Millisecond, Moves: Ready, MayHide: true}},
		"classic": {s.Known(forever, true, nil), Queue{Name: "end", Moves: All, NeedsNoLeader: true}},
		"policies are unreadable": {Surroundings{Policies: policy.Unreadable}.Known(forever, true, nil),
			Queue{Name: "end", Stay: time.Millisecond, Moves: All, NeedsNoLeader: true}},
	} {
		if test.known != test.want {
			t.Errorf("%s: known is %+v", name, test.known)
		}
	}
}

// TestMayDelay has queues that may delay messages by themselves: these hide messages.
func TestMayDelay(t *testing.T) {
	argument := func(kind string) topology.Arguments { return topology.Arguments{"x-delayed-retry-type": kind} }
	by := func(kind string) policy.Policies {
		return policy.Policies{matching("q", topology.Arguments{"delayed-retry-type": kind})}
	}
	for name, test := range map[string]struct {
		version   string
		arguments topology.Arguments
		policies  policy.Policies
		want      bool
	}{
		"3.10": {version: "3.10.8"}, "4.3": {version: "4.3.6"}, "4.4": {version: "4.4.0", want: true},
		"4.4, a candidate": {version: "4.4.0-rc.1", want: true}, "4.10": {version: "4.10.0", want: true},
		"5": {version: "5.0.1", want: true}, "an unknown version": {want: true},
		"an argument":           {version: "4.3.6", arguments: argument("all"), want: true},
		"an argument, failed":   {version: "4.3.6", arguments: argument("failed"), want: true},
		"an argument, returned": {version: "4.3.6", arguments: argument("returned"), want: true},
		"an argument, disabled": {version: "4.3.6", arguments: argument("disabled")},
		"a policy":              {version: "4.3.6", policies: by("returned"), want: true},
		"a policy, disabled":    {version: "4.3.6", policies: by("disabled")},
		"a policy, against the argument": {version: "4.3.6", arguments: argument("disabled"), policies: by("all"),
			want: true},
		"a policy that may not be in force": {version: "4.3.6", arguments: argument("all"), policies: by("disabled"),
			want: true},
		"a policy for others": {version: "4.3.6", policies: policy.Policies{matching("^r",
			topology.Arguments{"delayed-retry-type": "all"})}},
		"policies that nobody may read": {version: "4.3.6", policies: policy.Unreadable, want: true},
		"a smallest delay without a type": {version: "4.3.6",
			arguments: topology.Arguments{"x-delayed-retry-min": int64(1)}},
	} {
		t.Run(name, func(t *testing.T) {
			q := topology.Queue{Name: "q", Arguments: topology.Arguments{"x-queue-type": "quorum"}}
			maps.Copy(q.Arguments, test.arguments)
			around := Surroundings{Version: test.version, Policies: test.policies}
			if known := around.Known(q, true, nil); known.DelaysItself != test.want || test.want && !known.MayHide {
				t.Errorf("known is %+v", known)
			}
			q.Arguments["x-queue-type"] = "classic"
			if known := around.Known(q, true, nil); known.DelaysItself || known.MayHide {
				t.Errorf("of a classic queue, known is %+v", known)
			}
		})
	}
}

// TestDeliveryLimit has queues that let go of a message after so many deliveries: below 20, nobody asks for one.
func TestDeliveryLimit(t *testing.T) {
	for limit, hides := range map[int64]bool{19: true, 20: false} {
		around := Surroundings{Version: "4.3.6",
			Policies: policy.Policies{matching("q", topology.Arguments{"delivery-limit": limit})}}
		q := topology.Queue{Name: "q", Arguments: topology.Arguments{"x-queue-type": "quorum"}}
		if known := around.Known(q, true, nil); known.MayHide != hides {
			t.Errorf("with a limit of %d, known is %+v", limit, known)
		}
	}
}

// matching is a policy for the objects whose names match.
func matching(pattern string, definition topology.Arguments) policy.Policy {
	return policy.New("p", pattern, "all", 0, definition)
}

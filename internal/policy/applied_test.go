package policy

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// TestApplied has one queue, and what it says of itself. The last policy of each list is the one that applies.
func TestApplied(t *testing.T) {
	set := func(key string, value any) topology.Arguments { return topology.Arguments{key: value} }
	ttl := func(n int64) topology.Arguments { return set("message-ttl", n) }
	of := func(name string, priority float64, definition topology.Arguments) Policy {
		return New(name, "^q$", "queues", priority, definition)
	}
	for name, test := range map[string]struct {
		kind             string
		users, operators Policies
		told, want       Applied
	}{
		"none": {want: Applied{}},
		"one":  {users: Policies{of("a", 0, ttl(1))}, want: Applied{Policy: "a", Definition: ttl(1)}},
		"one, and the queue still names another": {users: Policies{of("a", 0, ttl(1))}, told: Applied{Policy: "old",
			Definition: ttl(9)}, want: Applied{Policy: "a", Definition: ttl(1)}},
		"none, and the queue still names one": {told: Applied{Policy: "old", Definition: ttl(9)}, want: Applied{}},
		"the highest priority": {users: Policies{of("a", 1, ttl(1)), of("c", 3, ttl(3)), of("b", 2, ttl(2))},
			want: Applied{Policy: "c", Definition: ttl(3)}},
		"a negative priority": {users: Policies{of("a", -2, ttl(1)), of("b", -1, ttl(2))},
			want: Applied{Policy: "b", Definition: ttl(2)}},
		"the same priority, told by the queue": {users: Policies{of("a", 1, ttl(1)), of("b", 1, ttl(2))},
			told: Applied{Policy: "b"}, want: Applied{Policy: "b", Definition: ttl(2), IsToldByQueue: true}},
		"the same priority, not told": {users: Policies{of("a", 1, ttl(1)), of("b", 1, ttl(2))},
			told: Applied{Policy: "old"}, want: Applied{Perhaps: []Applied{
				{Policy: "a", Definition: ttl(1)}, {Policy: "b", Definition: ttl(2)},
			}}},
		"the same priority, below another one": {users: Policies{of("a", 1, ttl(1)), of("b", 1, ttl(2)),
			of("c", 2, ttl(3))}, told: Applied{Policy: "b"}, want: Applied{Policy: "c", Definition: ttl(3)}},
		"an operator's": {operators: Policies{of("o", 0, ttl(1))}, want: Applied{Operator: "o", Definition: ttl(1)}},
		"both, the user's is lower": {users: Policies{of("a", 0, ttl(1))}, operators: Policies{of("o", 0, ttl(2))},
			want: Applied{Policy: "a", Operator: "o", Definition: ttl(1)}},
		"both, the operator's is lower": {users: Policies{of("a", 0, ttl(2))}, operators: Policies{of("o", 0, ttl(1))},
			want: Applied{Policy: "a", Operator: "o", Definition: ttl(1)}},
		"both, in several keys": {users: Policies{of("a", 0, topology.Arguments{"overflow": "drop-head",
			"max-length": int64(1)})}, operators: Policies{of("o", 0, topology.Arguments{
			"overflow": "reject-publish", "message-ttl": int64(1)})},
			want: Applied{Policy: "a", Operator: "o", Definition: topology.Arguments{"overflow": "reject-publish",
				"max-length": int64(1), "message-ttl": int64(1)}}},
		"both, without a limit of deliveries": {kind: "quorum", users: Policies{of("a", 0, set("delivery-limit",
			int64(-1)))}, operators: Policies{of("o", 0, set("delivery-limit", int64(5)))},
			want: Applied{Policy: "a", Operator: "o", Definition: set("delivery-limit", int64(5))}},
		"a key that no quorum queue knows": {kind: "quorum", users: Policies{of("a", 1, topology.Arguments{
			"queue-mode": "lazy", "message-ttl": int64(1)}), of("b", 0, ttl(2))},
			want: Applied{Policy: "b", Definition: ttl(2)}},
		"a key that no classic queue knows": {users: Policies{of("a", 1, set("delivery-limit", int64(1)))},
			want: Applied{}},
		"a key that some versions know": {users: Policies{of("a", 1, set("queue-leader-locator", "balanced")),
			of("b", 0, ttl(2))}, told: Applied{Policy: "b"}, want: Applied{Policy: "b", Definition: ttl(2),
			IsToldByQueue: true}},
		"a pattern that nobody here knows, and the queue names no policy": {
			users: Policies{New("a", "^q++$", "all", 0, ttl(1))},
			want:  Applied{Perhaps: []Applied{{Policy: "a", Definition: ttl(1)}}},
		},
		"a pattern that nobody here knows, and the queue names the policy": {
			users: Policies{New("a", "^q++$", "all", 0, ttl(1))}, told: Applied{Policy: "a"},
			want: Applied{Policy: "a", Definition: ttl(1), IsToldByQueue: true},
		},
		"a pattern that nobody here knows, of lower priority": {
			users: Policies{New("a", "^q++$", "all", 0, ttl(1)), of("b", 1, ttl(2))},
			want:  Applied{Policy: "b", Definition: ttl(2)},
		},
		"a pattern that nobody here knows, and a policy of the operator": {
			users: Policies{New("a", "^q++$", "all", 0, ttl(3))}, operators: Policies{of("o", 0, ttl(2))},
			want: Applied{Operator: "o", Definition: ttl(2), Perhaps: []Applied{
				{Policy: "a", Operator: "o", Definition: ttl(2)},
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			declared := Declared{append(Policies{}, test.users...), append(Policies{}, test.operators...)}
			if test.want.Definition == nil {
				test.want.Definition = topology.Arguments{}
			}
			kind := test.kind
			if kind == "" {
				kind = "classic"
			}
			q := queue(kind, topology.Arguments{})
			if got := declared.Applied(q, test.told); !reflect.DeepEqual(got, test.want) {
				t.Errorf("applied are %+v\nand not   %+v", got, test.want)
			}
			slices.Reverse(declared.Users) // the order decides nothing
			got := declared.Applied(q, test.told)
			slices.Reverse(got.Perhaps)
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("in reverse order, applied are %+v\nand not   %+v", got, test.want)
			}
		})
	}
}

// Where the policies cannot be read, what the queue says is believed.
func TestAppliedUnread(t *testing.T) {
	told := Applied{Policy: "a", Definition: topology.Arguments{"message-ttl": int64(1)}, Unknown: true}
	want := told
	want.IsToldByQueue = true
	for name, declared := range map[string]Declared{
		"neither": {}, "not those of operators": {Users: Policies{}}, "not those of users": {Operators: Policies{}},
	} {
		if got := declared.Applied(queue("quorum", topology.Arguments{}), told); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: applied are %+v", name, got)
		}
	}
}

func TestApplyTo(t *testing.T) {
	takes := map[string][]string{
		"all": {"classic", "quorum", "stream"}, "queues": {"classic", "quorum", "stream"},
		"classic_queues": {"classic"}, "quorum_queues": {"quorum"}, "streams": {"stream"},
		"exchanges": nil, "something newer": nil, "": nil,
	}
	for _, applyTo := range slices.Sorted(maps.Keys(takes)) {
		for _, kind := range []string{"classic", "quorum", "stream"} {
			p := New("p", "", applyTo, 0, topology.Arguments{"expires": int64(1)})
			is := p.appliesTo(queue(kind, topology.Arguments{}))
			if want := slices.Contains(takes[applyTo], kind); (is == yes) != want || is == perhaps {
				t.Errorf("%q and a %s queue: %v", applyTo, kind, is)
			}
		}
	}
}

// What these are is what Erlang's re:run says (RabbitMQ 3.10.8 and 4.3.6), unless nobody here can tell.
func TestPattern(t *testing.T) {
	for _, test := range []struct {
		pattern, name string
		want          certainty
	}{
		{"", "tasks.delay-00", yes},
		{"delay", "tasks.delay-00", yes},
		{"^delay", "tasks.delay-00", no},
		{`^tasks\.delay-\d+$`, "tasks.delay-00", yes},
		{`^[[:alpha:]]+\.`, "tasks.delay-00", yes},
		{`^\Qtasks.\E`, "tasksXdelay-00", no},
		{`(?i)^TASKS`, "tasks.delay-00", yes},
		{`^.{5}$`, "naïve", no}, // a byte is a character
		{`^.{6}$`, "naïve", yes},
		{`^naïve$`, "naïve", yes},
		{`^[a-z-[aeiou]]$`, "b]", yes},
		{`^[a-z-[aeiou]]$`, "b", no},
		{`^(?!amq\.).*`, "tasks.delay-00", yes},
		{`^(?!amq\.).*`, "amq.gen-x", no},
		{`^(?!tasks\.|retry\.)`, "tasks.delay-00", no},
		{`(?<!other)\.delay`, "tasks.delay-00", yes},
		{`^(a)\1$`, "aa", yes},
		{`^(?>a+)a$`, "aaa", no},
		{`\Atasks.*\Z`, "tasks.delay-00", yes},
		{`a++b`, "aab", perhaps}, // match
		{`(?!x)[[:alpha:]]`, "a", perhaps},
		{`(?!x)[a-z-[aeiou]]`, "b]", perhaps},
		{`^\h`, " ", perhaps},
		{`(?R)?a`, "a", perhaps},
		{`^(?=(a+)+$)(a+)+(?!b)c$`, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", perhaps}, // takes too long
	} {
		if got := compile(test.pattern).matches(test.name); got != test.want {
			t.Errorf("%q matches %q: %v, not %v", test.pattern, test.name, got, test.want)
		}
	}
}

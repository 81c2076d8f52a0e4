package policy

import (
	"slices"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

func queue(kind string, arguments topology.Arguments) topology.Queue {
	arguments["x-queue-type"] = kind
	return topology.Queue{Name: "q", Arguments: arguments}
}

func TestInForce(t *testing.T) {
	for name, test := range map[string]struct {
		kind, key        string
		argument, policy any
		value            any
		byPolicy         bool
	}{
		"nothing":                 {"quorum", "max-length", nil, nil, nil, false},
		"limit by argument":       {"quorum", "max-length", int64(5), nil, int64(5), false},
		"limit by policy":         {"quorum", "max-length", nil, int64(5), int64(5), true},
		"policy lowers the limit": {"classic", "message-ttl", int64(5), int64(4), int64(4), true},
		"policy raises the limit": {"classic", "message-ttl", int64(5), int64(6), int64(5), false},
		"policy sets a limit":     {"quorum", "delivery-limit", int64(-1), int64(3), int64(3), true},
		"policy sets no limit":    {"quorum", "delivery-limit", int64(3), int64(-1), int64(3), false},
		"policy ends no limit":    {"quorum", "delivery-limit", int64(1<<31 - 1), int64(-1), int64(1<<31 - 1), false},
		"quorum, overflow":        {"quorum", "overflow", "reject-publish", "drop-head", "drop-head", true},
		"classic, overflow":       {"classic", "overflow", "reject-publish", "drop-head", "reject-publish", false},
		"classic, policy alone":   {"classic", "overflow", nil, "drop-head", "drop-head", true},
		"strategy": {"quorum", "dead-letter-strategy", "at-least-once", "at-most-once",
			"at-least-once", false},
		"strategy by policy alone": {"quorum", "dead-letter-strategy", nil, "at-most-once", "at-most-once", true},
		"exchange":                 {"quorum", "dead-letter-exchange", "a", "b", "a", false},
		"an empty key":             {"quorum", "dead-letter-routing-key", nil, "", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			arguments, definition := topology.Arguments{}, topology.Arguments{}
			if test.argument != nil {
				arguments["x-"+test.key] = test.argument
			}
			if test.policy != nil {
				definition[test.key] = test.policy
			}
			value, byPolicy := InForce(queue(test.kind, arguments), test.key, definition)
			if value != test.value || byPolicy != test.byPolicy {
				t.Errorf("in force is %v, by policy: %v", value, byPolicy)
			}
		})
	}
}

// TestPossible has several policies, of which any that matches may be in force.
func TestPossible(t *testing.T) {
	policies := Policies{
		New("a", "^q", "all", 0, topology.Arguments{"message-ttl": int64(7), "overflow": "drop-head"}),
		New("b", "^other", "all", 0, topology.Arguments{"message-ttl": int64(1)}),
		New("c", "^q(?R)?", "all", 0, topology.Arguments{"message-ttl": int64(4)}), // who knows
	}
	q := queue("quorum", topology.Arguments{"x-message-ttl": int64(5), "x-overflow": "reject-publish"})
	if lowest, limited := policies.Lowest(q, "message-ttl"); lowest != 4 || !limited {
		t.Errorf("the lowest is %d, %v", lowest, limited)
	}
	if _, limited := policies.Lowest(q, "max-length"); limited {
		t.Error("nobody limits the length")
	}
	for begin, want := range map[string]bool{"reject-publish": true, "drop": true, "other": false} {
		if policies.MayBe(q, "overflow", begin) != want {
			t.Errorf("overflow may be %s: %v", begin, !want)
		}
	}
	if lowest, limited := Unreadable.Lowest(q, "max-length"); lowest != 0 || !limited {
		t.Errorf("the lowest of policies that cannot be read is %d, %v", lowest, limited)
	}
}

func TestRivals(t *testing.T) {
	own := topology.Policy{Name: "own", Pattern: "^a$", ApplyTo: "exchanges", Priority: 10,
		Definition: topology.Arguments{"alternate-exchange": "p"}}
	for name, test := range map[string]struct {
		other Policy
		is    bool
	}{
		"itself":               {New("own", "^a$", "exchanges", 10, nil), false},
		"a higher priority":    {New("o", "", "all", 11, nil), true},
		"the same priority":    {New("o", "a", "exchanges", 10, nil), true},
		"a lower priority":     {New("o", "a", "exchanges", 9.5, nil), false},
		"queues":               {New("o", "a", "queues", 11, nil), false},
		"quorum queues":        {New("o", "a", "quorum_queues", 11, nil), false},
		"another name":         {New("o", "^b", "all", 11, nil), false},
		"who knows what names": {New("o", "^a++$", "all", 11, nil), true},
		"the same alternate":   {New("o", "a", "all", 11, topology.Arguments{"alternate-exchange": "p"}), false},
		"another alternate":    {New("o", "a", "all", 11, topology.Arguments{"alternate-exchange": "q"}), true},
	} {
		if rivals := (Policies{test.other}).Rivals(own, "a"); (len(rivals) == 1) != test.is {
			t.Errorf("%s: %v", name, rivals)
		}
	}
}

func TestDisplaced(t *testing.T) {
	own := topology.Policy{Name: "own", Pattern: "^a$", ApplyTo: "exchanges", Priority: 10}
	of := func(name, pattern string, priority float64) Policy { return New(name, pattern, "all", priority, nil) }
	for name, test := range map[string]struct {
		policies Policies
		want     []string
	}{
		"itself, of a lower priority": {Policies{of("own", "", 3)}, nil},
		"a lower priority":            {Policies{of("own", "", 10), of("o", "a", 9.5)}, []string{"o"}},
		"the highest of them":         {Policies{of("l", "", 1), of("h", "", 2)}, []string{"h"}},
		"two of one priority":         {Policies{of("x", "", 2), of("y", "", 2), of("l", "", 1)}, []string{"x", "y"}},
		"one that is displaced":       {Policies{of("l", "", 1), of("h", "", 10)}, nil},
		"queues":                      {Policies{New("o", "a", "queues", 1, nil)}, nil},
		"another name":                {Policies{of("o", "^b", 1)}, nil},
		"who knows what names":        {Policies{of("l", "", 1), of("h", "^a++$", 11)}, []string{"l"}},
	} {
		var names []string
		for _, displaced := range test.policies.Displaced(own, "a") {
			names = append(names, displaced.Name)
		}
		if !slices.Equal(names, test.want) {
			t.Errorf("%s: %v", name, names)
		}
	}
}

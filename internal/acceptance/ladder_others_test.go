package acceptance

import (
	"slices"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
)

const (
	goTooSummary    = "Other applications lose bindings: "
	bindsAgain      = "Whoever made them has to bind again"
	areMadeAgain    = "The apply takes them away, and makes them again. Messages that they would take meanwhile are"
	secondEntryToQA = `exchange "e2", bound to queue "qa" with key "a"`
	secondEntryToQB = `exchange "e2", bound to queue "qb" with key "b"`
	feedOfEntry     = `exchange "z", bound to exchange "in" with key "#"`
)

// sharedLadder applies a ladder whose queues have a second entry, e2, and whose entry is fed by an exchange z.
func sharedLadder(t *testing.T) (*harness.Vhost, *harness.Protocol, harness.Attributes) {
	t.Helper()
	v := harness.NewVhost(t)
	p := harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil)
	given := harness.Attributes{"vhost": v.Name, "entry_exchange": "in", "delays": harness.TextList("2s", "4s"),
		"binding_keys":    stringMap(map[string]string{"2s": "a", "4s": "b"}),
		"queue_names":     stringMap(map[string]string{"2s": "qa", "4s": "qb"}),
		"park_unroutable": false, "deliver_to_queue": "w", "drain_timeout": "30s"}
	p.MustApply(given)
	v.DeclareExchange("e2", "topic")
	v.DeclareExchange("z", "topic")
	v.Bind("e2", "a", "queue", "qa")
	v.Bind("e2", "b", "queue", "qb")
	v.Bind("z", "#", "exchange", "in")
	return v, p, given
}

// A plan names the bindings of others to the queues and the entry that a change takes away, and whether it makes them
// again. So it happens.
func TestPlansNameBindingsOfOthers(t *testing.T) {
	t.Parallel()
	for name, is := range map[string]struct {
		change    harness.Attributes
		isDestroy bool
		says, not []string
		there     []string // the sources of the bindings of others that are there then
	}{
		"rebuild with new names": {
			change: harness.Attributes{"queue_names": stringMap(map[string]string{"2s": "qc", "4s": "qd"})},
			says:   []string{bindsAgain, secondEntryToQA, secondEntryToQB, areMadeAgain, feedOfEntry},
			there:  []string{"z"},
		},
		"rebuild with the same names": {
			change: harness.Attributes{"queue_type": "classic"},
			says:   []string{areMadeAgain, secondEntryToQA, secondEntryToQB, feedOfEntry}, not: []string{bindsAgain},
			there: []string{"e2", "e2", "z"},
		},
		"removed delay": {
			change: harness.Attributes{"delays": harness.TextList("4s"),
				"binding_keys": stringMap(map[string]string{"4s": "b"}),
				"queue_names":  stringMap(map[string]string{"4s": "qb"})},
			says: []string{goTooSummary, bindsAgain, secondEntryToQA},
			not:  []string{secondEntryToQB, feedOfEntry}, there: []string{"e2", "z"},
		},
		"replacement": {
			change: harness.Attributes{"entry_exchange": "in2"},
			says:   []string{bindsAgain, secondEntryToQA, secondEntryToQB, feedOfEntry}, not: []string{areMadeAgain},
		},
		"destroy": {
			isDestroy: true,
			says:      []string{goTooSummary, secondEntryToQA, secondEntryToQB, feedOfEntry},
		},
		"added delay": {
			change: harness.Attributes{"delays": harness.TextList("2s", "4s", "6s"),
				"binding_keys": stringMap(map[string]string{"2s": "a", "4s": "b", "6s": "c"}),
				"queue_names":  stringMap(map[string]string{"2s": "qa", "4s": "qb", "6s": "qc"})},
			not: []string{secondEntryToQA, feedOfEntry}, there: []string{"e2", "e2", "z"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, p, given := sharedLadder(t)
			var next harness.Attributes
			if !is.isDestroy {
				next = given.With(is.change)
			}
			todo := p.Plan(t.Context(), next)
			harness.NoErrors(t, todo.Diagnostics)
			said := harness.WarningText(todo.Diagnostics)
			harness.MustSay(t, "the plan", said, is.says...)
			harness.MustNotSay(t, "the plan", said, is.not...)
			harness.NoErrors(t, p.Apply(t.Context(), todo))
			var there []string
			for _, b := range v.Exported().Bindings.Sorted() {
				if b.Source == "e2" || b.Source == "z" {
					there = append(there, b.Source)
				}
			}
			if !slices.Equal(there, is.there) {
				t.Errorf("bindings of %q are there, want %q", there, is.there)
			}
		})
	}
}

// An entry does not get another type where a binding of others would take other messages then. The plan says so, and so
// does an apply that finds the binding.
func TestEntryKeepsItsTypeForOthers(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"topic", "direct"} {
		t.Run(before, func(t *testing.T) {
			t.Parallel()
			after := map[string]string{"topic": "direct", "direct": "topic"}[before]
			v := harness.NewVhost(t)
			p := harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil)
			given := harness.Attributes{"vhost": v.Name, "name": "t", "delays": harness.TextList("1h"),
				"binding_keys": stringMap(map[string]string{"1h": "a"}), "entry_exchange_type": before}
			p.MustApply(given)
			v.DeclareQueue("audit", nil)
			v.DeclareQueue("dead", nil)
			v.Bind("t.entry", "dead", "queue", "dead")
			next := given.With(harness.Attributes{"entry_exchange_type": after})
			early := p.Plan(t.Context(), next)
			harness.NoErrors(t, early.Diagnostics)
			v.Bind("t.entry", "#", "queue", "audit")
			there := v.Objects()
			for when, text := range map[string]string{
				"plan":  harness.ErrorText(p.Plan(t.Context(), next).Diagnostics),
				"apply": harness.ErrorText(p.Apply(t.Context(), early)),
			} {
				harness.MustSay(t, "the "+when, text, "Bindings of other applications would take other messages",
					`exchange "t.entry" to queue "audit" with key "#"`, "Leave entry_exchange_type at \""+before+"\"")
				harness.MustNotSay(t, "the "+when, text, `queue "dead"`)
			}
			v.MustHold(there)
		})
	}
}

// A plan that gives a delay another key names the old one, and the fate of messages that use it. One that goes back and
// forth between the same keys, or adds a delay, has no old one.
func TestPlansNameLostKeys(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	p := harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil)
	byKeys := func(short, long string) any { return stringMap(map[string]string{"2s": short, "1h": long}) }
	given := harness.Attributes{"vhost": v.Name, "name": "t", "delays": harness.TextList("2s", "1h"),
		"binding_keys": byKeys("a", "b")}
	p.MustApply(given)
	const summary, way = "Keys are removed: ", "first add a delay that is 1 ms longer, with the new key"
	for name, is := range map[string]struct {
		change    harness.Attributes
		says, not []string
	}{
		"another key": {harness.Attributes{"binding_keys": byKeys("c", "b")},
			[]string{summary, `"a" for the delay 2s`, "is parked from then on", way}, []string{`"b" for`}},
		"another key, and nothing parks": {
			harness.Attributes{"binding_keys": byKeys("c", "b"), "park_unroutable": false},
			[]string{summary, `"a" for the delay 2s`, "is lost from then on"}, nil},
		"usual keys": {harness.Attributes{"binding_keys": nil},
			[]string{summary, `"a" for the delay 2s`, `"b" for the delay 1h`}, nil},
		"swapped": {harness.Attributes{"binding_keys": byKeys("b", "a")}, nil, []string{summary}},
		"another delay": {harness.Attributes{"delays": harness.TextList("2s", "1h", "2001ms"),
			"binding_keys": stringMap(map[string]string{"2s": "a", "1h": "b", "2001ms": "c"})}, nil,
			[]string{summary}},
	} {
		todo := p.Plan(t.Context(), given.With(is.change))
		harness.NoErrors(t, todo.Diagnostics)
		said := harness.WarningText(todo.Diagnostics)
		harness.MustSay(t, name, said, is.says...)
		harness.MustNotSay(t, name, said, is.not...)
	}
}

// A plan refuses queues that RabbitMQ deletes before their messages are due, and warns of what other arguments do.
func TestPlansNameWeakArguments(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	p := harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil)
	given := harness.Attributes{"vhost": v.Name, "name": "t", "delays": harness.TextList("5s", "30s"),
		"queue_type": "classic"}
	with := func(arguments map[string]any) harness.Attributes {
		return given.With(harness.Attributes{"queue_arguments": harness.Arguments(arguments)})
	}
	const refused = "Queues expire before their messages are due"
	expires := func(millis int) harness.Attributes { return with(map[string]any{"x-expires": millis}) }
	for millis, lines := range map[int][]string{
		3000: {refused, `queue "t.delay-5s": x-expires = 3000, and a TTL of 5000`,
			`queue "t.delay-30s": x-expires = 3000, and`},
		30000: {refused, `queue "t.delay-30s": x-expires = 30000, and a TTL of 30000`},
	} {
		harness.MustSay(t, "the plan", harness.ErrorText(p.Plan(t.Context(), expires(millis)).Diagnostics), lines...)
	}
	for what, is := range map[string]struct {
		next harness.Attributes
		says string
	}{
		"an expiry": {expires(30_001), "RabbitMQ deletes it, with the messages in it, 30"},
		"a length":  {with(map[string]any{"x-max-length": 2}), "x-max-length = 2 on"},
		"none at all": {with(nil).With(harness.Attributes{"queue_type": "quorum"}),
			"no x-dead-letter-strategy = at-least-once on"},
	} {
		todo := p.Plan(t.Context(), is.next)
		harness.NoErrors(t, todo.Diagnostics)
		harness.MustSay(t, what, harness.WarningText(todo.Diagnostics), is.says,
			"Something changes what happens to messages")
	}
	p.MustApply(given)
	harness.MustSay(t, "a rebuild", harness.ErrorText(p.Plan(t.Context(), expires(3000)).Diagnostics), refused)
	if text := harness.WarningText(p.Plan(t.Context(), given).Diagnostics); text != "" {
		t.Errorf("a settled plan says %s", text)
	}
}

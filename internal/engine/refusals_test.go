package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/drain"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/health"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/policy"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology/topologytest"
)

// over is a context whose time is over: nothing that it is for asks a broker.
func over(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// nobody is a client of a broker that does not answer.
func nobody(t *testing.T) *rabbit.Client {
	client, err := rabbit.New(rabbit.Config{Endpoint: "http://127.0.0.1:1", Username: "u", Password: "p",
		RetryTimeout: rabbit.DefaultRetryTimeout})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// silent is a vhost of that broker.
func silent(t *testing.T) Vhost { return OnBroker(nobody(t).Vhost("/")) }

// simple is an entry before a queue that delays. Messages leave by the exchange d, which may be its own.
func simple(ownsDelivery bool) topology.Topology {
	t := topology.New()
	t.Entry, t.Delivery, t.DeliveryType = "e", "d", "topic"
	t.Exchanges["e"] = topology.Exchange{Name: "e", Type: "topic"}
	t.Queues["q"] = topology.Queue{Name: "q", Arguments: topology.Arguments{"x-message-ttl": int64(1000),
		"x-dead-letter-exchange": "d"}}
	t.Bindings.Add(topologytest.ToQueue("e", "#", "q"))
	if ownsDelivery {
		t.Exchanges["d"] = topology.Exchange{Name: "d", Type: "topic"}
	}
	return t
}

// parkingBy is the topology with a policy that parks, and its exchange.
func parkingBy(t topology.Topology, name string) topology.Topology {
	t = t.Clone()
	t.Exchanges["p"] = topology.Exchange{Name: "p", Type: "fanout"}
	t.Policies[name] = topology.Policy{Name: name, Pattern: "^(e|d)$", ApplyTo: "exchanges", Priority: 1,
		Definition: topology.Arguments{"alternate-exchange": "p"}}
	return t
}

// found is what a broker has of it, with the delivery exchange.
func found(t topology.Topology) *rabbit.State {
	return &rabbit.State{Topology: t.Clone(), DeliveryExists: true,
		DeliveryExchange: topology.Exchange{Name: "d", Type: "topic"}}
}

// What a change refuses before it writes anything.
func TestCheck(t *testing.T) {
	own, others, none := simple(true), simple(false), topology.New()
	foreign := topologytest.ToQueue("e", "x", "audit")
	changed := func(t topology.Topology) topology.Topology {
		t = t.Clone()
		t.Queues["q"] = topology.Queue{Name: "q"}
		return t
	}
	bound := func(t topology.Topology) topology.Topology { t = t.Clone(); t.Bindings.Add(foreign); return t }
	more := func(t topology.Topology) topology.Topology {
		t = t.Clone()
		t.Queues["r"] = topology.Queue{Name: "r"}
		return t
	}
	only := func(t topology.Topology, exchanges ...string) topology.Topology {
		part := topology.New()
		for _, name := range exchanges {
			part.Exchanges[name] = t.Exchanges[name]
		}
		return part
	}
	toAnother := own.Clone() // the delivery exchange before is another part
	toAnother.Delivery, toAnother.Exchanges["x"] = "x", topology.Exchange{Name: "x", Type: "topic"}
	missing := func(s *rabbit.State) { s.DeliveryExists = false }
	direct := func(s *rabbit.State) { s.DeliveryExchange.Type = "direct" }
	rebuild, adopt := Options{Rebuild: true}, Options{Adopt: true}
	unnamed, anyType := others, others
	unnamed.Delivery, anyType.DeliveryType = "", ""
	for name, test := range map[string]struct {
		before, after, there topology.Topology
		options              Options
		change               func(*rabbit.State)
		want                 string
	}{
		"create": {before: none, after: own, there: none},
		"create, it exists": {before: none, after: own, there: own,
			want: `these objects exist: exchange "e", queue "q" (open)`},
		"create, a queue exists": {before: none, after: own, there: own.Minus(only(own, "e", "d")),
			want: `these objects exist: queue "q"`},
		"create, delivery exists": {before: none, after: own, there: only(own, "d")},
		"create, it differs": {before: none, after: own, there: changed(own).Minus(only(own, "e",
			"d")), want: `these objects exist: queue "q": x-dead-letter-exchange is absent, not d; ` +
			`x-message-ttl is absent, not 1000`},
		"delivery missing": {before: none, after: others, there: none, change: missing,
			want: `delivery exchange "d" does not exist`},
		"delivery missing, any type": {before: none, after: anyType, there: none, change: missing,
			want: `delivery exchange "d" does not exist (any type)`},
		"delivery of another type": {before: none, after: others, there: none, change: direct,
			want: `delivery exchange "d" is of type "direct"`},
		"delivery of any type": {before: none, after: anyType, there: none, change: direct},
		"delivery by a queue":  {before: none, after: unnamed, there: none, change: missing},
		"its own is missing":   {before: none, after: own, there: none, change: missing},

		"update":              {before: own, after: own, there: own},
		"update, a new queue": {before: own, after: more(own), there: own},
		"update, a new queue is there": {before: own, after: more(own), there: more(own),
			want: `these objects exist: queue "r" (open)`},
		"update, takes over": {before: others, after: own, there: others},
		"update, takes over another one": {before: others, after: own, there: others, change: direct,
			want: `the delivery exchange differs: exchange "d": type is direct, not topic`},
		"update, takes over none": {before: others, after: own, there: others,
			change: func(s *rabbit.State) { direct(s); missing(s) }},
		"update, had it":      {before: own, after: own, there: own, change: direct},
		"create, another one": {before: none, after: own, there: none, change: direct},
		"rebuild":             {before: own, after: changed(own), there: own, options: rebuild},
		"rebuild, takes over": {before: others, after: own, there: others, options: rebuild, change: direct},
		"rebuild, a new queue is there": {before: own, after: more(own), there: more(own), options: rebuild,
			want: `these objects exist: queue "r" (open)`},
		"rebuild, the delivery exchange before is in the way": {before: own, after: toAnother, there: own,
			options: rebuild, want: `these objects exist: exchange "d" (open)`},
		"foreign binding": {before: none, after: own, there: bound(only(own)),
			want: `these objects exist: binding of exchange "e" to queue "audit" with key "x": it is another ` +
				`application's, not one of its own`},

		"others own it": {before: own.WithOwner("a"), after: own.WithOwner("a"), there: own.WithOwner("b"),
			want: "another resource owns it"},
		"two own it": {before: own.WithOwner("a"), after: own.WithOwner("a"),
			there: own.WithOwner("a").Union(own.WithOwner("b")), want: "; it has 2 owners"},
		"a create asks for no owner": {before: none, after: own.WithOwner("a"), there: own.WithOwner("b"),
			want: `these objects exist: exchange "e", queue "q" (open)`},
		"rebuild, its delivery exchange differs": {before: own, after: changed(own),
			there:   own.Union(topology.Topology{Exchanges: map[string]topology.Exchange{"d": {Name: "d"}}}),
			options: rebuild},
		"adopts, without a delivery exchange": {before: none, after: others, there: none, options: adopt,
			change: missing,
			want:   `delivery exchange "d" does not exist`},
		"adopts, and looks for owners": {before: none, after: parkingBy(own, "own"), there: parkingBy(own, "own"),
			options: adopt, want: "it asks"},
		"adopts, and nothing is there": {before: none, after: own, there: none, options: adopt},
	} {
		o := Change{Before: test.before, After: test.after, Options: test.options}.topologyChange(silent(t))
		state := found(test.there)
		if test.change != nil {
			test.change(state)
		}
		err := o.check(over(t), state)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if rabbit.IsKind(err, rabbit.Canceled) {
			got = "it asks"
		}
		if exists, is := errors.AsType[*ExistsError](err); is && !exists.Closed {
			got += " (open)"
		}
		if delivery, is := errors.AsType[*DeliveryError](err); is && delivery.AnyType {
			got += " (any type)"
		}
		for _, p := range o.problems {
			got += "; " + p.Cause.Error()
		}
		if got != test.want {
			t.Errorf("%s: %q, not %q", name, got, test.want)
		}
	}
}

// Who adopts takes over what others own. Who destroys does not.
func TestCheckOwner(t *testing.T) {
	a, b := simple(true).WithOwner("a"), simple(true).WithOwner("b")
	for name, test := range map[string]struct {
		after topology.Topology
		adopt bool
		want  bool
	}{
		"update": {a, false, true}, "adoption": {a, true, false}, "destroy": {topology.New(), false, true},
		"destroy of what was adopted": {topology.New(), true, true},
	} {
		o := Change{Before: a, After: test.after, Options: Options{Adopt: test.adopt}}.topologyChange(silent(t))
		if err := o.checkOwner(a, found(b)); (err != nil) != test.want {
			t.Errorf("%s: %v", name, err)
		}
		if err := o.checkOwner(a, found(a)); err != nil || len(o.problems) > 0 {
			t.Errorf("%s of its own: %v, %v", name, err, o.problems)
		}
	}
}

// A policy that is to be set meets rivals: those of others, each with the exchanges that it keeps.
func TestCheckPolicies(t *testing.T) {
	plain := simple(true)
	wanted := parkingBy(plain, "own")
	of := func(name, pattern string, priority float64) policy.Policy {
		return policy.New(name, pattern, "exchanges", priority, topology.Arguments{"alternate-exchange": "x"})
	}
	for name, test := range map[string]struct {
		there  topology.Topology
		before topology.Topology
		users  policy.Policies
		want   string
		finds  int
	}{
		"none":         {plain, topology.New(), policy.Policies{of("other", "^e$", 0)}, "", 0},
		"one":          {plain, topology.New(), policy.Policies{of("other", "^(e|d|p)$", 1)}, "other[d e]", 2},
		"two":          {plain, topology.New(), policy.Policies{of("b", "^e$", 1), of("a", "^d$", 2)}, "a[d] b[e]", 2},
		"that before":  {plain, parkingBy(plain, "other"), policy.Policies{of("other", "^e$", 1)}, "", 1},
		"it is there":  {wanted, topology.New(), policy.Policies{of("other", "^e$", 1)}, "", 1},
		"it is itself": {plain, topology.New(), policy.Policies{of("own", "^e$", 1)}, "", 0},
	} {
		state := found(test.there)
		state.AllPolicies.Users = test.users
		d := &deployment{vhost: silent(t), wanted: wanted}
		var got []string
		if err, is := errors.AsType[*RivalError](d.checkPolicies(over(t), state, test.before)); is {
			if len(err.Rivals) == 0 {
				t.Errorf("%s: there is no rival: %v", name, err)
			}
			for _, rival := range err.Rivals {
				got = append(got, fmt.Sprint(rival.Policy.Name, rival.Exchanges))
			}
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: the rivals are %q, not %q", name, got, test.want)
		}
		displaced := 0
		for _, f := range Findings("/", wanted, state) {
			if strings.HasPrefix(f.Cause, "policy ") {
				displaced++
			}
		}
		if displaced != test.finds {
			t.Errorf("%s: %d findings, not %d", name, displaced, test.finds)
		}
	}
}

// A delivery exchange of others takes what no binding takes elsewhere, or loses it.
func TestFindingsOfTheDeliveryExchange(t *testing.T) {
	for name, test := range map[string]struct {
		owns, parks bool
		change      func(*rabbit.State)
		want        string // in the effect, and "none" for no finding
	}{
		"lost":             {false, true, func(*rabbit.State) {}, "a message"},
		"its own":          {true, true, func(*rabbit.State) {}, "none"},
		"nothing parks":    {false, false, func(*rabbit.State) {}, "none"},
		"missing":          {false, true, func(s *rabbit.State) { s.DeliveryExists = false }, "none"},
		"it has one":       {false, true, func(s *rabbit.State) { s.DeliveryAlternate = "x" }, "none"},
		"policy, not read": {false, true, func(s *rabbit.State) { s.DeliveryPolicy = "x" }, "unless policy"},
		"policy, read": {false, true, func(s *rabbit.State) {
			s.DeliveryPolicy, s.AllPolicies = "x", policy.Declared{Users: policy.Policies{},
				Operators: policy.Policies{}}
		}, "a message"},
	} {
		wanted := simple(test.owns)
		if test.parks {
			wanted = parkingBy(wanted, "own")
		}
		state, effect := found(wanted), "none"
		test.change(state)
		for _, f := range Findings("/", wanted, state) {
			if f.Cause == "no alternate exchange" {
				effect = f.Effect
			}
		}
		if !strings.HasPrefix(effect, test.want) {
			t.Errorf("%s: %s", name, effect)
		}
	}
}

// A binding may go if another one brings its messages to the same place, or if the wanted one takes all of them.
func TestNeeded(t *testing.T) {
	b := func(key, queue string) topology.Binding { return topologytest.ToQueue("d", key, queue) }
	gone := b("*.a", "q")
	for name, test := range map[string]struct {
		to    topology.Binding
		there []topology.Binding
		want  bool
	}{
		"nothing stays":          {topology.Binding{}, nil, true},
		"another queue":          {topology.Binding{}, []topology.Binding{b("*.a", "r")}, true},
		"the same queue":         {topology.Binding{}, []topology.Binding{b("#.a", "q")}, false},
		"the wanted one":         {b("#.a", "r"), nil, false},
		"the wanted one is else": {b("*.b", "q"), nil, true},
	} {
		r := &bindingChange{to: test.to, there: topology.NewBindings(append(test.there, gone)...)}
		if got := r.needed([]topology.Binding{gone}); len(got) == 1 != test.want {
			t.Errorf("%s: needed are %v", name, got)
		}
		if got := allBut(r.there.Sorted(), gone); !slices.Equal(got, topology.NewBindings(test.there...).Sorted()) {
			t.Errorf("%s: the rest is %v", name, got)
		}
		if got := existing([]topology.Binding{gone, b("x", "x")}, r.there); len(got) != 1 || got[0] != gone {
			t.Errorf("%s: there are %v", name, got)
		}
	}
	marked, other := gone.OfDestination("a"), gone.OfDestination("b")
	for name, test := range map[string]struct {
		own, there []topology.Binding
		want       bool
	}{
		"none": {}, "its own": {own: []topology.Binding{gone}, want: true},
		"one with its mark": {there: []topology.Binding{marked}, want: true},
		"others":            {there: []topology.Binding{other}},
		"both":              {[]topology.Binding{gone}, []topology.Binding{marked}, true},
	} {
		r := &bindingChange{to: marked, before: test.own, there: topology.NewBindings(test.there...)}
		if got := r.wasThere(); got != test.want {
			t.Errorf("%s: it was there: %t", name, got)
		}
	}
}

// The state is that of the new topology once nothing is there that is only as it was before.
func TestLeftNothingOfBefore(t *testing.T) {
	before := parkingBy(simple(true), "own")
	for name, test := range map[string]struct {
		there, after topology.Topology
		want         bool
	}{
		"nothing is there": {topology.New(), topology.New(), true},
		"all is as it was": {before, topology.New(), false},
		"all is the same":  {before, before, true},
		"exchanges":        {simple(false), parkingBy(topology.New(), "own"), false},
		"queues":           {topology.Topology{Queues: before.Queues}, topology.New(), false},
		"policies":         {topology.Topology{Policies: before.Policies}, topology.New(), false},
		"delivery alone": {topology.Topology{Exchanges: map[string]topology.Exchange{"d": {Name: "d"}}},
			before, true},
		"an entry that differs": {topology.Topology{Exchanges: map[string]topology.Exchange{"e": {Name: "e"}}}, before,
			false},
		"a stranger that " +
			"differs": {topology.Topology{Exchanges: map[string]topology.Exchange{"s": {Name: "s"}}}, before,
			true},
	} {
		if got := (Change{Before: before, After: test.after}).leftNothingOfBefore(test.there); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// A change says what it finds damaged, unless the plan knew that.
func TestNoteDamages(t *testing.T) {
	before := simple(true)
	gone := before.Clone()
	delete(gone.Queues, "q")
	moved := before.Clone()
	moved.Delivery = "other"
	known := health.Keys(health.Damages(before, gone, nil))
	without := before.Clone()
	delete(without.Exchanges, "d")
	for name, test := range map[string]struct {
		before, read, there topology.Topology
		known               []string
		want                string
	}{
		"none":               {before, before, before, nil, ""},
		"a queue":            {before, before, gone, nil, "1 damages came after the plan, gone: false"},
		"the plan knew":      {before, before, gone, known, ""},
		"all":                {before, before, topology.New(), known, "2 damages came after the plan, gone: true"},
		"delivery exchange":  {before, before, without, nil, "1 damages came after the plan, gone: false"},
		"another one before": {moved, before, without, nil, ""},
	} {
		o := Change{Before: test.before, After: before, Options: Options{Known: test.known}}.topologyChange(silent(t))
		o.noteDamages(test.read, found(test.there))
		got := ""
		for _, p := range o.problems {
			damaged, _ := errors.AsType[*DamagedError](p.Cause)
			got += fmt.Sprintf("%s, gone: %t", damaged, damaged.Gone)
		}
		if got != test.want {
			t.Errorf("%s: %q, not %q", name, got, test.want)
		}
	}
	for want, there := range []topology.Topology{topology.New(), gone} {
		o := Change{After: before, Options: Options{Adopt: true}}.topologyChange(silent(t))
		if o.noteDamaged(found(there)); len(o.problems) != want {
			t.Errorf("an adoption notes %v", o.problems)
		}
	}
}

// Nothing else is deleted beside exchanges, and nothing else is declared beside a queue whose leader is balanced.
func TestParallel(t *testing.T) {
	deletion, shared := plan.DeleteExchange{Name: "x"}, plan.DeleteExchange{Name: "x", IfUnused: true}
	queue := func(locator string) plan.Step {
		arguments := topology.Arguments{"x-queue-leader-locator": locator}
		return plan.DeclareQueue{Queue: topology.Queue{Arguments: arguments}}
	}
	for name, test := range map[string]struct {
		steps             []plan.Step
		deletes, balanced bool
	}{
		"none": {}, "one": {steps: []plan.Step{deletion}},
		"two":                 {[]plan.Step{deletion, deletion}, true, false},
		"one may be in use":   {[]plan.Step{deletion, shared}, false, false},
		"beside another step": {[]plan.Step{deletion, plan.DeletePolicy{}}, false, false},
		"balanced":            {[]plan.Step{queue("balanced"), queue("")}, false, true},
		"not balanced":        {[]plan.Step{queue("client-local"), plan.Bind{}}, false, false},
	} {
		if deletes := deletesExchanges(test.steps); deletes != test.deletes {
			t.Errorf("%s: deletes exchanges: %t", name, deletes)
		}
		if balanced := slices.ContainsFunc(test.steps, isBalanced); balanced != test.balanced {
			t.Errorf("%s: balanced: %t", name, balanced)
		}
		want := 1
		if !test.deletes && !test.balanced {
			want = min(len(test.steps), nobody(t).MaxParallelRequests())
		}
		if got := newTarget(nobody(t).Vhost("/")).parallel(over(t), test.steps); got != want {
			t.Errorf("%s: %d at the same time, not %d", name, got, want)
		}
	}
}

// A plan passes over what the apply asks again. What each look of a run meets, it says once.
func TestUnusable(t *testing.T) {
	for kind, want := range map[rabbit.Kind]string{
		rabbit.LavinMQ: "refused refused", rabbit.Unreachable: "silent silent", rabbit.Timeout: "silent silent",
		rabbit.Unavailable: " ", rabbit.Canceled: " ", rabbit.Unauthorized: "unusable silent silent",
		rabbit.VhostNotFound: "unusable unusable", rabbit.NotFound: "unusable unusable",
	} {
		e, got := New(nobody(t)), []string{}
		for range 2 {
			text := ""
			for _, p := range e.unusable(t.Context(), &rabbit.Error{Kind: kind}) {
				text = map[Code]string{Refused: "refused", Unusable: "unusable"}[p.Code]
			}
			if e.silent.Load() {
				text = strings.TrimSpace(text + " silent")
			}
			got = append(got, text)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, not %q", kind, got, want)
		}
	}
	if e := New(nobody(t)); e.unusable(over(t), errors.New("x")) != nil || !e.silent.Load() {
		t.Error("a run that is over says more")
	}
}

// The cause of overdue messages, by the findings behind their queue.
func TestWhyOverdue(t *testing.T) {
	q := simple(false).Queues["q"]
	inside := q
	inside.Arguments = topology.Arguments{"x-dead-letter-exchange": "x"}
	finding := health.Finding{Object: "o", Cause: "c"}
	unnamed := simple(false)
	unnamed.Delivery = ""
	direct := q
	direct.Arguments = topology.Arguments{"x-dead-letter-exchange": ""}
	for name, test := range map[string]struct {
		queue  topology.Queue
		wanted topology.Topology
		exists bool
		behind []health.Finding
		parks  string
		want   string
	}{
		"next missing":     {inside, simple(false), true, nil, "", `exchange "x" is missing`},
		"delivery missing": {q, simple(false), false, nil, "", `exchange "d" is missing`},
		"one cause":        {q, simple(false), true, []health.Finding{finding}, "", "o: c"},
		"three causes": {q, simple(false), true, slices.Repeat([]health.Finding{finding}, 3), "",
			"o: c; o: c; o: c"},
		"four causes": {q, simple(false), true, slices.Repeat([]health.Finding{finding}, 4), "",
			"o: c; o: c; o: c; and more of these findings"},
		"no binding": {q, simple(false), true, nil, "",
			`exchange "d" may have no binding for their address, and it has no ` +
				`alternate exchange`},
		"parked":           {q, simple(false), true, nil, "p", "the cause may be gone by now"},
		"default exchange": {direct, unnamed, false, nil, "", "the cause may be gone by now"},
	} {
		state := found(topology.New())
		state.DeliveryExists, state.DeliveryAlternate = test.exists, test.parks
		o := Observation{State: state}
		if got := o.why(test.queue, test.wanted, test.behind); got != test.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// The objects of a change are those of both sides, with their delivery exchanges, or else the bindings.
func TestObjectsOfAChange(t *testing.T) {
	unnamed, own := simple(false), simple(true)
	unnamed.Delivery = ""
	b := topologytest.ToQueue("d", "*.a", "q")
	of := topology.Topology{Bindings: topology.NewBindings(b)}
	for name, test := range map[string]struct {
		before, after topology.Topology
		want          []string
		binds         bool
	}{
		"create": {topology.New(), simple(false), []string{`exchange "d"`, `exchange "e"`,
			`queue "q"`}, false},
		"destroy":     {unnamed, topology.New(), []string{`exchange "e"`, `queue "q"`}, false},
		"destination": {of, topology.Topology{}, []string{topology.BindingObject(b)}, true},
		"another one": {topology.Topology{}, of, []string{topology.BindingObject(b)}, true},
		"both":        {of, of, []string{topology.BindingObject(b)}, true},
		"nothing":     {topology.New(), topology.New(), nil, false},
		"with an object": {own, of, []string{topology.BindingObject(b), `exchange "d"`, `exchange "e"`, `queue "q"`},
			false},
		"to an object": {of, own, []string{topology.BindingObject(b), `exchange "d"`, `exchange "e"`, `queue "q"`},
			false},
	} {
		c := Change{Kind: "k", Vhost: "v", Before: test.before, After: test.after}
		got := slices.Compact(slices.Sorted(slices.Values(c.objects())))
		if !slices.Equal(got, test.want) || c.isOfBindings() != test.binds {
			t.Errorf("%s: it has %q, of bindings: %t", name, got, c.isOfBindings())
		}
	}
}

// What steps have brought back, in words, and which of them declare something.
func TestWordsOfSteps(t *testing.T) {
	d := &deployment{wanted: simple(true)}
	queue, exchange := plan.DeclareQueue{Queue: topology.Queue{Name: "q"}},
		plan.DeclareExchange{Exchange: topology.Exchange{Name: "d"}}
	for want, steps := range map[string][]plan.Step{
		"": {plan.DeleteExchange{Name: "x"}, plan.VerifyEmpty{}}, `queue "q"`: {queue}, "1 binding": {plan.Bind{}},
		`exchange "d", 2 bindings`: {plan.Bind{}, exchange, plan.Bind{}, plan.Unbind{}},
	} {
		if got := objects(steps); got != want {
			t.Errorf("they are %s, not %s", got, want)
		}
		if got := slices.ContainsFunc(steps, d.declaresDelivery); got != strings.Contains(want, `"d"`) {
			t.Errorf("%s: delivery exchange: %t", want, got)
		}
		if got := slices.ContainsFunc(steps, declares); got != strings.Contains(want, `"`) {
			t.Errorf("%s: declared: %t", want, got)
		}
	}
	one, other := errors.New("one"), errors.New("other")
	if none, both := Refusals(nil).joinedWith(nil),
		(Refusals{one}).joinedWith(other); none != nil || !errors.Is(Refusals(nil).joinedWith(one),
		one) || both.Error() != "one; other" {
		t.Errorf("they are %v and %v", none, both)
	}
	gone := &UndoError{Err: &rabbit.Error{Kind: rabbit.Timeout}, Undo: &rabbit.Error{Kind: rabbit.Timeout, Op: "undo"}}
	gone.Left = []plan.Step{plan.Bind{}}
	if text := gone.Detail(); !strings.Contains(text, "Not all bindings ") {
		t.Error(text)
	}
	gone.Left = append(gone.Left, queue)
	if text := gone.Detail(); strings.Contains(text, "undo") || !strings.Contains(text, "could not be brought back") {
		t.Error(text)
	}
	gone.Undo, gone.Done = &rabbit.Error{Kind: rabbit.Forbidden, Op: "undo"}, []plan.Step{queue}
	if text := gone.Detail(); !strings.Contains(text, "undo") || !strings.Contains(text, `there again: queue "q"`) {
		t.Error(text)
	}
}

// A step is refused if it would lose something. Whoever has no permission, or meets more than that, is not.
func TestIsRefusal(t *testing.T) {
	for _, test := range []struct {
		err                error
		isRefusal, mayGoOn bool
	}{
		{&drain.NotEmptyError{}, true, true}, {&rabbit.Error{Kind: rabbit.InUse}, true, true},
		{&rabbit.Error{Kind: rabbit.Forbidden}, false, true}, {&rabbit.Error{Kind: rabbit.Timeout}, false, false},
		{&UndoError{Err: &drain.NotEmptyError{}}, false, true}, {errors.New("x"), false, false},
	} {
		if isRefusal(test.err) != test.isRefusal || mayGoOn(test.err) != test.mayGoOn {
			t.Errorf("%v: refusal %t, the rest may go on: %t", test.err, isRefusal(test.err), mayGoOn(test.err))
		}
	}
}

// What waits before bindings counts, and what RabbitMQ does not count is said.
func TestCountBefore(t *testing.T) {
	before := simple(true)
	gone := []topology.Binding{topologytest.ToQueue("d", "*.a", "orders")}
	there := before.Clone()
	there.Queues["orders"] = topology.Queue{Name: "orders"}
	there.Bindings.Add(gone[0])
	for name, test := range map[string]struct {
		gone   []topology.Binding
		counts map[string]*rabbit.QueueCount
		want   WaitingError
	}{
		"none": {nil, nil, WaitingError{}},
		"counted": {gone, map[string]*rabbit.QueueCount{"q": {IsCounted: true, Messages: 3}},
			WaitingError{Messages: 3}},
		"not counted": {gone, map[string]*rabbit.QueueCount{"q": {Messages: 3}}, WaitingError{Uncounted: true}},
		"not known":   {gone, nil, WaitingError{Uncounted: true}},
	} {
		s := &survey{inventory: recognize.NewInventory("/", there), counts: test.counts}
		got := WaitingError{Gone: test.gone}
		s.count(t.Context(), &got)
		if got.Messages != test.want.Messages || got.Uncounted != test.want.Uncounted {
			t.Errorf("%s: %d wait, uncounted: %t", name, got.Messages, got.Uncounted)
		}
	}
	if key := fixedKey(there); key != "" {
		t.Errorf("all messages leave by the key %q", key)
	}
	maps.Copy(there.Queues["q"].Arguments, topology.Arguments{"x-dead-letter-routing-key": "k"})
	if key := fixedKey(there); key != "k" {
		t.Errorf("all messages leave by the key %q, not k", key)
	}
	if nowhere("o", recognize.Way{}) != nil || len(nowhere("o",
		recognize.Way{Ends: []recognize.End{{Exchange: "x"}}})) != 1 {
		t.Error("there is a finding for each way that ends")
	}
}

// Several refusals have the summary of the last one.
func TestSummaryOfRefusals(t *testing.T) {
	last := &rabbit.Error{Kind: rabbit.Timeout}
	all := Refusals{&rabbit.Error{Kind: rabbit.InUse}, last}
	if got, want := all.Summary(), rabbit.Describe(last).Summary(); got != want || got == all[:1].Summary() {
		t.Errorf("%q, not %q", got, want)
	}
}

// Of steps that fail at the same time, the first one counts, in whatever order they end.
func TestFirstFailureCounts(t *testing.T) {
	first, second := plan.DeleteExchange{Name: "first"}, plan.DeleteExchange{Name: "second"}
	ended := make(chan struct{})
	r := &runner{parallel: func(context.Context, []plan.Step) int { return 2 },
		do: func(_ context.Context, step plan.Step) (bool, error) {
			if step == plan.Step(second) {
				close(ended)
			}
			<-ended
			return false, errors.New(step.String())
		}}
	_, err := r.Run(t.Context(), plan.Plan{{Steps: []plan.Step{first, second}}})
	if err == nil || err.Error() != first.String() {
		t.Errorf("the error is %v", err)
	}
}

// What a run has done, and has left out, after each kind of failure.
func TestRunsThatFail(t *testing.T) {
	step := func(name string) plan.Step { return plan.DeclareQueue{Queue: topology.Queue{Name: name}} }
	steps := func(names ...string) (all []plan.Step) {
		for _, name := range names {
			all = append(all, step(name))
		}
		return all
	}
	undo := func(names ...string) func([]plan.Step) plan.Plan {
		return func([]plan.Step) plan.Plan {
			return plan.Plan{{Steps: steps(names...)}, {Steps: steps("z"), Needs: []string{`queue "y"`}},
				{Steps: steps("w")}}
		}
	}
	last := plan.Phase{Steps: steps("last")}
	names := func(steps []plan.Step) string {
		return strings.NewReplacer("declare queue ", "", `"`, "").Replace(plaintext.Join(steps, " ", plan.Step.String))
	}
	inUse, slow := rabbit.InUse, rabbit.Timeout
	for name, test := range map[string]struct {
		plan  plan.Plan
		fails map[string]rabbit.Kind
		done  string
		err   string // its type
		left  string
		back  string // what an undo has brought back
	}{
		"nothing fails": {plan.Plan{{Steps: steps("a")}, last}, nil, "a last", "", "", ""},
		"no undo": {plan.Plan{{Steps: steps("a", "b")}, last}, map[string]rabbit.Kind{"b": inUse}, "a", "*rabbit.Error",
			"", ""},
		"the first counts": {plan.Plan{{Steps: steps("a", "b")}}, map[string]rabbit.Kind{"a": inUse, "b": slow}, "",
			"*rabbit.Error", "", ""},
		"undone": {plan.Plan{{Steps: steps("a", "b"), Undo: undo("x", "y")}, last},
			map[string]rabbit.Kind{"b": slow}, "",
			"*rabbit.Error", "", ""},
		"not undone": {plan.Plan{{Steps: steps("a", "b"), Undo: undo("x", "y")}, last},
			map[string]rabbit.Kind{"b": inUse, "y": inUse}, "a", "*engine.UndoError", "y z", "x w"},
		"nothing undone": {plan.Plan{{Steps: steps("a", "b"), Undo: undo("x", "y")}, last},
			map[string]rabbit.Kind{"b": inUse, "x": slow}, "a", "*engine.UndoError", "x y z w", ""},
		"recreation refused": {plan.Plan{{Steps: steps("a"), Recreates: "o"}, {Steps: steps("b"),
			Recreates: "o"}, last},
			map[string]rabbit.Kind{"a": inUse}, "last", "*rabbit.Error", "", ""},
		"recreation undone": {plan.Plan{{Steps: steps("a", "b"), Recreates: "o", Undo: undo("x")}, last},
			map[string]rabbit.Kind{"b": inUse}, "a last", "*rabbit.Error", "", ""},
		"recreation fails": {plan.Plan{{Steps: steps("a"), Recreates: "o"}, last},
			map[string]rabbit.Kind{"a": slow}, "",
			"*rabbit.Error", "", ""},
		"recreation needed": {plan.Plan{{Steps: steps("a"), Recreates: "o"}, {Steps: steps("b", "c"),
			Needs: []string{"o"}},
			{Steps: steps("d"), Needs: []string{"p"}}, last}, map[string]rabbit.Kind{"a": inUse}, "d last",
			"*engine.LeftOutError", "b c", ""},
	} {
		done, err := RunOn(t.Context(), func(s plan.Step) (bool, error) {
			declare, _ := s.(plan.DeclareQueue)
			if kind, fails := test.fails[declare.Queue.Name]; fails {
				return false, &rabbit.Error{Kind: kind}
			}
			return true, nil
		}, test.plan)
		var left []plan.Step
		if undo, is := errors.AsType[*UndoError](err); is {
			left = undo.Left
			if names(undo.Done) != test.back {
				t.Errorf("%s: back is %q, not %q", name, names(undo.Done), test.back)
			}
		}
		if out, is := errors.AsType[*LeftOutError](err); is {
			left = out.Left
		}
		got := names(done)
		kind := ""
		if err != nil {
			kind = fmt.Sprintf("%T", err)
		}
		if got != test.done || kind != test.err || names(left) != test.left {
			t.Errorf("%s: done is %q, left is %q: %s", name, got, names(left), kind)
		}
	}
}

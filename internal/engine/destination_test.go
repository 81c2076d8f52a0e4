package engine_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan/plantest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology/topologytest"
)

func of(bindings ...topology.Binding) topology.Topology {
	return topology.Topology{Bindings: topology.NewBindings(bindings...)}
}

// declare makes exchanges, by their types, and queues, by their arguments, of an application.
func (w *world) declare(exchanges map[string]string, queues map[string]topology.Arguments) {
	w.Helper()
	for name, kind := range exchanges {
		w.run(plan.DeclareExchange{Exchange: topology.Exchange{Name: name, Type: kind, Durable: true}})
	}
	for name, arguments := range queues {
		w.run(plan.DeclareQueue{Queue: topology.Queue{Name: name, Durable: true, Arguments: arguments}})
	}
}

func (w *world) bind(bindings ...topology.Binding) {
	w.Helper()
	for _, b := range bindings {
		w.run(plan.Bind{Binding: b})
	}
}

// listsNothing refuses the lists of all that a vhost has.
func (w *world) listsNothing() string {
	return w.refusing(func(r *http.Request) bool {
		return slices.Contains([]string{"/api/queues/" + w.vhost, "/api/bindings/" + w.vhost}, r.URL.Path)
	})
}

// words are the problems of a destination, in short.
func words(problems []engine.Problem) string {
	var all []string
	for _, p := range problems {
		word := strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", p.Cause), "*engine."), "Error")
		causes, _ := p.Cause.(interface{ Unwrap() []error })
		if causes != nil {
			word = ""
			for _, cause := range causes.Unwrap() {
				word += words([]engine.Problem{{engine.Other, cause}})
			}
		}
		if e, is := errors.AsType[*engine.LevelsError](p.Cause); is {
			word = fmt.Sprint("levels ", slices.Sorted(maps.Keys(e.There)))
		}
		if e, is := errors.AsType[*engine.MisnamedError](p.Cause); is {
			word = string(e.Misnaming)
		}
		if p.Code == engine.Refused {
			word = "refused: " + word
		}
		all = append(all, word)
	}
	return strings.Join(all, ", ")
}

// A preview says of a destination what keeps messages from it, and nothing of one that is in order.
func TestWhereADestinationLeads(t *testing.T) {
	w := newWorld(t)
	hop := func(source, queue string) topology.Binding { return topologytest.ToQueue(source, "1.#", queue) }
	delays := func(end string) topology.Arguments {
		return topology.Arguments{"x-message-ttl": int64(60000), "x-dead-letter-exchange": end}
	}
	full := func(n int64) topology.Arguments {
		return topology.Arguments{"x-max-length": n, "x-overflow": "reject-publish"}
	}
	w.declare(map[string]string{"both": "topic", "odd": "topic", "odd end": "topic", "mixed": "topic",
		"mixed end": "topic", "hops": "topic", "onwards": "fanout", "safe": "fanout", "nowhere": "fanout",
		"headers": "headers"},
		map[string]topology.Arguments{"orders": nil, "safe": {"x-queue-type": "quorum"}, "full": full(0),
			"limited": full(5), "0": nil, "1": delays("mixed end"), "2": nil, "foreign": delays("odd end"),
			"retry": delays("onwards"), "letters": {"x-dead-letter-exchange": "onwards"},
			"short": {"x-message-ttl": int64(60000)}})
	w.bind(topologytest.ToQueue("onwards", "", "orders"), topologytest.ToQueue("safe", "", "orders"),
		topologytest.ToQueue("headers", "", "orders"), hop("hops", "letters"), hop("hops", "short"),
		topologytest.ToExchange("odd", "0.#", "odd end"), topologytest.ToQueue("odd", "x", "foreign"),
		topologytest.ToExchange("mixed", "0.#", "mixed end"), hop("mixed", "0"), hop("mixed", "1"), hop("mixed", "2"))
	for _, c := range []delay.Config{{Name: "t", Levels: 3, CreateDeliveryExchange: true},
		{Name: "c", Levels: 2, CreateDeliveryExchange: true, QueueType: delay.Classic},
		{Name: "a", Levels: 2, DeliveryExchange: "both"},
		{Name: "b", Levels: 3, DeliveryExchange: "both", QueueType: delay.Classic}} {
		w.create(plantest.Expand(t, c))
	}
	for _, l := range []delay.LadderConfig{{Name: "l", Delays: []string{"1s"}, DeliveryExchange: "c.delivery"},
		{Name: "s", Delays: []string{"1s"}, DeliveryExchange: "t.delivery", EntryExchangeType: "topic",
			BindingKeys: map[string]string{"1s": "one.#"}}} {
		resolved, err := l.Resolve()
		if err != nil {
			t.Fatal(err)
		}
		w.create(resolved.Expand().WithOwner("its owner"))
	}

	planned, behindClassic := engine.Options{DeliveryPlanned: true}, engine.Options{BehindClassic: true}
	toQueue, toExchange := topologytest.ToQueue, topologytest.ToExchange
	const loses, isDelay = "LosesOverdue", "refused: the queue is a delay queue"
	for name, test := range map[string]struct {
		b       topology.Binding
		options engine.Options
		held    bool
		want    string
	}{
		"in order":                       {b: toQueue("t.delivery", "*.*.*.x", "orders")},
		"in order, to an exchange":       {b: toExchange("t.delivery", "*.*.*.x", "onwards")},
		"other levels":                   {b: toQueue("t.delivery", "*.x", "orders"), want: "levels [3]"},
		"any levels":                     {b: toQueue("t.delivery", "#.x", "orders")},
		"other levels, planned":          {b: toQueue("t.delivery", "*.x", "orders"), options: planned},
		"other levels, held":             {b: toQueue("t.delivery", "*.x", "orders"), held: true},
		"levels of a ladder":             {b: toQueue("c.delivery", "*.x", "orders")},
		"levels of neither":              {b: toQueue("c.delivery", "*.*.*.x", "orders"), want: "levels [1 2]"},
		"quorum behind classic":          {b: toQueue("c.delivery", "*.*.x", "safe"), want: loses},
		"quorum behind classic, planned": {b: toQueue("c.delivery", "*.*.x", "safe"), options: planned},
		"quorum behind classic, held":    {b: toQueue("c.delivery", "*.*.x", "safe"), held: true},
		"classic behind classic":         {b: toQueue("c.delivery", "*.*.x", "orders")},
		"exchange behind classic":        {b: toExchange("c.delivery", "*.*.x", "safe")},
		"quorum behind quorum":           {b: toQueue("t.delivery", "*.*.*.x", "safe")},
		"quorum behind planned classic": {b: toQueue("t.delivery", "*.*.*.x", "safe"), options: behindClassic,
			want: loses},
		"classic behind planned classic":   {b: toQueue("t.delivery", "*.*.*.x", "orders"), options: behindClassic},
		"quorum behind the quorum of both": {b: toQueue("both", "*.*.x", "safe")},
		"quorum behind the classic of both": {b: toQueue("both", "*.*.*.x", "safe"),
			want: loses},
		"quorum behind both":          {b: toQueue("both", "#.x", "safe"), want: loses},
		"a foreign queue before":      {b: toQueue("odd end", "*.x", "safe")},
		"a queue among others before": {b: toQueue("mixed end", "*.x", "safe"), want: loses},
		"no delivery exchange":        {b: toQueue("absent", "*.x", "orders"), want: "refused: Delivery"},
		"another type":                {b: toQueue("onwards", "*.x", "orders"), want: "refused: Delivery"},
		"no queue":                    {b: toQueue("t.delivery", "*.*.*.x", "absent"), want: "refused: Missing"},
		"no exchange":                 {b: toExchange("t.delivery", "*.*.*.x", "orders"), want: "refused: Missing"},
		"a limit":                     {b: toQueue("t.delivery", "*.*.*.x", "limited"), want: "Limit"},
		"a queue that is full":        {b: toQueue("t.delivery", "*.*.*.x", "full"), want: "Limit, Behind"},
		"nowhere":                     {b: toExchange("t.delivery", "*.*.*.x", "nowhere"), want: "Behind"},
		"who knows where":             {b: toExchange("t.delivery", "*.*.*.x", "headers"), want: "NotFollowed"},
		"a delay queue":               {b: toQueue("t.delivery", "*.*.*.x", "t.delay-01"), want: isDelay},
		"an application's retries":    {b: toQueue("t.delivery", "*.*.*.x", "retry")},
		"a queue that holds for ever": {b: toQueue("t.delivery", "*.*.*.x", "letters")},
		"a queue that drops":          {b: toQueue("t.delivery", "*.*.*.x", "short")},
		"circles": {b: toExchange("t.delivery", "*.*.*.x", "t.delay-02"),
			want: "refused: the exchange leads to the delivery exchange"},
		"another cascade": {b: toExchange("c.delivery", "#.x", "t.delay-02")},
		"a level as a delivery exchange": {b: toQueue("t.delay-01", "*.x", "orders"),
			want: "refused: the delivery exchange leads into delay queues"},
	} {
		before := nothing
		if test.held {
			before = of(test.b)
		}
		problems := engine.New(w.client).Preview(t.Context(), w.change(before, of(test.b), test.options))
		if got := words(problems); got != test.want {
			t.Errorf("%s: %q, want %q: %v", name, got, test.want, problems)
		}
	}

	unlisted := connect(t, w.broker, w.listsNothing())
	inOrder := of(toQueue("t.delivery", "*.*.*.x", "orders"))
	if got := engine.New(unlisted).Preview(t.Context(), w.change(nothing, inOrder, engine.Options{})); len(got) > 0 {
		t.Errorf("a destination in order needs a list: %s", words(got))
	}
	if there, err := engine.LevelsInto(t.Context(), unlisted.Vhost(w.vhost), "absent"); err != nil || len(there) > 0 {
		t.Errorf("an exchange that is missing needs a list: %v, %v", there, err)
	}
}

// A create is refused for a delivery exchange at fault. For a limit, it only says so.
func TestCreateOfADestination(t *testing.T) {
	w := newWorld(t)
	w.declare(map[string]string{"d": "topic", "fanout": "fanout"}, map[string]topology.Arguments{"orders": nil,
		"limited": {"x-max-length": int64(5), "x-overflow": "reject-publish"}})
	for name, test := range map[string]struct {
		b    topology.Binding
		want string
	}{
		"in order":             {topologytest.ToQueue("d", "*.x", "orders"), ""},
		"to an exchange":       {topologytest.ToExchange("d", "*.x", "fanout"), ""},
		"no delivery exchange": {topologytest.ToQueue("absent", "*.x", "orders"), "refused: Delivery"},
		"another type":         {topologytest.ToQueue("fanout", "*.x", "orders"), "refused: Delivery"},
		"both at fault":        {topologytest.ToExchange("absent", "*.x", "orders"), "refused: DeliveryMissing"},
		"a limit":              {topologytest.ToQueue("d", "*.x", "limited"), "Limit"},
	} {
		result, err := w.apply(nothing, of(test.b), engine.Options{})
		problems := result.Problems
		if err != nil {
			problems = append(problems, engine.Problem{Code: engine.Refused, Cause: err})
		}
		if got := words(problems); got != test.want {
			t.Errorf("%s: %q, want %q: %v", name, got, test.want, err)
		}
	}
}

// faulty refuses requests, as many of each kind as the map says. "Bind" and "unbind" are of queues. "Read" is of the
// bindings of an exchange, once something was written.
func faulty(fails map[string]int) func(*http.Request) bool {
	var lock sync.Mutex
	left, wrote := maps.Clone(fails), false
	return func(r *http.Request) bool {
		lock.Lock()
		defer lock.Unlock()
		kind := ""
		switch {
		case r.Method == http.MethodPost:
			kind, wrote = "bind", true
		case r.Method == http.MethodDelete:
			kind, wrote = "unbind "+strings.Split(r.URL.Path, "/")[7], true
		case wrote && strings.HasSuffix(r.URL.Path, "/bindings/source"):
			kind = "read"
		}
		left[kind]--
		return left[kind] >= 0
	}
}

// A change that breaks off names the bindings that are there then, or may be. Else nobody removes one that is left, or
// the state names one that is gone.
func TestDestinationBrokenOff(t *testing.T) {
	t.Parallel()
	before := topologytest.ToQueue("d", "*.x", "old").OfDestination("one")
	after := topologytest.ToQueue("d", "*.x", "new").OfDestination("one")
	type bindings = []topology.Binding
	for name, test := range map[string]struct {
		own, there bindings // the state names the first of its own
		fails      map[string]int
		left       bindings
		isNew      bool
		doubtful   bool
	}{
		"create": {fails: map[string]int{"read": 1}},
		"create, not undone": {fails: map[string]int{"read": 1, "unbind new": 1},
			left: bindings{after}, isNew: true, doubtful: true},
		"nothing bound": {own: bindings{before}, fails: map[string]int{"bind": 1}, left: bindings{before}},
		"undone": {own: bindings{before}, fails: map[string]int{"unbind old": 1},
			left: bindings{before}},
		"not undone": {own: bindings{before}, fails: map[string]int{"unbind old": 1, "unbind new": 1},
			left: bindings{before, after}, doubtful: true},
		"too far to be undone": {own: bindings{before}, fails: map[string]int{"read": 1},
			left: bindings{after}, isNew: true},
		"nobody can look": {own: bindings{before}, fails: map[string]int{"read": 9},
			left: bindings{after}, isNew: true},
		"what it wants was there": {own: bindings{before, after}, fails: map[string]int{"unbind old": 9},
			left: bindings{before, after}},
		"what it wants is its own": {own: bindings{after}, there: bindings{}, fails: map[string]int{"read": 1},
			left: bindings{after}, isNew: true},
		"its own comes back": {own: bindings{after, before}, there: bindings{before},
			fails: map[string]int{"unbind old": 1}, left: bindings{before, after}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.declare(map[string]string{"d": "topic"}, map[string]topology.Arguments{"old": nil, "new": nil})
			if test.there == nil {
				test.there = test.own
			}
			w.bind(test.there...)
			options := engine.Options{Guard: plan.Guard{Force: true}}
			if len(test.own) > 0 {
				options.Named = test.own[0]
			}
			client := connect(t, w.broker, w.refusing(faulty(test.fails)))
			result, err := engine.New(client).Apply(t.Context(), w.change(of(test.own...), of(after), options))
			unfinished := as[*engine.UnfinishedError](t, err)
			var left topology.Bindings
			if result.There != nil {
				left = result.There.Bindings
			}
			if want := topology.NewBindings(test.left...); !maps.Equal(left, want) ||
				result.StartsFromAfter != test.isNew || (unfinished.Undo != nil) != test.doubtful {
				t.Errorf("left is %v, new %t: %v", left, result.StartsFromAfter, unfinished.Undo)
			}
			there, err := w.client.Vhost(w.vhost).BindingsFrom(t.Context(), "d")
			if !test.doubtful && !maps.Equal(topology.NewBindings(there...), left) || err != nil {
				t.Errorf("%v are there, not %v: %v", there, left, err)
			}
		})
	}
}

// An update breaks off, and the old binding has gone: by a request whose answer is lost, or by another application. The
// state names the rest.
func TestDestinationWithoutItsOld(t *testing.T) {
	t.Parallel()
	before := topologytest.ToQueue("d", "*.x", "old").OfDestination("one")
	after := topologytest.ToQueue("d", "*.x", "new").OfDestination("one")
	for at, want := range map[string]topology.Topology{http.MethodDelete: of(after), http.MethodPost: of()} {
		t.Run(at, func(t *testing.T) {
			w := newWorld(t)
			w.declare(map[string]string{"d": "topic"}, map[string]topology.Arguments{"old": nil, "new": nil})
			w.bind(before)
			var once sync.Once
			client := w.through(func(rw http.ResponseWriter, r *http.Request) (fails bool) {
				if r.Method == at {
					once.Do(func() {
						w.run(plan.Unbind{Binding: before})
						fails = answer(rw, r, "", "")
					})
				}
				return fails
			})
			result, err := engine.New(client).Apply(t.Context(), w.change(of(before), of(after),
				engine.Options{Named: before, Guard: plan.Guard{Force: true}}))
			is[*engine.UnfinishedError](t, err)
			isNew := len(want.Bindings) > 0
			if result.StartsFromAfter != isNew || isNew && !maps.Equal(result.There.Bindings, want.Bindings) {
				t.Errorf("left is %v, new %t", result.There, result.StartsFromAfter)
			}
			there, err := w.client.Vhost(w.vhost).BindingsFrom(t.Context(), "d")
			if err != nil || !maps.Equal(topology.NewBindings(there...), want.Bindings) {
				t.Errorf("%v are there, not %v: %v", there, want.Bindings, err)
			}
		})
	}
}

// The new binding is gone at once, alone or with the vhost, and nothing is in doubt. After a create, nothing is left.
// After an update, the state names the new binding all the same: the answer may have been an old one.
func TestDestinationThatGoes(t *testing.T) {
	t.Parallel()
	old := topologytest.ToQueue("d", "*.x", "old").OfDestination("one")
	b := topologytest.ToQueue("d", "*.x", "orders").OfDestination("one")
	for name, test := range map[string]struct {
		before    topology.Topology
		withVhost bool
	}{"create": {}, "update": {before: of(old)}, "create, with the vhost": {withVhost: true}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.declare(map[string]string{"d": "topic"}, map[string]topology.Arguments{"old": nil, "orders": nil})
			w.bind(test.before.Bindings.Sorted()...)
			reads := faulty(map[string]int{"read": 1})
			client := connect(t, w.broker, w.behind(func(r *http.Request) bool {
				if test.withVhost && reads(r) {
					w.deleteVhost()
				}
				return !test.withVhost && r.Method == http.MethodPost
			}, http.StatusCreated, ""))
			result, err := engine.New(client).Apply(t.Context(), w.change(test.before, of(b),
				engine.Options{Named: old, Guard: plan.Guard{Force: true}}))
			unfinished := as[*engine.UnfinishedError](t, err)
			isUpdate := len(test.before.Bindings) > 0
			if (result.There != nil) != isUpdate || result.StartsFromAfter != isUpdate || unfinished.Undo != nil {
				t.Errorf("left is %v, new %t: %v", result.There, result.StartsFromAfter, unfinished.Undo)
			}
			if !test.withVhost && !strings.Contains(err.Error(), "another application removed it") {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func (w *world) deleteVhost() {
	r, err := http.NewRequestWithContext(w.Context(), http.MethodDelete, w.broker.Endpoint+"/api/vhosts/"+w.vhost, nil)
	if err != nil {
		w.Error(err)
		return
	}
	r.SetBasicAuth(w.broker.Username, w.broker.Password)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		w.Error(err)
		return
	}
	_ = answer.Body.Close()
}

// An update says that its binding was gone, which its plan did not know. It looks for no messages where they have
// another way, so it needs no list then.
func TestUpdateOfADestination(t *testing.T) {
	w := newWorld(t)
	w.declare(map[string]string{"d": "topic"}, map[string]topology.Arguments{"orders": nil})
	plain := topologytest.ToQueue("d", "*.x", "orders")
	marked := plain.OfDestination("one")
	unlisted := engine.New(connect(t, w.broker, w.listsNothing()))
	for _, there := range []bool{true, false} {
		if there {
			w.bind(plain)
		}
		result, err := unlisted.Apply(t.Context(), w.change(of(plain), of(marked), engine.Options{Named: plain}))
		want := map[bool]string{true: "", false: "Gone"}[there]
		if got := words(result.Problems); err != nil || got != want || !maps.Equal(result.There.Bindings,
			of(marked).Bindings) {
			t.Errorf("%q, want %q: %v", got, want, err)
		}
		w.run(plan.Unbind{Binding: marked})
	}
}

// Of its bindings, a destination has those that are there, and those that a killed update has left.
func TestFindBindings(t *testing.T) {
	w := newWorld(t)
	w.declare(map[string]string{"d": "topic", "e": "topic"}, map[string]topology.Arguments{"q": nil})
	to := func(key string) topology.Binding { return topologytest.ToQueue("d", key, "q").OfDestination("one") }
	gone, a, b, c := to("*.gone"), to("*.a"), to("*.b"), to("*.c")
	theirs := topologytest.ToQueue("d", "*.a", "q").OfDestination("other")
	elsewhere := topologytest.ToQueue("e", "*.a", "q").OfDestination("one")
	w.bind(a, b, c, theirs, elsewhere)
	type bindings = []topology.Binding
	for name, test := range map[string]struct{ own, want bindings }{
		"none":                              {bindings{gone}, bindings{}},
		"the first, and others of its mark": {bindings{a}, bindings{a, b, c}},
		"the first, and others known":       {bindings{b, a, elsewhere}, bindings{b, a, elsewhere, c}},
		"the first is gone":                 {bindings{gone, a}, bindings{a}},
		"the first of several is gone":      {bindings{gone, a, b}, bindings{b, a}},
		"the first of many is gone":         {bindings{gone, a, elsewhere, b}, bindings{b, a, elsewhere}},
	} {
		there, found, err := engine.FindBindings(t.Context(), w.client.Vhost(w.vhost), test.own, "one")
		if err != nil || !slices.Equal(found, test.want) || !there.Has(theirs) {
			t.Errorf("%s: %v, want %v; there are %v: %v", name, found, test.want, there, err)
		}
	}
	closed := connect(t, w.broker, w.refusing(func(*http.Request) bool { return true })).Vhost(w.vhost)
	if there, found, err := engine.FindBindings(t.Context(), closed, bindings{a}, "one"); err == nil || there != nil {
		t.Errorf("without a look, there are %v and %v", there, found)
	}
}

package engine_test

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/drain"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan/plantest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology/topologytest"
)

// asks are the requests of a method with a part in their paths.
type asks struct{ method, part string }

func (a asks) is(r *http.Request) bool {
	return r.Method == a.method && a.part != "" && strings.Contains(r.URL.Path+"/", a.part)
}

// fault is a request that is refused, or said to be done. Afterwards no request of others is answered.
type fault struct {
	at        asks
	pretends  bool
	silences  []asks
	meanwhile plan.Step // others do this just before the request
}

// with is the broker with a fault.
func (w *world) with(f fault) *engine.Engine {
	w.Helper()
	var struck atomic.Bool
	status, answer := http.StatusBadRequest, `{"error":"bad_request","reason":"no more today"}`
	if f.pretends {
		status, answer = http.StatusCreated, ""
	}
	silent := w.refusing(func(r *http.Request) bool {
		return struck.Load() && slices.ContainsFunc(f.silences, func(a asks) bool { return a.is(r) })
	})
	front := *w.broker
	front.Endpoint = silent
	behind := *w
	behind.broker = &front
	return engine.New(connect(w.T, w.broker, behind.behind(func(r *http.Request) bool {
		if !f.at.is(r) {
			return false
		}
		if struck.CompareAndSwap(false, true) && f.meanwhile != nil {
			w.run(f.meanwhile)
		}
		return f.meanwhile == nil
	}, status, answer)))
}

// reads are all requests that change nothing, and refused is what the answer to a refused one says.
var reads = []asks{{http.MethodGet, "/"}}

const refused = "no more today"

// all are the exchanges, queues and bindings of the topology that there are.
func (w *world) all(t topology.Topology) topology.Topology {
	w.Helper()
	state, err := w.client.Vhost(w.vhost).Read(w.Context(), t)
	if err != nil {
		w.Fatal(err)
	}
	return state.Topology
}

// A create that fails takes back its delivery exchange, and leaves that of others. It names what others have declared
// meanwhile, and all that may be there if nobody can read it.
func TestCreateThatFails(t *testing.T) {
	t.Parallel()
	desired := levels(t, 2)
	delivery, queue := desired.Exchanges[desired.Delivery], desired.Queues["t.delay-00"]
	opens := asks{http.MethodPost, "/e/" + desired.Entry + "/"}
	for name, test := range map[string]struct {
		there  plan.Step
		fault  fault
		others string
		isLeft bool
		count  int
	}{
		"taken back":             {fault: fault{at: opens}},
		"others' delivery stays": {there: plan.DeclareExchange{Exchange: delivery}, fault: fault{at: opens}, count: 1},
		"others declare a queue": {fault: fault{at: asks{http.MethodPut, "/" + queue.Name + "/"},
			meanwhile: plan.DeclareQueue{Queue: queue}}, others: `queue "t.delay-00"`, count: 1},
		"nobody can read or undo": {fault: fault{at: opens, silences: append(reads, asks{http.MethodDelete, "/"})},
			isLeft: true, count: len(desired.Exchanges) + len(desired.Queues)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if test.there != nil {
				w.run(test.there)
			}
			result, err := w.with(test.fault).Apply(t.Context(), w.change(nothing, desired, engine.Options{}))
			broken := as[*engine.NotCreatedError](t, err)
			if result.There != broken.Left || (broken.Left != nil) != test.isLeft ||
				test.isLeft && !broken.Left.SameObjects(desired) {
				t.Errorf("left is %v", broken.Left)
			}
			if got := strings.Join(broken.Others, ", "); got != test.others || broken.OthersErr != nil {
				t.Errorf("others have declared %q: %v", got, broken.OthersErr)
			}
			if got := w.count(desired); got != test.count {
				t.Errorf("%d objects are there", got)
			}
		})
	}
}

// An update that fails says which objects are there then, and from which topology the next change starts.
func TestUpdatesThatFail(t *testing.T) {
	t.Parallel()
	before, after := plantest.ExpandLadder(t, "1s", "1h"), plantest.ExpandLadder(t, "1s", "2h")
	common := after.Minus(after.Extras(before))
	var queue topology.Queue
	for _, queue = range after.Extras(before).Queues {
	}
	own := topologytest.ToQueue("", "", "")
	for b := range after.Bindings {
		if b.Destination == queue.Name {
			own = b
		}
	}
	declares, binds := asks{http.MethodPut, "/" + queue.Name + "/"}, asks{http.MethodPost, "/q/" + queue.Name + "/"}
	gone, unbound := plan.DeleteQueue{Queue: queue}, plan.Unbind{Binding: own}
	for name, test := range map[string]struct {
		before topology.Topology
		damage plan.Step
		fault  fault
		isNew  bool
		there  topology.Topology
		text   string
	}{
		"a queue comes and one goes": {before, nil, fault{at: declares}, true, common, refused},
		"nobody can read":            {before, nil, fault{at: declares, silences: reads}, true, common, refused},
		"a repair":                   {after, gone, fault{at: declares}, false, common, refused},
		"nobody can read a repair":   {after, gone, fault{at: declares, silences: reads}, false, common, refused},
		"a binding is not made": {after, unbound, fault{at: binds, pretends: true}, true, after,
			"another application changed the cascade meanwhile; still to be done: bind"},
		"nobody can read in the end": {after, unbound, fault{at: binds, pretends: true, silences: reads}, false, after,
			refused},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.create(test.before)
			if test.damage != nil {
				w.run(test.damage)
			}
			result, err := w.with(test.fault).Apply(t.Context(), w.change(test.before, after, engine.Options{}))
			if err == nil || !strings.Contains(err.Error(), test.text) {
				t.Fatal(err)
			}
			if result.StartsFromAfter != test.isNew || result.There == nil || !result.There.SameObjects(test.there) {
				t.Errorf("new: %t, there is %v", result.StartsFromAfter, result.There)
			}
			if _, err := w.apply(test.before, after, engine.Options{}); err != nil {
				t.Errorf("the next update: %v", err)
			}
		})
	}
}

// An update that takes over what another one owns deletes the queues that go, too. It refuses what check.go refuses.
func TestUpdateTakesOver(t *testing.T) {
	w := newWorld(t)
	before, after := plantest.ExpandLadder(t, "1s", "1h"), plantest.ExpandLadder(t, "1s", "2h")
	w.create(before.WithOwner("a"))
	before, after = before.WithOwner("b"), after.WithOwner("b")
	is[*engine.OwnerError](t, second(w.apply(before, after, engine.Options{})))
	result, err := w.apply(before, after, engine.Options{Adopt: true})
	if err != nil || !result.StartsFromAfter || w.count(before.Extras(after)) > 0 {
		t.Error(result, err)
	}
	if there := w.all(after); len(there.Owners) != 1 || after.IsOfOthers(there) {
		t.Errorf("the owners are %v", there.Owners)
	}
}

// strangers declares the exchange feed and the queue application.
func (w *world) strangers() {
	w.Helper()
	w.run(plan.DeclareExchange{Exchange: topology.Exchange{Name: "feed", Type: "topic", Durable: true}})
	w.run(plan.DeclareQueue{Queue: topology.Queue{Name: "application", Durable: true}})
}

// among is a topology on the broker, with what others have bound to it and it to others.
func (w *world) among(t topology.Topology) (feeds, delivers []topology.Binding) {
	w.Helper()
	w.create(t)
	w.strangers()
	feeds = []topology.Binding{topologytest.ToExchange("feed", "#", t.Entry),
		topologytest.ToExchange("feed", "lowest.#", "t.delay-00"), topologytest.ToExchange("feed", "end.#", t.Delivery),
		topologytest.ToQueue("feed", "queue.#", "t.delay-00")}
	delivers = []topology.Binding{topologytest.ToQueue(t.Delivery, "#.address", "application")}
	for _, b := range slices.Concat(feeds, delivers) {
		w.run(plan.Bind{Binding: b})
	}
	return feeds, delivers
}

// mustBind makes sure of all bindings of an exchange.
func (w *world) mustBind(source string, want []topology.Binding) {
	w.Helper()
	there, err := w.client.Vhost(w.vhost).BindingsFrom(w.Context(), source)
	if err != nil || fmt.Sprint(topology.NewBindings(there...).Sorted()) !=
		fmt.Sprint(topology.NewBindings(want...).Sorted()) {
		w.Errorf("exchange %q has bound %v: %v", source, there, err)
	}
}

// What others have bound to objects is there when these have been recreated.
func TestBindingsOfOthersStay(t *testing.T) {
	t.Parallel()
	before := levels(t, 3)
	rebuilt := plantest.Expand(t, delay.Config{Name: "t", Levels: 3, StrictKeys: true, CreateDeliveryExchange: true,
		QueueType: delay.Classic})
	for name, test := range map[string]struct {
		after   topology.Topology
		options engine.Options
		others  []plan.Step
	}{
		"rebuild": {rebuilt, engine.Options{Rebuild: true}, nil},
		"repair": {before, engine.Options{}, []plan.Step{plan.DeleteQueue{Queue: before.Queues["t.delay-00"]},
			plan.DeclareQueue{Queue: topology.Queue{Name: "t.delay-00", Durable: true}},
			plan.Bind{Binding: topologytest.ToQueue("feed", "queue.#", "t.delay-00")}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			feeds, delivers := w.among(before)
			for _, step := range test.others {
				w.run(step)
			}
			result, err := w.apply(before, test.after, test.options)
			if err != nil || !result.StartsFromAfter || !result.There.SameObjects(test.after) {
				t.Error(result, err)
			}
			w.mustBind("feed", feeds)
			w.mustBind(before.Delivery, delivers)
		})
	}
}

// A rebuild to other names says which objects are there at the end. It says who uses the delivery exchange before.
func TestRebuildToOtherNames(t *testing.T) {
	t.Parallel()
	before := levels(t, 2)
	after := plantest.Expand(t, delay.Config{Name: "t", Levels: 2, StrictKeys: true, ParkUnroutable: true,
		CreateDeliveryExchange: true, DeliveryExchange: "other", QueueName: "q%d"})
	opened := asks{http.MethodPost, "/e/" + after.Entry + "/q/"}
	const used = `queue "application", bound with key "#.address"`
	all, none, possible := after, topology.Topology{}, plan.Union(before, after)
	for name, test := range map[string]struct {
		isUsed, isFed, forced bool
		fault                 fault
		isNew                 bool
		there                 topology.Topology
		users, text           string
		left                  int // of the objects before
	}{
		"nobody uses it": {isNew: true, there: all},
		"used":           {isUsed: true, isNew: true, there: all, users: used, left: 1},
		"an exchange leads there": {isFed: true, isNew: true, there: all, left: 1,
			users: `exchange "feed", bound to it with key "end.#"`},
		"used, but forced": {isUsed: true, forced: true, isNew: true, there: all},
		"it is not deleted": {fault: fault{at: asks{http.MethodDelete, "/" + before.Delivery + "/"}}, isNew: true,
			there: all, text: refused, left: 1},
		"the entry does not open": {isUsed: true, fault: fault{at: opened, pretends: true}, isNew: true, there: all,
			users: used, text: "another application changed the cascade meanwhile", left: 1},
		"a queue does not go": {fault: fault{at: asks{http.MethodDelete, "/queues/"}, pretends: true},
			there: before.Union(after), text: "t.delay-00", left: 3},
		"nobody can read the new ones": {isUsed: true, fault: fault{at: opened, pretends: true,
			silences: []asks{{http.MethodGet, "/q0/"}}}, isNew: true, there: possible, users: used, text: refused,
			left: 1},
		"nobody can read the old ones": {isUsed: true, fault: fault{at: opened, pretends: true, silences: reads},
			isNew: true, there: possible, text: refused, left: 1},
		"nobody can read what is bound": {fault: fault{at: asks{http.MethodGet, "/bindings/destination"}},
			text: refused, left: 3},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.create(before)
			w.strangers()
			if test.isUsed {
				w.run(plan.Bind{Binding: topologytest.ToQueue(before.Delivery, "#.address", "application")})
			}
			if test.isFed {
				w.run(plan.Bind{Binding: topologytest.ToExchange("feed", "end.#", before.Delivery)})
			}
			result, err := w.with(test.fault).Apply(t.Context(), w.change(before, after,
				engine.Options{Rebuild: true, Guard: plan.Guard{Force: test.forced}}))
			if (err != nil) != (test.text != "") || err != nil && !strings.Contains(err.Error(), test.text) {
				t.Error(err)
			}
			there := *cmp.Or(result.There, &none)
			if got := strings.Join(result.Users, ", "); result.StartsFromAfter != test.isNew ||
				!there.SameObjects(test.there) || got != test.users {
				t.Errorf("new: %t, used by %q, there is beside it %v, missing %v", result.StartsFromAfter, got,
					there.Minus(test.there), test.there.Minus(there))
			}
			if got := w.count(before.Minus(after)); got != test.left {
				t.Errorf("of the objects before, %d are there", got)
			}
		})
	}
}

// A rebuild that fails tells whether it has begun.
func TestRebuildThatHasBegun(t *testing.T) {
	w := newWorld(t)
	before := levels(t, 2)
	after := plantest.Expand(t, delay.Config{Name: "t", Levels: 2, StrictKeys: true, CreateDeliveryExchange: true})
	w.create(before)
	w.publish(before.Entry, "malformed") // parked, in a queue that is to go
	opens := fault{at: asks{http.MethodPost, "/e/" + before.Entry + "/q/"}}
	for _, begun := range []bool{false, true} {
		_, err := w.with(opens).Apply(t.Context(), w.change(before, after,
			engine.Options{Rebuild: true, Guard: plan.Guard{Force: begun}}))
		if removed := as[*engine.NotRemovedError](t, err); removed.Begun != begun {
			t.Errorf("begun: %t, after %v", removed.Begun, err)
		}
	}
}

// A queue that holds a message stays, and the error says how many there are, if that can be counted. An empty one goes,
// and one that may hold messages.
func TestDeletionOfAQueue(t *testing.T) {
	w := newWorld(t)
	for _, kind := range []string{"classic", "quorum"} {
		q := topology.Queue{Name: kind, Durable: true, Arguments: topology.Arguments{"x-queue-type": kind}}
		deletes := func(e *rabbit.Client, step plan.Step) error {
			done, err := engine.Run(t.Context(), e.Vhost(w.vhost), plan.Plan{{Steps: []plan.Step{step}}})
			if (err == nil) != (len(done) > 0) {
				t.Errorf("%v has done %v: %v", step, done, err)
			}
			return err
		}
		ifEmpty := plan.DeleteQueue{Queue: q, IfEmpty: true}
		w.run(plan.DeclareQueue{Queue: q})
		if err := deletes(w.client, ifEmpty); err != nil {
			t.Error(err)
		}
		w.run(plan.DeclareQueue{Queue: q})
		w.publish("", kind)
		waiting := as[*drain.NotEmptyError](t, deletes(w.client, ifEmpty))
		if len(waiting.Queues) != 1 || waiting.Queues[0].Messages != 1 {
			t.Errorf("in a %s queue there wait %v", kind, waiting.Queues)
		}
		if err := deletes(w.client, plan.DeleteQueue{Queue: q}); err != nil {
			t.Error(err)
		}
	}
}

// Only a lack of permission counts when a step is tried that is done already, and only other owners count in a look for
// owners.
func TestLooksBeforeAChange(t *testing.T) {
	w := newWorld(t)
	a := levels(t, 2).WithOwner("a")
	b := a.WithOwner("b")
	w.create(a)
	policy := plan.SetPolicy{Policy: topology.Policy{Name: "p", Pattern: "^t$", ApplyTo: "exchanges",
		Definition: topology.Arguments{"alternate-exchange": "x"}}}
	allowed := plan.VerifyAllowed{Step: plan.Bind{Binding: a.Bindings.Sorted()[0]}}
	puts, reads := asks{http.MethodPost, "/api/bindings/"}, asks{http.MethodGet, "/api/exchanges/"}
	who := asks{http.MethodGet, "/api/whoami"}
	const forbidden = `{"error":"not_authorized","reason":"no"}`
	for name, test := range map[string]struct {
		step   plan.Step
		at     asks
		status int
		answer string
		want   string
	}{
		"allowed":   {step: allowed},
		"forbidden": {allowed, puts, http.StatusForbidden, forbidden, "make sure of the permission to bind"},
		"it fails":  {allowed, puts, http.StatusBadRequest, forbidden, ""},
		"may set":   {step: plan.VerifyAllowed{Step: policy}},
		"may not set": {plan.VerifyAllowed{Step: policy}, who, http.StatusOK, `{"tags":["management"]}`,
			`set policy "p"`},
		"its own": {step: plan.VerifyOwner{Of: a}}, "others": {step: plan.VerifyOwner{Of: b}, want: "owns"},
		"nobody knows": {plan.VerifyOwner{Of: a}, reads, http.StatusBadRequest, "{}", "400"},
	} {
		client := connect(t, w.broker, w.behind(test.at.is, test.status, test.answer))
		_, err := engine.Run(t.Context(), client.Vhost(w.vhost), plan.Plan{{Steps: []plan.Step{test.step}}})
		if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	there, err := w.client.Vhost(w.vhost).DeclaredPolicies(t.Context())
	if err != nil || len(there.Users) > 0 {
		t.Errorf("a look has set policies: %v, %v", there, err)
	}
}

// What the state has is there when its replacement is planned, and is no reason to refuse it.
func TestPreviewOfAReplacement(t *testing.T) {
	w := newWorld(t)
	desired := levels(t, 2)
	w.create(desired)
	for _, own := range []topology.Topology{desired, nothing} {
		err := refusal(engine.New(w.client).Preview(t.Context(), w.change(nothing, desired,
			engine.Options{Replaces: true, Own: own})))
		if (err != nil) != own.IsEmpty() {
			t.Error(err)
		}
	}
	// The bindings of others that go with it are said of its destroy.
	w.declare(map[string]string{"app": "fanout"}, nil)
	w.bind(topologytest.ToQueue("app", "", "t.delay-00"))
	another := plantest.Expand(t, delay.Config{Name: "another", Levels: 2, CreateDeliveryExchange: true})
	if problems := engine.New(w.client).Preview(t.Context(), w.change(desired, another,
		engine.Options{Replaces: true, Own: desired})); len(problems) > 0 {
		t.Errorf("the plan says %s", words(problems))
	}
}

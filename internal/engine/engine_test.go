package engine_test

import (
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/drain"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan/plantest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology/topologytest"
)

func TestMain(m *testing.M) { brokertest.Main(m) }

// world is a vhost of the shared broker.
type world struct {
	*testing.T
	broker *brokertest.Broker
	client *rabbit.Client
	vhost  string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	b := brokertest.Shared(t)
	return &world{t, b, connect(t, b, b.Endpoint), brokertest.Vhost(t, b)}
}

func connect(t *testing.T, b *brokertest.Broker, endpoint string) *rabbit.Client {
	t.Helper()
	client, err := rabbit.New(rabbit.Config{Endpoint: endpoint, Username: b.Username, Password: b.Password,
		AMQPURI: b.AMQPURI, RetryTimeout: 5 * time.Second, BindsAtOnce: true})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// levels is a cascade of so many levels.
func levels(t *testing.T, n int) topology.Topology {
	return plantest.Expand(t, delay.Config{Name: "t", Levels: n, StrictKeys: true, ParkUnroutable: true,
		CreateDeliveryExchange: true})
}

// change is one from the topology before, which is empty for a create, to the one after, which is empty for a destroy.
func (w *world) change(before, after topology.Topology, options engine.Options) engine.Change {
	return engine.Change{Kind: "cascade", Vhost: w.vhost, Before: before, After: after, Options: options}
}

// apply makes a change in a run of its own: with turns that no other change waits for.
func (w *world) apply(before, after topology.Topology, options engine.Options) (engine.Result, error) {
	return engine.New(w.client).Apply(w.Context(), w.change(before, after, options))
}

var nothing topology.Topology

// create makes the topology.
func (w *world) create(desired topology.Topology) {
	w.Helper()
	result, err := w.apply(nothing, desired, engine.Options{})
	if err != nil {
		w.Fatal(err)
	}
	if steps := plan.Repair(desired, result.State.Topology).Steps(); len(steps) > 0 {
		w.Fatalf("after a create these steps are left: %v", steps)
	}
}

// run does a step that others do.
func (w *world) run(step plan.Step) {
	w.Helper()
	steps := plan.Plan{{Steps: []plan.Step{step}}}
	if _, err := engine.Run(w.Context(), w.client.Vhost(w.vhost), steps); err != nil {
		w.Fatal(err)
	}
}

func refusal(problems []engine.Problem) error {
	for _, p := range problems {
		if p.Code == engine.Refused {
			return p.Cause
		}
	}
	return nil
}

// count is how many exchanges and queues there are of the topology.
func (w *world) count(t topology.Topology) int {
	w.Helper()
	state, err := w.client.Vhost(w.vhost).Read(w.Context(), t)
	if err != nil {
		w.Fatal(err)
	}
	return len(state.Exchanges) + len(state.Queues)
}

func (w *world) publish(exchange, key string) {
	w.Helper()
	connection, err := w.broker.Dial(w.vhost)
	if err != nil {
		w.Fatal(err)
	}
	defer connection.Close()
	publisher, err := brokertest.NewPublisher(connection)
	if err == nil {
		err = publisher.Publish(w.Context(), exchange, key, amqp.Publishing{DeliveryMode: amqp.Persistent})
	}
	if err != nil {
		w.Fatal(err)
	}
}

// as is the error as one of a type.
func as[E error](t *testing.T, err error) E {
	t.Helper()
	var found E
	if !errors.As(err, &found) {
		t.Fatalf("the error is %v, of type %T; want a %T", err, err, found)
	}
	return found
}

// is makes sure that the error is one of a type.
func is[E error](t *testing.T, err error) {
	t.Helper()
	_ = as[E](t, err)
}

func TestCreate(t *testing.T) {
	w := newWorld(t)
	desired := levels(t, 3)
	w.create(desired)
	whole := w.count(desired)

	for what, err := range map[string]error{
		"preview": refusal(engine.New(w.client).Preview(t.Context(), w.change(nothing, desired, engine.Options{}))),
		"create":  second(w.apply(nothing, desired, engine.Options{})),
	} {
		exists := as[*engine.ExistsError](t, err)
		if len(exists.Different) > 0 || len(exists.Equal) != whole-1 {
			t.Errorf("%s: these are said to exist, %q, and these to differ, %q; there are %d beside the delivery "+
				"exchange", what, exists.Equal, exists.Different, whole-1)
		}
	}
	if _, err := w.apply(nothing, desired, engine.Options{Adopt: true}); err != nil {
		t.Errorf("a create that adopts what is there: %v", err)
	}
	other := levels(t, 2)
	other.Entry = desired.Entry
	other.Queues = map[string]topology.Queue{"t.delay-00": {Name: "t.delay-00", Durable: true}}
	exists := as[*engine.ExistsError](t, second(w.apply(nothing, other, engine.Options{Adopt: true})))
	if !slices.ContainsFunc(exists.Different, func(text string) bool {
		return strings.HasPrefix(text, `queue "t.delay-00": `)
	}) {
		t.Errorf("these are said to differ: %q", exists.Different)
	}
	if left := w.count(desired); left != whole {
		t.Errorf("after creates that were refused there are %d objects, not %d", left, whole)
	}

	result, err := w.apply(desired, nothing, engine.Options{})
	if err != nil || len(result.Users) > 0 {
		t.Fatal(result, err)
	}
	if left := w.count(desired); left > 0 {
		t.Errorf("a destroy has left %d objects", left)
	}
}

func second[T any](_ T, err error) error { return err }

// refusing is the address of a gateway before the broker, which refuses some requests.
func (w *world) refusing(refuses func(*http.Request) bool) string {
	return w.behind(refuses, http.StatusBadRequest, `{"error":"bad_request","reason":"no more today"}`)
}

// behind is the address of a gateway before the broker, which answers some requests by itself.
func (w *world) behind(isAnswered func(*http.Request) bool, status int, answer string) string {
	forward, err := w.broker.Forward()
	if err != nil {
		w.Fatal(err)
	}
	gateway := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !isAnswered(r) {
			forward.ServeHTTP(rw, r)
			return
		}
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(status)
		_, _ = rw.Write([]byte(answer))
	}))
	w.Cleanup(gateway.Close)
	return gateway.URL
}

// A create that fails at its last step leaves nothing, and says so. Where it cannot take anything back, it names the
// leftovers.
func TestCreateIsTakenBack(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		deletes bool
		stays   bool
	}{"taken back": {true, false}, "not taken back": {false, true}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			desired := levels(t, 2)
			client := connect(t, w.broker, w.refusing(func(r *http.Request) bool {
				isEntry := r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/"+desired.Entry)
				return isEntry || r.Method == http.MethodDelete && !test.deletes
			}))
			result, err := engine.New(client).Apply(t.Context(), w.change(nothing, desired, engine.Options{}))
			broken := as[*engine.NotCreatedError](t, err)
			if result.There != broken.Left {
				t.Errorf("the result has %v, and the error %v", result.There, broken.Left)
			}
			if !strings.Contains(broken.Error(), "no more today") {
				t.Errorf("the error is %q", broken)
			}
			if stays := broken.Left != nil; stays != test.stays || (broken.Undo != nil) != test.stays {
				t.Errorf("left is %v, because of %v", broken.Left, broken.Undo)
			}
			if left := w.count(desired); (left > 0) != test.stays {
				t.Errorf("%d objects are left", left)
			}
		})
	}
}

func TestDestroyWhileMessagesWait(t *testing.T) {
	w := newWorld(t)
	desired := levels(t, 4)
	w.create(desired)
	whole := w.count(desired)
	w.declare(map[string]string{"app": "fanout"}, nil)
	w.bind(topology.Binding{Source: "app", DestinationType: topology.ToExchange, Destination: desired.Entry})
	unreadable := connect(t, w.broker, w.refusing(func(*http.Request) bool { return true }))
	err := second(engine.New(unreadable).Apply(t.Context(), w.change(desired, nothing, engine.Options{})))
	if removed := as[*engine.NotRemovedError](t, err); removed.Begun {
		t.Errorf("a destroy that reads nothing has begun: %v", err)
	}
	w.publish(desired.Entry, "1.0.0.0.somebody") // eight seconds, more than a busy machine takes to refuse
	err = second(w.apply(desired, nothing, engine.Options{}))
	removed, waiting := as[*engine.NotRemovedError](t, err), as[*drain.NotEmptyError](t, err)
	if !removed.Of.SameObjects(desired) || removed.Begun || len(waiting.Queues) != 1 ||
		waiting.Queues[0].Name != "t.delay-03" {
		t.Errorf("the error names %v, begun is %t", waiting.Queues, removed.Begun)
	}
	if left := w.count(desired); left != whole {
		t.Errorf("after a destroy that was refused there are %d objects, not %d", left, whole)
	}
	// With nobody bound the message is parked, where it stays.
	err = second(w.apply(desired, nothing, engine.Options{Guard: plan.Guard{Drain: time.Minute}}))
	if waiting := as[*drain.NotEmptyError](t, err); slices.ContainsFunc(waiting.Queues,
		func(q drain.QueueDepth) bool { return desired.Queues[q.Name].Delays() }) {
		t.Errorf("after the drain, messages wait in %v", waiting.Queues)
	}
	if left := w.count(desired); left != whole {
		t.Errorf("after a destroy that was refused there are %d objects, not %d", left, whole)
	}
	if theirs, err := w.client.Vhost(w.vhost).BindingsFrom(t.Context(), "app"); err != nil || len(theirs) != 1 {
		t.Errorf("of an application, %v is left: %v", theirs, err)
	}
	if _, err := w.apply(desired, nothing, engine.Options{Guard: plan.Guard{Force: true}}); err != nil {
		t.Fatal(err)
	}
	if left := w.count(desired); left > 0 {
		t.Errorf("a destroy has left %d objects", left)
	}
}

// A destroy leaves the delivery exchange to an application that has bound its queue there, and names it, unless the
// destroy is forced. A look that fails is an error.
func TestDestroyOfADeliveryExchange(t *testing.T) {
	t.Parallel()
	const audit = `queue "audit", bound with key "#"`
	for name, test := range map[string]struct {
		fails, forced bool
		want          string
		left          int
	}{
		"in use": {want: audit, left: 1}, "in use, forced": {forced: true},
		"nobody knows": {fails: true, want: "error", left: 1}, "nobody asks, forced": {fails: true, forced: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			desired := levels(t, 2)
			w.create(desired)
			w.run(plan.DeclareQueue{Queue: topology.Queue{Name: "audit", Durable: true}})
			w.run(plan.Bind{Binding: topologytest.ToQueue(desired.Delivery, "#", "audit")})
			var deletes atomic.Bool
			client := connect(t, w.broker, w.refusing(func(r *http.Request) bool {
				if r.Method == http.MethodDelete && strings.HasPrefix(r.URL.Path, "/api/queues/") {
					deletes.Store(true)
				}
				return test.fails && deletes.Load() &&
					strings.HasSuffix(r.URL.Path, desired.Delivery+"/bindings/source")
			}))
			result, err := engine.New(client).Apply(t.Context(), w.change(desired, nothing,
				engine.Options{Guard: plan.Guard{Force: test.forced}}))
			got := strings.Join(result.Users, ", ")
			if err != nil {
				is[*engine.DeliveryLeftError](t, err)
				got = "error"
			}
			if left := w.count(desired); got != test.want || left != test.left {
				t.Errorf("%d objects are left, and the delivery exchange is used by %q", left, got)
			}
		})
	}
}

// RabbitMQ says that an exchange is deleted, and it is not. A destroy names the exchange.
func TestDestroyThatLeavesAnExchange(t *testing.T) {
	w := newWorld(t)
	desired := levels(t, 2)
	w.create(desired)
	client := connect(t, w.broker, w.behind(func(r *http.Request) bool {
		return r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/t.delay-00")
	}, http.StatusNoContent, ""))
	_, err := engine.New(client).Apply(t.Context(), w.change(desired, nothing, engine.Options{}))
	if left := as[*engine.LeftError](t, err); !left.Objects.Has("t.delay-00") {
		t.Errorf("left are %v", left.Objects)
	}
	if removed := as[*engine.NotRemovedError](t, err); !removed.Begun {
		t.Errorf("nothing has begun: %v", err)
	}
}

func TestRebuild(t *testing.T) {
	w := newWorld(t)
	before := levels(t, 3)
	desired := plantest.Expand(t, delay.Config{Name: "t", Levels: 3, StrictKeys: true, ParkUnroutable: true,
		CreateDeliveryExchange: true, QueueType: delay.Classic})
	w.create(before)
	w.publish(before.Entry, "1.0.0.somebody")
	outcome, err := w.apply(before, desired, engine.Options{Rebuild: true})
	is[*engine.NotRemovedError](t, err)
	is[*drain.NotEmptyError](t, err)
	if outcome.There != nil || outcome.StartsFromAfter {
		t.Errorf("after a rebuild that was refused, there is %v", outcome)
	}
	outcome, err = w.apply(before, desired, engine.Options{Rebuild: true, Guard: plan.Guard{Force: true}})
	if err != nil || !outcome.StartsFromAfter || !outcome.There.SameObjects(desired) {
		t.Fatal(outcome, err)
	}
}

// A rebuild that ends the parking of unroutable messages breaks off. Its undo brings the parking queue back, and nobody
// can read the objects. The state is not to be that of the new configuration, which knows no such queue.
func TestRebuildThatIsBrokenOff(t *testing.T) {
	t.Parallel()
	for name, isUndone := range map[string]bool{"undone": true, "undone in part": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			before := levels(t, 2)
			desired := plantest.Expand(t, delay.Config{Name: "t", Levels: 2, StrictKeys: true,
				CreateDeliveryExchange: true, QueueType: delay.Classic})
			w.create(before)
			overHTTP := *w.broker
			overHTTP.AMQPURI = ""
			refuses := opening(w.vhost, before.Entry, isUndone)
			client := connect(t, &overHTTP, w.refusing(func(r *http.Request) bool {
				return refuses(r) || strings.Contains(r.URL.Path, "/cluster-name") // which AMQP takes
			}))
			outcome, err := engine.New(client).Apply(t.Context(),
				w.change(before, desired, engine.Options{Rebuild: true}))
			is[*engine.NotRemovedError](t, err)
			if outcome.StartsFromAfter || (outcome.There == nil) != isUndone {
				t.Fatalf("the state names %v, and is new: %t", outcome.There, outcome.StartsFromAfter)
			}
			if left := w.count(before.Extras(desired)); left != 1 {
				t.Errorf("of the queue for unroutable messages, %d are there", left)
			}
			if _, err := w.apply(before, desired, engine.Options{Rebuild: true}); err != nil {
				t.Fatal(err)
			}
			if left := w.count(before.Extras(desired)); left > 0 {
				t.Errorf("%d objects that had to go are there", left)
			}
		})
	}
}

// opening refuses to bind the entry: at first, and in the undo unless that may. From then on it refuses to be read.
func opening(vhost, entry string, mayUndo bool) func(*http.Request) bool {
	var closed atomic.Int32 // how often the entry was deleted: once by the rebuild, and once by its undo
	var isOver atomic.Bool
	return func(r *http.Request) bool {
		if r.Method == http.MethodDelete && r.URL.Path == "/api/exchanges/"+vhost+"/"+entry {
			closed.Add(1)
		}
		if r.Method == http.MethodPost && strings.Contains(r.URL.Path, "/e/"+entry+"/") {
			isOver.Store(closed.Load() > 1)
			return !isOver.Load() || !mayUndo
		}
		return r.Method == http.MethodGet && isOver.Load()
	}
}

// A ladder gets and loses queues while the rest stays.
func TestUpdate(t *testing.T) {
	w := newWorld(t)
	before, desired := plantest.ExpandLadder(t, "1s", "1h"), plantest.ExpandLadder(t, "1s", "2h")
	w.create(before)
	for b := range before.Bindings {
		if b.Source == before.Entry && strings.Contains(b.Destination, "1h") {
			w.publish(before.Entry, strings.ReplaceAll(b.RoutingKey, "#", "somebody"))
		}
	}
	outcome, err := w.apply(before, desired, engine.Options{})
	if removed := as[*engine.NotRemovedError](t, err); len(removed.Of.Queues) != 1 || removed.Of.IsWhole() {
		t.Errorf("to be removed were %v", removed.Of)
	}
	if outcome.There != nil {
		t.Errorf("after an update that was refused, there is %v", outcome)
	}
	outcome, err = w.apply(before, desired, engine.Options{Guard: plan.Guard{Force: true}})
	if err != nil || !outcome.StartsFromAfter || !outcome.State.SameObjects(desired) {
		t.Fatal(outcome, err)
	}
	if left := w.count(before.Extras(desired)); left > 0 {
		t.Errorf("%d queues that had to go are there", left)
	}
}

// Only its owner touches a topology, until another one takes it over.
func TestOwners(t *testing.T) {
	w := newWorld(t)
	plain := levels(t, 2)
	a, b := plain.WithOwner("a"), plain.WithOwner("b")
	must := func(before, after topology.Topology, options engine.Options) engine.Result {
		t.Helper()
		result, err := w.apply(before, after, options)
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	whole := len(plain.Exchanges) + len(plain.Queues)
	owners := func(want topology.Bindings) {
		t.Helper()
		state, err := w.client.Vhost(w.vhost).Read(t.Context(), plain)
		if err != nil || !maps.Equal(state.Owners, want) || len(state.Exchanges)+len(state.Queues) != whole {
			t.Errorf("the owners are %v, not %v: %v", state.Owners, want, err)
		}
	}
	met := func(result engine.Result, problems ...engine.Problem) {
		t.Helper()
		if !reflect.DeepEqual(result.Problems, problems) {
			t.Errorf("the problems are %v, not %v", result.Problems, problems)
		}
	}
	others := engine.Problem{Code: engine.Other, Cause: &engine.OwnerError{}}
	both := engine.Problem{Code: engine.OwnsWithOthers, Cause: &engine.SharedError{Owners: 2}}
	must(nothing, a, engine.Options{})
	owners(a.Owners)
	is[*engine.OwnerError](t, second(w.apply(b, b, engine.Options{})))
	is[*engine.OwnerError](t, second(w.apply(b, b, engine.Options{Rebuild: true})))
	is[*engine.OwnerError](t, second(w.apply(plain, plain, engine.Options{})))
	met(must(b, nothing, engine.Options{}), others)
	met(must(plain, nothing, engine.Options{Adopt: true}), others)
	owners(a.Owners)

	must(nothing, b, engine.Options{Adopt: true})
	owners(b.Owners)
	met(must(a, nothing, engine.Options{}), others)
	met(must(a, a, engine.Options{Adopt: true}))
	owners(a.Owners)

	// Both have it, as restored definitions do.
	w.run(plan.Bind{Binding: b.Owners.Sorted()[0]})
	met(must(b, b, engine.Options{}), both)
	owners(a.Union(b).Owners)
	met(must(b, nothing, engine.Options{}), both)
	if left := w.count(plain); left > 0 {
		t.Errorf("there are %d objects", left)
	}
}

// A destination binds, moves and unbinds.
func TestDestination(t *testing.T) {
	w := newWorld(t)
	desired := levels(t, 5)
	w.create(desired)
	to := func(address, queue string) topology.Topology {
		b := topology.Binding{Source: desired.Delivery, RoutingKey: "*.*.*.*.*." + address,
			DestinationType: topology.ToQueue, Destination: queue}
		return topology.Topology{Bindings: topology.NewBindings(b.OfDestination("one"))}
	}
	rebind := w.apply
	is[*engine.MissingError](t, second(rebind(nothing, to("a", "orders"), engine.Options{})))
	w.run(plan.DeclareQueue{Queue: topology.Queue{Name: "orders", Durable: true}})
	before := to("a", "orders")
	if _, err := rebind(nothing, before, engine.Options{}); err != nil {
		t.Fatal(err)
	}
	delays := second(rebind(nothing, to("a", "t.delay-01"), engine.Options{}))
	if err := as[*engine.MisnamedError](t, delays); err.Misnaming != engine.IsDelayQueue {
		t.Errorf("a delay queue as a destination: %v", err)
	}

	w.publish(desired.Entry, "0.0.1.1.1.a") // seven seconds
	after := to("b", "orders")
	result, err := rebind(before, after, engine.Options{})
	is[*engine.NotVacantError](t, err)
	if result.StartsFromAfter || result.There != nil {
		t.Errorf("after an update that was refused, it has %v", result.There)
	}
	result, err = rebind(before, after, engine.Options{Guard: plan.Guard{Drain: time.Minute}})
	if err != nil || !result.StartsFromAfter || !maps.Equal(result.State.Bindings, after.Bindings) {
		t.Error(result, err)
	}

	// One more leads to the same queue. The first one goes while a message waits, and says what still takes it.
	w.publish(desired.Entry, "1.1.1.1.1.b") // half a minute: more than the changes take
	other := topology.Topology{Bindings: topology.NewBindings(after.Bindings.Sorted()[0].OfDestination("other"))}
	if _, err := rebind(nothing, other, engine.Options{}); err != nil {
		t.Error(err)
	}
	result, err = rebind(after, nothing, engine.Options{})
	if err != nil || !maps.Equal(result.State.Bindings, other.Bindings) {
		t.Error(result, err)
	}
	is[*engine.NotVacantError](t, second(rebind(other, nothing, engine.Options{})))
	if _, err := rebind(other, nothing, engine.Options{Guard: plan.Guard{Force: true}}); err != nil {
		t.Error(err)
	}
	there, err := w.client.Vhost(w.vhost).BindingsFrom(t.Context(), desired.Delivery)
	if err != nil || len(there) > 0 {
		t.Error(there, err)
	}
}

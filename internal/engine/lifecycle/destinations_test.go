package lifecycle_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan/plantest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology/topologytest"
)

// Destinations of two addresses come, change and go at random, behind a cascade and a ladder, while messages are under
// way and steps fail. A change that succeeds leaves its binding alone, and the next refresh finds that. One that fails
// says what there is. Nobody else's binding goes, and no message is lost. Some come twice, while an old and a new queue
// are bound.
func TestDestinations(t *testing.T) {
	counts := map[string]int{}
	for range 6 {
		rapid.Check(t, anyDestinations(counts))
	}
	for _, what := range sorted(counts) {
		t.Logf("%s: %d", what, counts[what])
	}
	for _, what := range []string{"create", "create failed", "update", "update failed", "update refused", "destroy",
		"destroy failed", "destroy refused", "update killed", "messages between changes", "messages beside changes"} {
		if counts[what] == 0 && !testing.Short() {
			t.Errorf("no %s", what)
		}
	}
}

// anyDestinations is one sequence.
func anyDestinations(counts map[string]int) func(*rapid.T) {
	return func(t *rapid.T) {
		d := newDestinations(t, counts)
		t.Repeat(map[string]func(*rapid.T){
			"want": d.want, "want more": d.want, "remove": d.remove, "publish": d.publishSome,
			"publish more": d.publishSome, "wait": d.wait, "unbind": d.unbind, "apply": d.apply, "apply now": d.apply,
		})
		d.settle(t)
		d.wanted = [2]*topology.Binding{}
		d.settle(t)
		plantest.Same(t, d.Snapshot(), d.surroundings, "once all destinations are destroyed")
	}
}

// bound is what a state has of a destination: its own bindings, the one that it names first.
type bound struct {
	own  []topology.Binding
	mark string
}

type destinations struct {
	*traffic
	random *rand.Rand
	counts map[string]int
	// entries are the exchanges to publish to, with keys for a message, and their delays.
	entries      map[string]map[string]time.Duration
	surroundings topology.Topology
	wanted       [2]*topology.Binding
	state        [2]*bound
	guard        plan.Guard
	marks        int
	// fails is how many steps and looks there are until one fails, negative for never. With away, all fail then. With
	// loses, a step that fails is done, and its answer gets lost.
	fails       int
	away, loses bool
	// killed says that no state gets what a change has come to, and broken that something has failed in one.
	killed, broken bool
	quiet          bool // nobody publishes beside changes
}

func newDestinations(t *rapid.T, counts map[string]int) *destinations {
	queueType := one(t, delay.Quorum, delay.Classic)
	cascade, err := delay.Config{Name: "m", Levels: 2, Resolution: time.Second, CreateDeliveryExchange: true,
		QueueType: queueType, QueueArguments: topology.Arguments{}}.Resolve()
	ladder, failure := delay.LadderConfig{Name: "n", Delays: []string{"1s", "10s"}, CreateDeliveryExchange: true,
		QueueType: queueType, QueueArguments: topology.Arguments{}}.Resolve()
	if err := errors.Join(err, failure); err != nil {
		t.Fatal(err)
	}
	world := surroundings().Union(cascade.Expand()).Union(ladder.Expand())
	world.Queues["receiver"] = topology.Queue{Name: "receiver", Durable: true}
	world.Bindings.Add(topologytest.ToQueue(events, "#", "receiver"))
	world.Bindings.Add(topologytest.ToQueue("m.delivery", "#.audited", plantest.Audit)) // others'
	d := &destinations{traffic: &traffic{Broker: plantest.NewBroker(world), doubles: true}, counts: counts,
		surroundings: world, fails: -1, entries: map[string]map[string]time.Duration{}}
	d.random = rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)) //nolint:gosec // to be repeatable
	d.entries[cascade.Expand().Entry] = map[string]time.Duration{}
	d.entries[ladder.EntryExchange] = map[string]time.Duration{}
	for _, address := range []string{"x", "y"} {
		for _, wait := range []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second} {
			key, err := cascade.Scale().RoutingKey(wait, address)
			if err != nil {
				t.Fatal(err)
			}
			d.entries[cascade.Expand().Entry][key] = wait
		}
		d.entries[ladder.EntryExchange]["1s."+address] = time.Second
		d.entries[ladder.EntryExchange]["10s."+address] = 10 * time.Second
	}
	return d
}

func (d *destinations) met(what string) { d.counts[what]++ }

func (d *destinations) want(t *rapid.T) {
	b := topology.Binding{Source: one(t, "m.delivery", "m.delivery", "n.delivery"),
		RoutingKey: one(t, "*.*.x", "#.x", "*.x", "*.*.y", "#.y"), DestinationType: topology.ToQueue,
		Destination: one(t, application, application, "receiver", "receiver", events, "absent")}
	if b.Destination == events {
		b.DestinationType = topology.ToExchange
	}
	d.wanted[address(t)] = &b
	d.guard = one(t, plan.Guard{}, plan.Guard{Drain: 20 * time.Second}, plan.Guard{Force: true})
}

func (d *destinations) remove(t *rapid.T) { d.wanted[address(t)] = nil }

func (d *destinations) wait(t *rapid.T) {
	d.let(time.Duration(rapid.IntRange(0, 5000).Draw(t, "wait")) * time.Millisecond)
	d.check(t)
}

// unbind has somebody else remove the binding of a destination.
func (d *destinations) unbind(t *rapid.T) {
	state := d.state[address(t)]
	if state == nil || rapid.IntRange(0, 3).Draw(t, "spared") > 0 {
		t.Skip("nothing to unbind")
	}
	d.excuse()
	d.damaged = false
	gone := rapid.SampledFrom(state.own).Draw(t, "binding")
	delete(d.Bindings, gone)
}

// served tells whether a queue gets a message as the bindings are.
func (d *destinations) served(there topology.Topology, entry, key string) bool {
	arrivals := topologytest.NewRouter(there).Follow(entry, key)
	return slices.ContainsFunc(arrivals, func(end topologytest.Arrival) bool { return end.Queue != "" })
}

// publishSome sends messages that some queue is to get.
func (d *destinations) publishSome(t *rapid.T) {
	entry := rapid.SampledFrom(sorted(d.entries)).Draw(t, "entry")
	key := rapid.SampledFrom(sorted(d.entries[entry])).Draw(t, "key")
	if !d.served(d.Topology, entry, key) {
		t.Skip("nobody gets it")
	}
	d.publish(entry, key, d.entries[entry][key])
	d.met("messages between changes")
	d.check(t)
}

// check looks for what has happened to messages.
func (d *destinations) check(t *rapid.T) {
	t.Helper()
	if len(d.wrong) > 0 {
		t.Fatal(strings.Join(d.wrong, "\n"))
	}
}

func (d *destinations) apply(t *rapid.T) {
	d.fails, d.away = rapid.IntRange(-6, 9).Draw(t, "fails at"), rapid.IntRange(0, 3).Draw(t, "away") == 0
	d.loses, d.killed = rapid.Bool().Draw(t, "loses"), rapid.IntRange(0, 3).Draw(t, "killed") == 0
	first := address(t)
	for _, i := range []int{first, 1 - first} {
		_ = d.change(t, i)
	}
	d.fails, d.away, d.killed = -1, false, false
}

// settle applies the configuration once all messages have arrived.
func (d *destinations) settle(t *rapid.T) {
	t.Helper()
	d.quiet = true
	defer func() { d.quiet = false }()
	d.drain()
	d.check(t)
	for i := range 2 {
		if err := d.change(t, i); err != nil && !isMissing(err) {
			t.Fatalf("destination %d: %v", i, err)
		}
	}
}

func isMissing(err error) bool {
	_, is := errors.AsType[*engine.MissingError](err)
	return is
}

// change does at an address what Terraform does in an apply: it refreshes, plans and makes the change.
func (d *destinations) change(t *rapid.T, i int) error {
	t.Helper()
	d.refresh(t, i)
	c := engine.Change{Kind: "destination", Options: engine.Options{Guard: d.guard}}
	state, what := d.state[i], "create"
	switch {
	case state == nil && d.wanted[i] == nil:
		return nil
	case state == nil:
		d.marks++
		state = &bound{mark: fmt.Sprint("mark ", d.marks)}
	case d.wanted[i] == nil:
		what = "destroy"
	default:
		what = "update"
	}
	if len(state.own) > 0 {
		c.Before.Bindings, c.Options.Named = topology.NewBindings(state.own...), state.own[0]
	}
	if d.wanted[i] != nil {
		c.After.Bindings = topology.NewBindings(d.wanted[i].OfDestination(state.mark))
	}
	if maps.Equal(c.Before.Bindings, c.After.Bindings) {
		return nil
	}
	return d.make(t, i, what, *state, c)
}

// refresh finds the bindings of a destination.
func (d *destinations) refresh(t *rapid.T, i int) {
	t.Helper()
	state := d.state[i]
	if state == nil {
		return
	}
	_, found, err := d.FindBindings(state.own, state.mark)
	if err != nil {
		t.Fatal(err)
	}
	if d.state[i] = nil; len(found) > 0 {
		d.state[i] = &bound{found, state.mark}
	}
}

// marked are the bindings with a mark.
func (d *destinations) marked(mark string) topology.Bindings {
	return topology.NewBindings(d.Bindings.Where(
		func(b topology.Binding) bool { return b.DestinationMark() == mark })...)
}

// others are all bindings without that mark.
func (d *destinations) others(mark string) topology.Topology {
	there := d.Snapshot()
	there.Unbind(func(b topology.Binding) bool { return b.DestinationMark() == mark })
	return there
}

// make makes one change, and looks at what it has come to.
func (d *destinations) make(t *rapid.T, i int, what string, state bound, c engine.Change) error {
	t.Helper()
	before, others := d.Snapshot(), d.others(state.mark)
	previewed := slices.ContainsFunc(d.Preview(c),
		func(p engine.Problem) bool { return p.Code == engine.Refused })
	if c.Options.Guard.Force {
		d.excuse()
		d.damaged = false
	}
	d.hook(others, c)
	result, err := d.Apply(c)
	d.Broker.Before, d.BeforeRead = nil, nil
	d.check(t)
	t.Logf("%s at %d of %v to %v: %v, %v", what, i, state.own, c.After.Bindings.Sorted(), result.There, err)
	plantest.Same(t, d.others(state.mark), others, "what others have")
	if previewed != isMissing(err) && (previewed && !d.broken || len(state.own) == 0 && isMissing(err)) {
		t.Fatalf("the preview refuses: %t, and the apply says %v", previewed, err)
	}
	if d.killed && d.mayBeKilled(state, c) {
		d.met(what + " killed")
		return err
	}
	d.keep(i, c, state, result, err)
	d.count(t, what, before, c, err)
	d.isNamed(t, i, what, state.mark, err)
	return err
}

// mayBeKilled tells whether a refresh can find what a change has left that was killed. What others leave nobody finds,
// see the guide "Guarantees": a create, an update to another exchange, and one that took away what the state names.
func (d *destinations) mayBeKilled(state bound, c engine.Change) bool {
	isAway := func(b topology.Binding) bool {
		return slices.ContainsFunc(state.own, func(own topology.Binding) bool { return own.Source != b.Source })
	}
	return len(state.own) > 0 && d.Bindings.Has(state.own[0]) && !slices.ContainsFunc(c.After.Bindings.Sorted(), isAway)
}

// count counts what a change has come to, and looks whether it is that.
func (d *destinations) count(t *rapid.T, what string, before topology.Topology, c engine.Change, err error) {
	t.Helper()
	_, isOccupied := errors.AsType[*engine.NotVacantError](err)
	isInjected := errors.Is(err, plantest.ErrInjected) || errors.Is(err, plantest.ErrLost)
	after := before.Clone()
	after.Unbind(func(b topology.Binding) bool { return c.Before.Bindings.Has(b) })
	maps.Copy(after.Bindings, c.After.Bindings)
	isUndone := maps.Equal(d.Bindings, before.Bindings)
	isDone := maps.Equal(d.Bindings, after.Bindings)
	switch {
	case err == nil:
		d.met(what)
		if !isDone {
			t.Fatalf("after a %s, there are %v", what, d.Bindings.Sorted())
		}
	case isMissing(err), isOccupied && !isInjected:
		d.met(what + " refused")
		if !isUndone || isOccupied && (takesAll(c) || c.Options.Guard.Force) {
			t.Fatalf("a %s is refused (%v), and there are %v", what, err, d.Bindings.Sorted())
		}
	case !isInjected:
		t.Fatalf("a %s fails: %v", what, err)
	default:
		d.met(what + " failed")
		isSimple := len(c.Before.Bindings) == 1 && !d.away && !d.loses
		if what == "update" && isSimple && !isUndone && !isDone {
			t.Fatalf("an update that failed (%v) has come half way: %v", err, d.Bindings.Sorted())
		}
	}
}

// takesAll tells whether the binding after a change has the key and the exchange of all before.
func takesAll(c engine.Change) bool {
	for b := range c.Before.Bindings {
		for after := range c.After.Bindings {
			if after.Source != b.Source || after.RoutingKey != b.RoutingKey {
				return false
			}
		}
	}
	return len(c.After.Bindings) > 0
}

// isNamed makes sure that the state has what there is after a change, and if nobody was kept from a look, no more.
func (d *destinations) isNamed(t *rapid.T, i int, what, mark string, err error) {
	t.Helper()
	var named topology.Bindings
	if d.state[i] != nil {
		named = topology.NewBindings(d.state[i].own...)
	}
	there := d.marked(mark)
	for b := range there {
		if !named.Has(b) {
			t.Fatalf("after a %s (%v), the state does not have %s", what, err, b.Describe())
		}
	}
	if wants := d.wanted[i]; err == nil && wants != nil && !maps.Equal(there, named) {
		t.Fatalf("after a %s, the state has %v, and there are %v", what, named, there.Sorted())
	}
	unfinished, isUnfinished := errors.AsType[*engine.UnfinishedError](err)
	if isUnfinished && unfinished.Undo == nil && !maps.Equal(there, named) {
		t.Fatalf("a %s that failed says that these are there: %v, and there are %v", what, named, there.Sorted())
	}
}

// keep is the state after a change.
func (d *destinations) keep(i int, c engine.Change, state bound, result engine.Result, err error) {
	switch {
	case len(c.After.Bindings) == 0 && err == nil:
		d.state[i] = nil
	case result.There != nil:
		named := c.Options.Named
		if result.StartsFromAfter {
			named = c.After.Bindings.Sorted()[0]
		}
		own := slices.DeleteFunc(result.There.Bindings.Sorted(), func(b topology.Binding) bool { return b == named })
		d.state[i] = &bound{append([]topology.Binding{named}, own...), state.mark}
	}
}

// hook has messages come and go, and steps and looks fail, while a change is made.
func (d *destinations) hook(others topology.Topology, c engine.Change) {
	d.broken = false
	d.Broker.Before = func(step plan.Step) error {
		d.let(time.Duration(d.random.IntN(400)) * time.Millisecond)
		if !d.quiet && d.random.IntN(3) == 0 {
			d.publishBeside(others, c)
		}
		if look, is := step.(plan.VerifyEmpty); is {
			d.waitFor(look)
			return d.fail(false)
		}
		return d.fail(d.loses)
	}
	d.BeforeRead = func() error { return d.fail(false) }
}

// fail is the failure of a step or a look, if it is to fail.
func (d *destinations) fail(loses bool) error {
	if d.fails--; d.fails != -1 && (!d.away || d.fails >= 0) {
		return nil
	}
	d.broken = true
	if loses {
		return plantest.ErrLost
	}
	return plantest.ErrInjected
}

// publishBeside sends a message that some queue is to get before the change and after it.
func (d *destinations) publishBeside(others topology.Topology, c engine.Change) {
	entry := sorted(d.entries)[d.random.IntN(len(d.entries))]
	keys := sorted(d.entries[entry])
	key := keys[d.random.IntN(len(keys))]
	for _, bindings := range []topology.Bindings{c.Before.Bindings, c.After.Bindings} {
		there := others.Clone()
		maps.Copy(there.Bindings, bindings)
		if !d.served(there, entry, key) {
			return
		}
	}
	d.publish(entry, key, d.entries[entry][key])
	d.met("messages beside changes")
}

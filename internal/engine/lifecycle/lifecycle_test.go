package lifecycle_test

import (
	"context"
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

// Configurations of two addresses change at random, with damages between, while messages are under way and steps fail.
// After each change that succeeds, the broker has what a fresh create makes, the next plan is empty, and others have
// their bindings. No message is lost, doubled or early. A change that fails loses none either, and succeeds later.
//
// The engine is the real one, and the broker is a model. TestRandomLifecycle of internal/acceptance does the like on
// RabbitMQ. With -rapid.checks=5000, there are 30,000 sequences, in some minutes. Read lifecycle.make first.
func TestLifecycle(t *testing.T) {
	counts := map[string]int{}
	for range 6 {
		rapid.Check(t, anyLifecycle(counts))
	}
	for _, what := range sorted(counts) {
		t.Logf("%s: %d", what, counts[what])
	}
}

// anyLifecycle is one sequence.
func anyLifecycle(counts map[string]int) func(*rapid.T) {
	return func(t *rapid.T) {
		l := newLifecycle(t, counts)
		actions := map[string]func(*rapid.T){
			"have": l.have, "alter": l.alter, "alter again": l.alter, "alter more": l.alter, "remove": l.remove,
			"swap": l.swap, "forget": l.forget, "damage": l.damage, "bind": l.bind, "publish": l.publishSome,
			"publish more": l.publishSome, "wait": l.wait,
		}
		for _, name := range []string{"apply", "apply now", "apply then"} {
			actions[name] = func(t *rapid.T) { l.apply(t, rapid.IntRange(-30, 40).Draw(t, "fails at"), false) }
		}
		actions["break off"] = func(t *rapid.T) { l.apply(t, rapid.IntRange(0, 40).Draw(t, "fails at"), true) }
		l.begin(t)
		t.Repeat(actions)
		l.settle(t)
		l.wanted = [2]*block{}
		l.settle(t)
		l.compare(t)
	}
}

// A rebuild is done, but for the queue of unroutable messages, which is damaged and holds one. The next change starts
// from the new topology. Otherwise, nobody would remove the new queues.
func TestRebuildBesideADamage(t *testing.T) {
	c := delay.Config{Name: "t", Levels: 2, CreateDeliveryExchange: true, ParkUnroutable: true}
	before := plantest.Expand(t, c)
	c.QueueName = "t.wait-%d"
	after := plantest.Expand(t, c)
	b := plantest.Deployed(t, before)
	plantest.ShortenTTL(b, "t.unroutable")
	b.Messages["t.unroutable"] = 1
	change := engine.Change{Before: before, After: after, Options: engine.Options{Rebuild: true}}
	if result, err := b.Apply(change); !result.StartsFromAfter || !plantest.IsRefusal(err) {
		t.Errorf("new: %t, %v", result.StartsFromAfter, err)
	}
	if left := b.Part(before.Minus(after)).Objects(); len(left) > 0 {
		t.Errorf("left are %s", left)
	}
}

// held is what a state has.
type held struct {
	block
	topology.Topology
	// tainted is a create that failed, and was not taken back.
	tainted bool
}

type lifecycle struct {
	*traffic
	random *rand.Rand
	counts map[string]int
	wanted [2]*block
	state  [2]*held
	// deposed are those that have been replaced, and are not yet destroyed.
	deposed [2][]*held
	// settled tells whether the address has the wanted block.
	settled [2]bool
	// foreign are the bindings of others.
	foreign topology.Bindings
	owners  int
	fails   int  // steps until one fails, negative for never
	away    bool // all steps fail from then on
	broken  bool
	quiet   bool // nobody publishes beside changes
}

func newLifecycle(t *rapid.T, counts map[string]int) *lifecycle {
	l := &lifecycle{traffic: &traffic{Broker: plantest.NewBroker(surroundings())}, counts: counts,
		foreign: topology.Bindings{}, fails: -1}
	l.random = rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)) //nolint:gosec // to be repeatable
	maps.Copy(l.foreign, l.Bindings)
	l.Arrange = func(steps []plan.Step) []plan.Step {
		steps = slices.Clone(steps)
		l.random.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
		return steps
	}
	return l
}

// surroundings are what others have.
func surroundings() topology.Topology {
	world := topology.New()
	for _, name := range []string{events, plantest.Feed} {
		world.Exchanges[name] = topology.Exchange{Name: name, Type: "topic", Durable: true}
	}
	for _, name := range []string{application, plantest.Audit} {
		world.Queues[name] = topology.Queue{Name: name, Durable: true}
	}
	world.Bindings.Add(delivers(events))
	return world
}

// delivers is the application's binding.
func delivers(exchange string) topology.Binding {
	return topologytest.ToQueue(exchange, "#.x", application)
}

func (l *lifecycle) met(what string) { l.counts[what]++ }

func address(t *rapid.T) int { return rapid.IntRange(0, 1).Draw(t, "address") }

// want gives the address another block, if that is valid.
func (l *lifecycle) want(t *rapid.T, i int, b block) {
	b = b.normal()
	if _, err := b.declares(); err != nil || l.spoils(b, i) {
		t.Skip("not valid")
	}
	l.wanted[i], l.settled[i] = &b, false
}

// spoils tells whether both addresses would create one delivery exchange with other arguments. Each would make it as
// it wants it.
func (l *lifecycle) spoils(b block, i int) bool {
	mine, _ := b.declares()
	var others []topology.Topology
	if other := l.wanted[1-i]; other != nil {
		t, _ := other.declares()
		others = append(others, t)
	}
	if other := l.state[1-i]; other != nil {
		others = append(others, other.Topology)
	}
	return slices.ContainsFunc(others, func(theirs topology.Topology) bool {
		return mine.Has(mine.Delivery) && theirs.Has(mine.Delivery)
	})
}

// begin gives the first address something, and makes it.
func (l *lifecycle) begin(t *rapid.T) {
	b := anyBlock(t).normal()
	if _, err := b.declares(); err != nil {
		t.Skip("not valid")
	}
	l.wanted[0] = &b
	l.apply(t, -1, false)
}

func (l *lifecycle) have(t *rapid.T) { l.want(t, address(t), anyBlock(t)) }

func (l *lifecycle) alter(t *rapid.T) {
	i := address(t)
	if l.wanted[i] == nil {
		t.Skip("nothing to alter")
	}
	b := *l.wanted[i]
	b.delays = slices.Clone(b.delays)
	b.adopts = false
	b.alter(t)
	l.want(t, i, b)
}

func (l *lifecycle) remove(t *rapid.T) {
	i := address(t)
	l.wanted[i], l.settled[i] = nil, false
}

// swap has both addresses change places, in the configuration or in the state as well.
func (l *lifecycle) swap(t *rapid.T) {
	l.wanted[0], l.wanted[1] = l.wanted[1], l.wanted[0]
	l.settled = [2]bool{}
	if rapid.Bool().Draw(t, "moved") {
		l.state[0], l.state[1] = l.state[1], l.state[0]
		l.deposed[0], l.deposed[1] = l.deposed[1], l.deposed[0]
		return
	}
	for i, b := range l.wanted {
		if b != nil { // hand-overs by adoption have a model of their own, TestHandovers
			given := *b
			given.adopts = false
			l.wanted[i] = &given
		}
	}
}

// forget takes something out of the state, and adopts it again.
func (l *lifecycle) forget(t *rapid.T) {
	i := address(t)
	if !l.settled[i] || l.wanted[i] == nil {
		t.Skip("nothing to forget")
	}
	b := *l.wanted[i]
	b.adopts = true
	l.wanted[i], l.state[i], l.settled[i] = &b, nil, false
	if l.apply(t, rapid.IntRange(-10, 20).Draw(t, "fails at"), false); l.state[i] == nil {
		l.settle(t)
	}
}

// damage does to what there is what people do.
func (l *lifecycle) damage(t *rapid.T) {
	i := address(t)
	if l.state[i] == nil || len(l.state[i].Bindings) == 0 || rapid.IntRange(0, 3).Draw(t, "spared") > 1 {
		t.Skip("nothing to damage")
	}
	l.excuse()
	l.settled[i] = false
	desired := l.state[i].Topology
	plantest.AnyDamage(t, l.Broker, desired)
	l.leaveToOthers(desired)
	for _, name := range sorted(desired.Queues) {
		if _, exists := l.Queues[name]; !exists {
			l.gone(name, true)
		}
	}
	l.dropForeign(func(b topology.Binding) bool { return !l.Bindings.Has(b) })
}

// leaveToOthers has the bindings of a shared entry that are others', but for those that would take messages.
func (l *lifecycle) leaveToOthers(t topology.Topology) {
	for _, b := range l.Bindings.Where(func(b topology.Binding) bool { return l.isOthersFrom(t, b) }) {
		if b.RoutingKey == "x" {
			l.foreign.Add(b)
		} else {
			delete(l.Bindings, b)
		}
	}
}

// isOthersFrom tells whether a binding of a shared entry is others'.
func (l *lifecycle) isOthersFrom(t topology.Topology, b topology.Binding) bool {
	return t.Shared && b.Source == t.Entry && !t.OwnsBinding(b)
}

func (l *lifecycle) dropForeign(gone func(topology.Binding) bool) {
	maps.DeleteFunc(l.foreign, func(b topology.Binding, _ struct{}) bool { return gone(b) })
}

// bind has an application bind something to what there is, or take that away. No message takes these ways.
func (l *lifecycle) bind(t *rapid.T) {
	i := address(t)
	if l.state[i] == nil {
		t.Skip("nothing to bind")
	}
	h := l.state[i]
	candidates := []topology.Binding{topologytest.ToExchange(plantest.Feed, "a", h.Entry)}
	for _, name := range sorted(h.Queues) {
		candidates = append(candidates, topologytest.ToQueue(plantest.Feed, "b", name))
	}
	for _, name := range sorted(h.Exchanges) {
		candidates = append(candidates, topologytest.ToExchange(plantest.Feed, "c", name))
	}
	if h.Delivery != "" {
		candidates = append(candidates, topologytest.ToQueue(h.Delivery, "late.#.y", plantest.Audit))
	}
	b := rapid.SampledFrom(candidates).Draw(t, "binding")
	switch {
	case l.foreign.Has(b):
		delete(l.foreign, b)
		delete(l.Bindings, b)
	case l.Has(b.Source) && l.Takes(b):
		l.foreign.Add(b)
		l.Bindings.Add(b)
	}
}

// publishSome sends some messages. While all is as it is to be, each key has the one way that it is to have.
func (l *lifecycle) publishSome(t *rapid.T) {
	i := address(t)
	if !l.settled[i] || l.state[i] == nil {
		t.Skip("nothing to publish to")
	}
	h := l.state[i]
	router := topologytest.NewRouter(l.Topology)
	asks := h.asks()
	for _, key := range sorted(asks) {
		arrivals := router.Follow(h.Entry, key)
		if (len(arrivals) != 1 || arrivals[0].Queue != application || arrivals[0].Delay != asks[key]) && !l.damaged {
			t.Fatalf("key %q of %s goes %v", key, asks[key], arrivals)
		}
	}
	for range rapid.IntRange(1, 4).Draw(t, "messages") {
		key := rapid.SampledFrom(sorted(asks)).Draw(t, "key")
		l.publish(h.Entry, key, asks[key])
		l.let(time.Duration(l.random.IntN(400)) * time.Millisecond)
		l.met("messages between changes")
	}
	if h.parks && rapid.IntRange(0, 5).Draw(t, "parked") == 0 {
		l.publish(h.Entry, "nowhere", 0)
	}
	l.check(t)
}

func (l *lifecycle) wait(t *rapid.T) {
	l.let(time.Duration(rapid.IntRange(0, 5000).Draw(t, "wait")) * time.Millisecond)
	l.check(t)
}

// check looks for what has happened to messages.
func (l *lifecycle) check(t *rapid.T) {
	t.Helper()
	counted := map[string]int64{}
	for _, m := range l.messages {
		counted[m.queue]++
	}
	for name, n := range l.Messages {
		if n != counted[name] {
			t.Fatalf("the model counts %d messages in %q, not %d", n, name, counted[name])
		}
	}
	if len(l.wrong) > 0 {
		t.Fatal(strings.Join(l.wrong, "\n"))
	}
}

// apply applies the configuration. A step fails, by its number, and with away all that follow.
func (l *lifecycle) apply(t *rapid.T, fails int, away bool) {
	l.fails, l.away, l.broken, l.quiet = fails, away, false, false
	first := address(t)
	errs := [2]error{}
	for _, i := range []int{first, 1 - first} {
		errs[i] = l.change(t, i)
		l.settled[i] = errs[i] == nil
	}
	l.fails, l.away = -1, false
	l.removeLeft(false)
	l.receive()
	if errs == [2]error{} && !l.broken {
		l.damaged = false
		l.compare(t)
		return
	}
	if l.broken || rapid.Bool().Draw(t, "once more") {
		l.settle(t)
	}
}

// settle lets all messages arrive, and applies the configuration until it is there.
func (l *lifecycle) settle(t *rapid.T) {
	t.Helper()
	l.quiet = true
	defer func() { l.quiet = false }()
	var errs [2]error
	for try := range 4 {
		l.drain()
		l.check(t)
		l.fails, l.broken = -1, false
		for n := range 2 {
			i := (n + try) % 2
			errs[i] = l.change(t, i)
			l.settled[i] = errs[i] == nil
			if plantest.IsRefusal(errs[i]) && try > 0 { // applications use a delivery exchange that differs
				l.Topology.Unbind(func(b topology.Binding) bool { return l.foreign.Has(b) && b.Source != events })
				l.dropForeign(func(b topology.Binding) bool { return b.Source != events })
			}
		}
		l.removeLeft(try > 0)
		if errs == [2]error{} && !l.broken {
			l.receive()
			l.damaged = false
			l.compare(t)
			return
		}
	}
	l.receive()
	for i, err := range errs {
		if err != nil && !l.isHindered(i, err) {
			t.Fatalf("address %d still fails: %v", i, err)
		}
	}
	l.met("hindered by the other address")
}

// isHindered tells whether the other address has what this one wants.
func (l *lifecycle) isHindered(i int, err error) bool {
	_, exists := errors.AsType[*engine.ExistsError](err)
	_, isOwned := errors.AsType[*engine.OwnerError](err)
	other := l.state[1-i]
	if !exists && !isOwned || other == nil || l.wanted[i] == nil {
		return false
	}
	mine, _ := l.wanted[i].declares()
	return !other.Part(mine).IsEmpty()
}

// removeLeft removes delivery exchanges that nobody has any more, or also those that somebody wants to create.
func (l *lifecycle) removeLeft(all bool) {
	deliveries := map[string]bool{}
	for _, h := range slices.Concat(l.deposed[:]...) {
		deliveries[h.Delivery] = true
	}
	for i := range 2 {
		if h := l.state[i]; h != nil {
			deliveries[h.Delivery] = true
		} else if b := l.wanted[i]; b != nil && (b.adopts || !all) {
			wanted, _ := b.declares()
			deliveries[wanted.Delivery] = true
		}
	}
	for _, name := range sorted(l.Exchanges) {
		isDelivery := strings.HasSuffix(name, ".delivery") || strings.HasSuffix(name, ".end") ||
			strings.HasSuffix(name, "_delivery")
		if !deliveries[name] && isDelivery {
			_, _ = l.DeleteExchange(context.Background(), plan.DeleteExchange{Name: name})
			l.dropForeign(func(b topology.Binding) bool {
				return b.Source == name || b.LeadsTo(topology.ToExchange, name)
			})
		}
	}
}

// receive has the application bind its queue to each delivery exchange.
func (l *lifecycle) receive() {
	for _, h := range l.state {
		if h != nil && h.Delivery != "" && l.Has(h.Delivery) {
			l.Bindings.Add(delivers(h.Delivery))
			l.foreign.Add(delivers(h.Delivery))
		}
	}
}

// change does at an address what Terraform does in an apply.
func (l *lifecycle) change(t *rapid.T, i int) error {
	t.Helper()
	if err := l.destroyDeposed(t, i); err != nil {
		return err
	}
	had, wants := l.state[i], l.wanted[i]
	if had != nil && l.Part(had.Topology).IsEmpty() {
		had, l.state[i] = nil, nil // a refresh has found nothing
	}
	switch {
	case had == nil && wants == nil:
		return nil
	case had == nil:
		return l.create(t, i)
	case wants == nil:
		return l.destroy(t, i, had)
	}
	replaces, options := how(had.block, *wants)
	if !replaces && !had.tainted {
		after, _ := wants.declares()
		after.Owners = had.Owners
		return l.make(t, i, engine.Change{Before: had.Topology, After: after, Options: options})
	}
	if wants.ahead && !l.quiet { // it may meet its own objects
		return l.replaceAhead(t, i, had)
	}
	if err := l.destroy(t, i, had); err != nil {
		return err
	}
	return l.create(t, i)
}

// replaceAhead creates before it destroys.
func (l *lifecycle) replaceAhead(t *rapid.T, i int, had *held) error {
	t.Helper()
	l.deposed[i], l.state[i] = append(l.deposed[i], had), nil
	err := l.create(t, i)
	if err == nil {
		return l.destroyDeposed(t, i)
	}
	if l.state[i] == nil { // as if nothing had been
		l.state[i], l.deposed[i] = had, l.deposed[i][:len(l.deposed[i])-1]
	}
	return err
}

func (l *lifecycle) destroyDeposed(t *rapid.T, i int) error {
	t.Helper()
	for len(l.deposed[i]) > 0 {
		if err := l.destroy(t, i, l.deposed[i][0]); err != nil {
			return err
		}
		l.deposed[i] = l.deposed[i][1:]
	}
	return nil
}

func (l *lifecycle) create(t *rapid.T, i int) error {
	t.Helper()
	l.owners++
	after, _ := l.wanted[i].declares()
	return l.make(t, i, engine.Change{After: after.WithOwner(fmt.Sprint("owner ", l.owners)),
		Options: engine.Options{Adopt: l.wanted[i].adopts}})
}

func (l *lifecycle) destroy(t *rapid.T, i int, had *held) error {
	t.Helper()
	return l.make(t, i, engine.Change{Before: had.Topology, Options: engine.Options{Guard: had.guard}})
}

// make makes one change, and looks at what it has come to.
func (l *lifecycle) make(t *rapid.T, i int, c engine.Change) error {
	t.Helper()
	what := nameOf(c)
	if c.After.Shared && !c.Before.IsEmpty() && !c.Before.Shared {
		l.leaveToOthers(c.After) // damages until now
	}
	before, lost := l.Snapshot(), l.takesAlong(c)
	if c.Options.Guard.Force {
		l.excuse()
	}
	previewed := refusals(l.Preview(c))
	l.hook(i, c)
	result, err := l.Apply(c)
	l.Broker.Before, l.Broker.After = nil, nil
	l.check(t)
	l.met(what)
	// What a create has left is in the state.
	isNew := result.StartsFromAfter || c.Before.IsEmpty() && result.There != nil
	t.Logf("%s at %d of %s: new %t, %v", what, i, c.Before.Entry+" to "+c.After.Entry, isNew, err)
	switch isRefused := isRefusedBefore(err, isNew); {
	case isRefused && len(previewed) == 0: // a plan does not read all that an apply does
		l.met("refusals that no plan said")
	case isRefused:
		l.met("refusals that the plan said")
	case len(previewed) > 0:
		t.Fatalf("the preview of a %s refuses it: %v, and the apply says: %v", what, previewed, err)
	}
	l.keep(i, c, isNew, err)
	l.names(t, what, c, result, err)
	if err == nil || isNew {
		l.dropForeign(func(b topology.Binding) bool { return lost.Has(b) && !l.Bindings.Has(b) })
	}
	if c.After.IsEmpty() && c.Before.IsOfOthers(before.Part(c.Before)) {
		l.leave(c.Before)
	}
	if err == nil {
		l.noteForced(c)
		l.succeeded(t, c)
	} else {
		l.failed(t, what, before, isNew, err)
	}
	// A rebuild whose opening fails half way cannot be undone once a message has come in.
	undo, isStuck := errors.AsType[*engine.UndoError](err)
	if isStuck && what == "rebuild" && isNew && plantest.IsRefusal(undo.Undo) {
		l.dropForeign(func(b topology.Binding) bool { // to be made by hand
			return !l.Bindings.Has(b) && slices.Contains(undo.Left, plan.Step(plan.Bind{Binding: b}))
		})
	}
	for b := range l.foreign {
		if !l.Bindings.Has(b) {
			t.Fatalf("after a %s (%v), a binding of others is gone: %s", what, err, b.Describe())
		}
	}
	return err
}

// refusals are the problems of a preview for which the change would be refused.
func refusals(problems []engine.Problem) (refused []error) {
	for _, p := range problems {
		if p.Code == engine.Refused {
			refused = append(refused, p.Cause)
		}
	}
	return refused
}

// isRefusedBefore tells whether a change was refused before anything was written, for what a preview can see.
func isRefusedBefore(err error, isNew bool) bool {
	_, refused := errors.AsType[engine.Errors](err)
	_, owned := errors.AsType[*engine.OwnerError](err)
	_, misread := errors.AsType[*plan.MisreadError](err)
	return refused && !isNew || owned || misread // of a rebuild that is done, they are why things are left
}

// names checks that the result of a change names what there is, and after a failure all of it.
func (l *lifecycle) names(t *rapid.T, what string, c engine.Change, result engine.Result, err error) {
	t.Helper()
	if result.There == nil {
		return
	}
	plantest.Same(t, *result.There, l.Part(*result.There), fmt.Sprintf("what a %s (%v) says is there", what, err))
	unnamed := l.Part(topology.New().Union(c.Before).Union(c.After)).Minus(*result.There)
	if result.StartsFromAfter {
		delete(unnamed.Exchanges, c.Before.Delivery) // others may use it
	}
	if err != nil && !unnamed.IsEmpty() {
		t.Fatalf("a %s (%v) does not say that these are there: %v", what, err, unnamed.Objects())
	}
}

// leave removes what a destroy has left, because others own it, and these do not have. The ledger of plans refuses what
// leads there, see TestHandovers.
func (l *lifecycle) leave(t topology.Topology) {
	l.met("left to another owner")
	for _, h := range l.state {
		if h != nil {
			t = t.Minus(h.Topology)
		}
	}
	for name := range t.Exchanges {
		_ = l.Step(plan.DeleteExchange{Name: name})
	}
	for name, q := range t.Queues {
		_ = l.Step(plan.DeleteQueue{Queue: q})
		l.gone(name, true)
	}
	maps.DeleteFunc(l.Policies, func(name string, _ topology.Policy) bool { _, is := t.Policies[name]; return is })
	l.dropForeign(func(b topology.Binding) bool { return !l.Bindings.Has(b) })
}

// noteForced notes that force has taken a delivery exchange away that the other address has as well, as documented.
func (l *lifecycle) noteForced(c engine.Change) {
	gone := c.Before.Delivery
	if gone != "" && !l.Has(gone) && c.Options.Guard.Force &&
		slices.ContainsFunc(l.state[:], func(h *held) bool { return h != nil && h.Delivery == gone }) {
		l.met("shared delivery exchanges deleted by force")
		l.broken = true
		l.excuse()
	}
}

func nameOf(c engine.Change) string {
	switch {
	case c.After.IsEmpty():
		return "destroy"
	case c.Before.IsEmpty() && c.Options.Adopt:
		return "adoption"
	case c.Before.IsEmpty():
		return "create"
	case c.Options.Rebuild:
		return "rebuild"
	}
	return "update"
}

// keep is the state after a change.
func (l *lifecycle) keep(i int, c engine.Change, isNew bool, err error) {
	switch {
	case c.After.IsEmpty():
		if h := l.state[i]; err == nil && h != nil && maps.Equal(h.Owners, c.Before.Owners) { // it is not a deposed one
			l.state[i] = nil
		}
	case isNew:
		l.state[i] = &held{*l.wanted[i], c.After, c.Before.IsEmpty() && err != nil}
	}
}

// takesAlong are the bindings of others that go for good, as the plan says.
func (l *lifecycle) takesAlong(c engine.Change) topology.Bindings {
	away := plan.Away(c.Before, c.After, c.Options.Rebuild)
	inbound := topology.NewBindings(l.Bindings.Where(func(b topology.Binding) bool {
		return away.Takes(b) && !b.LeadsTo(topology.ToExchange, c.Before.Delivery) || l.isOthersFrom(away, b)
	})...)
	lost := topology.NewBindings(plan.OthersOf(c.Before, c.After, away, inbound).Lost...)
	isLast := c.After.IsEmpty() || c.Before.Delivery != c.After.Delivery
	if c.Options.Guard.Force && isLast && c.Before.Has(c.Before.Delivery) {
		for _, b := range l.foreign.Where(func(b topology.Binding) bool {
			return b.Source == c.Before.Delivery || b.LeadsTo(topology.ToExchange, c.Before.Delivery)
		}) {
			lost.Add(b)
		}
	}
	return lost
}

// hook has messages come and go, and steps fail, while a change is made.
func (l *lifecycle) hook(i int, c engine.Change) {
	left := mostOfAChange
	l.Broker.Before = func(step plan.Step) error {
		left -= l.pass(left)
		if !l.quiet && l.random.IntN(3) == 0 {
			l.publishBeside(c, i)
		}
		switch s := step.(type) {
		case plan.VerifyEmpty:
			l.waitFor(s)
		case plan.AwaitDurable:
			l.let(5 * time.Second)
		}
		if l.fails--; l.fails != -1 && (!l.away || l.fails >= 0) {
			return nil
		}
		if l.away || c.Options.Guard.Force { // nothing is undone
			l.broken = true
			l.excuse()
		}
		return plantest.ErrInjected
	}
	l.Broker.After = func(step plan.Step) {
		if deletion, is := step.(plan.DeleteQueue); is {
			l.gone(deletion.Queue.Name, c.Options.Guard.Force)
		}
	}
}

// mostOfAChange is how long a change takes, waits aside: less than any TTL. A classic queue that was found empty has
// nothing to lose meanwhile.
const mostOfAChange = 900 * time.Millisecond

// pass lets some time pass before a step, or just so much that the next message leaves its queue.
func (l *lifecycle) pass(left time.Duration) time.Duration {
	passes := time.Duration(l.random.IntN(4)) * time.Millisecond
	if m := l.next(); m != nil && m.due > l.now && l.random.IntN(4) == 0 {
		passes = m.due - l.now
	}
	if passes > left {
		return 0
	}
	l.let(passes)
	return passes
}

// publishBeside sends a message while a change is made, by the keys of a block of which all is there.
func (l *lifecycle) publishBeside(c engine.Change, i int) {
	var blocks []held
	for _, h := range l.state {
		if h != nil {
			blocks = append(blocks, *h)
		}
	}
	if !c.After.IsEmpty() {
		blocks = append(blocks, held{*l.wanted[i], c.After, false})
	}
	for _, n := range l.random.Perm(len(blocks)) {
		h := blocks[n]
		if !l.isWhole(h) && !l.damaged {
			continue
		}
		asks := h.asks()
		keys := sorted(asks)
		key := keys[l.random.IntN(len(keys))]
		l.publish(h.Entry, key, asks[key])
		l.met("messages beside changes")
		return
	}
}

// isWhole tells whether a message to the entry goes by the keys of the block, and is received.
func (l *lifecycle) isWhole(h held) bool {
	if !l.Has(h.Entry) || h.Delivery != "" && !l.Bindings.Has(delivers(h.Delivery)) {
		return false
	}
	for name, q := range h.Queues {
		if !l.Queues[name].Equal(q) {
			return false
		}
	}
	if h.kind != "ladder" {
		return true
	}
	for b := range h.Bindings {
		if !l.Bindings.Has(b) {
			return false
		}
	}
	return true
}

// succeeded looks at what a change has made.
func (l *lifecycle) succeeded(t *rapid.T, c engine.Change) {
	t.Helper()
	if c.After.IsEmpty() {
		left := l.Part(c.Before)
		delete(left.Exchanges, c.Before.Delivery)
		if !left.IsEmpty() && !c.Before.IsOfOthers(l.Part(c.Before)) {
			t.Fatalf("after a destroy, there are %s", left.Objects())
		}
		return
	}
	fresh := plantest.NewBroker(surroundings())
	if _, err := fresh.Apply(engine.Change{After: c.After}); err != nil {
		t.Fatalf("a fresh create: %v", err)
	}
	there := l.Part(c.After)
	maps.DeleteFunc(there.Bindings, func(b topology.Binding, _ struct{}) bool { return l.foreign.Has(b) })
	plantest.Same(t, there, fresh.Part(c.After), "after a "+nameOf(c))
	if next := plan.Repair(c.After, l.Actual(c.After)).Steps(); len(next) > 0 {
		t.Fatalf("the next plan is %s", next)
	}
}

// failed looks at what a failure has left.
func (l *lifecycle) failed(
	t *rapid.T, what string, before topology.Topology, isNew bool, err error,
) {
	t.Helper()
	isInjected := errors.Is(err, plantest.ErrInjected)
	switch {
	case isInjected && l.broken:
		l.met(what + " broken off")
		l.dropForeign(func(b topology.Binding) bool { return !l.Bindings.Has(b) })
	case isRefusedBefore(err, isNew):
		l.met(what + " refused before")
		plantest.Same(t, l.Snapshot(), before, "after the refusal of a "+what)
	case !isInjected && !plantest.IsRefusal(err):
		t.Fatalf("a %s fails: %v", what, err)
	case isNew:
		l.met(what + " failed late")
	case what == "rebuild" || what == "destroy":
		l.met(what + " undone")
		plantest.Same(t, l.Snapshot(), before, fmt.Sprintf("after a %s: %v", what, err))
	default:
		l.met(what + " failed")
	}
}

// compare looks at the whole broker: there is what both states have, and what others have.
func (l *lifecycle) compare(t *rapid.T) {
	t.Helper()
	want := surroundings()
	for _, h := range l.state {
		if h != nil {
			want = want.Union(h.Topology)
		}
	}
	maps.Copy(want.Bindings, l.foreign)
	plantest.Same(t, l.Snapshot(), want, "of all")
}

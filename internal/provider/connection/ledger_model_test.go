package connection_test

import (
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan/plantest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/connection"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// The model of hand-overs: two addresses of a state, which may have the ladders x and y, on a broker in memory. It
// goes through the states that plans, applies, failures and moves lead to, up to a number. The ledger and the engine
// are the real ones.

// held is a ladder in a state: its name, the owner's mark, and the address of the ledger. The name is empty for none.
type held struct{ name, owner, id string }

// stateOf is an address of the state: the current object and a deposed one.
type stateOf struct{ current, deposed held }

// wants is the configuration of an address, and whether the plan is for it.
type wants struct {
	name              string
	adopt, ahead, off bool // off: beside the target
}

const addresses = 2

type world struct {
	broker topology.Topology
	state  [addresses]stateOf
}

// handovers is the search.
type handovers struct {
	*testing.T
	ladders map[string]topology.Topology
	seen    map[uint64]struct{}
	seed    maphash.Seed
	queue   []found
	// unruly has a plan go on in spite of errors of the ledger. Heedless has a destroy take
	// every owner's mark for its own.
	unruly, heedless       bool
	lost                   []string
	applies, fresh, worlds int
}

// found is a world with the way to it.
type found struct {
	world
	way []string
}

func ladder(t plantest.Fataler, name, delivery string) topology.Topology {
	resolved, err := delay.LadderConfig{Name: name, Delays: []string{"1s"}, DeliveryExchange: delivery,
		CreateDeliveryExchange: true}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	return resolved.Expand()
}

// operation is what an apply does to an address.
type operation struct {
	address int
	verb    string
	of      held // what goes, or is to be
	adopt   bool
}

// String names the operation, with who owns it.
func (o operation) String() string {
	return fmt.Sprintf("%s %s at %d, adopt %t", o.verb, o.of.name, o.address, o.adopt)
}

func (h *handovers) planned(one held) *connection.Planned {
	if one.name == "" {
		return nil
	}
	return &connection.Planned{Kind: "ladder", Vhost: "/", Topology: h.ladders[one.name].WithOwner(one.owner)}
}

// refreshed is the world after a refresh: objects that are gone on the broker are no longer in the state.
func (h *handovers) refreshed(w world) world {
	for i := range w.state {
		for _, one := range []*held{&w.state[i].current, &w.state[i].deposed} {
			if one.name != "" && w.broker.Part(h.ladders[one.name]).IsEmpty() {
				*one = held{}
			}
		}
	}
	return w
}

// plan is what the ledger lets Terraform do: operations for each address, in their order. Order is that of the
// addresses in the plan.
func (h *handovers) plan(w world, c [addresses]wants, order []int) (operations [][]operation, refused bool) {
	ledger := &connection.Ledger{}
	note := func(a connection.Address) {
		for _, conflict := range ledger.Note(a) {
			isOfOthers := conflict.WouldDelete && conflict.One.IsOfOthers(w.broker.Part(conflict.One.Topology))
			refused = refused || !conflict.MayBeOne && !isOfOthers
		}
	}
	operations = make([][]operation, addresses)
	for _, i := range order {
		current, wanted := w.state[i].current, c[i]
		desired := held{name: wanted.name}
		if wanted.off {
			continue
		}
		if gone := w.state[i].deposed; gone.name != "" {
			note(connection.Address{ID: gone.id, Holds: h.planned(gone), Goes: true})
			operations[i] = append(operations[i], operation{i, "destroy deposed", gone, false})
		}
		switch {
		case current.name == "" && wanted.name == "":
		case current.name == "":
			note(connection.Address{Declares: h.planned(desired), Adopts: wanted.adopt})
			operations[i] = append(operations[i], operation{i, "create", desired, wanted.adopt})
		case wanted.name == "":
			note(connection.Address{ID: current.id, Holds: h.planned(current), Goes: true})
			operations[i] = append(operations[i], operation{i, "destroy", current, false})
		case wanted.name == current.name:
			note(connection.Address{ID: current.id, Holds: h.planned(current), Declares: h.planned(desired),
				Adopts: wanted.adopt})
			operations[i] = append(operations[i], operation{i, "update", current, wanted.adopt})
		default:
			note(connection.Address{ID: current.id, Holds: h.planned(current), Declares: h.planned(desired),
				Adopts: wanted.adopt})
			note(connection.Address{ID: current.id, Declares: h.planned(desired), Adopts: wanted.adopt})
			destroy, create := operation{i, "destroy", current, false}, operation{i, "create", desired, wanted.adopt}
			if wanted.ahead {
				destroy.verb = "destroy deposed"
				operations[i] = append(operations[i], operation{address: i, verb: "depose"}, create, destroy)
			} else {
				operations[i] = append(operations[i], destroy, create)
			}
		}
	}
	return operations, refused && !h.unruly
}

var errStep = errors.New("the step fails")

// failure is what goes wrong: a step of an operation, by its number. Killed has no undo, and no state is written.
type failure struct {
	step   int
	killed bool
}

// do makes a change, and tells how many steps it took.
func (h *handovers) do(w world, o operation, fails *failure) (after world, steps int, err error) {
	b := plantest.NewBroker(w.broker)
	isDead := false
	b.Before = func(plan.Step) error {
		steps++
		if fails != nil && steps == fails.step || isDead {
			isDead = fails.killed
			return errStep
		}
		return nil
	}
	after = world{state: w.state}
	at := &after.state[o.address]
	switch o.verb {
	case "depose":
		at.deposed, at.current = at.current, held{}
	case "create":
		h.fresh++
		made := held{o.of.name, fmt.Sprint("owner", h.fresh), fmt.Sprint("id", h.fresh)}
		if err = h.create(b, made, o.adopt); err == nil {
			at.current = made
		}
	case "update":
		err = h.update(b, o.of, o.adopt)
	case "destroy":
		if err = h.destroy(b, o.of); err == nil {
			at.current = held{}
		}
	case "destroy deposed":
		if at.deposed.name == "" { // Terraform takes what it has deposed in this apply
			break
		}
		if err = h.destroy(b, at.deposed); err == nil {
			at.deposed = held{}
		}
	}
	if isDead {
		after.state = w.state
	}
	after.broker = b.Topology
	return after, steps, err
}

func (h *handovers) desired(one held) topology.Topology {
	return h.ladders[one.name].WithOwner(one.owner)
}

// create has the engine create a ladder, or adopt it.
func (h *handovers) create(b *plantest.Broker, made held, adopt bool) error {
	return h.write(b, engine.Change{After: h.desired(made), Options: engine.Options{Adopt: adopt}})
}

func (h *handovers) update(b *plantest.Broker, one held, adopt bool) error {
	desired := h.desired(one)
	return h.write(b, engine.Change{Before: desired, After: desired, Options: engine.Options{Adopt: adopt}})
}

// write makes a change. What others own, it takes over if it adopts, and leaves alone otherwise.
func (h *handovers) write(b *plantest.Broker, c engine.Change) error {
	isOfOthers, before := c.After.IsOfOthers(b.Part(c.After)), b.Snapshot()
	_, err := b.Apply(c)
	if isOfOthers && !c.Options.Adopt {
		plantest.Same(h, b.Snapshot(), before, "after a change of what others own")
	}
	if owners := b.Part(c.After).Owners; err == nil && c.Options.Adopt && !maps.Equal(owners, c.After.Owners) {
		h.Errorf("%s is adopted, and its owners are %v", c.After.Entry, owners)
	}
	return err
}

func (h *handovers) destroy(b *plantest.Broker, one held) error {
	desired := h.desired(one)
	if h.heedless {
		desired.Owners = b.Part(desired).Owners
	}
	_, err := b.Apply(engine.Change{Before: desired})
	return err
}

// apply goes through all orders of the operations of both addresses, and all failures.
func (h *handovers) apply(f found, c [addresses]wants, left [][]operation, hasFailed bool) {
	if h.isKnown(fmt.Sprint(f.key(), c[0].name, c[0].off, c[1].name, c[1].off, left, hasFailed)) {
		return
	}
	isOver := true
	for i, operations := range left {
		if len(operations) == 0 {
			continue
		}
		isOver = false
		rest := slices.Clone(left)
		rest[i] = operations[1:]
		after, steps, err := h.do(f.world, operations[0], nil)
		next := f.then(after, operations[0].String())
		if err != nil { // what follows at the address is not done
			rest[i] = nil
			h.apply(next.then(after, err.Error()), c, rest, true)
			continue
		}
		h.apply(next, c, rest, hasFailed)
		if !hasFailed { // one failure is enough
			h.fail(f, next, c, operations[0], rest, steps)
		}
	}
	if isOver {
		h.end(f, c, hasFailed)
	}
}

// fail has each step of an operation fail, and what comes between the operation and the next one. What follows at the
// address is not done. Nothing is after a kill.
func (h *handovers) fail(f, next found, c [addresses]wants, o operation, rest [][]operation, steps int) {
	stopped := slices.Clone(rest)
	stopped[o.address] = nil
	for number := range steps {
		for _, killed := range []bool{false, true} {
			broken, _, err := h.do(f.world, o, &failure{number + 1, killed})
			then := stopped
			if killed {
				then = make([][]operation, addresses)
			}
			if err != nil {
				h.apply(next.then(broken, fmt.Sprintf("it fails at step %d, killed: %t", number+1, killed)), c, then,
					true)
			}
		}
	}
	if len(rest[o.address]) > 0 {
		h.apply(next.then(next.world, "what comes next fails"), c, stopped, true)
	}
}

// then is the world to which one more thing has led.
func (f found) then(w world, what string) found { return found{w, append(slices.Clone(f.way), what)} }

// end looks at what an apply has come to.
func (h *handovers) end(f found, c [addresses]wants, hasFailed bool) {
	h.applies++
	if !hasFailed {
		for _, wanted := range c {
			if missing := h.missing(f.world, wanted.name); len(missing) > 0 {
				h.lost = append(slices.Clone(f.way), fmt.Sprintf("missing of %s: %s", wanted.name, missing))
			}
		}
	}
	h.reach(f)
}

// missing are the objects of a ladder that are not there.
func (h *handovers) missing(w world, name string) []string {
	if name == "" {
		return nil
	}
	d := topology.Diff(h.ladders[name], w.broker.Part(h.ladders[name]))
	missing := slices.Concat(d.MissingExchanges, d.MissingQueues)
	for _, b := range d.MissingBindings {
		missing = append(missing, b.Describe())
	}
	return missing
}

// reach keeps a world to go on from, unless it is known.
func (h *handovers) reach(f found) {
	f.world = h.refreshed(f.world)
	if !h.isKnown(f.key()) {
		h.worlds++
		h.queue = append(h.queue, f)
	}
}

func (h *handovers) isKnown(key string) bool {
	hash := maphash.String(h.seed, key)
	_, is := h.seen[hash]
	h.seen[hash] = struct{}{}
	return is
}

// key names a world. Owners and addresses of the ledger count by who has the same.
func (w world) key() string {
	numbers := map[string]int{"": 0}
	number := func(s string) int {
		if _, is := numbers[s]; !is {
			numbers[s] = len(numbers)
		}
		return numbers[s]
	}
	var b strings.Builder
	for _, at := range w.state {
		for _, one := range []held{at.current, at.deposed} {
			fmt.Fprint(&b, one.name, number(one.owner), number(one.id), ";")
		}
	}
	fmt.Fprint(&b, slices.Sorted(maps.Keys(w.broker.Exchanges)), slices.Sorted(maps.Keys(w.broker.Queues)),
		w.broker.Bindings.Sorted())
	var owners []string
	for mark := range w.broker.Owners {
		owner, known := numbers[mark.Owner()]
		if !known {
			owner = -1 // of nobody any more
		}
		owners = append(owners, fmt.Sprint(mark.Source, owner))
	}
	slices.Sort(owners)
	fmt.Fprint(&b, owners)
	return b.String()
}

// configurations are all that the two addresses may be given.
func configurations() (all [][addresses]wants) {
	var one []wants
	for _, name := range []string{"", "x", "y"} {
		for _, adopt := range []bool{false, true} {
			for _, ahead := range []bool{false, true} {
				if name != "" || !adopt && !ahead {
					one = append(one, wants{name: name, adopt: adopt, ahead: ahead})
				}
			}
		}
	}
	for _, a := range one {
		for _, b := range one {
			off := a
			off.off = true
			all = append(all, [addresses]wants{a, b}, [addresses]wants{off, b})
		}
	}
	return all
}

// explore goes through all worlds, at most so many.
func (h *handovers) explore(most int) {
	h.seen, h.seed = map[uint64]struct{}{}, maphash.MakeSeed()
	h.reach(found{world: world{broker: topology.New()}})
	for visited := 0; len(h.queue) > 0 && visited < most && len(h.lost) == 0; visited++ {
		f := h.queue[0]
		h.queue = h.queue[1:]
		for _, c := range configurations() {
			if c[0].off && !h.isWhole(f.world, c[0].name) {
				c[0].name = ""
			}
			for _, order := range [][]int{{0, 1}, {1, 0}} {
				operations, refused := h.plan(f.world, c, order)
				if !refused {
					h.apply(f.then(f.world, fmt.Sprintf("apply %+v", c)), c, operations, false)
				}
			}
		}
		h.moves(f)
	}
}

// isWhole tells whether the first address has the ladder and owns all of it. What another one owns may go with that.
func (h *handovers) isWhole(w world, name string) bool {
	one := w.state[0].current
	return one.name == name && len(h.missing(w, name)) == 0 && !h.desired(one).IsOfOthers(w.broker.Part(h.desired(one)))
}

// moves are what people do to a state: they move an object to another address, or take it out.
func (h *handovers) moves(f found) {
	for i := range addresses {
		moved, other := f.world, 1-i
		if f.state[i].current.name == "" {
			continue
		}
		if f.state[other].current.name == "" {
			moved.state[other].current, moved.state[i].current = f.state[i].current, held{}
			h.reach(f.then(moved, fmt.Sprint("move ", i)))
		}
		forgotten := f.world
		forgotten.state[i].current = held{}
		h.reach(f.then(forgotten, fmt.Sprint("forget ", i)))
	}
}

func newHandovers(t *testing.T, delivery string) *handovers {
	return &handovers{T: t, ladders: map[string]topology.Topology{"x": ladder(t, "x", delivery),
		"y": ladder(t, "y", delivery)}}
}

// TestHandovers goes through plans and applies of two addresses in every order, with every failure. After an apply that
// succeeds, each object is there that the configuration declares. So are those of an address beside the target, if they
// were there before and are its own.
//
// The random lifecycle draws some hundred ways, of three resources and on a broker, and says more about each. This
// model goes all ways from each state that it visits: each configuration, order and failing step.
//
// With MODELS=all, the search does not stop before 5,000 worlds.
func TestHandovers(t *testing.T) {
	most := 25
	if os.Getenv("MODELS") == "all" {
		most = 5_000
	}
	for name, delivery := range map[string]string{"two delivery exchanges": "", "one delivery exchange": "events"} {
		t.Run(name, func(t *testing.T) {
			h := newHandovers(t, delivery)
			h.explore(most)
			t.Logf("%d worlds, %d of them with nothing after, %d ends of applies", h.worlds, len(h.queue), h.applies)
			if len(h.lost) > 0 {
				t.Error(strings.Join(h.lost, "\n"))
			}
			if h.applies < 100 {
				t.Errorf("there are only %d ends of applies", h.applies)
			}
		})
	}
}

// TestBothRulesCount takes one rule after the other out: the errors of the ledger, and a destroy's look at owners'
// marks. The search finds objects that are missing.
func TestBothRulesCount(t *testing.T) {
	for name, change := range map[string]func(*handovers){
		"the ledger": func(h *handovers) { h.unruly = true },
		"the owners": func(h *handovers) { h.heedless = true },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHandovers(t, "")
			change(h)
			if h.explore(1000); len(h.lost) == 0 {
				t.Errorf("nothing is missing in %d worlds and %d ends of applies", h.worlds, h.applies)
			}
			t.Logf("in %d worlds: %s", h.worlds, strings.Join(h.lost, "\n"))
		})
	}
}

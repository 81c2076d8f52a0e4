package acceptance

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
)

// walker plays Terraform's part for a whole configuration, as protocol does for one resource. What refers to something
// is made after it, and destroyed before it. All else goes in the order of a schedule, which Terraform leaves open. So
// that order can be repeated, and no run takes the seconds that the command line needs to start.
type walker struct {
	testing.TB
	vhost string
	types map[string]*harness.Protocol // by kind, in the hands of one provider
	mutex sync.Mutex
	state map[string]*held // by key, such as "cascade.a"
}

// resourceBlock is what a configuration has at an address: a, b or c.
type resourceBlock struct {
	kind, of    string // a destination is one of the cascade or ladder at an address
	byName      bool   // without a reference
	given       harness.Attributes
	createFirst bool // create_before_destroy
	keys        int  // of a ladder with keys of its own, see ownKeys
}

type configuration map[string]resourceBlock

func (c configuration) key(address string) string { return c[address].kind + "." + address }

// held is an object of the state.
type held struct {
	*harness.Protocol
	needs []string // what it referred to when it was applied
}

// deposed is at the end of the key of an object that create_before_destroy has replaced, and not yet destroyed. It is
// there twice after a second one.
const deposed = " (deposed)"

// current is the key without that.
func current(key string) string {
	key, _, _ = strings.Cut(key, deposed)
	return key
}

func addressOf(key string) string {
	_, address, _ := strings.Cut(current(key), ".")
	return address
}

// schedule is how Terraform is called, and in which order it goes on.
type schedule struct {
	Order           int
	Parallel        bool
	Target, Replace string // addresses
	NoRefresh       bool
	Destroy         bool  // terraform destroy
	Between         *move // comes after the plan, which was saved
	Fails           int   // after so many writes the broker is away; 0 never
	// Steps that fail are something else of the configuration. The block at the address Before depends on one.
	// Another one depends on the block at the address Behind.
	Before, Behind string
}

// walk is a plan.
type walk struct {
	state   map[string]*held // refreshed
	changes map[string]*change
}

type change struct {
	harness.PlannedChange
	prior  tftypes.Value
	wanted *resourceBlock // nil where it goes
	needs  []string
}

func newWalker(t testing.TB, b *brokertest.Broker, vhost string) *walker {
	cascades := harness.NewProtocolOf(t, harness.CascadeType, b, harness.Attributes{"retry_timeout": "1s"})
	return &walker{TB: t, vhost: vhost, state: map[string]*held{}, types: map[string]*harness.Protocol{
		"cascade": cascades, "ladder": cascades.Of(harness.LadderType),
		"destination": cascades.Of(harness.DestinationType)}}
}

// new is an object that is to be made.
func (w *walker) new(key string) *held {
	kind, _, _ := strings.Cut(key, ".")
	object := *w.types[kind]
	return &held{Protocol: &object}
}

// plan is one run. Without a refusal, all of it can be applied.
func (w *walker) plan(c configuration, how schedule) (p *walk, refusal string) {
	p = &walk{state: map[string]*held{}, changes: map[string]*change{}}
	for key, h := range w.state {
		object := *h.Protocol
		p.state[key] = &held{&object, h.needs}
	}
	w.types["cascade"].NewRun()
	nodes := map[string]node{}
	add := func(key string, each *change) {
		address := addressOf(key)
		if how.Target == "" || how.Target == address || c[how.Target].of == address {
			nodes[key] = node{each.needs, func() string { return w.planOne(p, key, each, how) }}
		}
	}
	for key := range w.state {
		add(key, &change{})
	}
	for address, block := range c {
		each := &change{wanted: &block}
		if block.of != "" {
			each.needs = []string{c.key(block.of)}
		}
		add(c.key(address), each)
	}
	return p, schedule{Order: how.Order}.walk(nodes)
}

func (w *walker) planOne(p *walk, key string, c *change, how schedule) (refusal string) {
	h := p.state[key]
	if h != nil && !how.NoRefresh {
		if text := harness.ErrorText(h.ReadState(w.Context())); text != "" {
			return text
		}
	}
	if h == nil || h.State.IsNull() {
		delete(p.state, key)
		h = w.new(key)
	}
	if c.prior = h.State; c.prior.IsNull() && c.wanted == nil {
		return ""
	}
	given := w.given(c, func(key string) tftypes.Value { return p.changes[key].State })
	c.PlannedChange = h.PlanWithin(w.Context(), given)
	if strings.HasSuffix(key, "."+how.Replace) && c.wanted != nil && !c.prior.IsNull() && !c.Replace &&
		!harness.HasErrors(c.Diagnostics) {
		before := c.Diagnostics
		c.PlannedChange = h.PlanOn(w.Context(), tftypes.NewValue(h.Resource, nil), c.Private, c.Config)
		c.Replace, c.Diagnostics = true, append(before, c.Diagnostics...)
	}
	p.changes[key] = c
	return harness.ErrorText(c.Diagnostics)
}

// given are the attributes of a block, with the values of what it refers to.
func (w *walker) given(c *change, value func(key string) tftypes.Value) harness.Attributes {
	if c.wanted == nil {
		return nil
	}
	given := c.wanted.given.With(harness.Attributes{"vhost": w.vhost})
	for name, each := range given {
		if texts, ok := each.([]string); ok {
			given[name] = harness.TextList(texts...)
		}
	}
	for _, key := range c.needs {
		source := harness.Fields(w, value(key))
		given["delivery_exchange"] = source["delivery_exchange"]
		if levels, is := source["levels"]; is && given["match"] == nil {
			given["levels"] = levels
		} else if given["match"] == nil {
			given["levels"] = 1 // of a ladder
		}
	}
	return given
}

// references are what Terraform knows to come first.
func (c *change) references() []string {
	if c.wanted != nil && c.wanted.byName {
		return nil
	}
	return c.needs
}

// isNothing tells whether there is nothing to apply.
func (c *change) isNothing() bool { return c.wanted != nil && c.IsEmpty(c.prior) }

// apply is one run. It returns the errors.
func (w *walker) apply(p *walk, how schedule) (refusal string) {
	w.state = p.state
	w.types["cascade"].NewRun()
	nodes := map[string]node{}
	if how.Before != "" {
		nodes[failingBefore] = failing()
	}
	for key, c := range p.changes {
		if c.isNothing() {
			continue
		}
		h, old := w.state[key], w.replacedAs(key, c)
		after := append(prefixed("make ", c.references()), w.destroysOf(key)...)
		if h != nil {
			after = append(after, prefixed("destroy ", h.needs)...)
		}
		if old == key {
			after = append(after, "destroy "+key)
		}
		if how.Before == addressOf(key) {
			after = append(after, failingBefore)
		}
		if c.wanted != nil {
			nodes["make "+key] = node{after, func() string { return w.make(key, old, c) }}
		}
		if h != nil && (c.wanted == nil || c.Replace) {
			nodes["destroy "+old] = node{w.before(key, old), func() string { return w.destroy(old, c) }}
		}
		if how.Behind == addressOf(key) {
			nodes[failingBehind] = failing("make " + current(key))
		}
	}
	return how.walk(nodes)
}

// replacedAs is the key that an object gets until it is destroyed: another one if create_before_destroy replaces it.
func (w *walker) replacedAs(key string, c *change) string {
	if c.Replace && c.wanted.createFirst {
		for key += deposed; w.state[key] != nil; {
			key += deposed
		}
	}
	return key
}

// Steps that fail.
const (
	failingBefore = "the step before"
	failingBehind = "the step behind"
)

func failing(after ...string) node {
	return node{after, func() string { return "A step fails." }}
}

// holds tells whether the state has something at an address.
func (w *walker) holds(address string) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(w.state)),
		func(key string) bool { return addressOf(key) == address })
}

func prefixed(verb string, keys []string) (names []string) {
	for _, key := range keys {
		names = append(names, verb+key)
	}
	return names
}

// destroysOf are the destroys of what refers to an object in the state. They come before anything is done to that.
func (w *walker) destroysOf(key string) (names []string) {
	for other, h := range w.state {
		if slices.Contains(h.needs, key) {
			names = append(names, "destroy "+other)
		}
	}
	return names
}

// before are what comes before an object is destroyed. If it is deposed, what takes its place and what follows do.
func (w *walker) before(key, old string) []string {
	names := w.destroysOf(key)
	if key = current(key); old != key {
		names = append(names, "make "+key, failingBehind)
		for _, name := range w.destroysOf(key) {
			names = append(names, strings.Replace(name, "destroy", "make", 1))
		}
	}
	return names
}

func (w *walker) get(key string) *held {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.state[key]
}

func (w *walker) set(key string, h *held) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.state[key] = h; h == nil || h.State.IsNull() {
		delete(w.state, key)
	}
}

func (w *walker) destroy(key string, c *change) (refusal string) {
	h := w.get(key)
	null := tftypes.NewValue(h.Resource, nil)
	refusal = harness.ErrorText(h.ApplyOne(w.Context(), harness.PlannedChange{Config: null, State: null,
		Private: c.Private}))
	w.set(key, h)
	return refusal
}

// make creates or updates. Terraform plans once more, with the values that it knows by then.
func (w *walker) make(key, old string, c *change) (refusal string) {
	before := w.get(key)
	h := before
	if h == nil || old != key {
		h = w.new(key)
	}
	h.needs = c.references()
	config := c.Config
	if len(h.needs) > 0 {
		config = harness.NewObject(w, h.Resource,
			w.given(c, func(key string) tftypes.Value { return w.get(key).State }))
	}
	again := h.PlanOn(w.Context(), h.State, h.Private, config)
	if harness.HasErrors(again.Diagnostics) {
		return harness.ErrorText(again.Diagnostics)
	}
	if again.Replace || c.State.IsFullyKnown() && !again.State.Equal(c.State) {
		w.Errorf("the last plan of %s is another one: replace %t, %s, not %s", key, again.Replace, again.State, c.State)
	}
	if old != key {
		w.set(old, before)
	}
	refusal = harness.ErrorText(h.ApplyOne(w.Context(), again))
	w.set(key, h)
	if old != key && h.State.IsNull() { // as if nothing had been
		w.set(old, nil)
		w.set(key, before)
	}
	return refusal
}

// node is one thing to do, after others.
type node struct {
	after []string
	do    func() (refusal string)
}

// walk does everything, but for what comes after something that is refused.
func (s schedule) walk(nodes map[string]node) (refusal string) {
	random := rand.New(rand.NewPCG(uint64(s.Order), 0)) //nolint:gosec // to be repeatable
	done, refused := map[string]bool{}, map[string]bool{}
	for len(done) < len(nodes) {
		ready := readyOf(nodes, done)
		if !s.Parallel {
			ready = []string{ready[random.IntN(len(ready))]}
		}
		texts := make([]string, len(ready))
		var together sync.WaitGroup
		for i, name := range ready {
			if slices.ContainsFunc(nodes[name].after, func(other string) bool { return refused[other] }) {
				refused[name] = true
			} else {
				together.Go(func() { texts[i] = nodes[name].do() })
			}
		}
		together.Wait()
		for i, name := range ready {
			done[name], refused[name] = true, refused[name] || texts[i] != ""
		}
		refusal += strings.Join(texts, "")
	}
	return refusal
}

// readyOf are the nodes of which all that comes before is done.
func readyOf(nodes map[string]node, done map[string]bool) (ready []string) {
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		waits := func(other string) bool { _, is := nodes[other]; return is && !done[other] }
		if !done[name] && !slices.ContainsFunc(nodes[name].after, waits) {
			ready = append(ready, name)
		}
	}
	if len(ready) == 0 {
		panic(fmt.Sprintf("a circle in %v", nodes))
	}
	return ready
}

func (s schedule) String() string {
	text := fmt.Sprintf("in order %d", s.Order)
	for word, is := range map[string]bool{", in parallel": s.Parallel, ", -target=" + s.Target: s.Target != "",
		", -replace=" + s.Replace: s.Replace != "", ", -refresh=false": s.NoRefresh, ", destroy": s.Destroy,
		fmt.Sprintf(", of a plan before %+v", s.Between):                  s.Between != nil,
		", with a failing step before " + s.Before:                        s.Before != "",
		", with a failing step behind " + s.Behind:                        s.Behind != "",
		fmt.Sprintf(", with %d writes until the broker is away", s.Fails): s.Fails > 0} {
		if is {
			text += word
		}
	}
	return text
}

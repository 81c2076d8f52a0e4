package acceptance

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Configurations change at random, and what they declare is damaged, while messages wait. After each apply that says
// success, the vhost equals one in which the same configuration was applied freshly. The next plan is empty.
// At the end, no message is gone, early or there twice, and what a fresh apply makes is not refused for ever.
//
// LIFECYCLES says how many scripts are tried, and SEED which is the first. Each has the number of its seed as its name.
// Without LIFECYCLES, the longest of many are tried, always the same. Read lifecycle.apply first.
func TestRandomLifecycle(t *testing.T) {
	t.Parallel()
	seeds := longest(2)
	if os.Getenv("LIFECYCLES") != "" {
		first := numberFrom(t, "SEED", int(time.Now().UnixNano()%1_000_000))
		seeds = seedsFrom(first, numberFrom(t, "LIFECYCLES", 0))
	}
	all := &tally{counts: map[string]int{}, examples: map[string]int{}}
	for _, words := range []string{brokenOff, usedByOthers, undoneByRebuild, sharedWithSecond} {
		all.counts[words] = 0
	}
	t.Cleanup(func() { all.report(t) })
	for some := range slices.Chunk(seeds, scriptsOfABroker) {
		t.Run("with a new broker", func(t *testing.T) { all.try(t, some) })
	}
}

// longest are the seeds of so many scripts: of the first thousand, those with the most moves and applies.
func longest(scripts int) []int {
	length := map[int]int{}
	seeds := seedsFrom(1, 1000)
	for _, seed := range seeds {
		for _, each := range anyScript().Example(seed) {
			length[seed] += len(each.Moves) + 1
		}
	}
	slices.SortStableFunc(seeds, func(a, b int) int { return length[b] - length[a] })
	return seeds[:scripts]
}

func seedsFrom(first, scripts int) (seeds []int) {
	for seed := range scripts {
		seeds = append(seeds, first+seed)
	}
	return seeds
}

// scriptsOfABroker is few. On a busy machine, RabbitMQ 4.3.6 may lose the replicas of its quorum queues, and then makes
// none.
const scriptsOfABroker = 10

// try runs the scripts of these seeds.
func (all *tally) try(t *testing.T, seeds []int) {
	broker := brokertest.Own(t, brokertest.InMemory(),
		brokertest.WithSetting("dead_letter_worker_publisher_confirm_timeout", int(deadLetterRetry.Milliseconds())))
	for _, seed := range seeds {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			t.Parallel()
			l := &lifecycle{TB: t, subject: newSubject(t, broker), seed: seed, tally: all, wanted: configuration{},
				theirs: configuration{}, fresh: map[string]fresh{}, messages: map[string]*message{},
				mayStay: map[string]string{}}
			l.met("scripts")
			l.live(anyScript().Example(seed))
		})
	}
}

func numberFrom(t *testing.T, variable string, usual int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q: write a whole number from 1", variable, text)
	}
	return n
}

// tally counts what all scripts have met.
type tally struct {
	mutex    sync.Mutex
	counts   map[string]int // by words
	examples map[string]int // a seed
}

// report says how much was tried, and how often each difference was met that is none.
func (all *tally) report(t *testing.T) {
	for _, words := range slices.Sorted(maps.Keys(all.counts)) {
		example := ""
		if n := all.counts[words]; n > 0 && strings.HasPrefix(words, "as documented: ") {
			example = fmt.Sprintf(", one of them by LIFECYCLES=1 SEED=%d", all.examples[words])
		}
		t.Logf("%s: %d%s", words, all.counts[words], example)
	}
}

// lifecycle is a script that runs.
type lifecycle struct {
	testing.TB
	*subject
	*tally
	seed     int
	wanted   configuration
	theirs   configuration    // the second state's
	fresh    map[string]fresh // by configuration
	inPlace  configuration    // all of it is there; nil if that is not known.
	damaged  bool             // since the last apply that looked
	isOver   bool             // after what says no more
	messages map[string]*message
	mayStay  map[string]string // delivery exchanges, with the reason
}

// met counts what the script has met.
func (l *lifecycle) met(words string) {
	l.tally.mutex.Lock()
	defer l.tally.mutex.Unlock()
	l.counts[words]++
	l.examples[words] = l.seed
}

func (l *lifecycle) settled() bool {
	return l.inPlace != nil && l.inPlace.String() == l.wanted.effective().String()
}

// live runs the steps. Once no message is left, the configuration can be applied, and then all can be destroyed.
func (l *lifecycle) live(s script) {
	for _, each := range s {
		l.met("steps")
		var before configuration
		for _, m := range each.Moves {
			if before == nil && !slices.Contains(inOrder, m.What) {
				before = maps.Clone(l.wanted)
			}
			l.move(m)
		}
		if refusal := l.apply(each.Apply); isOfTwo(refusal) && before != nil && each.Apply.Order%2 == 0 {
			l.wanted = before // somebody has read the error
		}
		if l.isOver {
			break
		}
	}
	l.account()
	if l.end(l.wanted); len(l.theirs) > 0 && !l.isOver {
		l.endSecond()
	}
	l.end(configuration{})
}

// end applies the configuration until it is there. What hinders that for ever has to hinder a fresh apply as well.
func (l *lifecycle) end(c configuration) {
	l.wanted = c
	refusal := ""
	for try := 0; try < 3 && !l.isOver && (try == 0 || !l.settled()); try++ {
		l.removeLeft(true)
		refusal = l.apply(schedule{Order: try})
	}
	if l.isOver || l.settled() || l.freshly(c.effective()).refusal != "" {
		return
	}
	if strings.Contains(refusal, "Delivery exchange would be left standing") || isOfTwo(refusal) ||
		strings.Contains(refusal, "Objects of the") && c.createsFirst() || len(l.theirs) > 0 || l.mayHoldMessages() {
		l.met("refused three times, with good reason")
		return
	}
	p, _ := l.plan(c.effective(), schedule{})
	l.violates("what a fresh apply makes is refused three times", []string{refusal}, schedule{}, l.claims(p))
}

// createsFirst tells whether anything creates before it destroys. It then meets its own objects.
func (c configuration) createsFirst() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(c)), func(b resourceBlock) bool { return b.createFirst })
}

// isOfTwo tells whether a plan was refused because of two addresses with the same objects. Somebody has to say then
// which one is to have them.
func isOfTwo(refusal string) bool {
	return strings.Contains(refusal, "Two resources declare the same objects") ||
		strings.Contains(refusal, "The plan deletes what another resource declares")
}

// apply applies the configuration, and compares the vhost with what a fresh apply makes.
func (l *lifecycle) apply(how schedule) (refusal string) {
	wanted := l.wanted.effective()
	p, refusal := l.planRun(wanted, how)
	if how.Destroy {
		wanted = configuration{}
	}
	if how.Between != nil {
		l.move(*how.Between)
	}
	l.inPlace = nil
	claims := l.claims(p)
	if l.isOver = l.sharesWithSecond(claims); l.isOver {
		l.met(sharedWithSecond)
		return ""
	}
	mayDestroy := l.firstMayDestroy()
	if refusal == "" {
		l.excuseForced(p)
		refusal = l.subject.apply(p, how)
		l.noteDeliveries(claims, refusal)
		l.removeLeft(false)
		if refusal == "" {
			l.mustLeave(p, mayDestroy)
		}
	}
	both := l.both(wanted, mayDestroy)
	if slices.ContainsFunc(slices.Collect(maps.Keys(l.state)),
		func(key string) bool { return key != current(key) }) {
		l.met("deposed objects after an apply")
	}
	if refusal != "" {
		if isOfTwo(refusal) {
			l.met("plans that were refused because of two addresses")
		}
		l.met("applies that were refused or broke off")
		l.Logf("  apply %s: %s", how, strings.Join(strings.Fields(refusal), " "))
		return refusal
	}
	l.met("applies that succeeded")
	l.Logf("  apply %s: success", how)
	if how.Target != "" || how.Between != nil || how.NoRefresh && l.damaged ||
		l.damaged && !l.secondGoesOn(wanted) {
		return ""
	}
	l.damaged = false
	if made := l.freshly(both); made.refusal != "" {
		l.violates("a fresh apply is refused", []string{made.refusal}, how, claims)
	} else if lines := differences(made.contents, contents(l.Objects())); len(lines) > 0 {
		l.violates("a fresh apply makes something else", lines, how, claims)
	} else if p, next := l.plan(wanted, schedule{}); next != "" {
		l.violates("the next plan is refused", []string{next}, how, claims)
	} else if lines := p.lines(); len(lines) > 0 {
		l.violates("the next plan is not empty", lines, how, claims)
	} else {
		l.inPlace = wanted
	}
	return ""
}

// planRun plans what Terraform would. A destroy that refreshes is preceded by an ordinary plan.
func (l *lifecycle) planRun(wanted configuration, how schedule) (p *walk, refusal string) {
	if p, refusal = l.plan(wanted, how); !how.Destroy || refusal != "" && !how.NoRefresh {
		return p, refusal
	}
	return l.plan(configuration{}, how)
}

// violates ends the script.
func (l *lifecycle) violates(rule string, lines []string, how schedule, claims []claim) {
	l.isOver = true
	words := rule + ":\n" + strings.Join(lines, "\n")
	if !isUndoneByRebuild(lines, how, claims) {
		l.Fatal(words)
	}
	l.met(undoneByRebuild)
	l.Logf("%s", words)
	l.excuse(undoneByRebuild, func(m *message) bool { return !m.waits() })
}

// A rebuild reads the bindings of the delivery exchange, makes that anew, and binds again. That undoes the change of a
// destination which goes on meanwhile, where Terraform knows of no dependency. An example is cascade a with destination
// b, by name: b gets another queue, and a park_unroutable = false.
const undoneByRebuild = "as documented: a delivery exchange is rebuilt beside a destination"

// isUndoneByRebuild tells whether that explains all of the lines.
func isUndoneByRebuild(lines []string, how schedule, claims []claim) bool {
	var undone []string
	for _, one := range claims {
		for _, other := range claims {
			if how.Parallel && one.isDestination() && !other.isDestination() && one.changes && other.changes &&
				one.delivery == other.delivery {
				undone = append(undone, one.objects...)
			}
		}
	}
	isExplained := func(line string) bool {
		return slices.ContainsFunc(undone, func(object string) bool { return strings.Contains(line, object) })
	}
	return !slices.ContainsFunc(lines, func(line string) bool { return !isExplained(line) })
}

// claim is what a resource has in the state before an apply, or what it is to have after it.
type claim struct {
	key, entry     string
	after, changes bool
	objects        []string
	delivery       string // which others may have, too
}

func (c claim) isDestination() bool { return strings.HasPrefix(c.key, "destination.") }

// claims are those of the state, and of a plan.
func (l *lifecycle) claims(p *walk) (claims []claim) {
	for key, h := range l.state {
		c := l.claim(key, h.State)
		change := p.changes[key]
		c.changes = change != nil && !change.isNothing()
		claims = append(claims, c)
		if c.changes && change.Replace && change.wanted.createFirst {
			c.key += deposed
			claims = append(claims, c)
		}
	}
	for key, change := range p.changes {
		if change.wanted != nil && change.State.Type() != nil && change.State.IsFullyKnown() {
			c := l.claim(key, change.State)
			c.after, c.changes = true, !change.isNothing()
			claims = append(claims, c)
		}
	}
	return claims
}

func (l *lifecycle) claim(key string, v tftypes.Value) claim {
	values := harness.PlainMap(l, v)
	c := claim{key: key, entry: fmt.Sprint(values["entry_exchange"]),
		delivery: topology.ExchangeObject(fmt.Sprint(values["delivery_exchange"]))}
	if c.isDestination() {
		b := topology.Binding{RoutingKey: fmt.Sprint(values["routing_key"]), DestinationType: topology.ToQueue,
			Destination: fmt.Sprint(values["queue"])}
		c.objects = []string{fmt.Sprintf("binding %q: %s", values["delivery_exchange"], b.Line())}
	}
	for name := range harness.AsMap(l, values["exchanges"]) {
		if topology.ExchangeObject(name) != c.delivery {
			c.objects = append(c.objects, topology.ExchangeObject(name))
		}
	}
	for name := range harness.AsMap(l, values["queues"]) {
		c.objects = append(c.objects, topology.QueueObject(name))
	}
	return c
}

// lines are the resources that change.
func (p *walk) lines() (lines []string) {
	for key, c := range p.changes {
		if !c.isNothing() {
			lines = append(lines, fmt.Sprintf("%s is planned: %s, before %s", key, c.State, c.prior))
		}
	}
	return lines
}

// fresh is what comes of an apply in an empty vhost.
type fresh struct {
	contents []string
	refusal  string
}

// freshly applies in the right order: the named objects are there already, wherever nobody is to make them.
func (l *lifecycle) freshly(c configuration) fresh {
	c = c.referring()
	if made, tried := l.fresh[c.String()]; tried {
		return made
	}
	empty := newSubject(l, l.Vhost.Broker)
	p, refusal := empty.plan(c, schedule{})
	if refusal == "" {
		refusal = empty.apply(p, schedule{})
	}
	made := fresh{contents(empty.Objects()), refusal}
	l.fresh[c.String()] = made
	return made
}

// contents are all objects, policies included. Bindings that differ only in the marks of destinations are counted.
func contents(t topology.Topology) []string {
	count := map[topology.Binding]int{}
	for b := range t.Bindings {
		count[b.Plain()]++
	}
	lines := harness.Inventory(harness.WithoutMarks(t))
	for b, n := range count {
		if n > 1 {
			lines = append(lines, fmt.Sprintf("binding %q: %s, %d times", b.Source, b.Line(), n))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.Policies)) {
		lines = append(lines, fmt.Sprintf("policy %q: %v", name, t.Policies[name]))
	}
	return lines
}

func differences(want, have []string) (lines []string) {
	for _, line := range slices.Concat(want, have) {
		if !slices.Contains(have, line) {
			lines = append(lines, line+" (is missing)")
		} else if !slices.Contains(want, line) {
			lines = append(lines, line+" (is there as well)")
		}
	}
	return lines
}

// These are no violations: delivery exchanges stay that nobody has any more.
const (
	usedByOthers = "as documented: a delivery exchange stays that others used"
	// Cascade a gets another delivery_exchange, and the broker is away for one of the last writes, or for all. The
	// error names the old one.
	brokenOff = "as documented: a delivery exchange stays after an update that has put another one in its place, and " +
		"broken off"
)

// noteDeliveries notes those that may stay when something lets go of them, and why.
func (l *lifecycle) noteDeliveries(claims []claim, refusal string) {
	claims = append(claims, l.claimsOfSecond()...)
	for _, one := range claims {
		for _, other := range claims {
			if one.delivery == other.delivery && (one.isDestination() || one.key != other.key) {
				l.mayStay[one.delivery] = usedByOthers
			}
			isNamed := strings.Contains(refusal, "The old delivery "+one.delivery)
			if isNamed && one.key == other.key && one.delivery != other.delivery {
				l.mayStay[one.delivery] = brokenOff
			}
		}
	}
}

// removeLeft removes those that no cascade or ladder has any more, if they are no longer used. At the end they go
// anyway: they may be in the way of what the configuration asks for.
func (l *lifecycle) removeLeft(atTheEnd bool) {
	there, held := l.Objects(), append(l.claims(&walk{}), l.claimsOfSecond()...)
	for name := range there.Exchanges {
		object := topology.ExchangeObject(name)
		isHeld := slices.ContainsFunc(held, func(c claim) bool { return c.delivery == object && !c.isDestination() })
		bound := there.Bindings.Where(func(b topology.Binding) bool { return b.Source == name })
		if why := l.mayStay[object]; why != "" && !isHeld && (len(bound) == 0 || atTheEnd) && name != events {
			l.met(why)
			l.Do(plan.DeleteExchange{Name: name})
		}
	}
}

package acceptance

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"golang.org/x/sync/errgroup"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/sampling"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// TestFaultAtEveryRequest lets every request of a create, an update and a destroy go wrong in every
// way. What goes wrong once is made good within the operation. After what goes wrong for good, either
// nothing or everything is done, or the state names all that exists; and one more apply converges.
//
// Each fault lasts for one try, for all tries of the request, or for everything that follows, by turns. With
// FAULTS=all, each of the three is tried everywhere.
func TestFaultAtEveryRequest(t *testing.T) {
	t.Parallel()
	all := os.Getenv("FAULTS") == "all"
	count := atEveryPoint(t, interrupted.fail, func(i int) []failure {
		var failures []failure
		for j, f := range []fault{answers500, answers503, resets, hangs, truncates, loses} {
			for k, lasts := range []persistence{once, always, fromHere} {
				if all || (i+j)%3 == k {
					failures = append(failures, failure{f, lasts})
				}
			}
		}
		return failures
	})
	if !all && !narrowed() {
		figure(t, "failure_points", count)
	}
}

// TestKillAtEveryRequest ends the provider at every request of the same operations, before the broker gets it and
// after. Nothing more reaches the broker, and the state stays as it was. The next run converges; after a create it
// names the existing objects, and both ways out work.
func TestKillAtEveryRequest(t *testing.T) {
	t.Parallel()
	count := atEveryPoint(t, interrupted.kill, func(int) []failure {
		return []failure{{resets, fromHere},
			{loses, fromHere}}
	})
	if !narrowed() {
		figure(t, "kill_points", count)
	}
}

// failure is what goes wrong at a point.
type failure struct {
	fault
	lasts persistence
}

// atEveryPoint tries the failures that are meant for the i-th point of each operation, or a sample of them, and counts
// all of them. Much of the time goes by in waiting. So it tries many at once, each in a vhost that the one before has
// left empty.
func atEveryPoint(
	t *testing.T, try func(interrupted, *vhost, point, failure), failures func(i int) []failure,
) (count int) {
	const together = 16
	vhosts := make(chan *vhost, together)
	for range together {
		vhosts <- newVhost(t)
	}
	var group errgroup.Group
	group.SetLimit(together)
	for _, o := range interruptions {
		all, counted := o.attempts(newVhost(t), failures)
		count += counted
		for _, each := range sampling.Of(t, "faults in a "+o.String(), all) {
			group.Go(func() error {
				v := <-vhosts
				sound := t.Run(fmt.Sprintf("%s, %s, %s %s", o, each.at, each.fault, each.lasts),
					func(t *testing.T) {
						in := *v
						in.TB = t
						try(o, &in, each.at, each.failure)
					})
				if !sound {
					v = newVhost(t)
				}
				vhosts <- v
				return nil
			})
		}
	}
	_ = group.Wait() // the tests themselves fail
	return count
}

// pointFailure is one thing that goes wrong at one point.
type pointFailure struct {
	at point
	failure
}

// attempts are all of them in an operation. The count is the same on every version: only RabbitMQ before 4.0 is asked
// for the list of queues.
func (o interrupted) attempts(v *vhost, failures func(i int) []failure) (all []pointFailure, counted int) {
	for i, at := range o.points(v) {
		for _, f := range failures(i) {
			all = append(all, pointFailure{at, f})
			if at.path != "/api/queues/{vhost}" {
				counted++
			}
		}
	}
	return all, counted
}

// interrupted is an operation in which something goes wrong.
type interrupted struct {
	typeName  string
	queueType delay.QueueType
	base      int // of a cascade
	verb      string
}

// interruptions are all operations of each kind of resource.
var interruptions = func() (all []interrupted) {
	for _, o := range []interrupted{
		{typeName: cascadeType, queueType: delay.Quorum, base: 2},
		{typeName: cascadeType, queueType: delay.Classic, base: 10},
		{typeName: ladderType, queueType: delay.Quorum},
	} {
		for _, verb := range []string{"create", "update", "rebuild", "destroy"} {
			o.verb = verb
			all = append(all, o)
		}
	}
	return all
}()

func (o interrupted) String() string {
	what := fmt.Sprintf("%s %s of %s queues", o.verb, strings.TrimPrefix(o.typeName, "rabbitmqdelay_"), o.queueType)
	if o.base > 0 {
		what += fmt.Sprintf(" in base %d", o.base)
	}
	return what
}

// trial is one go at the operation, in a vhost of its own.
type trial struct {
	*vhost
	sound   *protocol // has the way to the broker without the proxy
	proxy   *faultProxy
	given   attributes // after the operation; nil for a destroy
	desired topology.Topology
	before  topology.Topology
}

// prepare is the broker and the state as they are before the operation.
func (o interrupted) prepare(v *vhost) *trial {
	v.Helper()
	a := &trial{vhost: v, sound: newProtocolOf(v, o.typeName, v.broker, nil), proxy: newFaultProxy(v, v.broker),
		desired: topology.New()}
	if o.typeName == ladderType {
		o.prepareLadder(a)
	} else {
		o.prepareCascade(a)
	}
	a.before = v.objects()
	return a
}

func (o interrupted) prepareLadder(a *trial) {
	a.Helper()
	given := attributes{"vhost": a.name, "name": "t", "delays": textSet("1h", "2h"), "queue_type": string(o.queueType)}
	config := delay.LadderConfig{Name: "t", Vhost: a.name, Delays: []string{"1h", "2h"}, QueueType: o.queueType,
		CreateDeliveryExchange: true, ParkUnroutable: true}
	switch o.verb {
	case "create":
		a.given, a.desired = given, expandLadder(a, config)
	case "update":
		// A delay goes, one comes, and something else is to be repaired.
		a.sound.mustApply(given)
		a.do(plan.DeleteExchange{Name: "t.delivery"},
			plan.DeleteQueue{Queue: expandLadder(a, config).Queues["t.delay-2h"]})
		config.Delays = []string{"2h", "3h"}
		a.given, a.desired = given.with(attributes{"delays": textSet("2h", "3h")}), expandLadder(a, config)
		noErrors(a, a.sound.refresh(a.Context()))
	case "rebuild":
		a.sound.mustApply(given)
		config.DeadLetterRoutingKey, config.Delays = "late", []string{"2h", "3h"}
		a.given = given.with(attributes{"dead_letter_routing_key": "late", "delays": textSet("2h", "3h")})
		a.desired = expandLadder(a, config)
	case "destroy":
		a.sound.mustApply(given)
	}
}

func (o interrupted) prepareCascade(a *trial) {
	v := a.vhost
	v.Helper()
	given := attributes{"vhost": v.name, "name": "t", "base": o.base, "levels": o.levels(), "resolution": "1h",
		"queue_type": string(o.queueType)}
	config := delay.Config{Name: "t", Vhost: v.name, Base: o.base, Levels: o.levels(), Resolution: time.Hour,
		QueueType:              o.queueType,
		CreateDeliveryExchange: true, StrictKeys: true, InternalLevels: true, ParkUnroutable: true}
	switch o.verb {
	case "create":
		a.given, a.desired = given, expand(v, config)
	case "update":
		// Something of each kind is to be done: bind, unbind, declare an exchange and a queue, recreate a queue.
		a.sound.mustApply(given)
		o.damage(v, expand(v, config))
		config.Lookahead, config.StrictKeys = 1, false
		a.given, a.desired = given.with(attributes{"lookahead": 1, "strict_keys": false}), expand(v, config)
		noErrors(v, a.sound.refresh(v.Context()))
	case "rebuild":
		// The delivery exchange has to be recreated, or there are other queues.
		a.sound.mustApply(given)
		if o.queueType == delay.Quorum {
			config.Resolution, config.ParkUnroutable = 2*time.Hour, false
			given = given.with(attributes{"resolution": "2h", "park_unroutable": false})
		} else {
			config.Base--
			given = given.with(attributes{"base": config.Base})
		}
		a.given, a.desired = given, expand(v, config)
	case "destroy":
		a.sound.mustApply(given)
	}
}

// levels are few, because a fault is tried at each request. In base 10 one level has nine queues.
func (o interrupted) levels() int {
	if o.base == 10 {
		return 1
	}
	return 2
}

// damage takes away the delivery exchange and a queue, and makes a queue wrong.
func (o interrupted) damage(v *vhost, whole topology.Topology) {
	v.Helper()
	missing, wrong := whole.Queues[delayQueue(whole, 0)], whole.Queues[delayQueue(whole, 1)]
	v.do(plan.DeleteExchange{Name: "t.delivery"}, plan.DeleteQueue{Queue: missing}, plan.DeleteQueue{Queue: wrong})
	wrong.Arguments = topology.Arguments{"x-queue-type": string(o.queueType), "x-message-ttl": int64(5)}
	v.do(plan.DeclareQueue{Queue: wrong})
}

// points are those of the operation when nothing goes wrong.
func (o interrupted) points(v *vhost) []point {
	v.Helper()
	a := o.prepare(v)
	_, diagnostics := a.operate()
	noErrors(v, diagnostics)
	a.mustHold(a.desired)
	var points []point
	for _, p := range a.proxy.points() {
		p.path = strings.ReplaceAll(p.path, a.name, "{vhost}")
		points = append(points, p)
	}
	return points
}

// strike sets the fault.
func (a *trial) strike(at point, f failure) {
	at.path = strings.ReplaceAll(at.path, "{vhost}", a.name)
	a.proxy.at, a.proxy.failure = at, f
}

// hangTimeout is how long a request that hangs is waited for: longer than any takes on a busy machine.
const hangTimeout = "4s"

// operate runs the operation that is to go wrong, behind the proxy.
func (a *trial) operate() (*protocol, []*tfprotov6.Diagnostic) {
	a.Helper()
	patience := attributes{"retry_timeout": onceMore}
	switch {
	case a.proxy.fault == kills:
		delete(patience, "retry_timeout") // the default is for a broker that restarts
	case a.proxy.lasts == once:
		patience["retry_timeout"] = "3s"
	}
	if a.proxy.fault == hangs {
		patience["request_timeout"] = hangTimeout
	}
	p := a.sound.with(a.proxy.front(), patience)
	todo := p.plan(a.Context(), a.given)
	return p, p.apply(a.Context(), todo)
}

// strikeOnce prepares and does the operation until the request is made in which something is to go wrong. On a busy
// machine, what else goes out over AMQP may take its place in one go or two.
func (o interrupted) strikeOnce(v *vhost, at point, f failure) (*trial, *protocol, []*tfprotov6.Diagnostic) {
	v.Helper()
	for range 3 {
		a := o.prepare(v)
		a.strike(at, f)
		p, diagnostics := a.operate()
		if a.proxy.hasStruck() {
			return a, p, diagnostics
		}
		noErrors(v, diagnostics)
		a.adopt(p)
		a.sound.mustApply(nil)
	}
	v.Fatal("this request was not made")
	return nil, nil, nil
}

// adopt goes on without the proxy, from the state that the operation has left.
func (a *trial) adopt(p *protocol) {
	a.sound.state, a.sound.private, a.sound.tainted = p.state, p.private, p.tainted
}

func (o interrupted) fail(v *vhost, at point, f failure) {
	a, p, diagnostics := o.strikeOnce(v, at, f)
	a.adopt(p)
	switch {
	case !hasErrors(diagnostics):
		a.mustHold(a.desired)
	case f.lasts == once:
		v.Errorf("the %s does not get over it: %s", o.verb, errorText(diagnostics))
	default:
		a.mustBeNamed()
	}
	a.converge()
}

// mustBeNamed checks that the state names all that exists.
func (a *trial) mustBeNamed() {
	a.Helper()
	named := map[string]bool{}
	if !a.sound.state.IsNull() {
		state := fields(a, a.sound.state)
		for _, kind := range []string{"exchanges", "queues"} {
			for name := range fields(a, state[kind]) {
				named[kind+name] = true
			}
		}
	}
	there := a.objects()
	for name := range there.Exchanges {
		if !named["exchanges"+name] {
			a.Errorf("exchange %q exists, and is not in the state", name)
		}
	}
	for name := range there.Queues {
		if !named["queues"+name] {
			a.Errorf("queue %q exists, and is not in the state", name)
		}
	}
}

// converge is one more apply, after which all is well.
func (a *trial) converge() {
	a.Helper()
	a.sound.mustApply(a.given)
	a.mustHold(a.desired)
	if a.given != nil {
		a.sound.mustBeSettled(a.given)
		a.sound.mustApply(nil)
		a.mustHold(topology.New())
	}
}

func (o interrupted) kill(v *vhost, at point, f failure) {
	a, _, _ := o.strikeOnce(v, at, f) // what comes of it dies with the process
	left := a.objects()
	// What the operation made under names that were not there before.
	surprises := inventoryNames(left)
	before := inventoryNames(a.before)
	surprises = slices.DeleteFunc(surprises, func(object string) bool {
		shared := object == `exchange "t.delivery"`
		return shared || slices.Contains(before, object) || o.verb == "update" && object != `queue "t.delay-3h"`
	})
	if len(surprises) == 0 {
		a.converge()
		return
	}
	noErrors(v, a.sound.refresh(v.Context()))
	text := errorText(a.sound.apply(v.Context(), a.sound.plan(v.Context(), a.given)))
	for _, object := range surprises {
		if !strings.Contains(text, object) {
			v.Errorf("the error does not name %s: %s", object, text)
		}
	}
	a.mustHold(left)
	id := importCommand.FindStringSubmatch(text)
	// The keys of the exchange below prove the entry, once they are there and all that they lead to.
	shown := o.typeName == cascadeType && o.levels() > 1 && o.verb == "create" && isWholeBelow(a.desired, left)
	switch {
	case f.fault == resets && id != nil:
		a.sound = newProtocolOf(v, o.typeName, a.broker, nil)
		noErrors(v, a.sound.importState(v.Context(), id[1]))
	case id == nil && shown:
		v.Errorf("no import is offered: %s", text)
	default:
		a.given = a.given.with(attributes{"adopt": true})
	}
	a.converge()
}

// isWholeBelow tells whether all is there but the entry and its bindings.
func isWholeBelow(want, have topology.Topology) bool {
	for _, step := range plan.Repair(want, have.Part(want)).Steps() {
		declare, isExchange := step.(plan.DeclareExchange)
		bind, isBinding := step.(plan.Bind)
		ofEntry := isExchange && declare.Exchange.Name == want.Entry || isBinding && bind.Binding.Source == want.Entry
		_, unbinds := step.(plan.Unbind)
		if !ofEntry && !unbinds {
			return false
		}
	}
	return true
}

// inventoryNames are the exchanges and queues as errors name them.
func inventoryNames(t topology.Topology) []string {
	var names []string
	for name := range t.Exchanges {
		names = append(names, fmt.Sprintf("exchange %q", name))
	}
	for name := range t.Queues {
		names = append(names, fmt.Sprintf("queue %q", name))
	}
	return names
}

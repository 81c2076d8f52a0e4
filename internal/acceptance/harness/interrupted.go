package harness

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// OperateOneByOne operates with one request at a time.
func (a *Trial) OperateOneByOne(ctx context.Context) []*tfprotov6.Diagnostic {
	a.T.Helper()
	p := a.Sound.With(a.Proxy.Front(), Attributes{"max_parallel_requests": 1})
	diagnostics := p.Apply(ctx, p.Plan(ctx, a.Given))
	if !a.Proxy.HasStruck() {
		a.T.Fatal("the broker was not stopped")
	}
	a.Sound.State, a.Sound.Private, a.Sound.Tainted = p.State, p.Private, p.Tainted
	return diagnostics
}

// DelayQueueName is the name of the delay queue with so many shorter ones.
func DelayQueueName(desired topology.Topology, shorter int) string {
	ttls := map[string]int64{}
	for name, q := range desired.Queues {
		if ttl, delays := q.Arguments["x-message-ttl"].(int64); delays {
			ttls[name] = ttl
		}
	}
	names := slices.SortedFunc(maps.Keys(ttls), func(x, y string) int { return cmp.Compare(ttls[x], ttls[y]) })
	return names[shorter]
}

// Failure is what goes wrong at a point.
type Failure struct {
	Fault
	Lasts Persistence
}

// Interrupted is an operation in which something goes wrong.
type Interrupted struct {
	TypeName  string
	QueueType delay.QueueType
	Base      int // of a cascade, 0 with units
	Verb      string
}

// Interruptions are all operations of each kind of resource.
var Interruptions = func() (all []Interrupted) {
	for _, o := range []Interrupted{
		{TypeName: CascadeType, QueueType: delay.Quorum, Base: 2},
		{TypeName: CascadeType, QueueType: delay.Classic, Base: 10},
		{TypeName: CascadeType, QueueType: delay.Quorum},
		{TypeName: LadderType, QueueType: delay.Quorum},
	} {
		for _, verb := range []string{"create", "update", "rebuild", "destroy"} {
			o.Verb = verb
			all = append(all, o)
		}
	}
	return append(all, Interrupted{TypeName: CascadeType, QueueType: delay.Quorum, Verb: "grow"},
		Interrupted{TypeName: CascadeType, QueueType: delay.Classic, Verb: "shrink"})
}()

func (o Interrupted) String() string {
	what := fmt.Sprintf("%s %s of %s queues", o.Verb, strings.TrimPrefix(o.TypeName, "rabbitmqdelay_"), o.QueueType)
	switch {
	case o.Base > 0:
		what += fmt.Sprintf(" in base %d", o.Base)
	case o.TypeName == CascadeType:
		what += " with units"
	}
	return what
}

// Trial is one go at the operation, in a vhost of its own.
type Trial struct {
	*Vhost
	Sound   *Protocol // has the way to the broker without the proxy
	Proxy   *FaultProxy
	Held    Attributes // before the operation; nil for a create
	Given   Attributes // after the operation; nil for a destroy
	Desired topology.Topology
	Before  topology.Topology
}

// Prepare is the broker and the state as they are before the operation.
func (o Interrupted) Prepare(v *Vhost) *Trial {
	v.T.Helper()
	a := &Trial{Vhost: v, Sound: NewProtocolOf(v.T, o.TypeName, v.Broker, nil), Proxy: NewFaultProxy(v.T, v.Broker),
		Desired: topology.New()}
	if o.TypeName == LadderType {
		o.prepareLadder(a)
	} else {
		o.prepareCascade(a)
	}
	a.Before = v.Objects()
	return a
}

// hold makes what there is before the operation.
func (a *Trial) hold(given Attributes) {
	a.T.Helper()
	a.Held = given
	a.Sound.MustApply(given)
}

func (o Interrupted) prepareLadder(a *Trial) {
	a.T.Helper()
	given := Attributes{"vhost": a.Name, "name": "t", "delays": TextList("1h", "2h"), "queue_type": string(o.QueueType)}
	config := delay.LadderConfig{Name: "t", Vhost: a.Name, Delays: []string{"1h", "2h"}, QueueType: o.QueueType,
		CreateDeliveryExchange: true, ParkUnroutable: true}
	switch o.Verb {
	case "create":
		a.Given, a.Desired = given, ExpandLadder(a.T, config)
	case "update":
		// A delay goes, one comes, and something else is to be repaired.
		a.hold(given)
		a.Do(plan.DeleteExchange{Name: "t.delivery"},
			plan.DeleteQueue{Queue: ExpandLadder(a.T, config).Queues["t.delay-2h"]})
		config.Delays = []string{"2h", "3h"}
		a.Given, a.Desired = given.With(Attributes{"delays": TextList("2h", "3h")}), ExpandLadder(a.T, config)
		NoErrors(a.T, a.Sound.Refresh(a.T.Context()))
	case "rebuild":
		a.hold(given)
		config.DeadLetterRoutingKey, config.Delays = "late", []string{"2h", "3h"}
		a.Given = given.With(Attributes{"dead_letter_routing_key": "late", "delays": TextList("2h", "3h")})
		a.Desired = ExpandLadder(a.T, config)
	case "destroy":
		a.hold(given)
	}
}

func (o Interrupted) prepareCascade(a *Trial) {
	v := a.Vhost
	v.T.Helper()
	given, config := o.cascade(v)
	switch o.Verb {
	case "create":
		a.Given, a.Desired = given, Expand(v.T, config)
	case "update":
		// Something of each kind is to be done: bind, unbind, declare an exchange and a queue, recreate a queue.
		a.hold(given)
		o.Damage(v, Expand(v.T, config))
		config.Lookahead, config.StrictKeys = 1, false
		a.Given, a.Desired = given.With(Attributes{"lookahead": 1, "strict_keys": false}), Expand(v.T, config)
		NoErrors(v.T, a.Sound.Refresh(v.T.Context()))
	case "rebuild":
		// The delivery exchange has to be recreated, or there are other queues, or both.
		a.hold(given)
		switch {
		case o.Base == 0:
			config.QueueName, config.ParkUnroutable = "q.%s", false
			given = given.With(Attributes{"queue_name": "q.%s", "park_unroutable": false})
		case o.QueueType == delay.Quorum:
			config.Resolution, config.ParkUnroutable = 2*time.Hour, false
			given = given.With(Attributes{"resolution": "2h", "park_unroutable": false})
		default:
			config.Base--
			given = given.With(Attributes{"base": config.Base})
		}
		a.Given, a.Desired = given, Expand(v.T, config)
	case "destroy":
		a.hold(given)
	case "grow":
		// A queue of each of two levels comes, or goes.
		a.hold(given.With(Attributes{"max_delay": "20m"}))
		a.Given, a.Desired = given, Expand(v.T, config)
	case "shrink":
		a.hold(given)
		config.MaxDelay = 20 * time.Minute
		a.Given, a.Desired = given.With(Attributes{"max_delay": "20m"}), Expand(v.T, config)
	}
}

// cascade is a configuration of few queues.
func (o Interrupted) cascade(v *Vhost) (given Attributes, config delay.Config) {
	given = Attributes{"vhost": v.Name, "name": "t", "queue_type": string(o.QueueType)}
	config = delay.Config{Name: "t", Vhost: v.Name, QueueType: o.QueueType, CreateDeliveryExchange: true,
		StrictKeys: true, ParkUnroutable: true}
	if o.Base == 0 {
		config.Units, config.MaxDelay = []time.Duration{time.Hour, 20 * time.Minute}, time.Hour
		return given.With(Attributes{"units": TextList("1h", "20m"), "max_delay": "1h"}), config
	}
	config.Base, config.Levels, config.Resolution = o.Base, o.Levels(), time.Hour
	return given.With(Attributes{"base": o.Base, "levels": o.Levels(), "resolution": "1h"}), config
}

// Levels are few, because a fault is tried at each request. In base 10 one level has nine queues.
func (o Interrupted) Levels() int {
	if o.Base == 10 {
		return 1
	}
	return 2
}

// Damage takes away the delivery exchange and a queue, and makes a queue wrong.
func (o Interrupted) Damage(v *Vhost, whole topology.Topology) {
	v.T.Helper()
	missing, wrong := whole.Queues[DelayQueueName(whole, 0)], whole.Queues[DelayQueueName(whole, 1)]
	v.Do(plan.DeleteExchange{Name: "t.delivery"}, plan.DeleteQueue{Queue: missing}, plan.DeleteQueue{Queue: wrong})
	wrong.Arguments = topology.Arguments{"x-queue-type": string(o.QueueType), "x-message-ttl": int64(5)}
	v.Do(plan.DeclareQueue{Queue: wrong})
}

// Points are those of the operation when nothing goes wrong.
func (o Interrupted) Points(v *Vhost) []Point {
	v.T.Helper()
	a := o.Prepare(v)
	_, diagnostics := a.Operate()
	NoErrors(v.T, diagnostics)
	a.MustHold(a.Desired)
	var points []Point
	for _, p := range a.Proxy.Points() {
		p.Path = strings.ReplaceAll(p.Path, a.Name, "{vhost}")
		points = append(points, p)
	}
	return points
}

// Strike sets the fault.
func (a *Trial) Strike(at Point, f Failure) {
	at.Path = strings.ReplaceAll(at.Path, "{vhost}", a.Name)
	a.Proxy.At, a.Proxy.Failure = at, f
}

// HangTimeout is how long a request that hangs is waited for: longer than any takes on a busy machine.
const HangTimeout = "4s"

// Operate runs the operation that is to go wrong, behind the proxy.
func (a *Trial) Operate() (*Protocol, []*tfprotov6.Diagnostic) {
	a.T.Helper()
	patience := Attributes{"retry_timeout": OnceMore}
	switch {
	case a.Proxy.Fault == Kills:
		delete(patience, "retry_timeout") // the default is for a broker that restarts
	case a.Proxy.Lasts == Once:
		patience["retry_timeout"] = "30s" // room for a busy machine: one more attempt succeeds
	}
	if a.Proxy.Fault == Hangs {
		patience["request_timeout"] = HangTimeout
	}
	p := a.Sound.With(a.Proxy.Front(), patience)
	todo := p.Plan(a.T.Context(), a.Given)
	return p, p.Apply(a.T.Context(), todo)
}

// Adopt goes on without the proxy, from the state that the operation has left.
func (a *Trial) Adopt(p *Protocol) {
	a.Sound.State, a.Sound.Private, a.Sound.Tainted = p.State, p.Private, p.Tainted
}

// MustBeNamed checks that the state names all that exists.
func (a *Trial) MustBeNamed() {
	a.T.Helper()
	named := map[string]bool{}
	if !a.Sound.State.IsNull() {
		state := Fields(a.T, a.Sound.State)
		for _, kind := range []string{"exchanges", "queues"} {
			for name := range Fields(a.T, state[kind]) {
				named[kind+name] = true
			}
		}
	}
	there := a.Objects()
	for name := range there.Exchanges {
		if !named["exchanges"+name] {
			a.T.Errorf("exchange %q exists, and is not in the state", name)
		}
	}
	for name := range there.Queues {
		if !named["queues"+name] {
			a.T.Errorf("queue %q exists, and is not in the state", name)
		}
	}
}

// Converge is one more apply, after which all is well.
func (a *Trial) Converge() {
	a.T.Helper()
	a.Sound.MustApply(a.Given)
	a.MustHold(a.Desired)
	if a.Given != nil {
		a.Sound.MustBeSettled(a.Given)
		a.Sound.MustApply(nil)
		a.MustHold(topology.New())
	}
}

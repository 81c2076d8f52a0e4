package acceptance

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/sampling"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// oldView is a read of an operation that a node answers which lags behind, and what that node has not seen.
type oldView struct {
	harness.Interrupted
	withoutAMQP bool
	at          harness.Point
	lasts       harness.Persistence
	unseen      string
	rehearsed   []string // the reads of the operation
}

// What the node has not seen: a message that waits, a binding of an application, and another owner's create.
const (
	aMessage     = "a message"
	aBinding     = "a binding"
	anotherOwner = "another owner"
)

func (o oldView) String() string {
	parts := []string{o.Interrupted.String(), o.at.String(), "old " + string(o.lasts), o.unseen}
	if o.withoutAMQP {
		parts = append(parts, "without AMQP")
	}
	return strings.Join(parts, ", ")
}

// TestOldViews lets each read of each operation be answered as it was a moment ago, as by a node that lags behind.
// Since then a message came, an application bound its queue, or another owner created or adopted the same. The
// operation may be refused. It deletes no message, nothing of another owner, no binding of others, and none that a
// message on its way needs.
//
// Without AMQP, one answer alone is old. A broker whose counts never move proves nothing there.
func TestOldViews(t *testing.T) {
	t.Parallel()
	operations := slices.Clone(harness.Interruptions)
	for _, verb := range slices.Sorted(maps.Keys(destinationOperations(""))) {
		operations = append(operations,
			harness.Interrupted{TypeName: harness.DestinationType, QueueType: delay.Quorum, Verb: verb})
	}
	const together = 16
	var rehearsals, group errgroup.Group
	rehearsals.SetLimit(together)
	group.SetLimit(together)
	views := make([][]oldView, 2*len(operations))
	for i := range views {
		rehearsals.Go(func() error {
			views[i] = oldView{Interrupted: operations[i/2], withoutAMQP: i%2 == 1}.rehearse(t)
			return nil
		})
	}
	_ = rehearsals.Wait()
	if t.Failed() {
		t.FailNow()
	}
	all := slices.Concat(views...)
	var tried, struck atomic.Int64
	for _, o := range sampling.Of(t, "old views", all) {
		group.Go(func() error {
			t.Run(o.String(), func(t *testing.T) {
				tried.Add(1)
				if o.mustLoseNothing(t) {
					struck.Add(1)
				}
			})
			return nil
		})
	}
	_ = group.Wait() // the tests themselves fail
	t.Logf("%d of %d operations met an old answer", struck.Load(), tried.Load())
	if tried.Load() >= 40 && 4*struck.Load() < tried.Load() {
		t.Error("few operations met an old answer")
	}
	if !narrowed() {
		// Which queues are counted once more depends on how busy the machine is.
		figure(t, "old_views", len(all)/100*100)
	}
}

// rehearse does the operation, and returns its old views.
func (o oldView) rehearse(t *testing.T) (all []oldView) {
	a := o.prepare(t)
	_, diagnostics := a.Operate()
	harness.NoErrors(t, diagnostics)
	for _, uri := range a.Proxy.Reads {
		o.rehearsed = append(o.rehearsed, strings.ReplaceAll(uri, a.Name, "{vhost}"))
	}
	for _, o.at = range a.Proxy.Points() {
		if o.at.Method != http.MethodGet {
			continue
		}
		o.at.Path = strings.ReplaceAll(o.at.Path, a.Name, "{vhost}")
		for _, o.unseen = range o.mayMiss() {
			for _, o.lasts = range []harness.Persistence{harness.Once, harness.Always} {
				if o.lasts == harness.Once || !o.withoutAMQP {
					all = append(all, o)
				}
			}
		}
	}
	return all
}

func (o oldView) mayMiss() []string {
	switch {
	case o.Verb == "create":
		return []string{anotherOwner}
	case o.TypeName == harness.DestinationType:
		return []string{aMessage, aBinding}
	case o.Verb == "update": // its delivery exchange is gone
		return []string{aMessage}
	}
	return []string{aMessage, aBinding, anotherOwner}
}

// prepare is the broker and the state as they are before the operation.
func (o oldView) prepare(t *testing.T) (a *harness.Trial) {
	if o.TypeName == harness.DestinationType {
		v := harness.NewDestinationsOf(t, harness.Attributes{"name": "t", "levels": 2, "resolution": "1h",
			"queue_type": string(o.QueueType)}, "orders", "other", "third")
		is := destinationOperations(v.Name)[o.Verb]
		a = &harness.Trial{Vhost: v, Sound: v.Destination(), Proxy: harness.NewFaultProxy(t, v.Broker), Given: is.after}
		a.Sound.MustApply(is.before)
		if is.broken != nil {
			breakOff(a.Sound, harness.NewFaultProxy(t, v.Broker), is.broken)
		}
	} else {
		a = o.Prepare(harness.NewVhost(t))
	}
	if o.withoutAMQP {
		a.Proxy = harness.NewFaultProxy(t, harness.WithoutAMQP(t, a.Broker))
	}
	return a
}

// mustLoseNothing tells whether the operation met an old answer. What the node has not seen may have refused it before,
// or led it past the read.
func (o oldView) mustLoseNothing(t *testing.T) (isStruck bool) {
	a := o.prepare(t)
	v := a.Vhost
	reads := slices.Clone(o.rehearsed)
	for i := range reads {
		reads[i] = strings.ReplaceAll(reads[i], "{vhost}", v.Name)
	}
	a.Proxy.Remember(reads)
	messages := 0
	entry, key := "t.delay-01", ""
	publish := func(of *harness.Protocol) {
		// The longest delay of some of these, of the others an unroutable key, which is parked.
		key = map[string]string{harness.LadderType: "2h.x"}[o.TypeName]
		switch {
		case o.TypeName == harness.DestinationType:
			key = "1.0." + text(t, of, "address")
		case o.Verb == "update":
			key = "none.x"
		case o.TypeName == harness.CascadeType && o.Levels() == 1:
			key = "5.x"
		case o.TypeName == harness.CascadeType && o.Base == 0 && o.Verb == "grow":
			key = "0.1.x"
		case o.TypeName == harness.CascadeType:
			key = "1.0.x"
		}
		if o.TypeName != harness.DestinationType {
			entry = text(t, of, "entry_exchange")
		}
		v.Publish(entry, key, "waits")
		messages++
	}
	const application = "application"
	var owned topology.Topology
	switch o.unseen {
	case anotherOwner:
		publish(o.takeOver(a))
		owned = v.Objects()
	case aMessage:
		publish(a.Sound)
	case aBinding:
		v.DeclareQueue(application, map[string]any{"x-queue-type": "quorum"})
		bound := "#"
		if o.TypeName == harness.DestinationType {
			bound = harness.DestinationKey(2, text(t, a.Sound, "address"))
		}
		v.Bind("t.delivery", bound, "queue", application)
	}
	a.Strike(o.at, harness.Failure{Fault: harness.IsOld, Lasts: o.lasts})
	_, diagnostics := a.Operate()
	t.Logf("struck %t: %.300s", a.Proxy.HasStruck(), harness.ErrorText(diagnostics))

	left := v.Objects()
	for queue := range left.Queues {
		messages -= v.Depth(queue)
	}
	if gone := owned.Minus(left); !gone.IsEmpty() {
		t.Errorf("of another owner, %v are gone: %v", gone.Objects(), harness.ErrorText(diagnostics))
	}
	if messages != 0 {
		t.Errorf("%d messages are lost: %v", messages, harness.ErrorText(diagnostics))
	}
	if o.unseen == aBinding && len(left.Bindings.Where(func(b topology.Binding) bool {
		return b.Source == "t.delivery" && b.LeadsTo(topology.ToQueue, application)
	})) == 0 {
		t.Errorf("the application's binding is gone: %v", harness.ErrorText(diagnostics))
	}
	if o.TypeName == harness.DestinationType && key != "" {
		// Another message comes out of the cascade, as that on its way will.
		if v.Publish("t.delivery", key, "comes out"); v.Depth("t.unroutable") > 0 {
			t.Errorf("nothing takes %q any more: %v", key, harness.ErrorText(diagnostics))
		}
	}
	return a.Proxy.HasStruck()
}

// takeOver has another owner make the same, or adopt the objects that are there.
func (o oldView) takeOver(a *harness.Trial) *harness.Protocol {
	other, given := harness.NewProtocolOf(a.T, o.TypeName, a.Broker, nil), a.Given
	if o.Verb != "create" {
		given = a.Held.With(harness.Attributes{"adopt": true})
	}
	other.MustApply(given)
	return other
}

// text is an attribute of the state.
func text(t *testing.T, p *harness.Protocol, name string) (value string) {
	t.Helper()
	if err := harness.Fields(t, p.State)[name].As(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

package acceptance

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/sampling"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// oldView is a read of an operation that a node answers which lags behind, and what that node has not seen.
type oldView struct {
	harness.Interrupted
	at        harness.Point
	lasts     harness.Persistence
	unseen    string
	rehearsed []string // the reads of the operation
}

// What the node has not seen: a message that waits, a binding of an application, and another owner's create.
const (
	aMessage     = "a message"
	aBinding     = "a binding"
	anotherOwner = "another owner"
)

func (o oldView) String() string {
	return strings.Join([]string{o.Interrupted.String(), o.at.String(), "old " + string(o.lasts), o.unseen}, ", ")
}

// TestOldViews lets each read of each operation be answered as it was a moment ago, as by a node that lags behind.
// Since then a message came, an application bound its queue, or another owner created the same. The operation
// may be refused. It deletes no message and no binding.
func TestOldViews(t *testing.T) {
	t.Parallel()
	var all []oldView
	for _, o := range harness.Interruptions {
		v := harness.NewVhost(t)
		rehearsal := o.Prepare(v)
		_, diagnostics := rehearsal.Operate()
		harness.NoErrors(t, diagnostics)
		for _, at := range rehearsal.Proxy.Points() {
			if at.Method != http.MethodGet {
				continue
			}
			at.Path = strings.ReplaceAll(at.Path, v.Name, "{vhost}")
			reads := make([]string, len(rehearsal.Proxy.Reads))
			for i, uri := range rehearsal.Proxy.Reads {
				reads[i] = strings.ReplaceAll(uri, v.Name, "{vhost}")
			}
			for _, unseen := range unseenBy(o) {
				for _, lasts := range []harness.Persistence{harness.Once, harness.Always} {
					all = append(all, oldView{o, at, lasts, unseen, reads})
				}
			}
		}
	}
	var group errgroup.Group
	const together = 8
	group.SetLimit(together)
	for _, o := range sampling.Of(t, "old views", all) {
		group.Go(func() error {
			t.Run(o.String(), o.mustLoseNothing)
			return nil
		})
	}
	_ = group.Wait() // the tests themselves fail
	if !narrowed() {
		// As attempts does, without the list of queues.
		all = slices.DeleteFunc(all, func(o oldView) bool { return o.at.Path == "/api/queues/{vhost}" })
		figure(t, "old_views", len(all))
	}
}

func unseenBy(o harness.Interrupted) []string {
	switch o.Verb {
	case "create":
		return []string{anotherOwner}
	case "update": // its delivery exchange is gone
		return []string{aMessage}
	}
	return []string{aMessage, aBinding}
}

func (o oldView) mustLoseNothing(t *testing.T) {
	v := harness.NewVhost(t)
	a := o.Prepare(v)
	reads := slices.Clone(o.rehearsed)
	for i := range reads {
		reads[i] = strings.ReplaceAll(reads[i], "{vhost}", v.Name)
	}
	a.Proxy.Remember(reads)
	messages := 0
	publish := func(of *harness.Protocol) {
		// The longest delay of some of these, of the others an unroutable key, which is parked.
		key := map[string]string{harness.LadderType: "2h.x"}[o.TypeName]
		switch {
		case o.Verb == "update":
			key = "none.x"
		case o.TypeName == harness.CascadeType && o.Levels() == 1:
			key = "5.x"
		case o.TypeName == harness.CascadeType && o.Base == 0 && o.Verb == "grow":
			key = "0.1.x"
		case o.TypeName == harness.CascadeType:
			key = "1.0.x"
		}
		v.Publish(text(t, of, "entry_exchange"), key, "waits")
		messages++
	}
	const application = "application"
	switch o.unseen {
	case anotherOwner:
		other := harness.NewProtocolOf(t, o.TypeName, v.Broker, nil)
		other.MustApply(a.Given)
		publish(other)
	case aMessage:
		publish(a.Sound)
	case aBinding:
		v.DeclareQueue(application, map[string]any{"x-queue-type": "quorum"})
		v.Bind("t.delivery", "#", "queue", application)
	}
	a.Strike(o.at, harness.Failure{Fault: harness.IsOld, Lasts: o.lasts})
	_, diagnostics := a.Operate()
	// What the node has not seen may have refused the operation before this read, or have led it past the read.
	t.Logf("struck %t: %.300s", a.Proxy.HasStruck(), harness.ErrorText(diagnostics))

	left := v.Objects()
	for queue := range left.Queues {
		messages -= v.Depth(queue)
	}
	if messages != 0 {
		t.Errorf("%d messages are lost: %v", messages, harness.ErrorText(diagnostics))
	}
	if o.unseen == aBinding && len(left.Bindings.Where(func(b topology.Binding) bool {
		return b.Source == "t.delivery" && b.LeadsTo(topology.ToQueue, application)
	})) == 0 {
		t.Errorf("the application's binding is gone: %v", harness.ErrorText(diagnostics))
	}
}

// text is an attribute of the state.
func text(t *testing.T, p *harness.Protocol, name string) (value string) {
	t.Helper()
	if err := harness.Fields(t, p.State)[name].As(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

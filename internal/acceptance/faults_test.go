package acceptance

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"golang.org/x/sync/errgroup"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
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
	count := atEveryPoint(t, failAt, func(i int) []harness.Failure {
		var failures []harness.Failure
		for j, f := range []harness.Fault{harness.Answers500, harness.Answers503, harness.Resets, harness.Hangs,
			harness.Truncates, harness.Loses} {
			for k, lasts := range []harness.Persistence{harness.Once, harness.Always, harness.FromHere} {
				if all || (i+j)%3 == k {
					failures = append(failures, harness.Failure{Fault: f, Lasts: lasts})
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
	count := atEveryPoint(t, killAt, func(int) []harness.Failure {
		return []harness.Failure{{Fault: harness.Resets, Lasts: harness.FromHere},
			{Fault: harness.Loses, Lasts: harness.FromHere}}
	})
	if !narrowed() {
		figure(t, "kill_points", count)
	}
}

// atEveryPoint tries the failures that are meant for the i-th point of each operation, or a sample of them, and counts
// all of them. Much of the time goes by in waiting. So it tries many at once, each in a vhost that the one before has
// left empty.
func atEveryPoint(
	t *testing.T, try func(harness.Interrupted, *harness.Vhost, harness.Point,
		harness.Failure), failures func(i int) []harness.Failure,
) (count int) {
	const together = 16
	vhosts := make(chan *harness.Vhost, together)
	for range together {
		vhosts <- harness.NewVhost(t)
	}
	var group errgroup.Group
	group.SetLimit(together)
	// The tests themselves fail. They end before this one, also after a failure here.
	defer func() { _ = group.Wait() }()
	for _, o := range harness.Interruptions {
		all, counted := attempts(o, harness.NewVhost(t), failures)
		count += counted
		for _, each := range sampling.Of(t, "faults in a "+o.String(), all) {
			group.Go(func() error {
				v := <-vhosts
				sound := t.Run(fmt.Sprintf("%s, %s, %s %s", o, each.at, each.Fault, each.Lasts),
					func(t *testing.T) {
						in := *v
						in.T = t
						try(o, &in, each.at, each.Failure)
					})
				if !sound {
					v = harness.NewVhost(t)
				}
				vhosts <- v
				return nil
			})
		}
	}
	return count
}

// pointFailure is one thing that goes wrong at one point.
type pointFailure struct {
	at harness.Point
	harness.Failure
}

// attempts are all of them in an operation. The count leaves out the list of queues, so that it is the same on every
// version. RabbitMQ 4.3.6 is asked for that list in destroys alone.
func attempts(o harness.Interrupted, v *harness.Vhost, failures func(i int) []harness.Failure) (all []pointFailure,
	counted int) {
	for i, at := range o.Points(v) {
		for _, f := range failures(i) {
			all = append(all, pointFailure{at, f})
			if at.Path != "/api/queues/{vhost}" {
				counted++
			}
		}
	}
	return all, counted
}

// strikeOnce prepares and does the operation until the request is made in which something is to go wrong. On a busy
// machine, what else goes out over AMQP may take its place in one go or two.
func strikeOnce(o harness.Interrupted, v *harness.Vhost, at harness.Point, f harness.Failure) (*harness.Trial,
	*harness.Protocol, []*tfprotov6.Diagnostic) {
	v.T.Helper()
	for range 3 {
		a := o.Prepare(v)
		a.Strike(at, f)
		p, diagnostics := a.Operate()
		if a.Proxy.HasStruck() {
			return a, p, diagnostics
		}
		harness.NoErrors(v.T, diagnostics)
		a.Adopt(p)
		a.Sound.MustApply(nil)
	}
	v.T.Fatal("this request was not made")
	return nil, nil, nil
}

func failAt(o harness.Interrupted, v *harness.Vhost, at harness.Point, f harness.Failure) {
	a, p, diagnostics := strikeOnce(o, v, at, f)
	a.Adopt(p)
	switch {
	case !harness.HasErrors(diagnostics):
		a.MustHold(a.Desired)
	case f.Lasts == harness.Once:
		v.T.Errorf("the %s does not get over it: %s", o.Verb, harness.ErrorText(diagnostics))
	default:
		a.MustBeNamed()
	}
	a.Converge()
}

func killAt(o harness.Interrupted, v *harness.Vhost, at harness.Point, f harness.Failure) {
	a, _, _ := strikeOnce(o, v, at, f) // what comes of it dies with the process
	left := a.Objects()
	// What the operation made under names that were not there before.
	surprises := inventoryNames(left)
	before := inventoryNames(a.Before)
	surprises = slices.DeleteFunc(surprises, func(object string) bool {
		shared := object == `exchange "t.delivery"`
		return shared || slices.Contains(before, object) || o.Verb == "update" && object != `queue "t.delay-3h"`
	})
	if len(surprises) == 0 {
		a.Converge()
		return
	}
	harness.NoErrors(v.T, a.Sound.Refresh(v.T.Context()))
	text := harness.ErrorText(a.Sound.Apply(v.T.Context(), a.Sound.Plan(v.T.Context(), a.Given)))
	for _, object := range surprises {
		if !strings.Contains(text, object) {
			v.T.Errorf("the error does not name %s: %s", object, text)
		}
	}
	a.MustHold(left)
	id := importCommand.FindStringSubmatch(text)
	// The keys of the exchange below prove the entry, once they are there and all that they lead to.
	shown := o.TypeName == harness.CascadeType && o.Levels() > 1 && o.Verb == "create" && isWholeBelow(a.Desired, left)
	switch {
	case f.Fault == harness.Resets && id != nil:
		a.Sound = harness.NewProtocolOf(v.T, o.TypeName, a.Broker, nil)
		harness.NoErrors(v.T, a.Sound.ImportState(v.T.Context(), id[1]))
	case id == nil && shown:
		v.T.Errorf("no import is offered: %s", text)
	default:
		a.Given = a.Given.With(harness.Attributes{"adopt": true})
	}
	a.Converge()
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

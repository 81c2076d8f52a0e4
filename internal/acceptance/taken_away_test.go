package acceptance

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
)

// A cascade that is gone, alone or with its vhost, leaves the state, and the next apply creates it
// anew. No identity is passed here, as by Terraform before 1.12.
func TestGoneCascadeIsCreatedAnew(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	configuration := harness.Attributes{"name": "t", "vhost": v.Name, "levels": 2, "queue_type": "classic"}
	p := harness.NewProtocol(t, v.Broker, nil)
	p.MustApply(configuration)
	mustBeGone := func() {
		t.Helper()
		harness.NoErrors(t, p.Refresh(t.Context()))
		if !p.State.IsNull() {
			t.Errorf("the cascade is gone, but it is in the state")
		}
	}

	for _, name := range []string{"t.delay-00", "t.delay-01", "t.unroutable"} {
		v.Try(v.API.DeleteQueue(v.Name, name))
		v.Try(v.API.DeleteExchange(v.Name, name))
	}
	v.Try(v.API.DeleteExchange(v.Name, "t.delivery"))
	mustBeGone()
	p.MustApply(configuration)

	v.Try(v.API.DeleteVhost(v.Name))
	mustBeGone()
	v.Try(v.API.PutVhost(v.Name, rabbithole.VhostSettings{})) // which the end of the test expects
}

// TestVhostIsDeletedMeanwhile deletes the vhost at every request of an operation, which waits for the end of that or
// goes on meanwhile. A destroy is done by it. All else says that there is no such vhost, and nothing of
// permissions.
func TestVhostIsDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"create", "update", "destroy"} {
		// with quorum queues, RabbitMQ 3.10.8 would lose its at-least-once dead-lettering
		o := harness.Interrupted{TypeName: harness.CascadeType, QueueType: delay.Classic, Base: 2, Verb: verb}
		for _, at := range o.Points(harness.NewVhost(t)) {
			if strings.HasPrefix(at.Path, "/api/users/") {
				continue // an administrator alone asks for permissions
			}
			for _, waits := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, %s, waits: %t", verb, at, waits), func(t *testing.T) {
					t.Parallel()
					loseVhost(o, t, at, waits)
				})
			}
		}
	}
}

// loseVhost deletes the vhost, and looks at what the operation says.
func loseVhost(o harness.Interrupted, t *testing.T, at harness.Point, waits bool) {
	a, _ := prepareAsUser(o, t, at)
	gone, took := make(chan struct{}), time.Duration(0)
	a.Proxy.Kill = func() {
		go func() {
			defer close(gone)
			began := time.Now()
			a.Try(a.API.DeleteVhost(a.Name))
			took = time.Since(began)
		}()
		if waits {
			<-gone
		}
	}
	_, diagnostics := a.Operate()
	mustHaveStruck(a)
	<-gone
	text := harness.ErrorText(diagnostics)
	// RabbitMQ takes permissions first. The provider waits 6 s for the rest, and then names both causes.
	if took > 5*time.Second && strings.Contains(text, "may not use it, or it does not exist") {
		t.Skipf("a busy machine: RabbitMQ took %s to delete the vhost", took)
	}
	diagnostics = slices.DeleteFunc(diagnostics, func(d *tfprotov6.Diagnostic) bool { // it may warn of damages
		return d.Severity != tfprotov6.DiagnosticSeverityError
	})
	// a part of it was still there
	says := strings.Contains(text, "vhost not found") ||
		strings.Contains(text, "another application changed the cascade meanwhile") ||
		strings.Contains(text, "{shutdown,") // which RabbitMQ says while it stops the vhost
	// Policies are read beside all else, which may have been there before.
	mustFail := waits && o.Verb != "destroy" && !strings.Contains(at.Path, "policies")
	if harness.HasErrors(diagnostics) && (len(diagnostics) != 1 || !says || strings.Contains(text, "permission")) ||
		!harness.HasErrors(diagnostics) && mustFail {
		t.Errorf("%d errors: %s", len(diagnostics), text)
	}
}

// TestRightsChangeMeanwhile takes away what a user may do in the middle of an operation. That ends soon, with one
// error, and the state names all that exists. Once the user may do it again, one apply converges.
func TestRightsChangeMeanwhile(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"create", "update", "rebuild", "destroy"} {
		o := harness.Interrupted{TypeName: harness.CascadeType, QueueType: delay.Quorum, Base: 2, Verb: verb}
		at := lastDeletion(o.Points(harness.NewVhost(t)))
		for what, change := range map[string]struct{ take, give func(*harness.User) }{
			"tag": {func(u *harness.User) { u.Tag("") }, func(u *harness.User) { u.Tag("management") }},
			"password": {func(u *harness.User) { u.Password("another") },
				func(u *harness.User) { u.Password(harness.UserPassword) }},
			"permissions": {func(u *harness.User) { u.Grant([3]string{"^$", "^$", "^$"}) },
				func(u *harness.User) { u.Grant(allRights) }},
			"vhost": {func(u *harness.User) { u.Succeeds(u.Admin.ClearPermissionsIn(u.Vhost, u.Name)) },
				func(u *harness.User) { u.Grant(allRights) }},
		} {
			t.Run(fmt.Sprintf("%s, %s, %s", verb, what, at), func(t *testing.T) {
				t.Parallel()
				a, u := prepareAsUser(o, t, at)
				a.Proxy.Kill = func() { change.take(u) }
				began := time.Now()
				p, diagnostics := a.Operate()
				took := time.Since(began)
				mustHaveStruck(a)
				change.give(u)
				a.Adopt(p)
				text := harness.ErrorText(diagnostics)
				if took > 45*time.Second || len(diagnostics) > 1 && harness.HasErrors(diagnostics) {
					t.Errorf("%d errors after %s: %s", len(diagnostics), took, text)
				}
				if harness.HasErrors(diagnostics) {
					a.MustBeNamed()
				} else {
					a.MustHold(a.Desired)
				}
				a.Converge()
			})
		}
	}
}

var allRights = [3]string{".*", ".*", ".*"}

// prepareAsUser prepares the operation for a user that may do all. The proxy kills at the point.
func prepareAsUser(o harness.Interrupted, t *testing.T, at harness.Point) (*harness.Trial, *harness.User) {
	t.Helper()
	v := harness.NewVhost(t)
	u := harness.NewUser(t, v.Broker, v.Name)
	u.Grant(allRights)
	v.Broker = u.Broker()
	a := o.Prepare(v)
	a.Strike(at, harness.Failure{Fault: harness.Kills, Lasts: harness.Once})
	return a, u
}

func mustHaveStruck(a *harness.Trial) {
	a.T.Helper()
	if !a.Proxy.HasStruck() {
		a.T.Fatal("nothing was taken away")
	}
}

// lastDeletion is the point of the last deletion, or of the write in the middle where nothing is deleted.
func lastDeletion(points []harness.Point) harness.Point {
	var writes []harness.Point
	last := -1
	for _, p := range points {
		if p.Method != http.MethodGet {
			writes = append(writes, p)
		}
		if p.Method == http.MethodDelete {
			last = len(writes) - 1
		}
	}
	if last < 0 {
		last = len(writes) / 2
	}
	return writes[last]
}

// TestNotDeleted has a gateway say that an existing object is deleted, or leave an object out of a list. The error
// names the leftovers, and one more apply deletes them.
func TestNotDeleted(t *testing.T) {
	t.Parallel()
	without := harness.Attributes{"park_unroutable": false}
	for name, is := range map[string]struct {
		object string // that is left
		change harness.Attributes
	}{
		"destroy, an exchange": {object: "exchanges/{vhost}/t.delay-00"},
		"destroy, a queue":     {object: "queues/{vhost}/t.delay-00"},
		"rebuild, a queue":     {object: "queues/{vhost}/t.unroutable", change: without},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := harness.NewVhost(t)
			given := harness.Attributes{"vhost": v.Name, "name": "t", "levels": 2, "queue_type": "classic"}
			p := harness.NewProtocol(t, v.Broker, nil)
			p.MustApply(given)
			lies := true
			front := *v.Broker
			front.Endpoint = harness.NewGateway(t, v.Broker, nil, func(w http.ResponseWriter, r *http.Request) bool {
				lies := lies && r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path,
					strings.ReplaceAll(is.object, "{vhost}", v.Name))
				if lies {
					w.WriteHeader(http.StatusNoContent)
				}
				return lies
			}).URL
			p = p.With(&front, nil)
			var target harness.Attributes
			if is.change != nil {
				target = given.With(is.change)
			}
			_, left, _ := strings.Cut(is.object, "{vhost}/")
			diagnostics := p.Apply(t.Context(), p.Plan(t.Context(), target))
			if text := harness.ErrorText(diagnostics); len(diagnostics) != 1 ||
				!strings.Contains(text, `still there: `) ||
				!strings.Contains(text, left) {
				t.Errorf("%d errors: %s", len(diagnostics), text)
			}
			lies = false
			p.MustApply(target)
			if there := v.Objects(); there.Exchanges[left].Name+there.Queues[left].Name != "" {
				t.Errorf("%q is left", left)
			}
		})
	}
}

// TestRefusedDestroyBeginsNothing destroys as a user who may not delete some object, or none. The destroy finds that
// out before anything is deleted. The error names the missing permission and says that nothing is gone.
func TestRefusedDestroyBeginsNothing(t *testing.T) {
	t.Parallel()
	b := brokertest.Shared(t)
	for _, force := range []bool{false, true} {
		for _, missing := range []string{`t\.delay-02`, `t\.delay-01`, `t\.unroutable`, `.*`} {
			t.Run(fmt.Sprintf("%s, force: %t", missing, force), func(t *testing.T) {
				refuseDestroy(t, force, b, missing)
			})
		}
	}
}

// refuseDestroy tries a destroy that is refused and looks at the objects.
func refuseDestroy(t *testing.T, force bool, b *brokertest.Broker, missing string) {
	t.Parallel()
	v := harness.NewVhost(t)
	given := harness.Attributes{"vhost": v.Name, "name": "t", "levels": 4, "force_destroy": force}
	harness.NewProtocol(t, v.Broker, nil).MustApply(given)
	before := v.Objects()
	u := harness.NewUser(t, b, v.Name)
	u.Grant([3]string{"^(?!" + missing + "$)", ".*", ".*"})
	p := harness.NewProtocol(t, u.Broker(), nil)
	harness.NoErrors(t, p.ImportState(t.Context(), v.Name+"/t.delay-03"))
	harness.NoErrors(t, p.Refresh(t.Context()))
	p.MustApply(given)
	diagnostics := p.Apply(t.Context(), p.Plan(t.Context(), nil))
	text := harness.ErrorText(diagnostics)
	says := []string{"permission denied", "make sure of the permission to declare", "configure",
		"Nothing of it is gone."}
	harness.MustSay(t, "the error", text, says...)
	if len(diagnostics) != 1 || strings.Contains(text, "left to do") {
		t.Errorf("%d errors: %s", len(diagnostics), text)
	}
	v.MustHold(before)
}

// TestDestroyIsRefusedHalfWay loses a permission in the middle of a destroy, and others before it can bring back what
// it has deleted. What can be brought back is there again. The entry is open if nothing behind it is missing, and
// only then.
func TestDestroyIsRefusedHalfWay(t *testing.T) {
	t.Parallel()
	for name, is := range map[string]destroyHalfWay{
		"nothing more": {says: []string{"Nothing of it is gone."}},
		"a binding of others": {
			refused: "POST /api/bindings/{vhost}/e/feed/",
			missing: []string{"feed"},
			says: []string{`this is there again: exchange "t.delay-00"`, "left to do:\n\n  bind exchange \"feed\" " +
				"to exchange \"t.delay-00\"", `"t.delay-03", the entry, is open`},
		},
		"a level": {
			refused: "PUT /api/exchanges/{vhost}/t.delay-00",
			missing: []string{"t.delay-00", "t.delay-03", "feed"},
			says: []string{`this is there again: exchange "t.delay-01", `, `declare exchange "t.delay-00"`,
				`declare exchange "t.delay-03"`, `"t.delay-03", the entry, stays closed`},
		},
		"a binding of the entry": {
			refused: "POST /api/bindings/{vhost}/e/t.delay-03/q/t.delay-02",
			missing: []string{"t.delay-03"},
			says: []string{`this is there again: exchange "t.delay-00"`, `declare exchange "t.delay-03"`,
				`"t.delay-03", the entry, stays closed`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			refuseDestroyHalfWay(t, is)
		})
	}
}

type destroyHalfWay struct {
	refused string // beside the third deletion, by the beginning of method and path
	missing []string
	says    []string
}

// refuseDestroyHalfWay lets a message arrive in the middle of a destroy.
func refuseDestroyHalfWay(t *testing.T, is destroyHalfWay) {
	t.Parallel()
	v := harness.NewVhost(t)
	v.DeclareExchange("feed", "topic")
	given := harness.Attributes{"vhost": v.Name, "name": "t", "levels": 4, "queue_type": "classic"}
	p := harness.NewProtocol(t, v.Broker, nil)
	p.MustApply(given)
	v.Bind("feed", "lowest.#", "exchange", "t.delay-00")
	before := v.Objects()

	through := harness.WithoutAMQP(t, v.Broker)
	var mutex sync.Mutex
	struck := false
	through.Endpoint = harness.NewGateway(t, through, nil, func(w http.ResponseWriter, r *http.Request) bool {
		mutex.Lock()
		defer mutex.Unlock()
		request := r.Method + " " + strings.ReplaceAll(r.URL.Path, v.Name, "{vhost}")
		struck = struck || request == "DELETE /api/exchanges/{vhost}/t.delay-02"
		refuses := struck && (request == "DELETE /api/exchanges/{vhost}/t.delay-02" || is.refused != "" &&
			strings.HasPrefix(request, is.refused))
		if refuses {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"error":"not_authorised","reason":"ACCESS_REFUSED - configure access ` +
				`refused"}`))
		}
		return refuses
	}).URL
	failing := p.With(through, harness.Attributes{"max_parallel_requests": 1})
	diagnostics := failing.Apply(t.Context(), failing.Plan(t.Context(), nil))
	text := harness.ErrorText(diagnostics)
	harness.MustSay(t, "the error", text, append(is.says, "permission denied", `delete exchange "t.delay-02"`)...)
	if len(diagnostics) != 1 {
		t.Errorf("%d errors", len(diagnostics))
	}
	have, want := harness.Inventory(v.Objects()), harness.Inventory(before)
	isMissing := func(line string) bool {
		return slices.ContainsFunc(is.missing, func(name string) bool {
			return strings.Contains(line, name) && !strings.Contains(line, "exchange feed")
		})
	}
	for _, line := range want {
		if !slices.Contains(have, line) && !isMissing(line) {
			t.Errorf("this is not there again: %s", line)
		}
	}
	_, open := v.Objects().Exchanges["t.delay-03"]
	if open == slices.Contains(is.missing, "t.delay-03") {
		t.Errorf("the entry is there: %t", open)
	}

	p = failing.With(v.Broker, nil)
	p.MustApply(given)
	p.MustBeSettled(given)
	p.MustApply(nil)
}

package acceptance

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
)

// A cascade that is gone, alone or with its vhost, leaves the state, and the next apply creates it
// anew. No identity is passed here, as by Terraform before 1.12.
func TestGoneCascadeIsCreatedAnew(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	configuration := attributes{"name": "t", "vhost": v.name, "levels": 2, "queue_type": "classic"}
	p := newProtocol(t, v.broker, nil)
	p.mustApply(configuration)
	mustBeGone := func() {
		t.Helper()
		noErrors(t, p.refresh(t.Context()))
		if !p.state.IsNull() {
			t.Errorf("the cascade is gone, but it is in the state")
		}
	}

	for _, name := range []string{"t.delay-00", "t.delay-01", "t.unroutable"} {
		v.try(v.api.DeleteQueue(v.name, name))
		v.try(v.api.DeleteExchange(v.name, name))
	}
	v.try(v.api.DeleteExchange(v.name, "t.delivery"))
	mustBeGone()
	p.mustApply(configuration)

	v.try(v.api.DeleteVhost(v.name))
	mustBeGone()
	v.try(v.api.PutVhost(v.name, rabbithole.VhostSettings{})) // which the end of the test expects
}

// TestVhostIsDeletedMeanwhile deletes the vhost at every request of an operation, which waits for the end of that or
// goes on meanwhile. A destroy is done by it. All else says that there is no such vhost, and nothing of
// permissions.
func TestVhostIsDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"create", "update", "destroy"} {
		// with quorum queues, RabbitMQ 3.10.8 would lose its at-least-once dead-lettering
		o := interrupted{cascadeType, delay.Classic, 2, verb}
		for _, at := range o.points(newVhost(t)) {
			for _, waits := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, %s, waits: %t", verb, at, waits), func(t *testing.T) {
					t.Parallel()
					o.loseVhost(t, at, waits)
				})
			}
		}
	}
}

// loseVhost deletes the vhost, and looks at what the operation says.
func (o interrupted) loseVhost(t *testing.T, at point, waits bool) {
	a, _ := o.prepareAsUser(t, at)
	gone := make(chan struct{})
	a.proxy.kill = func() {
		go func() {
			defer close(gone)
			a.try(a.api.DeleteVhost(a.name))
		}()
		if waits {
			<-gone
		}
	}
	_, diagnostics := a.operate()
	a.mustHaveStruck()
	<-gone
	text := errorText(diagnostics)
	// a part of it was still there
	says := strings.Contains(text, "vhost not found") ||
		strings.Contains(text, "somebody else changed the cascade meanwhile")
	// Policies are read beside all else, which may have been there before.
	mustFail := waits && o.verb != "destroy" && !strings.Contains(at.path, "policies")
	if hasErrors(diagnostics) && (len(diagnostics) != 1 || !says || strings.Contains(text, "permission")) ||
		!hasErrors(diagnostics) && mustFail {
		t.Errorf("%d errors: %s", len(diagnostics), text)
	}
}

// TestRightsChangeMeanwhile takes away what a user may do in the middle of an operation. That ends soon, with one
// error, and the state names all that exists. Once the user may do it again, one apply converges.
func TestRightsChangeMeanwhile(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"create", "update", "rebuild", "destroy"} {
		o := interrupted{cascadeType, delay.Quorum, 2, verb}
		at := lastDeletion(o.points(newVhost(t)))
		for what, change := range map[string]struct{ take, give func(*user) }{
			"tag":         {func(u *user) { u.tag("") }, func(u *user) { u.tag("management") }},
			"password":    {func(u *user) { u.password("another") }, func(u *user) { u.password(userPassword) }},
			"permissions": {func(u *user) { u.grant([3]string{"^$", "^$", "^$"}) }, func(u *user) { u.grant(allRights) }},
			"vhost": {func(u *user) { u.succeeds(u.admin.ClearPermissionsIn(u.vhost, u.name)) },
				func(u *user) { u.grant(allRights) }},
		} {
			t.Run(fmt.Sprintf("%s, %s, %s", verb, what, at), func(t *testing.T) {
				t.Parallel()
				a, u := o.prepareAsUser(t, at)
				a.proxy.kill = func() { change.take(u) }
				began := time.Now()
				p, diagnostics := a.operate()
				took := time.Since(began)
				a.mustHaveStruck()
				change.give(u)
				a.adopt(p)
				text := errorText(diagnostics)
				if took > 45*time.Second || len(diagnostics) > 1 && hasErrors(diagnostics) {
					t.Errorf("%d errors after %s: %s", len(diagnostics), took, text)
				}
				if hasErrors(diagnostics) {
					a.mustBeNamed()
				} else {
					a.mustHold(a.desired)
				}
				a.converge()
			})
		}
	}
}

var allRights = [3]string{".*", ".*", ".*"}

// prepareAsUser prepares the operation for a user that may do all. The proxy kills at the point.
func (o interrupted) prepareAsUser(t *testing.T, at point) (*trial, *user) {
	t.Helper()
	v := newVhost(t)
	u := newUser(t, v.broker, v.name)
	u.grant(allRights)
	v.broker = u.broker()
	a := o.prepare(v)
	a.strike(at, failure{kills, once})
	return a, u
}

func (a *trial) mustHaveStruck() {
	a.Helper()
	if !a.proxy.hasStruck() {
		a.Fatal("nothing was taken away")
	}
}

// lastDeletion is the point of the last deletion, or of the write in the middle where nothing is deleted.
func lastDeletion(points []point) point {
	var writes []point
	last := -1
	for _, p := range points {
		if p.method != http.MethodGet {
			writes = append(writes, p)
		}
		if p.method == http.MethodDelete {
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
	without := attributes{"park_unroutable": false}
	for name, is := range map[string]struct {
		object string // that is left
		change attributes
	}{
		"destroy, an exchange": {object: "exchanges/{vhost}/t.delay-00"},
		"destroy, a queue":     {object: "queues/{vhost}/t.delay-00"},
		"rebuild, a queue":     {object: "queues/{vhost}/t.unroutable", change: without},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVhost(t)
			given := attributes{"vhost": v.name, "name": "t", "levels": 2, "queue_type": "classic"}
			p := newProtocol(t, v.broker, nil)
			p.mustApply(given)
			lies := true
			front := *v.broker
			front.Endpoint = newGateway(t, v.broker, nil, func(w http.ResponseWriter, r *http.Request) bool {
				lies := lies && r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path,
					strings.ReplaceAll(is.object, "{vhost}", v.name))
				if lies {
					w.WriteHeader(http.StatusNoContent)
				}
				return lies
			}).URL
			p = p.with(&front, nil)
			var target attributes
			if is.change != nil {
				target = given.with(is.change)
			}
			_, left, _ := strings.Cut(is.object, "{vhost}/")
			diagnostics := p.apply(t.Context(), p.plan(t.Context(), target))
			if text := errorText(diagnostics); len(diagnostics) != 1 || !strings.Contains(text, `still there: `) ||
				!strings.Contains(text, left) {
				t.Errorf("%d errors: %s", len(diagnostics), text)
			}
			lies = false
			p.mustApply(target)
			if there := v.objects(); there.Exchanges[left].Name+there.Queues[left].Name != "" {
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
	v := newVhost(t)
	given := attributes{"vhost": v.name, "name": "t", "levels": 4, "force_destroy": force}
	newProtocol(t, v.broker, nil).mustApply(given)
	before := v.objects()
	u := newUser(t, b, v.name)
	u.grant([3]string{"^(?!" + missing + "$)", ".*", ".*"})
	p := newProtocol(t, u.broker(), nil)
	noErrors(t, p.importState(t.Context(), v.name+"/t.delay-03"))
	noErrors(t, p.refresh(t.Context()))
	p.mustApply(given)
	diagnostics := p.apply(t.Context(), p.plan(t.Context(), nil))
	text := errorText(diagnostics)
	says := []string{"permission denied", "make sure of the permission to declare", "configure",
		"Nothing of it is gone."}
	mustSay(t, "the error", text, says...)
	if len(diagnostics) != 1 || strings.Contains(text, "left to do") {
		t.Errorf("%d errors: %s", len(diagnostics), text)
	}
	v.mustHold(before)
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
	v := newVhost(t)
	v.declareExchange("feed", "topic")
	given := attributes{"vhost": v.name, "name": "t", "levels": 4, "queue_type": "classic"}
	p := newProtocol(t, v.broker, nil)
	p.mustApply(given)
	v.bind("feed", "lowest.#", "exchange", "t.delay-00")
	before := v.objects()

	through := *v.broker
	var mutex sync.Mutex
	struck := false
	through.Endpoint = newGateway(t, v.broker, nil, func(w http.ResponseWriter, r *http.Request) bool {
		mutex.Lock()
		defer mutex.Unlock()
		request := r.Method + " " + strings.ReplaceAll(r.URL.Path, v.name, "{vhost}")
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
	failing := p.with(&through, attributes{"max_parallel_requests": 1, "amqp_uri": "amqp://127.0.0.1:1"})
	diagnostics := failing.apply(t.Context(), failing.plan(t.Context(), nil))
	text := errorText(diagnostics)
	mustSay(t, "the error", text, append(is.says, "permission denied", `delete exchange "t.delay-02"`)...)
	if len(diagnostics) != 1 {
		t.Errorf("%d errors", len(diagnostics))
	}
	have, want := inventory(v.objects()), inventory(before)
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
	_, open := v.objects().Exchanges["t.delay-03"]
	if open == slices.Contains(is.missing, "t.delay-03") {
		t.Errorf("the entry is there: %t", open)
	}

	p = failing.with(v.broker, nil)
	p.mustApply(given)
	p.mustBeSettled(given)
	p.mustApply(nil)
}

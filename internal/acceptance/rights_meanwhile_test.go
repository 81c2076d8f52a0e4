package acceptance

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
)

// TestRightsChangeMeanwhile takes away what a user may do in the middle of an operation. That ends soon, with one
// error, and the state names all that exists. Once the user may do it again, one apply converges.
func TestRightsChangeMeanwhile(t *testing.T) {
	t.Parallel()
	b := brokertest.Shared(t)
	all := [3]string{".*", ".*", ".*"}
	for _, verb := range []string{"create", "update", "rebuild", "destroy"} {
		o := interrupted{cascadeType, delay.Quorum, 2, verb}
		at := lastDeletion(o.points(newVhost(t)))
		for what, change := range map[string]struct{ take, give func(*user) }{
			"tag":         {func(u *user) { u.tag("") }, func(u *user) { u.tag("management") }},
			"password":    {func(u *user) { u.password("another") }, func(u *user) { u.password(userPassword) }},
			"permissions": {func(u *user) { u.grant([3]string{"^$", "^$", "^$"}) }, func(u *user) { u.grant(all) }},
			"vhost": {func(u *user) { u.succeeds(u.admin.ClearPermissionsIn(u.vhost, u.name)) },
				func(u *user) { u.grant(all) }},
		} {
			t.Run(fmt.Sprintf("%s, %s, %s", verb, what, at), func(t *testing.T) {
				t.Parallel()
				v := newVhost(t)
				u := newUser(t, b, v.name)
				u.grant(all)
				v.broker = u.broker()
				a := o.prepare(v)
				a.strike(at, failure{kills, once})
				a.proxy.kill = func() { change.take(u) }
				began := time.Now()
				p, diagnostics := a.operate()
				took := time.Since(began)
				if !a.proxy.hasStruck() {
					t.Fatal("nothing was taken away")
				}
				change.give(u)
				a.sound.state, a.sound.private, a.sound.tainted = p.state, p.private, p.tainted
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

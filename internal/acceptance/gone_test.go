package acceptance

import (
	"testing"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
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

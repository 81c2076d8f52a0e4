package acceptance

import (
	"net/http"
	"strings"
	"testing"
)

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

package acceptance

import (
	"net/http"
	"strings"
	"testing"
)

// TestSlashGetsLost has gateways that do not pass on the %2F of a vhost's name: nginx may decode it and merge slashes,
// Apache answers 404. That is no deleted vhost: the resources of the state stay there.
func TestSlashGetsLost(t *testing.T) {
	t.Parallel()
	b := newVhost(t).broker
	v := newVhostNamed(t, b, "TestSlashGetsLost/vhost")
	given := attributes{"vhost": v.name, "name": "t", "levels": 2}
	sound := newProtocol(t, b, nil)
	sound.mustApply(given)
	before := v.objects()
	for name, check := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"decoded": func(_ http.ResponseWriter, r *http.Request) bool {
			r.URL.RawPath = ""
			return false
		},
		"decoded and merged": func(_ http.ResponseWriter, r *http.Request) bool {
			r.URL.RawPath, r.URL.Path = "", strings.ReplaceAll(r.URL.Path, "TestSlashGetsLost/", "")
			return false
		},
		"refused": func(w http.ResponseWriter, r *http.Request) bool {
			lost := strings.Contains(r.URL.EscapedPath(), "%2F")
			if lost {
				http.Error(w, "<h1>Not Found</h1>", http.StatusNotFound)
			}
			return lost
		},
	} {
		front := *b
		front.Endpoint = newGateway(t, b, nil, check).URL
		p := sound.with(&front, attributes{"retry_timeout": onceMore})
		for operation, text := range map[string]string{
			"refresh": errorText(p.refresh(t.Context())),
			"destroy": errorText(p.apply(t.Context(), p.plan(t.Context(), nil))),
			"create": errorText(newProtocol(t, &front, attributes{"retry_timeout": onceMore}).apply(t.Context(),
				newProtocol(t, &front, nil).plan(t.Context(), given))),
		} {
			if !strings.Contains(text, "%2F") {
				t.Errorf("%s, %s: %s", name, operation, oneLine(text))
			}
		}
		if p.state.IsNull() {
			t.Errorf("%s: the state is lost", name)
		}
		v.mustHold(before)
	}
}

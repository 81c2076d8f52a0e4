package acceptance

import (
	"net/http"
	"strings"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
)

// TestSlashGetsLost has gateways that do not pass on the %2F of a vhost's name: nginx may decode it and merge slashes,
// Apache answers 404. That is no deleted vhost: the resources of the state stay there.
func TestSlashGetsLost(t *testing.T) {
	t.Parallel()
	b := harness.NewVhost(t).Broker
	v := harness.NewVhostNamed(t, b, "TestSlashGetsLost/vhost")
	given := harness.Attributes{"vhost": v.Name, "name": "t", "levels": 2}
	sound := harness.NewProtocol(t, b, nil)
	sound.MustApply(given)
	before := v.Objects()
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
		front.Endpoint = harness.NewGateway(t, b, nil, check).URL
		p := sound.With(&front, harness.Attributes{"retry_timeout": harness.OnceMore})
		for operation, text := range map[string]string{
			"refresh": harness.ErrorText(p.Refresh(t.Context())),
			"destroy": harness.ErrorText(p.Apply(t.Context(), p.Plan(t.Context(), nil))),
			"create": harness.ErrorText(harness.NewProtocol(t, &front,
				harness.Attributes{"retry_timeout": harness.OnceMore}).Apply(t.Context(),
				harness.NewProtocol(t, &front, nil).Plan(t.Context(), given))),
		} {
			if !strings.Contains(text, "%2F") {
				t.Errorf("%s, %s: %s", name, operation, harness.OneLine(text))
			}
		}
		if p.State.IsNull() {
			t.Errorf("%s: the state is lost", name)
		}
		v.MustHold(before)
	}
}

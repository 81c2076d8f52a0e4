package acceptance

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
)

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

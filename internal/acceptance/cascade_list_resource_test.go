package acceptance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/querycheck"
	"github.com/hashicorp/terraform-plugin-testing/querycheck/queryfilter"
	"github.com/hashicorp/terraform-plugin-testing/tfversion"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// A user with access to one of two vhosts finds all cascades of that one, whoever declared them. The listed resource is
// what an import reads, and the configuration that Terraform writes for it plans to no change.
func TestListCascades(t *testing.T) {
	t.Parallel()
	v, other := newVhost(t), newVhostNamed(t, brokertest.Shared(t), "another for "+t.Name())
	admin := newProtocol(t, v.broker, nil)
	for _, configuration := range []attributes{
		{"name": "tasks", "levels": 17},
		{"name": "lax", "levels": 1, "strict_keys": false, "queue_type": "classic"},
		{"name": "limited", "max_delay": "90s", "resolution": "500ms", "lookahead": 2, "max_length": 1000,
			"park_unroutable": false},
		{"name": "decimal", "max_delay": "1h", "base": 10},
		{"preset": "nservicebus"},
		{"preset": "celery_classic"},
		{"levels": 2, "exchange_name": "wait %d/%%", "queue_name": "q%d", "delivery_exchange": "amq.topic",
			"create_delivery_exchange": false, "park_unroutable": false, "adopt": true},
	} {
		admin.state = tftypes.NewValue(admin.state.Type(), nil)
		admin.mustApply(configuration.with(attributes{"vhost": v.name}))
	}
	admin.state = tftypes.NewValue(admin.state.Type(), nil)
	admin.mustApply(attributes{"vhost": other.name, "name": "hidden", "levels": 3})
	v.declare("article_level3")
	v.do(plan.DeleteQueue{Queue: topology.Queue{Name: "tasks.delay-07"}})
	v.declareExchange("events-1", "topic")
	v.declareQueue("audit", nil)
	v.bind("events-1", "1.#", "queue", "audit")

	u := newUser(t, v.broker, v.name)
	u.grant([3]string{"^$", "^$", "^$"})
	p := newProtocol(t, u.broker(), nil)
	want := map[string]string{
		"EXCHANGE.TOPIC.SENDTASK.N3": "EXCHANGE.TOPIC.SENDTASK.N3 (4 levels, up to 15 s)",
		"celery_delayed_27":          "celery_classic (28 levels, up to 8 years 185 days)",
		"decimal.delay-03":           "decimal (4 levels, up to 2 h 46 min 39 s)",
		"lax.delay-00":               "lax (1 level, up to 1 s)",
		"limited.delay-07":           "limited (8 levels, up to 2 min 7.5 s)",
		"nsb.v2.delay-level-27":      "nsb.v2.delay-level-27 (28 levels, up to 8 years 185 days)",
		"tasks.delay-16":             "tasks (17 levels, up to 36 h 24 min 31 s)",
		"wait 1/%":                   "wait 1/% (2 levels, up to 3 s)",
	}
	for _, configuration := range []attributes{nil, {"vhost": v.name}} {
		found := map[string]string{}
		for _, l := range p.query(t.Context(), configuration, false, 100) {
			if len(l.diagnostics) > 0 || l.vhost != v.name || !l.resource.IsNull() {
				t.Errorf("in vhost %q: %s%s%s", l.vhost, errorText(l.diagnostics), warningText(l.diagnostics),
					l.resource)
			}
			found[l.entry] = l.name
		}
		if fmt.Sprint(found) != fmt.Sprint(want) {
			t.Fatalf("%v finds %q,\nwant %q", configuration, found, want)
		}
	}

	for _, l := range p.query(t.Context(), nil, true, 100) {
		imported := newProtocol(t, u.broker(), nil)
		noErrors(t, imported.importIdentity(t.Context(), l.vhost, l.entry))
		differences, err := imported.state.Diff(l.resource)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range differences {
			t.Errorf("%s differs from what is imported: %s", l.entry, d)
		}
		todo := imported.plan(t.Context(), imported.generated(t.Context(), l.resource))
		noErrors(t, todo.diagnostics)
		if healthy := l.entry != "tasks.delay-16"; todo.isEmpty(imported.state) != healthy || todo.replace {
			differences, _ := imported.state.Diff(todo.state)
			t.Errorf("%s: with the configuration that is generated the plan has %s", l.entry, differences)
		}
	}
}

// No more is read than it takes for as many as are asked for.
func TestListLimit(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	u := newUser(t, v.broker, v.name)
	u.grant([3]string{"^$", "^$", "^$"})
	for _, name := range []string{"a", "b", "c"} {
		newProtocol(t, v.broker, nil).mustApply(attributes{"vhost": v.name, "name": name, "levels": 3})
	}
	g := newGateway(t, u.broker(), nil, nil)
	b := *u.broker()
	b.Endpoint = g.URL
	p := newProtocol(t, &b, nil)
	p.query(t.Context(), nil, false, 1) // the first of a run also asks who the broker is
	for limit, want := range map[int64]int{0: 3, 1: 1, 2: 2, 3: 3, 4: 3} {
		g.requests.Store(0)
		if found := p.query(t.Context(), nil, true, limit); len(found) != want {
			t.Errorf("with limit %d there are %d", limit, len(found))
		}
		if n := g.requests.Load(); n != 5 { // vhosts, exchanges, queues, bindings, policies
			t.Errorf("with limit %d there are %d requests", limit, n)
		}
	}

	// Further vhosts are not looked into.
	second := newVhostNamed(t, v.broker, v.name+" second")
	u.succeeds(u.admin.UpdatePermissionsIn(second.name, u.name, rabbithole.Permissions{Configure: "^$", Write: "^$",
		Read: "^$"}))
	g.requests.Store(0)
	p.query(t.Context(), nil, false, 3)
	if n := g.requests.Load(); n != 5 {
		t.Errorf("once the limit is reached there are %d requests", n)
	}
	// Where there are no cascades, a list of the exchanges is enough.
	g.requests.Store(0)
	p.query(t.Context(), nil, false, 4)
	if n := g.requests.Load(); n != 6 {
		t.Errorf("with another vhost, where nothing is, there are %d requests", n)
	}
}

// Thousands of foreign objects take no more requests.
func TestListAmongThousands(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	type object map[string]any
	var exchanges, queues, bindings []object
	for n := range 2000 {
		name := fmt.Sprintf("events-%d", n)
		exchanges = append(exchanges, object{"name": name, "type": "topic", "durable": true, "auto_delete": false,
			"internal": false, "arguments": object{}})
		queues = append(queues, object{"name": name, "durable": true, "auto_delete": false, "arguments": object{}})
		bindings = append(bindings, object{"source": name, "routing_key": "1.#", "destination_type": "queue",
			"destination": name, "arguments": object{}})
	}
	definitions, err := json.Marshal(object{"exchanges": exchanges, "queues": queues, "bindings": bindings})
	if err != nil {
		t.Fatal(err)
	}
	v.request(http.MethodPost, definitions, "definitions", v.name)
	newProtocol(t, v.broker, nil).mustApply(attributes{"vhost": v.name, "name": "tasks", "levels": 28})
	g := newGateway(t, v.broker, nil, nil)
	b := *v.broker
	b.Endpoint = g.URL
	p := newProtocol(t, &b, attributes{"request_timeout": "60s"})
	began := time.Now()
	found := p.query(t.Context(), attributes{"vhost": v.name}, true, 100)
	t.Logf("found after %s", time.Since(began))
	// who the broker is, exchanges, queues, bindings, policies
	if len(found) != 1 || found[0].entry != "tasks.delay-27" || g.requests.Load() != 5 {
		t.Errorf("%d requests find %v", g.requests.Load(), found)
	}
}

// What cannot be listed is said, and does not keep the rest from being listed.
func TestListErrors(t *testing.T) {
	t.Parallel()
	v, hidden := newVhost(t), newVhostNamed(t, brokertest.Shared(t), "hidden from "+t.Name())
	newProtocol(t, v.broker, nil).mustApply(attributes{"vhost": v.name, "name": "tasks", "levels": 3})
	u := newUser(t, v.broker, v.name)
	u.grant([3]string{"^$", "^$", "^$"})
	only := func(found []listing) string {
		t.Helper()
		if len(found) != 1 || found[0].entry != "" {
			t.Fatalf("there is more than one error: %v", found)
		}
		return errorText(found[0].diagnostics)
	}
	says := func(what, text string, parts ...string) {
		t.Helper()
		mustSay(t, what+": it", text, parts...)
	}

	// Who has the tag monitoring is told of vhosts that only others may look into.
	u.tag("monitoring")
	p := newProtocol(t, u.broker(), nil)
	entries, warnings := []string{}, ""
	for _, l := range p.query(t.Context(), nil, false, 1000) {
		noErrors(t, l.diagnostics)
		warnings += warningText(l.diagnostics)
		if l.entry != "" {
			entries = append(entries, l.vhost+" "+l.entry)
		}
	}
	if !slices.Equal(entries, []string{v.name + " tasks.delay-02"}) {
		t.Errorf("found %q", entries)
	}
	says("a vhost for others", warnings, fmt.Sprintf("Could not list the cascades of vhost %q", hidden.name),
		"permission denied", "set_permissions")
	says("a vhost for others, by name", only(p.query(t.Context(), attributes{"vhost": hidden.name}, false, 10)),
		"permission denied", hidden.name)
	u.tag("management")

	says("no vhost", only(p.query(t.Context(), attributes{"vhost": "nowhere"}, false, 10)), `vhost "nowhere"`)
	says("an empty name", only(p.query(t.Context(), attributes{"vhost": ""}, false, 10)), "vhost")

	u.tag("")
	says("no tag", only(p.query(t.Context(), nil, false, 10)), "permission denied", "set_user_tags <user> management")
	u.password("another")
	says("a wrong password", only(p.query(t.Context(), nil, false, 10)), "authentication failed")
	nobody := *v.broker
	nobody.Endpoint = "http://127.0.0.1:1"
	says("no broker", only(newProtocol(t, &nobody, attributes{"retry_timeout": "0s"}).query(t.Context(), nil, false,
		10)), "not reachable", "http://127.0.0.1:1")
	says("another server", only(newProtocol(t, v.broker, attributes{"endpoint": v.broker.Endpoint +
		"/elsewhere"}).query(t.Context(), nil, false, 10)),
		"not a RabbitMQ management API")

	// One vhost fails in the middle of it all.
	g := newGateway(t, v.broker, nil, func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.URL.Path == "/api/vhosts":
			fmt.Fprintf(w, `[{"name":%q},{"name":%q}]`, "A down", v.name)
		case strings.Contains(r.URL.Path, "/A down"):
			http.Error(w, "", http.StatusServiceUnavailable)
		default:
			return false
		}
		return true
	})
	b := *v.broker
	b.Endpoint = g.URL
	found := newProtocol(t, &b, attributes{"retry_timeout": "0s"}).query(t.Context(), nil, false, 10)
	if len(found) != 2 || found[1].entry != "tasks.delay-02" {
		t.Fatalf("with a vhost that is down: %v", found)
	}
	noErrors(t, found[0].diagnostics)
	says("a vhost that is down", warningText(found[0].diagnostics), `vhost "A down"`, "503")
}

// Values that are not known yet keep nothing from being validated, and nothing is listed with them.
func TestListOfUnknown(t *testing.T) {
	t.Parallel()
	b := brokertest.Shared(t)
	unknown := tftypes.NewValue(tftypes.String, tftypes.UnknownValue)
	for _, test := range []struct {
		what          string
		provider      *protocol
		configuration attributes
	}{
		{"a vhost", newProtocol(t, b, nil), attributes{"vhost": unknown}},
		{"a provider", newProtocol(t, b, attributes{"endpoint": unknown}), nil},
	} {
		found := test.provider.query(t.Context(), test.configuration, false, 10)
		if len(found) != 1 || !strings.Contains(errorText(found[0].diagnostics), "not known") {
			t.Errorf("with %s that is not known: %s", test.what, errorText(found[0].diagnostics))
		}
	}
}

// The same by terraform query.
func TestAccListCascades(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	declared := on(v.broker, "resource \"rabbitmqdelay_cascade\" \"t\" {\n  vhost  = %q\n  name   = \"tasks\"\n  "+
		"levels = 5\n}\n", v.name)
	listed := fmt.Sprintf("list \"rabbitmqdelay_cascade\" \"all\" {\n  provider         = rabbitmqdelay\n  "+
		"include_resource = true\n  config {\n    vhost = %q\n  }\n}\n", v.name)
	identity := map[string]knownvalue.Check{"vhost": knownvalue.StringExact(v.name),
		"entry_exchange": knownvalue.StringExact("tasks.delay-04")}
	resource.Test(t, resource.TestCase{
		TerraformVersionChecks:   []tfversion.TerraformVersionCheck{tfversion.SkipBelow(tfversion.Version1_14_0)},
		ProtoV6ProviderFactories: factories,
		Steps: []resource.TestStep{
			{Config: declared},
			{Query: true, Config: listed, QueryResultChecks: []querycheck.QueryResultCheck{
				querycheck.ExpectLength("rabbitmqdelay_cascade.all", 1),
				querycheck.ExpectIdentity("rabbitmqdelay_cascade.all", identity),
				querycheck.ExpectResourceDisplayName("rabbitmqdelay_cascade.all",
					queryfilter.ByResourceIdentity(identity), knownvalue.StringExact("tasks (5 levels, up to 31 s)")),
			}},
		},
	})
}

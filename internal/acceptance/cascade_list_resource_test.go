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

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// A user with access to one of two vhosts finds all cascades of that one, whoever declared them. The listed resource is
// what an import reads, and the configuration that Terraform writes for it plans to no change.
func TestListCascades(t *testing.T) {
	t.Parallel()
	v, other := harness.NewVhost(t), harness.NewVhostNamed(t, brokertest.Shared(t), "another for "+t.Name())
	admin := harness.NewProtocol(t, v.Broker, nil)
	for _, configuration := range []harness.Attributes{
		{"name": "tasks", "levels": 17},
		{"name": "lax", "levels": 1, "strict_keys": false, "queue_type": "classic"},
		{"name": "usual", "max_delay": "12s"},
		{"name": "far", "units": harness.TextList("1d", "12h", "1h"), "max_delay": "30d", "lookahead": 1,
			"queue_type": "classic"},
		{"name": "limited", "base": 2, "max_delay": "90s", "resolution": "500ms", "lookahead": 2, "max_length": 1000,
			"park_unroutable": false},
		{"name": "decimal", "max_delay": "1h", "base": 10},
		{"preset": "nservicebus"},
		{"preset": "celery_classic"},
		{"levels": 2, "exchange_name": "wait %d/%%", "queue_name": "q%d", "delivery_exchange": "amq.topic",
			"create_delivery_exchange": false, "park_unroutable": false, "adopt": true},
	} {
		admin.State = tftypes.NewValue(admin.State.Type(), nil)
		admin.MustApply(configuration.With(harness.Attributes{"vhost": v.Name}))
	}
	admin.State = tftypes.NewValue(admin.State.Type(), nil)
	admin.MustApply(harness.Attributes{"vhost": other.Name, "name": "hidden", "levels": 3})
	declare(v, "article_level3")
	v.Do(plan.DeleteQueue{Queue: topology.Queue{Name: "tasks.delay-07"}})
	v.DeclareExchange("events-1", "topic")
	v.DeclareQueue("audit", nil)
	v.Bind("events-1", "1.#", "queue", "audit")

	u := harness.NewUser(t, v.Broker, v.Name)
	u.Grant([3]string{"^$", "^$", "^$"})
	p := harness.NewProtocol(t, u.Broker(), nil)
	want := map[string]string{
		"EXCHANGE.TOPIC.SENDTASK.N3": "EXCHANGE.TOPIC.SENDTASK.N3 (4 levels, up to 15 s)",
		"celery_delayed_27":          "celery_classic (28 levels, up to 8 years 185 days)",
		"decimal.delay-03":           "decimal (4 levels, up to 2 h 46 min 39 s)",
		"far.d.12h.h":                "far (days, 12 h and hours, up to 30 days)",
		"usual.d.h.m.s":              "usual (days, hours, minutes and seconds, up to 12 s)",
		"lax.delay-00":               "lax (1 level, up to 1 s)",
		"limited.delay-07":           "limited (8 levels, up to 2 min 7.5 s)",
		"nsb.v2.delay-level-27":      "nsb.v2.delay-level-27 (28 levels, up to 8 years 185 days)",
		"tasks.delay-16":             "tasks (17 levels, up to 36 h 24 min 31 s)",
		"wait 1/%":                   "wait 1/% (2 levels, up to 3 s)",
	}
	for _, configuration := range []harness.Attributes{nil, {"vhost": v.Name}} {
		found := map[string]string{}
		for _, l := range p.Query(t.Context(), configuration, false, 100) {
			if len(l.Diagnostics) > 0 || l.Vhost != v.Name || !l.Resource.IsNull() {
				t.Errorf("in vhost %q: %s%s%s", l.Vhost, harness.ErrorText(l.Diagnostics),
					harness.WarningText(l.Diagnostics), l.Resource)
			}
			found[l.Entry] = l.Name
		}
		if fmt.Sprint(found) != fmt.Sprint(want) {
			t.Fatalf("%v finds %q,\nwant %q", configuration, found, want)
		}
	}

	for _, l := range p.Query(t.Context(), nil, true, 100) {
		imported := harness.NewProtocol(t, u.Broker(), nil)
		harness.NoErrors(t, imported.ImportIdentity(t.Context(), l.Vhost, l.Entry))
		differences, err := imported.State.Diff(l.Resource)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range differences {
			t.Errorf("%s differs from what is imported: %s", l.Entry, d)
		}
		todo := imported.Plan(t.Context(), imported.Generated(t.Context(), l.Resource))
		harness.NoErrors(t, todo.Diagnostics)
		if healthy := l.Entry != "tasks.delay-16"; todo.IsEmpty(imported.State) != healthy || todo.Replace {
			differences, _ := imported.State.Diff(todo.State)
			t.Errorf("%s: with the configuration that is generated the plan has %s", l.Entry, differences)
		}
	}
}

// No more is read than it takes for as many as are asked for.
func TestListLimit(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	u := harness.NewUser(t, v.Broker, v.Name)
	u.Grant([3]string{"^$", "^$", "^$"})
	for _, name := range []string{"a", "b", "c"} {
		harness.NewProtocol(t, v.Broker, nil).MustApply(harness.Attributes{"vhost": v.Name, "name": name, "levels": 3})
	}
	g := harness.NewGateway(t, u.Broker(), nil, nil)
	b := *u.Broker()
	b.Endpoint = g.URL
	p := harness.NewProtocol(t, &b, nil)
	p.Query(t.Context(), nil, false, 1) // the first of a run also asks who the broker is
	for limit, want := range map[int64]int{0: 3, 1: 1, 2: 2, 3: 3, 4: 3} {
		g.Requests.Store(0)
		if found := p.Query(t.Context(), nil, true, limit); len(found) != want {
			t.Errorf("with limit %d there are %d", limit, len(found))
		}
		if n := g.Requests.Load(); n != 5 { // vhosts, exchanges, queues, bindings, policies
			t.Errorf("with limit %d there are %d requests", limit, n)
		}
	}

	// Further vhosts are not looked into.
	second := harness.NewVhostNamed(t, v.Broker, v.Name+" second")
	u.Succeeds(u.Admin.UpdatePermissionsIn(second.Name, u.Name, rabbithole.Permissions{Configure: "^$", Write: "^$",
		Read: "^$"}))
	g.Requests.Store(0)
	p.Query(t.Context(), nil, false, 3)
	if n := g.Requests.Load(); n != 5 {
		t.Errorf("once the limit is reached there are %d requests", n)
	}
	// Where there are no cascades, a list of the exchanges is enough.
	g.Requests.Store(0)
	p.Query(t.Context(), nil, false, 4)
	if n := g.Requests.Load(); n != 6 {
		t.Errorf("with another vhost, where nothing is, there are %d requests", n)
	}
}

// Thousands of foreign objects take no more requests.
func TestListAmongThousands(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
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
	v.Request(http.MethodPost, definitions, "definitions", v.Name)
	harness.NewProtocol(t, v.Broker, nil).MustApply(harness.Attributes{"vhost": v.Name, "name": "tasks", "levels": 28})
	g := harness.NewGateway(t, v.Broker, nil, nil)
	b := *v.Broker
	b.Endpoint = g.URL
	p := harness.NewProtocol(t, &b, harness.Attributes{"request_timeout": "60s"})
	began := time.Now()
	found := p.Query(t.Context(), harness.Attributes{"vhost": v.Name}, true, 100)
	t.Logf("found after %s", time.Since(began))
	// who the broker is, exchanges, queues, bindings, policies
	if len(found) != 1 || found[0].Entry != "tasks.delay-27" || g.Requests.Load() != 5 {
		t.Errorf("%d requests find %v", g.Requests.Load(), found)
	}
}

// What cannot be listed is said, and does not keep the rest from being listed.
func TestListErrors(t *testing.T) {
	t.Parallel()
	v, hidden := harness.NewVhost(t), harness.NewVhostNamed(t, brokertest.Shared(t), "hidden from "+t.Name())
	harness.NewProtocol(t, v.Broker, nil).MustApply(harness.Attributes{"vhost": v.Name, "name": "tasks", "levels": 3})
	u := harness.NewUser(t, v.Broker, v.Name)
	u.Grant([3]string{"^$", "^$", "^$"})
	only := func(found []harness.Listing) string {
		t.Helper()
		if len(found) != 1 || found[0].Entry != "" {
			t.Fatalf("there is more than one error: %v", found)
		}
		return harness.ErrorText(found[0].Diagnostics)
	}
	says := func(what, text string, parts ...string) {
		t.Helper()
		harness.MustSay(t, what+": it", text, parts...)
	}

	// Who has the tag monitoring is told of vhosts that only others may look into.
	u.Tag("monitoring")
	p := harness.NewProtocol(t, u.Broker(), nil)
	entries, warnings := []string{}, ""
	for _, l := range p.Query(t.Context(), nil, false, 1000) {
		harness.NoErrors(t, l.Diagnostics)
		warnings += harness.WarningText(l.Diagnostics)
		if l.Entry != "" {
			entries = append(entries, l.Vhost+" "+l.Entry)
		}
	}
	if !slices.Equal(entries, []string{v.Name + " tasks.delay-02"}) {
		t.Errorf("found %q", entries)
	}
	says("a vhost for others", warnings, fmt.Sprintf("Could not list the cascades of vhost %q", hidden.Name),
		"permission denied", "set_permissions")
	says("a vhost for others, by name", only(p.Query(t.Context(), harness.Attributes{"vhost": hidden.Name}, false, 10)),
		"permission denied", hidden.Name)
	u.Tag("management")

	says("no vhost", only(p.Query(t.Context(), harness.Attributes{"vhost": "nowhere"}, false, 10)), `vhost "nowhere"`)
	says("an empty name", only(p.Query(t.Context(), harness.Attributes{"vhost": ""}, false, 10)), "vhost")

	u.Tag("")
	says("no tag", only(p.Query(t.Context(), nil, false, 10)), "permission denied", "set_user_tags <user> management")
	u.Password("another")
	says("a wrong password", only(p.Query(t.Context(), nil, false, 10)), "authentication failed")
	nobody := *v.Broker
	nobody.Endpoint = "http://127.0.0.1:1"
	says("no broker", only(harness.NewProtocol(t, &nobody, harness.Attributes{"retry_timeout": "0s"}).Query(t.Context(),
		nil, false, 10)), "not reachable", "http://127.0.0.1:1")
	says("another server", only(harness.NewProtocol(t, v.Broker, harness.Attributes{"endpoint": v.Broker.Endpoint +
		"/elsewhere"}).Query(t.Context(), nil, false, 10)),
		"not a RabbitMQ management API")

	// One vhost fails in the middle of it all.
	g := harness.NewGateway(t, v.Broker, nil, func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.URL.Path == "/api/vhosts":
			fmt.Fprintf(w, `[{"name":%q},{"name":%q}]`, "A down", v.Name)
		case strings.Contains(r.URL.Path, "/A down"):
			http.Error(w, "", http.StatusServiceUnavailable)
		default:
			return false
		}
		return true
	})
	b := *v.Broker
	b.Endpoint = g.URL
	found := harness.NewProtocol(t, &b, harness.Attributes{"retry_timeout": "0s"}).Query(t.Context(), nil, false, 10)
	if len(found) != 2 || found[1].Entry != "tasks.delay-02" {
		t.Fatalf("with a vhost that is down: %v", found)
	}
	harness.NoErrors(t, found[0].Diagnostics)
	says("a vhost that is down", harness.WarningText(found[0].Diagnostics), `vhost "A down"`, "503")
}

// Values that are not known yet keep nothing from being validated, and nothing is listed with them.
func TestListOfUnknown(t *testing.T) {
	t.Parallel()
	b := brokertest.Shared(t)
	unknown := tftypes.NewValue(tftypes.String, tftypes.UnknownValue)
	for _, test := range []struct {
		what          string
		provider      *harness.Protocol
		configuration harness.Attributes
	}{
		{"a vhost", harness.NewProtocol(t, b, nil), harness.Attributes{"vhost": unknown}},
		{"a provider", harness.NewProtocol(t, b, harness.Attributes{"endpoint": unknown}), nil},
	} {
		found := test.provider.Query(t.Context(), test.configuration, false, 10)
		if len(found) != 1 || !strings.Contains(harness.ErrorText(found[0].Diagnostics), "not known") {
			t.Errorf("with %s that is not known: %s", test.what, harness.ErrorText(found[0].Diagnostics))
		}
	}
}

// The same by terraform query.
func TestAccListCascades(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	declared := harness.WithProvider(v.Broker,
		"resource \"rabbitmqdelay_cascade\" \"t\" {\n  vhost  = %q\n  name   = \"tasks\"\n  levels = 5\n}\n",
		v.Name)
	listed := fmt.Sprintf("list \"rabbitmqdelay_cascade\" \"all\" {\n  provider         = rabbitmqdelay\n  "+
		"include_resource = true\n  config {\n    vhost = %q\n  }\n}\n", v.Name)
	identity := map[string]knownvalue.Check{"vhost": knownvalue.StringExact(v.Name),
		"entry_exchange": knownvalue.StringExact("tasks.delay-04")}
	resource.Test(t, resource.TestCase{
		TerraformVersionChecks:   []tfversion.TerraformVersionCheck{tfversion.SkipBelow(tfversion.Version1_14_0)},
		ProtoV6ProviderFactories: harness.Providers,
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

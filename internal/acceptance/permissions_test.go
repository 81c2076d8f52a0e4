package acceptance

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
)

// TestLeastPrivilege lives a cascade's life as a user with nothing but the permissions that the page
// on permissions gives for it.
func TestLeastPrivilege(t *testing.T) {
	t.Parallel()
	for _, example := range permissionExamples(t) {
		t.Run(example.title+"/units", func(t *testing.T) { liveWithLeastPrivilege(t, example.withUnits()) })
		if _, given := example.configuration["queue_name"]; given {
			continue
		}
		for _, base := range []int{2, 3, 10} { // the expressions are for every base
			t.Run(fmt.Sprintf("%s/base %d", example.title, base), func(t *testing.T) {
				liveWithLeastPrivilege(t, example.of(base))
			})
		}
	}
}

// liveWithLeastPrivilege takes a cascade through its life with the permissions that the page names.
func liveWithLeastPrivilege(t *testing.T, example permissionExample) {
	t.Parallel()
	b := brokertest.Shared(t)
	vhost := brokertest.Vhost(t, b)
	u := harness.NewUser(t, b, vhost)
	u.Grant(example.permissions)
	configuration := example.in(vhost)
	own := configuration["create_delivery_exchange"] != false
	if !own {
		u.Succeeds(u.Admin.DeclareExchange(vhost, example.delivery(), rabbithole.ExchangeSettings{Type: "topic",
			Durable: true}))
	}

	p := harness.NewProtocol(t, u.Broker(), nil)
	p.MustApply(configuration)
	p.MustBeSettled(configuration)

	queue, exchange := example.queue(1), example.exchange(2)
	u.Succeeds(u.Admin.DeleteQueue(vhost, queue))
	u.Succeeds(u.Admin.DeleteExchange(vhost, exchange))
	u.Succeeds(u.Admin.DeclareBinding(vhost, rabbithole.BindingInfo{
		Source: example.exchange(0), DestinationType: "queue",
		Destination: example.queue(3), RoutingKey: "foreign.#",
	}))
	if own {
		u.Succeeds(u.Admin.DeleteExchange(vhost, example.delivery()))
	}
	p.MustApply(configuration)
	p.MustBeSettled(configuration)

	configuration["lookahead"], configuration["strict_keys"] = 1, false
	p.MustApply(configuration)
	p.MustBeSettled(configuration)
	delete(configuration, "lookahead")
	delete(configuration, "strict_keys")
	p.MustApply(configuration)

	imported := harness.NewProtocol(t, u.Broker(), nil)
	harness.NoErrors(t, imported.ImportState(t.Context(), harness.ImportID(vhost, example.exchange(3))))

	u.Publish(vhost, example.exchange(3), "1.1.1.1.destination")
	for way, broker := range map[string]*brokertest.Broker{"over AMQP": u.Broker(),
		"without AMQP": harness.WithoutAMQP(t, u.Broker())} {
		p := p.With(broker, nil)
		if text := harness.ErrorText(p.Apply(t.Context(), p.Plan(t.Context(), nil))); !strings.Contains(text,
			"Cascade holds messages") {
			t.Errorf("a destroy %s, while a message waits, ends with: %s", way, text)
		}
	}
	for level := 3; level >= 0; level-- { // the way of the message, which may go on meanwhile
		u.Succeeds(u.Admin.PurgeQueue(vhost, example.queue(level)))
	}
	harness.NoErrors(t, p.Apply(t.Context(), p.Plan(t.Context(), nil)))
	if left, err := u.Admin.ListQueuesIn(vhost); err != nil || len(left) > 0 {
		t.Errorf("after the destroy there are %v %v", left, err)
	}
}

// TestLeastPrivilegeWithUnits applies, repairs and destroys a cascade of units with the permissions for default names.
func TestLeastPrivilegeWithUnits(t *testing.T) {
	t.Parallel()
	example := permissionExamples(t)[0]
	b := brokertest.Shared(t)
	vhost := brokertest.Vhost(t, b)
	u := harness.NewUser(t, b, vhost)
	u.Grant(example.permissions)
	given := harness.Attributes{"vhost": vhost, "name": example.configuration["name"], "max_delay": "2s",
		"units": harness.TextList("1h", "1m", "1s", "500ms")}
	p := harness.NewProtocol(t, u.Broker(), nil)
	p.MustApply(given)
	u.Succeeds(u.Admin.DeleteQueue(vhost, "orders.500ms"))
	u.Succeeds(u.Admin.DeleteExchange(vhost, "orders.s.500ms"))
	p.MustApply(given)
	p.MustBeSettled(given)
	p.MustApply(nil)
	if left, err := u.Admin.ListQueuesIn(vhost); err != nil || len(left) > 0 {
		t.Errorf("after the destroy there are %v %v", left, err)
	}
}

// TestTopicPermissions has topic permissions on a level exchange, those of the page and others.
func TestTopicPermissions(t *testing.T) {
	t.Parallel()
	example := permissionExamples(t)[0]
	maps.Copy(example.configuration, fewSeconds())
	given := regexp.MustCompile(`(?m)^rabbitmqctl set_topic_permissions -p \S+ \S+ (\S+) ` +
		`'(.*)' '(.*)'$`).FindStringSubmatch(permissionsPage(t))
	if given == nil {
		t.Fatal("the page has no topic permissions")
	}
	b := brokertest.Shared(t)
	vhost := brokertest.Vhost(t, b)
	u := harness.NewUser(t, b, vhost)
	u.Grant(example.permissions)
	set := func(read string) {
		u.Succeeds(u.Admin.UpdateTopicPermissionsIn(vhost, u.Name, rabbithole.TopicPermissions{Exchange: given[1],
			Write: given[2], Read: read}))
	}
	p := harness.NewProtocol(t, u.Broker(), nil)
	p.MustApply(example.in(vhost)) // RabbitMQ knows topic permissions on exchanges that exist, only

	bindings, err := u.Admin.ListExchangeBindingsWithSource(vhost, given[1])
	if err != nil {
		t.Fatal(err)
	}
	for _, binding := range bindings {
		u.Succeeds(u.Admin.DeleteBinding(vhost, binding))
	}
	harness.NoErrors(t, p.Refresh(t.Context()))
	set("^$")
	text := harness.ErrorText(p.Apply(t.Context(), p.Plan(t.Context(), example.in(vhost))))
	if !strings.Contains(text, fmt.Sprintf("read on exchange %q", given[1])) ||
		!strings.Contains(text, "topic permissions") {
		t.Errorf("without the topic permission: %s", text)
	}
	set(given[3])
	p.MustApply(example.in(vhost))
	p.MustBeSettled(example.in(vhost))
}

// TestMissingPermission takes every name out of every expression of the first example.
func TestMissingPermission(t *testing.T) {
	t.Parallel()
	example := permissionExamples(t)[0]
	example.configuration["levels"] = 2
	example.configuration["queue_type"] = "classic" // quicker to take back: RabbitMQ counts their messages at once
	names := []string{example.delivery(), "orders.unroutable"}
	for level := range 2 {
		names = append(names, example.exchange(level)) // and its queue
	}
	b := brokertest.Shared(t)
	vhost := brokertest.Vhost(t, b)
	u := harness.NewUser(t, b, vhost)
	tried := 0
	for i, permission := range []string{"configure", "write", "read"} {
		for _, name := range names {
			tried++
			permissions := example.permissions
			permissions[i] = fmt.Sprintf("^(?!%s$)%s", regexp.QuoteMeta(name), strings.TrimPrefix(permissions[i], "^"))
			u.Grant(permissions)
			mustMiss(t, harness.NewProtocol(t, u.Broker(), nil), example.in(vhost), permission, name, u.Name)
		}
	}

	if !t.Failed() {
		figure(t, "missing_permissions", tried)
	}

	u.Grant(example.permissions)
	p := harness.NewProtocol(t, u.Broker(), nil)
	p.MustApply(example.in(vhost))
	missing := func(what, summary string, says ...string) {
		t.Helper()
		for operation, diagnostics := range map[string]string{
			"refresh": harness.ErrorText(p.Refresh(t.Context())),
			"destroy": harness.ErrorText(p.Apply(t.Context(), p.Plan(t.Context(), nil))),
		} {
			if p.State.IsNull() {
				t.Fatalf("%s: the %s forgets the cascade", what, operation)
			}
			harness.MustSay(t, fmt.Sprintf("%s: the %s", what, operation), diagnostics,
				append(says, u.Name, summary)...)
		}
	}
	u.Succeeds(u.Admin.ClearPermissionsIn(vhost, u.Name))
	missing("without access to the vhost", "permission denied", fmt.Sprintf("vhost %q", vhost),
		"set_permissions -p <vhost>")
	u.Grant(example.permissions)
	u.Tag("monitoring")
	harness.NoErrors(t, p.Refresh(t.Context()))
	u.Tag("")
	missing("without a tag", "permission denied", "set_user_tags <user> management")
	u.Tag("management")
	u.Password("another")
	missing("with a wrong password", "authentication failed", "Check username and password", b.Endpoint)
}

// mustMiss makes sure that a create is refused for want of the permission on the name, and leaves nothing.
func mustMiss(t *testing.T, p *harness.Protocol, configuration harness.Attributes, permission, name, user string) {
	t.Helper()
	diagnostics := p.Apply(t.Context(), p.Plan(t.Context(), configuration))
	text := harness.ErrorText(diagnostics)
	says := regexp.MustCompile(permission + `( and read)? on (exchange|queue) "` + regexp.QuoteMeta(name) + `"`)
	if len(diagnostics) != 1 || !says.MatchString(text) || !strings.Contains(text, `user "`+user+`"`) ||
		!strings.Contains(text, "permission denied") {
		t.Errorf("without %s on %q: %d diagnostics: %s", permission, name, len(diagnostics), text)
	}
	if !p.State.IsNull() {
		t.Errorf("without %s on %q the create leaves a state", permission, name)
	}
}

// TestProbePermissions probes as a user with nothing but the permissions that the page gives for that, and takes each
// name out of each expression.
func TestProbePermissions(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	cascade := fewSeconds()
	cascade["vhost"], cascade["name"] = v.Name, "orders"
	harness.NewProtocol(t, v.Broker, nil).MustApply(cascade)
	u := harness.NewUser(t, v.Broker, v.Name)
	p := harness.NewProtocol(t, u.Broker(), nil)
	probe := func() []*tfprotov6.Diagnostic {
		return p.Read(t.Context(), "rabbitmqdelay_probe",
			harness.Attributes{"vhost": v.Name, "entry_exchange": "orders.d.h.m.s", "delay": "0s"})
	}
	good := permissionsOf(t, "probes")
	u.Grant(good)
	harness.NoErrors(t, probe())
	for i, names := range [3][]string{
		{`amq\.gen-.*`}, {`amq\.gen-.*`, `orders\.d\.h\.m\.s`}, {`amq\.gen-.*`, `orders\.delivery`},
	} {
		for _, missing := range names {
			permissions := good
			permissions[i] = fmt.Sprintf("^(?!%s$)%s", missing, strings.TrimPrefix(good[i], "^"))
			u.Grant(permissions)
			if text := harness.ErrorText(probe()); !strings.Contains(text, "permission denied") ||
				!strings.Contains(strings.ToLower(text), "a probe takes permissions") {
				t.Errorf("with %q: %s", permissions, text)
			}
		}
	}
}

// TestReplayPermissions replays as a user with nothing but the permissions that the page gives for that.
func TestReplayPermissions(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	cascade := fewSeconds()
	cascade["vhost"], cascade["name"] = v.Name, "orders"
	harness.NewProtocol(t, v.Broker, nil).MustApply(cascade)
	v.Publish("orders.delivery", "0.0.0.0.billing", "x")
	arrivals := v.Collect("orders.delivery", harness.DestinationKey(4, "billing"))
	u := harness.NewUser(t, v.Broker, v.Name)
	u.Grant(permissionsOf(t, "replays"))
	_, diagnostics := harness.NewProtocol(t, u.Broker(), nil).Invoke(t.Context(), "rabbitmqdelay_replay",
		harness.Attributes{"vhost": v.Name, "entry_exchange": "orders.d.h.m.s"})
	harness.NoErrors(t, diagnostics)
	v.Arrived(arrivals, 1)
}

// permissionExample is a cascade on the page on permissions with the expressions below it.
type permissionExample struct {
	title         string
	configuration harness.Attributes
	permissions   [3]string
}

func permissionsPage(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("../../templates/guides/permissions.md.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), " \\\n  ", " ")
}

// permissionsOf are those that the page gives a user: to configure, write and read.
func permissionsOf(t testing.TB, user string) [3]string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^rabbitmqctl set_permissions -p / ` + user + ` '(.*)' '(.*)' '(.*)'$`).
		FindStringSubmatch(permissionsPage(t))
	if found == nil {
		t.Fatalf("the page has no permissions for %s", user)
	}
	return [3]string(found[1:])
}

func permissionExamples(t testing.TB) []permissionExample {
	t.Helper()
	example := regexp.MustCompile("(?s)\n## ([^\n]*)\n\n```hcl\n(.*?)```\n\n```sh\nrabbitmqctl set_permissions -p " +
		"\\S+ \\S+ '(.*?)' '(.*?)' '(.*?)'\n```")
	var examples []permissionExample
	for _, found := range example.FindAllStringSubmatch(permissionsPage(t), -1) {
		e := permissionExample{title: found[1], configuration: harness.Attributes{}, permissions: [3]string(found[3:])}
		for _, line := range regexp.MustCompile(`(?m)^  (\w+) += (.*)$`).FindAllStringSubmatch(found[2], -1) {
			var value any
			if err := json.Unmarshal([]byte(line[2]), &value); err != nil {
				t.Fatalf("%s: %v", line[0], err)
			}
			e.configuration[line[1]] = value
		}
		examples = append(examples, e)
	}
	if len(examples) != 3 {
		t.Fatalf("the page has %d examples", len(examples))
	}
	return examples
}

// of is the example in a base, with four levels.
func (e permissionExample) of(base int) permissionExample {
	e.configuration = maps.Clone(e.configuration)
	e.configuration["base"], e.configuration["levels"] = base, 4
	return e
}

// withUnits is the example with four units, whose queues are one for each.
func (e permissionExample) withUnits() permissionExample {
	e.configuration = maps.Clone(e.configuration)
	e.configuration["units"], e.configuration["max_delay"] = harness.TextList("8h", "4h", "2h", "1h"), "8h"
	return e
}

// fewSeconds are the exchanges of the default units, with the delay queues of two seconds.
func fewSeconds() harness.Attributes {
	return harness.Attributes{"units": harness.TextList("1d", "1h", "1m", "1s"), "max_delay": "2s"}
}

// in is the example's configuration in a vhost.
func (e permissionExample) in(vhost string) harness.Attributes {
	configuration := harness.Attributes{"vhost": vhost}
	for name, value := range e.configuration {
		configuration[name] = value
	}
	return configuration
}

func (e permissionExample) exchange(level int) string {
	if e.configuration["units"] != nil {
		return fmt.Sprintf(e.given("exchange_name", ".%s"), []string{"h", "2h.h", "4h.2h.h", "8h.4h.2h.h"}[level])
	}
	return delay.Format(e.given("exchange_name", ".delay-%02d")).Name(level)
}

// queue is the name of a level's queue for the number 1.
func (e permissionExample) queue(level int) string {
	if e.configuration["units"] != nil {
		return fmt.Sprintf(e.given("queue_name", ".%s"), []string{"1h", "2h", "4h", "8h"}[level])
	}
	name := delay.Format(e.given("queue_name", ".delay-%02d")).Name(level)
	if e.configuration["base"] != 2 {
		name += "-1"
	}
	return name
}

func (e permissionExample) delivery() string { return e.given("delivery_exchange", ".delivery") }

func (e permissionExample) given(attribute, otherwise string) string {
	if text, ok := e.configuration[attribute].(string); ok {
		return text
	}
	return fmt.Sprint(e.configuration["name"], otherwise)
}

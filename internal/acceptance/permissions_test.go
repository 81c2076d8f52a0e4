package acceptance

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// TestLeastPrivilege lives a cascade's life as a user with nothing but the permissions that the page
// on permissions gives for it.
func TestLeastPrivilege(t *testing.T) {
	t.Parallel()
	for _, example := range permissionExamples(t) {
		bases := []int{2}
		if _, given := example.configuration["queue_name"]; !given { // the expressions are for every base
			bases = append(bases, 3, 10)
		}
		for _, base := range bases {
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
	u := newUser(t, b, vhost)
	u.grant(example.permissions)
	configuration := example.in(vhost)
	own := configuration["create_delivery_exchange"] != false
	if !own {
		u.succeeds(u.admin.DeclareExchange(vhost, example.delivery(), rabbithole.ExchangeSettings{Type: "topic",
			Durable: true}))
	}

	p := newProtocol(t, u.broker(), nil)
	p.mustApply(configuration)
	p.mustBeSettled(configuration)

	queue, exchange := example.queue(1), example.name("exchange_name", 2)
	u.succeeds(u.admin.DeleteQueue(vhost, queue))
	u.succeeds(u.admin.DeleteExchange(vhost, exchange))
	u.succeeds(u.admin.DeclareBinding(vhost, rabbithole.BindingInfo{
		Source: example.name("exchange_name", 0), DestinationType: "queue",
		Destination: example.queue(3), RoutingKey: "foreign.#",
	}))
	if own {
		u.succeeds(u.admin.DeleteExchange(vhost, example.delivery()))
	}
	p.mustApply(configuration)
	p.mustBeSettled(configuration)

	configuration["lookahead"], configuration["strict_keys"] = 1, false
	p.mustApply(configuration)
	p.mustBeSettled(configuration)
	delete(configuration, "lookahead")
	delete(configuration, "strict_keys")
	p.mustApply(configuration)

	imported := newProtocol(t, u.broker(), nil)
	noErrors(t, imported.importState(t.Context(), importID(vhost, example.name("exchange_name", 3))))

	u.publish(vhost, example.name("exchange_name", 3), "1.1.1.1.destination")
	for way, uri := range map[string]string{"over AMQP": u.broker().AMQPURI,
		"without AMQP": "amqp://127.0.0.1:1"} {
		p := p.with(u.broker(), attributes{"amqp_uri": uri})
		if text := errorText(p.apply(t.Context(), p.plan(t.Context(), nil))); !strings.Contains(text,
			"Cascade holds messages") {
			t.Errorf("a destroy %s, while a message waits, ends with: %s", way, text)
		}
	}
	for level := 3; level >= 0; level-- { // the way of the message, which may go on meanwhile
		u.succeeds(u.admin.PurgeQueue(vhost, example.queue(level)))
	}
	noErrors(t, p.apply(t.Context(), p.plan(t.Context(), nil)))
	if left, err := u.admin.ListQueuesIn(vhost); err != nil || len(left) > 0 {
		t.Errorf("after the destroy there are %v %v", left, err)
	}
}

// TestTopicPermissions has topic permissions on a level exchange, those of the page and others.
func TestTopicPermissions(t *testing.T) {
	t.Parallel()
	example := permissionExamples(t)[0].of(10)
	given := regexp.MustCompile(`(?m)^rabbitmqctl set_topic_permissions -p \S+ \S+ (\S+) ` +
		`'(.*)' '(.*)'$`).FindStringSubmatch(permissionsPage(t))
	if given == nil {
		t.Fatal("the page has no topic permissions")
	}
	b := brokertest.Shared(t)
	vhost := brokertest.Vhost(t, b)
	u := newUser(t, b, vhost)
	u.grant(example.permissions)
	set := func(read string) {
		u.succeeds(u.admin.UpdateTopicPermissionsIn(vhost, u.name, rabbithole.TopicPermissions{Exchange: given[1],
			Write: given[2], Read: read}))
	}
	p := newProtocol(t, u.broker(), nil)
	p.mustApply(example.in(vhost)) // RabbitMQ knows topic permissions on exchanges that exist, only

	bindings, err := u.admin.ListExchangeBindingsWithSource(vhost, given[1])
	if err != nil {
		t.Fatal(err)
	}
	for _, binding := range bindings {
		u.succeeds(u.admin.DeleteBinding(vhost, binding))
	}
	noErrors(t, p.refresh(t.Context()))
	set("^$")
	text := errorText(p.apply(t.Context(), p.plan(t.Context(), example.in(vhost))))
	if !strings.Contains(text, fmt.Sprintf("read on exchange %q", given[1])) ||
		!strings.Contains(text, "topic permissions") {
		t.Errorf("without the topic permission: %s", text)
	}
	set(given[3])
	p.mustApply(example.in(vhost))
	p.mustBeSettled(example.in(vhost))
}

// TestMissingPermission takes every name out of every expression of the first example.
func TestMissingPermission(t *testing.T) {
	t.Parallel()
	example := permissionExamples(t)[0]
	example.configuration["levels"] = 2
	example.configuration["queue_type"] = "classic" // quicker to take back: RabbitMQ counts their messages at once
	names := []string{example.delivery(), "tasks.unroutable"}
	for level := range 2 {
		names = append(names, example.name("exchange_name", level)) // and its queue
	}
	b := brokertest.Shared(t)
	vhost := brokertest.Vhost(t, b)
	u := newUser(t, b, vhost)
	tried := 0
	for i, permission := range []string{"configure", "write", "read"} {
		for _, name := range names {
			tried++
			permissions := example.permissions
			permissions[i] = fmt.Sprintf("^(?!%s$)%s", regexp.QuoteMeta(name), strings.TrimPrefix(permissions[i], "^"))
			u.grant(permissions)
			mustMiss(t, newProtocol(t, u.broker(), nil), example.in(vhost), permission, name, u.name)
		}
	}

	if !t.Failed() {
		figure(t, "missing_permissions", tried)
	}

	u.grant(example.permissions)
	p := newProtocol(t, u.broker(), nil)
	p.mustApply(example.in(vhost))
	missing := func(what, summary string, says ...string) {
		t.Helper()
		for operation, diagnostics := range map[string]string{
			"refresh": errorText(p.refresh(t.Context())),
			"destroy": errorText(p.apply(t.Context(), p.plan(t.Context(), nil))),
		} {
			if p.state.IsNull() {
				t.Fatalf("%s: the %s forgets the cascade", what, operation)
			}
			mustSay(t, fmt.Sprintf("%s: the %s", what, operation), diagnostics, append(says, u.name, summary)...)
		}
	}
	u.succeeds(u.admin.ClearPermissionsIn(vhost, u.name))
	missing("without access to the vhost", "permission denied", fmt.Sprintf("vhost %q", vhost),
		"set_permissions -p <vhost>")
	u.grant(example.permissions)
	u.tag("monitoring")
	noErrors(t, p.refresh(t.Context()))
	u.tag("")
	missing("without a tag", "permission denied", "set_user_tags <user> management")
	u.tag("management")
	u.password("another")
	missing("with a wrong password", "authentication failed", "Check username and password", b.Endpoint)
}

// mustMiss makes sure that a create is refused for want of the permission on the name, and leaves nothing.
func mustMiss(t *testing.T, p *protocol, configuration attributes, permission, name, user string) {
	t.Helper()
	diagnostics := p.apply(t.Context(), p.plan(t.Context(), configuration))
	text := errorText(diagnostics)
	says := regexp.MustCompile(permission + `( and read)? on (exchange|queue) "` + regexp.QuoteMeta(name) + `"`)
	if len(diagnostics) != 1 || !says.MatchString(text) || !strings.Contains(text, `user "`+user+`"`) ||
		!strings.Contains(text, "permission denied") {
		t.Errorf("without %s on %q: %d diagnostics: %s", permission, name, len(diagnostics), text)
	}
	if !p.state.IsNull() {
		t.Errorf("without %s on %q the create leaves a state", permission, name)
	}
}

// TestProbePermissions probes as a user with nothing but the permissions that the page gives for that, and takes each
// name out of each expression.
func TestProbePermissions(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	config := delay.Config{Name: "tasks", Vhost: v.name, Levels: 4, CreateDeliveryExchange: true,
		StrictKeys: true, InternalLevels: true, ParkUnroutable: true}
	v.do(plan.Repair(expand(t, config), topology.New()).Steps()...)
	u := newUser(t, v.broker, v.name)
	p := newProtocol(t, u.broker(), nil)
	probe := func() []*tfprotov6.Diagnostic {
		return p.read(t.Context(), "rabbitmqdelay_probe",
			attributes{"vhost": v.name, "entry_exchange": "tasks.delay-03", "delay": "0s"})
	}
	good := permissionsOf(t, "probes")
	u.grant(good)
	noErrors(t, probe())
	for i, names := range [3][]string{
		{`amq\.gen-.*`}, {`amq\.gen-.*`, `tasks\.delay-03`}, {`amq\.gen-.*`, `tasks\.delivery`},
	} {
		for _, missing := range names {
			permissions := good
			permissions[i] = fmt.Sprintf("^(?!%s$)%s", missing, strings.TrimPrefix(good[i], "^"))
			u.grant(permissions)
			if text := errorText(probe()); !strings.Contains(text, "permission denied") ||
				!strings.Contains(strings.ToLower(text), "a probe takes permissions") {
				t.Errorf("with %q: %s", permissions, text)
			}
		}
	}
}

// permissionExample is a cascade on the page on permissions with the expressions below it.
type permissionExample struct {
	title         string
	configuration attributes
	permissions   [3]string
}

func permissionsPage(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("../../templates/guides/permissions.md")
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
		e := permissionExample{title: found[1], configuration: attributes{}, permissions: [3]string(found[3:])}
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

// of is the example in a base.
func (e permissionExample) of(base int) permissionExample {
	e.configuration = maps.Clone(e.configuration)
	e.configuration["base"] = base
	return e
}

// in is the example's configuration in a vhost.
func (e permissionExample) in(vhost string) attributes {
	configuration := attributes{"vhost": vhost}
	for name, value := range e.configuration {
		configuration[name] = value
	}
	return configuration
}

func (e permissionExample) name(attribute string, level int) string {
	return delay.Format(e.given(attribute, ".delay-%02d")).Name(level)
}

// queue is the name of a level's queue for the digit 1.
func (e permissionExample) queue(level int) string {
	name := e.name("queue_name", level)
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

// user is a user of the broker with the tag management, and nothing else at first.
type user struct {
	t           testing.TB
	of          *brokertest.Broker
	admin       *rabbithole.Client
	name, vhost string
}

// userPassword is the password of every user.
const userPassword = "of the user"

// newUser makes a user for a vhost, without a permission.
func newUser(t testing.TB, b *brokertest.Broker, vhost string) *user {
	t.Helper()
	admin, err := rabbithole.NewClient(b.Endpoint, b.Username, b.Password)
	if err != nil {
		t.Fatal(err)
	}
	u := &user{t: t, of: b, admin: admin, name: "user of " + vhost, vhost: vhost}
	t.Cleanup(func() { u.succeeds(admin.DeleteUser(u.name)) })
	u.tag("management")
	return u
}

// tag puts a tag in the place of those that the user has.
func (u *user) tag(tag string) {
	u.t.Helper()
	u.succeeds(u.admin.PutUser(u.name, rabbithole.UserSettings{Password: userPassword, Tags: rabbithole.UserTags{tag}}))
}

// password changes the password on the broker.
func (u *user) password(password string) {
	u.t.Helper()
	u.succeeds(u.admin.PutUser(u.name, rabbithole.UserSettings{Password: password,
		Tags: rabbithole.UserTags{"management"}}))
}

// grant gives the permissions to configure, write and read.
func (u *user) grant(permissions [3]string) {
	u.t.Helper()
	u.succeeds(u.admin.UpdatePermissionsIn(u.vhost, u.name, rabbithole.Permissions{Configure: permissions[0],
		Write: permissions[1], Read: permissions[2]}))
}

// broker is the broker as the user sees it.
func (u *user) broker() *brokertest.Broker {
	u.t.Helper()
	as := *u.of
	as.Username, as.Password = u.name, userPassword
	uri, err := url.Parse(as.AMQPURI)
	if err != nil {
		u.t.Fatal(err)
	}
	uri.User = url.UserPassword(u.name, userPassword)
	as.AMQPURI = uri.String()
	return &as
}

// publish sends a message, as an administrator.
func (u *user) publish(vhost, entry, key string) {
	u.t.Helper()
	connection, err := u.of.Dial(vhost)
	if err != nil {
		u.t.Fatal(err)
	}
	defer connection.Close()
	publisher, err := brokertest.NewPublisher(connection)
	if err != nil {
		u.t.Fatal(err)
	}
	if err := publisher.Publish(u.t.Context(), entry, key, amqp.Publishing{DeliveryMode: amqp.Persistent}); err != nil {
		u.t.Fatal(err)
	}
}

// succeeds makes sure that a request was answered.
func (u *user) succeeds(response *http.Response, err error) {
	u.t.Helper()
	if err != nil {
		u.t.Fatal(err)
	}
	_ = response.Body.Close()
}

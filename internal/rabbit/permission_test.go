package rabbit_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// user makes a user for one test, with permissions in the vhost unless they are nil.
func user(t *testing.T, tags, vhost string, permissions map[string]string) func(*rabbit.Config) {
	t.Helper()
	name := strings.ReplaceAll(t.Name(), "/", "-")
	admin(t, http.MethodPut, []string{"users", name}, map[string]string{"password": secret, "tags": tags})
	t.Cleanup(func() { admin(t, http.MethodDelete, []string{"users", name}, nil) })
	if permissions != nil {
		admin(t, http.MethodPut, []string{"permissions", vhost, name}, permissions)
	}
	return func(c *rabbit.Config) {
		c.Username, c.Password = name, secret
		c.AMQPURI = strings.Replace(c.AMQPURI, "guest:guest@", "", 1)
	}
}

func allow(pattern string) map[string]string {
	return map[string]string{"configure": pattern, "write": pattern, "read": pattern}
}

// TestPermissions does with as little as possible, and without.
func TestPermissions(t *testing.T) {
	t.Parallel()
	b := brokertest.Shared(t)
	want := expand(t, delay.Config{Name: "tasks", Levels: 3, CreateDeliveryExchange: true, ParkUnroutable: true})
	q := topology.Queue{Name: "tasks.delay-00", Durable: true, Arguments: topology.Arguments{"x-queue-type": "classic"}}

	t.Run("enough", func(t *testing.T) {
		vhost := brokertest.Vhost(t, b)
		client := connect(t, user(t, "management", vhost, allow(`^tasks\.`)))
		state := create(t, client, vhost, want)
		run(t, client, vhost, plan.Teardown(want, state.Topology, plan.Guard{}))
	})
	t.Run("to read, and to count messages", func(t *testing.T) {
		vhost := brokertest.Vhost(t, b)
		create(t, connect(t), vhost, want)
		client := connect(t, user(t, "management", vhost, map[string]string{"configure": "^$", "write": "^$",
			"read": `^tasks\.`}))
		if todo := plan.Repair(want, read(t, client, vhost, want).Topology); len(todo) > 0 {
			t.Errorf("these steps are left: %v", todo.Steps())
		}
		run(t, client, vhost, verify(want))
	})
	t.Run("not to get messages", func(t *testing.T) { // then the counts of the management API have to do
		vhost := brokertest.Vhost(t, b)
		create(t, connect(t), vhost, want)
		client := connect(t, user(t, "management", vhost, map[string]string{"configure": `^tasks\.`, "write": "^$",
			"read": "^$"}))
		run(t, client, vhost, verify(want))
	})
	t.Run("not to declare", func(t *testing.T) {
		vhost := brokertest.Vhost(t, b)
		client := connect(t, user(t, "management", vhost, allow("^others$")))
		binding := topology.Binding{Source: "amq.topic", RoutingKey: "k", DestinationType: topology.ToExchange,
			Destination: "amq.fanout"}
		_, err := engine.Run(t.Context(), client.Vhost(vhost),
			plan.Plan{{Steps: []plan.Step{plan.Bind{Binding: binding}}}})
		says(t, err, rabbit.Forbidden, `write on exchange "amq.fanout"`, `read on exchange "amq.topic"`)
		_, err = engine.Run(t.Context(), client.Vhost(vhost),
			plan.Plan{{Steps: []plan.Step{plan.DeclareQueue{Queue: want.Queues["tasks.delay-01"]}}}})
		says(t, err, rabbit.Forbidden, `configure and read on queue "tasks.delay-01"`,
			`write on exchange "tasks.delay-00"`)
		_, err = engine.Run(t.Context(), client.Vhost(vhost),
			plan.Plan{{Steps: []plan.Step{plan.DeclareExchange{Exchange: want.Exchanges[want.Entry]}}}})
		says(t, err, rabbit.Forbidden, `declare exchange "tasks.delay-02"`, `configure and read on exchange `+
			`"tasks.delay-02"`, `"tasks.unroutable"`)
	})
	t.Run("no tag", func(t *testing.T) {
		vhost := brokertest.Vhost(t, b)
		_, err := connect(t, user(t, "", vhost, allow(".*"))).Vhost(vhost).Read(t.Context(), want)
		says(t, err, rabbit.Forbidden, "the tag management")
	})
	t.Run("no access to the vhost", func(t *testing.T) {
		vhost := brokertest.Vhost(t, b)
		client := connect(t, user(t, "management", vhost, nil))
		_, err := client.Vhost(vhost).Read(t.Context(), want)
		says(t, err, rabbit.Forbidden, vhost, "permissions in this vhost")
		_, _, err = client.Vhost(vhost).Queue(t.Context(), "q")
		says(t, err, rabbit.Forbidden, "permissions in this vhost")
		_, err = engine.Run(t.Context(), client.Vhost(vhost),
			plan.Plan{{Steps: []plan.Step{plan.DeclareQueue{Queue: q}}}})
		says(t, err, rabbit.Forbidden)
	})
	t.Run("no vhost", func(t *testing.T) {
		client := connect(t)
		_, err := client.Vhost("absent").Read(t.Context(), want)
		says(t, err, rabbit.VhostNotFound, `"absent"`)
		_, err = client.Vhost("absent").BindingsFrom(t.Context(), "e")
		says(t, err, rabbit.VhostNotFound)
		_, err = engine.Run(t.Context(), client.Vhost("absent"),
			plan.Plan{{Steps: []plan.Step{plan.DeclareQueue{Queue: q}}}})
		says(t, err, rabbit.VhostNotFound)
		_, err = engine.Run(t.Context(), client.Vhost("absent"),
			plan.Plan{{Steps: []plan.Step{plan.VerifyEmpty{Queues: []topology.Queue{q}}}}})
		says(t, err, rabbit.VhostNotFound)
	})
	t.Run("wrong password", func(t *testing.T) {
		_, err := connect(t, func(c *rabbit.Config) { c.Password = secret }).Vhost("/").Read(t.Context(), want)
		says(t, err, rabbit.Unauthorized, b.Username, b.Endpoint, "RABBITMQ_USERNAME")
		if strings.Contains(err.Error(), secret) || strings.Count(err.Error(), "Could not")+
			strings.Count(err.Error(), "401") > 1 {
			t.Errorf("the error is %v", err)
		}
	})
	t.Run("wrong base path", func(t *testing.T) {
		client := connect(t, func(c *rabbit.Config) { c.Endpoint += "/elsewhere" })
		_, err := client.Vhost("/").Read(t.Context(), want)
		says(t, err, rabbit.NotManagementAPI, "without /api")
	})
}

// TestRefusals has the broker refuse in its own words.
func TestRefusals(t *testing.T) {
	client, vhost := connect(t), brokertest.Vhost(t, brokertest.Shared(t))
	exchange := topology.Exchange{Name: "e", Type: "topic", Durable: true}
	q := topology.Queue{Name: "q", Durable: true, Arguments: topology.Arguments{"x-queue-type": "quorum",
		"x-message-ttl": int64(1)}}
	binding := topology.Binding{Source: "e", RoutingKey: "k", DestinationType: topology.ToQueue, Destination: "q"}
	run(t, client, vhost, plan.Plan{{Steps: []plan.Step{plan.DeclareExchange{Exchange: exchange},
		plan.DeclareQueue{Queue: q}}}, {Steps: []plan.Step{plan.Bind{Binding: binding}}}})

	attempt := func(step plan.Step) error {
		done, err := engine.Run(t.Context(), client.Vhost(vhost), plan.Plan{{Steps: []plan.Step{step}}})
		if len(done) > 0 {
			t.Errorf("%s counts as done", step)
		}
		return err
	}
	exchange.Type = "direct"
	says(t, attempt(plan.DeclareExchange{Exchange: exchange}), rabbit.Conflict, `declare exchange "e" in vhost`,
		"received 'direct' but current is 'topic'")
	q.Arguments = topology.Arguments{"x-queue-type": "quorum", "x-message-ttl": int64(2)}
	says(t, attempt(plan.DeclareQueue{Queue: q}), rabbit.Conflict, `declare queue "q" in vhost`,
		"inequivalent arg 'x-message-ttl'")
	says(t, attempt(plan.DeleteExchange{Name: "e", IfUnused: true}), rabbit.InUse, `delete exchange "e" in vhost`,
		"in use")
	says(t, attempt(plan.DeclareQueue{Queue: topology.Queue{Name: "new", Durable: true,
		Arguments: topology.Arguments{"x-message-ttl": int64(999999999999)}}}), rabbit.Refused, "value_too_large")
	binding.Destination = "absent"
	says(t, attempt(plan.Bind{Binding: binding}), rabbit.NotFound, `bind exchange "e" to queue "absent" `+
		`with key "k"`, "absent")
}

// says checks the kind of an error and what people get to read.
func says(t *testing.T, err error, kind rabbit.Kind, words ...string) {
	t.Helper()
	if !rabbit.IsKind(err, kind) {
		t.Fatalf("the error is %v, not %q", err, kind)
	}
	var described rabbit.Described
	if !errors.As(err, &described) {
		t.Fatalf("the error is a %T", err)
	}
	for _, word := range words {
		if !strings.Contains(described.Detail(), word) {
			t.Errorf("the detail lacks %s:\n%s", word, described.Detail())
		}
	}
	if !strings.Contains(described.Summary(), string(kind)) {
		t.Errorf("the summary is %s", described.Summary())
	}
	t.Logf("%s: %s", described.Summary(), described.Detail())
}

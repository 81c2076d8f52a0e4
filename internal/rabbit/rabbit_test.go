package rabbit_test

import (
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

func TestMain(m *testing.M) { brokertest.Main(m) }

// connect is a client of the shared broker.
func connect(t testing.TB, with ...func(*rabbit.Config)) *rabbit.Client {
	t.Helper()
	return clientFor(t, brokertest.Shared(t), with...)
}

func clientFor(t testing.TB, b *brokertest.Broker, with ...func(*rabbit.Config)) *rabbit.Client {
	t.Helper()
	config := rabbit.Config{Endpoint: b.Endpoint, Username: b.Username, Password: b.Password, AMQPURI: b.AMQPURI,
		RetryTimeout: rabbit.DefaultRetryTimeout, BindsAtOnce: true}
	for _, change := range with {
		change(&config)
	}
	client, err := rabbit.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// patient has a client wait for an answer as long as a test or rabbitmqctl may take to let it pass.
func patient(c *rabbit.Config) { c.RequestTimeout = time.Minute }

// upToThreeTimes does something until it succeeds. A busy machine may pause in the middle, but seldom three times.
func upToThreeTimes(do func() error) (err error) {
	for range 3 {
		if err = do(); err == nil {
			return nil
		}
	}
	return err
}

func expand(t testing.TB, config delay.Config) topology.Topology {
	t.Helper()
	resolved, err := config.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	return resolved.Expand()
}

func read(t testing.TB, client *rabbit.Client, vhost string, want topology.Topology) *rabbit.State {
	t.Helper()
	state, err := client.Vhost(vhost).Read(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func run(t testing.TB, client *rabbit.Client, vhost string, todo plan.Plan) []plan.Step {
	t.Helper()
	done, err := engine.Run(t.Context(), client.Vhost(vhost), todo)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// create makes the topology and makes sure that it is there.
func create(t testing.TB, client *rabbit.Client, vhost string, want topology.Topology) *rabbit.State {
	t.Helper()
	run(t, client, vhost, plan.Repair(want, read(t, client, vhost, want).Topology))
	state := read(t, client, vhost, want)
	if todo := plan.Repair(want, state.Topology); len(todo) > 0 {
		t.Fatalf("after the create these steps are left: %v", todo.Steps())
	}
	return state
}

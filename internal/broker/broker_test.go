package broker_test

import (
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/broker"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plans"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

func TestMain(m *testing.M) { brokertest.Main(m) }

// connect is a client of the shared broker.
func connect(t testing.TB, with ...func(*broker.Config)) *broker.Client {
	t.Helper()
	return clientFor(t, brokertest.Shared(t), with...)
}

func clientFor(t testing.TB, b *brokertest.Broker, with ...func(*broker.Config)) *broker.Client {
	t.Helper()
	config := broker.Config{Endpoint: b.Endpoint, Username: b.Username, Password: b.Password, AMQPURI: b.AMQPURI,
		RetryTimeout: -1, BindsAtOnce: true}
	for _, change := range with {
		change(&config)
	}
	client, err := broker.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func expand(t testing.TB, config cascade.Config) topology.Topology {
	t.Helper()
	resolved, err := config.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	return resolved.Expand()
}

func read(t testing.TB, client *broker.Client, vhost string, want topology.Topology) *broker.State {
	t.Helper()
	state, err := client.Read(t.Context(), vhost, want)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func run(t testing.TB, client *broker.Client, vhost string, plan plans.Plan) []plans.Step {
	t.Helper()
	done, err := client.Run(t.Context(), vhost, plan)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// create makes the topology and makes sure that it is there.
func create(t testing.TB, client *broker.Client, vhost string, want topology.Topology) *broker.State {
	t.Helper()
	run(t, client, vhost, plans.Repair(want, read(t, client, vhost, want).Topology))
	state := read(t, client, vhost, want)
	if plan := plans.Repair(want, state.Topology); len(plan) > 0 {
		t.Fatalf("after the create these steps are left: %v", plan.Steps())
	}
	return state
}

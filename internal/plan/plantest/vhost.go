package plantest

import (
	"context"
	"fmt"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/health"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/policy"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Apply has the engine make a change of a cascade or ladder.
func (b *Broker) Apply(c engine.Change) (engine.Result, error) {
	return engine.ApplyIn(context.Background(), vhost{b}, c)
}

// vhost answers the engine for the broker, as RabbitMQ does. Everybody may do everything there.
type vhost struct{ broker *Broker }

var _ engine.Vhost = vhost{}

func (v vhost) Run(_ context.Context, steps plan.Plan) (done []plan.Step, err error) {
	return v.broker.run(steps)
}

func (v vhost) Undo(_ context.Context, steps plan.Plan) error { return v.broker.Run(steps) }

func (v vhost) Read(_ context.Context, want topology.Topology) (*rabbit.State, error) {
	state := &rabbit.State{Topology: v.broker.Part(want), Status: map[string]health.QueueStatus{},
		AllPolicies: policy.Declared{Users: policy.Policies{}, Operators: policy.Policies{}}}
	state.DeliveryExchange, state.DeliveryExists = v.broker.Exchanges[want.Delivery]
	for name := range state.Queues {
		waiting := v.broker.Messages[name]
		state.Status[name] = health.QueueStatus{Messages: &waiting, Ready: &waiting}
	}
	for _, p := range v.broker.Policies {
		state.AllPolicies.Users = append(state.AllPolicies.Users,
			policy.New(p.Name, p.Pattern, p.ApplyTo, p.Priority, p.Definition))
	}
	return state, nil
}

func (v vhost) ReadExisting(ctx context.Context, want topology.Topology) (*rabbit.State, error) {
	return v.Read(ctx, want)
}

func (v vhost) Inbound(_ context.Context, exchanges, queues []string) (topology.Bindings, error) {
	return v.broker.inbound(exchanges, queues), nil
}

func (v vhost) BindingsFrom(_ context.Context, exchange string) ([]topology.Binding, error) {
	return v.broker.Bindings.Where(func(b topology.Binding) bool { return b.Source == exchange }), nil
}

func (v vhost) Owners(_ context.Context, entry string) ([]topology.Binding, error) {
	return v.broker.Owners.Where(func(mark topology.Binding) bool { return mark.Source == entry }), nil
}

func (v vhost) Users(ctx context.Context, exchange string) ([]string, error) {
	users, err := v.Bound(ctx, exchange)
	for b := range v.broker.inbound([]string{exchange}, nil) {
		users = append(users, b.Describe())
	}
	for name, e := range v.broker.Exchanges {
		if e.AlternateExchange() == exchange {
			users = append(users, fmt.Sprintf("exchange %q", name))
		}
	}
	for name, q := range v.broker.Queues {
		if q.DeadLetterExchange() == exchange {
			users = append(users, fmt.Sprintf("queue %q", name))
		}
	}
	slices.Sort(users)
	return users, err
}

func (v vhost) Bound(ctx context.Context, exchange string) (users []string, err error) {
	bindings, err := v.BindingsFrom(ctx, exchange)
	for _, b := range bindings {
		users = append(users, b.Describe())
	}
	return users, err
}

func (v vhost) Permissions(context.Context) (*rabbit.Permissions, error) { return nil, nil }

func (v vhost) MaySet(context.Context, topology.Policy) error { return nil }

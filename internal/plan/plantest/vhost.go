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

// Apply has the engine make a change.
func (b *Broker) Apply(c engine.Change) (engine.Result, error) {
	return engineOn(b).Apply(context.Background(), c)
}

// Preview has the engine say what a change would meet.
func (b *Broker) Preview(c engine.Change) []engine.Problem {
	return engineOn(b).Preview(context.Background(), c)
}

// FindBindings has the engine find the bindings of a destination, as a refresh does.
func (b *Broker) FindBindings(own []topology.Binding, mark string) (
	there topology.Bindings, found []topology.Binding, err error,
) {
	return engine.FindBindings(context.Background(), vhost{b}, own, mark)
}

func engineOn(b *Broker) *engine.Engine {
	return engine.On(func(string) engine.Vhost { return vhost{b} })
}

// vhost answers the engine for the broker, as RabbitMQ does. Everybody may do everything there.
type vhost struct{ broker *Broker }

var _ engine.Vhost = vhost{}

func (v vhost) Run(_ context.Context, steps plan.Plan) (done []plan.Step, err error) {
	return v.broker.run(steps)
}

func (v vhost) Undo(_ context.Context, steps plan.Plan) error { return v.broker.Run(steps) }

func (v vhost) Close() {}

func (v vhost) Name() string { return "/" }

func (v vhost) Exchange(_ context.Context, name string) (topology.Exchange, bool, error) {
	e, exists := v.broker.Exchanges[name]
	return e, exists, nil
}

func (v vhost) Queue(_ context.Context, name string) (topology.Queue, bool, error) {
	q, exists := v.broker.Queues[name]
	return q, exists, nil
}

func (v vhost) Policies(context.Context) (policy.Policies, error) {
	policies := policy.Policies{}
	for _, p := range v.broker.Policies {
		policies = append(policies, policy.New(p.Name, p.Pattern, p.ApplyTo, p.Priority, p.Definition))
	}
	return policies, nil
}

func (v vhost) DeclaredPolicies(ctx context.Context) (policy.Declared, error) {
	users, err := v.Policies(ctx)
	return policy.Declared{Users: users, Operators: policy.Policies{}}, err
}

func (v vhost) Inventory(context.Context, func(topology.Exchange) bool) (topology.Topology, error) {
	return v.broker.Snapshot(), nil
}

func (v vhost) CountAll(context.Context) (map[string]*rabbit.QueueCount, error) {
	counts := map[string]*rabbit.QueueCount{}
	for name := range v.broker.Queues {
		counts[name] = &rabbit.QueueCount{Messages: v.broker.Messages[name], IsCounted: true}
	}
	return counts, nil
}

func (v vhost) HasDestination(_ context.Context, b topology.Binding) (bool, error) {
	return v.broker.Takes(b), nil
}

func (v vhost) QueueStatus(ctx context.Context, name string) (topology.Queue, health.QueueStatus, bool, error) {
	state, err := v.Receivers(ctx, []string{name}, policy.Declared{})
	q, exists := state.Queues[name]
	return q, state.Status[name], exists, err
}

func (v vhost) Receivers(ctx context.Context, names []string, _ policy.Declared) (*rabbit.State, error) {
	want := topology.New()
	for _, name := range names {
		want.Queues[name] = topology.Queue{Name: name}
	}
	return v.Read(ctx, want)
}

func (v vhost) Read(ctx context.Context, want topology.Topology) (*rabbit.State, error) {
	state := &rabbit.State{Topology: v.broker.Part(want), Status: map[string]health.QueueStatus{}}
	state.DeliveryExchange, state.DeliveryExists = v.broker.Exchanges[want.Delivery]
	for name := range state.Queues {
		waiting := v.broker.Messages[name]
		state.Status[name] = health.QueueStatus{Messages: &waiting, Ready: &waiting}
	}
	var err error
	state.AllPolicies, err = v.DeclaredPolicies(ctx)
	return state, err
}

func (v vhost) ReadExisting(ctx context.Context, want topology.Topology) (*rabbit.State, error) {
	return v.Read(ctx, want)
}

func (v vhost) Inbound(_ context.Context, exchanges, queues []string) (topology.Bindings, error) {
	return v.broker.inbound(exchanges, queues), nil
}

func (v vhost) BindingsFrom(_ context.Context, exchange string) ([]topology.Binding, error) {
	if v.broker.BeforeRead != nil {
		if err := v.broker.BeforeRead(); err != nil {
			return nil, err
		}
	}
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

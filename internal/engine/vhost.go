package engine

import (
	"context"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/health"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/policy"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Reader reads what a vhost has. Its methods are those of a [*rabbit.Vhost].
type Reader interface {
	recognize.Lookup
	Name() string
	Read(ctx context.Context, want topology.Topology) (*rabbit.State, error)
	ReadExisting(ctx context.Context, want topology.Topology) (*rabbit.State, error)
	Inventory(ctx context.Context, worth func(topology.Exchange) bool) (topology.Topology, error)
	Inbound(ctx context.Context, exchanges, queues []string) (topology.Bindings, error)
	Owners(ctx context.Context, entry string) ([]topology.Binding, error)
	Users(ctx context.Context, exchange string) ([]string, error)
	Bound(ctx context.Context, exchange string) ([]string, error)
	HasDestination(ctx context.Context, b topology.Binding) (bool, error)
	QueueStatus(ctx context.Context, name string) (topology.Queue, health.QueueStatus, bool, error)
	Receivers(ctx context.Context, names []string, policies policy.Declared) (*rabbit.State, error)
	CountAll(ctx context.Context) (map[string]*rabbit.QueueCount, error)
	DeclaredPolicies(ctx context.Context) (policy.Declared, error)
	Permissions(ctx context.Context) (*rabbit.Permissions, error)
	MaySet(ctx context.Context, p topology.Policy) error
}

// Vhost is where a change is made: a vhost of a broker, or a model of one.
type Vhost interface {
	Reader
	// Run runs a plan, as the function [Run] does.
	Run(ctx context.Context, steps plan.Plan) (done []plan.Step, err error)
	// Undo runs a plan without Run's preparation: what can be taken back is.
	Undo(ctx context.Context, steps plan.Plan) error
}

// onBroker is a vhost of a broker.
type onBroker struct{ *rabbit.Vhost }

func (v onBroker) Run(ctx context.Context, steps plan.Plan) (done []plan.Step, err error) {
	return Run(ctx, v.Vhost, steps)
}

func (v onBroker) Undo(ctx context.Context, steps plan.Plan) error {
	r := NewRunner(v.Vhost)
	defer r.Close()
	_, err := r.Run(ctx, steps)
	return err
}

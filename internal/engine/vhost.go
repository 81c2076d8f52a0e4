package engine

import (
	"context"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Vhost is where a change is made: a vhost of a broker, or a model of one. The methods that read are those of a
// [*rabbit.Vhost].
type Vhost interface {
	Read(ctx context.Context, want topology.Topology) (*rabbit.State, error)
	ReadExisting(ctx context.Context, want topology.Topology) (*rabbit.State, error)
	Inbound(ctx context.Context, exchanges, queues []string) (topology.Bindings, error)
	BindingsFrom(ctx context.Context, exchange string) ([]topology.Binding, error)
	Owners(ctx context.Context, entry string) ([]topology.Binding, error)
	Users(ctx context.Context, exchange string) ([]string, error)
	Bound(ctx context.Context, exchange string) ([]string, error)
	Permissions(ctx context.Context) (*rabbit.Permissions, error)
	MaySet(ctx context.Context, p topology.Policy) error

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

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

// Vhost is where one change is made: a vhost of a broker, or a model of one.
type Vhost interface {
	Reader
	// Run runs a plan, see that of the runner. Before anything is changed, it makes sure of what proofs of empty queues
	// take.
	Run(ctx context.Context, steps plan.Plan) (done []plan.Step, err error)
	// Undo runs a plan without Run's preparation: what can be taken back is.
	Undo(ctx context.Context, steps plan.Plan) error
	// Close ends the AMQP connection that all Runs have, if there is one.
	Close()
}

// onBroker is a vhost of a broker. All plans that it runs have one prover of empty queues. An undo has its own: it can
// do without AMQP where the failure was that this has gone.
type onBroker struct {
	*rabbit.Vhost
	target *target
}

// OnBroker is a vhost of a broker, for one change. It makes no request.
func OnBroker(vhost *rabbit.Vhost) Vhost { return onBroker{vhost, newTarget(vhost)} }

func (v onBroker) Run(ctx context.Context, steps plan.Plan) (done []plan.Step, err error) {
	if err := v.target.prepare(ctx, steps); err != nil {
		return nil, err
	}
	return v.target.runner().Run(ctx, steps)
}

func (v onBroker) Undo(ctx context.Context, steps plan.Plan) error {
	t := newTarget(v.Vhost)
	defer t.prover.Close()
	_, err := t.runner().Run(ctx, steps)
	return err
}

func (v onBroker) Close() { v.target.prover.Close() }

// Package engine brings topologies and destinations onto a broker, changes them and takes them away. It loses no
// message and touches nothing that others have. Each operation looks first, refuses the impossible, runs a plan, and
// answers with the objects that exist then, and with typed errors. It knows nothing of Terraform, and words nothing
// that a user reads there. Read deployment.go first, then create.go, update.go, rebuild.go and destroy.go;
// destination.go for bindings of others.
package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/claims"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Deployment is a topology that is wanted on a broker, with all that its operations take.
type Deployment struct {
	Client *rabbit.Client
	Claims *claims.Table
	// Kind is what the topology is called in the errors of others: a cascade or a ladder.
	Kind    string
	Vhost   string
	Desired topology.Topology
}

// String names the deployment in messages.
func (d *Deployment) String() string {
	return fmt.Sprintf("%s with entry exchange %q in vhost %q", d.Kind, d.Desired.Entry, d.Vhost)
}

// Options say what an operation may do with what it finds.
type Options struct {
	// Adopt takes over what exists already, if it is exactly as desired.
	Adopt bool
	// Guard is for messages that wait in objects to be removed.
	Guard plan.Guard
}

// Outcome is what there is after an update or a rebuild.
type Outcome struct {
	// There is what exists of the topology before and the desired one, nil if nothing was changed.
	There *topology.Topology
	// IsNew tells whether the next operation has to start from the desired topology, not from the one before.
	IsNew bool
	// State is the broker's state at the end, nil if the operation broke off before.
	State *rabbit.State
	// Users are those who use a delivery exchange that is no longer part of the topology, so that it stays.
	Users []string
}

// undoTimeout bounds what has to be done although the operation's own time is over.
const undoTimeout = time.Minute

// afterwards is for what has to be done although the operation's own time is over.
func afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
}

// of is the deployment of another topology: the one before, or a part.
func (d *Deployment) of(t topology.Topology) *Deployment {
	other := *d
	other.Desired = t
	return &other
}

func (d *Deployment) on() *rabbit.Vhost { return d.Client.Vhost(d.Vhost) }

// Read finds out which objects exist.
func (d *Deployment) Read(ctx context.Context) (*rabbit.State, error) {
	return d.on().ReadExisting(ctx, d.Desired)
}

// ownsDelivery tells whether the delivery exchange is part of the topology.
func ownsDelivery(t topology.Topology) bool { return t.Has(t.Delivery) }

// run carries out a plan that turns the state into the desired topology. It reads the objects that exist then, nil if
// they are not known. Done are the steps that may have had an effect.
func (d *Deployment) run(
	ctx context.Context, steps plan.Plan, state *rabbit.State,
) (result *rabbit.State, done []plan.Step, err error) {
	if len(steps) == 0 {
		return state, nil, nil
	}
	runner := NewRunner(d.on())
	defer runner.Close()
	if done, err = runner.Run(ctx, steps); err != nil {
		return nil, done, err
	}
	if result, err = d.Read(ctx); err != nil {
		return nil, done, err
	}
	return result, done, d.verify(result)
}

// verify makes sure that the written objects are there: no step is to be done again.
func (d *Deployment) verify(state *rabbit.State) error {
	remaining := plan.Repair(d.Desired, state.Topology).Steps()
	if len(remaining) == 0 {
		return nil
	}
	texts := make([]string, len(remaining))
	for i, step := range remaining {
		texts[i] = step.String()
	}
	return fmt.Errorf("somebody else changed the %s meanwhile; still to be done: %s", d.Kind,
		strings.Join(texts, "; "))
}

// Package engine changes cascades, ladders and destinations on a broker. It loses no message and touches nothing that
// others have. A [Change] comes in: the topology of the state, and the wanted one. A [Result] goes out, of the objects
// that exist then, or typed errors of all that stands in the way.
//
// Call [Engine.Apply] to make a change, and [Engine.Preview] to learn from a plan what it would meet. Both look at the
// same things by the same checks (checks.go). Apply then runs a plan of internal/plan on a broker (run.go, target.go),
// and undoes what it has done if that fails (undo.go). In tests, a model of a broker takes its place (vhost.go).
//
// Read engine.go and apply.go first, then create.go, update.go, rebuild.go and destroy.go; bindings.go for a
// destination. Who may make a change is decided in owner.go, and when in package turns.
//
// It knows nothing of Terraform.
package engine

import (
	"sync"
	"sync/atomic"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine/turns"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Engine makes the changes of one run of Terraform on one broker. It is safe for use by several at a time.
type Engine struct {
	vhost func(name string) Vhost
	turns *turns.Turns
	// silent is set once a preview of a create got no answer, or a refusal that all would get. The others of the run do
	// not ask.
	silent atomic.Bool
	// surveys are those of the vhosts, by their names.
	surveys sync.Map
}

// New is for one run. It makes no request.
func New(client *rabbit.Client) *Engine {
	return On(func(name string) Vhost { return OnBroker(client.Vhost(name)) })
}

// On is for one run on vhosts of any kind, such as models.
func On(vhost func(name string) Vhost) *Engine { return &Engine{vhost: vhost, turns: turns.New()} }

// Change turns one topology into another one.
type Change struct {
	// Kind is a cascade, a ladder or a destination.
	Kind, Vhost string
	// Before is the topology of the state, empty for a create. After is the wanted one, empty for a destroy. For a
	// destination they are bindings alone, after the change one at the most: its exchanges and queues are others'.
	// Otherwise they have the owner's mark of the resource, if it has one.
	Before, After topology.Topology
	Options       Options
}

// Options say what a change may do with what it finds.
type Options struct {
	// Adopt takes over what exists already, if it is exactly as wanted, and what others own.
	Adopt bool
	// Rebuild is for exchanges or queues that get other arguments or names, while the entry stays.
	Rebuild bool
	// Guard is for messages that wait in objects to be removed.
	Guard plan.Guard
	// Named is for a destination: of the bindings before, the one that the state names. The others are those that
	// updates which broke off may have left.
	Named topology.Binding
	// Known are the keys of the damages of the topology before that the plan knew, see [health.Damage.Key].
	Known []string
	// Own is for a preview: all that the state has in the vhost. Policies there are no rivals. If a create Replaces
	// them, they go first.
	Own      topology.Topology
	Replaces bool
	// DeliveryPlanned is for a preview, too: the plan has the delivery exchange, or what ends in that of a destination.
	// So it is if the topology is to have the delivery exchange, and the plan takes that from another one.
	// BehindClassic says that the plan has classic delay queues before a destination. DestinationPlanned says that it
	// has the exchange or queue that a destination leads to.
	DeliveryPlanned, BehindClassic, DestinationPlanned bool
}

// isOfBindings tells whether the change is that of a destination: of bindings alone.
func (c Change) isOfBindings() bool {
	return c.Before.IsEmpty() && c.After.IsEmpty() && len(c.Before.Bindings)+len(c.After.Bindings) > 0
}

// Result is what there is after a change.
type Result struct {
	// There is what exists, or may, of both topologies, nil if nothing was changed, or nothing is left.
	There *topology.Topology
	// StartsFromAfter tells whether the next change has to start from the topology after, not from the one before.
	StartsFromAfter bool
	// State is the broker's state at the end, nil if the change broke off before. That of a destination has what its
	// exchange has bound, also after a destroy.
	State *rabbit.State
	// Users are those who use a delivery exchange that is no longer part of the topology, so that it stays.
	Users []string
	// Problems are what the change has met, and what did not keep it from being made.
	Problems []Problem
}

// Problem is what a change would meet, as things are.
type Problem struct {
	Code Code
	// Cause is one of the errors of [Engine.Apply], or names a fault for which nothing is refused.
	Cause error
}

// Code is a kind of problem.
type Code int

// The kinds of problems.
const (
	// Refused says that the change would be refused.
	Refused Code = iota
	// Displaces says that policies of others no longer apply to some exchanges.
	Displaces
	// TakesOver says that the change takes over what others own, or may be about to delete.
	TakesOver
	// OwnsWithOthers says that others own the same.
	OwnsWithOthers
	// Unplanned says that a change has found damages that its plan did not know.
	Unplanned
	// Unusable says that the broker or the vhost refuses the user, or that something else answers.
	Unusable
	// Other is for whatever else there is to tell: its cause alone says what it is.
	Other
)

// topologyChange is a change of a cascade or ladder that is being made.
type topologyChange struct {
	change Change
	// before and after are the two sides.
	before, after *deployment
	// problems are those that did not keep the change from being made.
	problems []Problem
}

// topologyChange is the change as it is made in a vhost.
func (c Change) topologyChange(vhost Vhost) *topologyChange {
	of := func(t topology.Topology) *deployment { return &deployment{kind: c.Kind, vhost: vhost, wanted: t} }
	return &topologyChange{change: c, before: of(c.Before), after: of(c.After)}
}

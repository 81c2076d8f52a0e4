package engine

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/claims"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Rebuild is an update in which exchanges or queues get other arguments or names, while the entry stays.
func (d *Deployment) Rebuild(ctx context.Context, before topology.Topology, options Options) (_ Outcome, err error) {
	claim, err := d.claim(ctx, before, d.Desired)
	if err != nil {
		return Outcome{}, err
	}
	defer func() { d.endUpdate(claim, before, err) }()
	retired := notAmong(d.own(before), d.own(d.Desired))
	if err = all(held(claim, d.own(d.Desired)), wanted(claim, retired)); err != nil {
		return Outcome{}, err
	}
	r := &rebuild{d, claim, d.of(d.spare(before, claim.Taken(retired))), options}
	return r.run(ctx)
}

// rebuild is a Rebuild that has a claim on all objects.
type rebuild struct {
	*Deployment
	claim   *claims.Operation
	before  *Deployment
	options Options
}

func (r *rebuild) run(ctx context.Context) (Outcome, error) {
	before, guard := r.before.Desired, r.options.Guard
	runner := NewRunner(r.on())
	defer runner.Close()
	found, err := r.on().ReadExisting(ctx, plan.Union(before, r.Desired))
	if err != nil {
		return Outcome{}, err
	}
	if err := r.check(ctx, found); err != nil {
		return Outcome{}, err
	}
	if err := r.readBound(ctx, found); err != nil {
		return Outcome{}, err
	}
	done, err := runner.Run(ctx, plan.Rebuild(before, r.Desired, found.Topology, guard))
	if err != nil {
		return r.brokenOff(ctx, found, done, &NotRemovedError{failure{err}, before, len(done) > 0})
	}
	state, err := r.Read(ctx)
	if err == nil {
		err = r.verify(state)
	}
	if err == nil {
		err = r.of(before.Except(r.Desired)).verifyGone(ctx)
	}
	if err != nil {
		return r.brokenOff(ctx, found, done, err)
	}
	users, err := r.letGoOfDelivery(ctx)
	return Outcome{There: &state.Topology, IsNew: true, State: state, Users: users}, err
}

// check refuses what cannot be, before anything is written.
func (r *rebuild) check(ctx context.Context, found *rabbit.State) error {
	had := r.before.Desired
	if had.Delivery != r.Desired.Delivery {
		had.Exchanges = maps.Clone(had.Exchanges)
		delete(had.Exchanges, had.Delivery)
	}
	added := r.of(r.Desired.Except(had))
	err := all(r.checkDelivery(found), added.checkExisting(found, r.options.Adopt),
		r.checkPolicies(ctx, found, r.before.Desired))
	if err != nil {
		r.claim.FailFor(added.present(found.Topology))
	}
	return err
}

// readBound adds the bindings of others to objects that are to be torn down.
func (r *rebuild) readBound(ctx context.Context, found *rabbit.State) error {
	before := r.before.Desired
	there := found.Within(before)
	exchanges := r.before.ownedExchanges(there)
	if plan.RebuildsDelivery(before, r.Desired, found.Topology) {
		exchanges = append(exchanges, r.Desired.Delivery)
		bindings, err := r.on().BindingsFrom(ctx, r.Desired.Delivery)
		if err != nil {
			return err
		}
		maps.Copy(found.Bindings, topology.NewBindings(bindings...))
	}
	inbound, err := r.on().Inbound(ctx, exchanges, slices.Collect(maps.Keys(there.Queues)))
	maps.Copy(found.Bindings, inbound)
	return err
}

// brokenOff is what a rebuild has come to that failed. Done are the steps that may have had an effect.
func (r *rebuild) brokenOff(
	ctx context.Context, found *rabbit.State, done []plan.Step, cause error,
) (Outcome, error) {
	if len(done) == 0 {
		return Outcome{}, cause
	}
	ctx, cancel := afterwards(ctx)
	defer cancel()
	outcome := r.left(ctx, found, done, cause)
	if !outcome.IsNew {
		return outcome, cause
	}
	// The next operation does not know of the delivery exchange before.
	users, err := r.letGoOfDelivery(ctx)
	outcome.Users = users
	return outcome, all(cause, err)
}

// left is what there is after a failure.
func (r *rebuild) left(ctx context.Context, found *rabbit.State, done []plan.Step, cause error) Outcome {
	old, err := r.before.Read(ctx)
	if err != nil {
		// Nobody can say what exists: the state names all that may. Nothing is declared before all is torn down. What
		// was there before may be there again if its undo was broken off.
		there := plan.After(found.Topology, done)
		var undo *UndoError
		isBack := errors.As(cause, &undo) && slices.ContainsFunc(undo.Done, declares)
		return Outcome{There: &there, IsNew: slices.ContainsFunc(done, declares) && !isBack}
	}
	there, isNew := old.Topology, r.isNew(old.Topology)
	state, err := r.Read(ctx)
	switch {
	case err != nil:
		there = plan.After(found.Topology, done)
	case isNew:
		there = state.Topology
	default:
		there = there.And(state.Topology)
	}
	return Outcome{There: &there, IsNew: isNew}
}

func declares(step plan.Step) bool {
	_, binds := step.(plan.Bind)
	return step.Makes() && !binds
}

// isNew tells whether nothing is there of the topology before that is not as it is to be.
func (r *rebuild) isNew(there topology.Topology) bool {
	for name, e := range there.Exchanges {
		if r.before.Desired.Owns(name) && !e.Equal(r.Desired.Exchanges[name]) {
			return false
		}
	}
	for name, q := range there.Queues {
		if !q.Equal(r.Desired.Queues[name]) {
			return false
		}
	}
	for name, p := range there.Policies {
		if !p.Equal(r.Desired.Policies[name]) {
			return false
		}
	}
	return true
}

// letGoOfDelivery deletes the delivery exchange before, if the topology has got another one and nobody uses it.
func (r *rebuild) letGoOfDelivery(ctx context.Context) (users []string, err error) {
	if r.before.Desired.Delivery == r.Desired.Delivery {
		return nil, nil
	}
	return r.before.letGo(ctx, r.options.Guard.Force)
}

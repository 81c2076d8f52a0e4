package plantest

import (
	"fmt"
	"maps"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Apply makes a change by the plans that [engine.Engine.Apply] runs, in its order. What that asks a broker, this looks
// up. IsNew tells whether the next change starts from the topology after. Of a create that fails, it tells whether
// anything is left.
func (b *Broker) Apply(c engine.Change) (isNew bool, err error) {
	switch {
	case c.After.IsEmpty():
		return false, b.destroy(c)
	case c.Before.IsEmpty():
		return b.create(c)
	case c.Options.Rebuild:
		return b.rebuild(c)
	}
	return b.update(c)
}

func (b *Broker) create(c engine.Change) (isNew bool, err error) {
	actual := b.Actual(c.After)
	if err = c.Refusal(b.state(c, actual)); err != nil {
		return false, err
	}
	todo := plan.Create(c.After, actual, "mark")
	if c.Options.Adopt {
		todo = plan.TakeOver(c.After, actual)
	}
	done, err := b.run(todo)
	if err == nil {
		return true, b.verify(c.After)
	}
	undo := b.Run(plan.UndoCreate(c.After, done))
	if rabbit.IsKind(undo, rabbit.InUse) {
		undo = nil
	}
	delivery := topology.ExchangeObject(c.After.Delivery)
	if undo == nil && slices.ContainsFunc(done, func(s plan.Step) bool { return s.Effect().Object == delivery }) {
		undo = b.deleteDelivery(c.After, false)
	}
	return undo != nil && !c.Options.Adopt && !b.Part(c.After).IsEmpty(), err
}

func (b *Broker) update(c engine.Change) (isNew bool, err error) {
	found := b.Actual(c.After)
	if err = c.Refusal(b.state(c, found)); err != nil {
		return false, err
	}
	added, retired := c.After.Extras(c.Before), c.Before.Extras(c.After)
	isNew = len(added.Queues)+len(retired.Queues) > 0
	if len(retired.Queues) > 0 {
		if c.After.IsOfOthers(found) {
			retired.Owners = nil
		}
		if err = b.remove(c, retired); err != nil {
			return false, err
		}
		found.Bindings.DeleteInto(retired.Queues)
	}
	todo := plan.Repair(c.After, found)
	if c.Options.Adopt {
		todo = plan.TakeOver(c.After, found)
	}
	if err = b.Run(todo); err != nil {
		return isNew, err
	}
	return true, b.verify(c.After)
}

func (b *Broker) rebuild(c engine.Change) (isNew bool, err error) {
	found := b.forRebuild(c.Before, c.After)
	if err = c.Refusal(b.state(c, found)); err == nil {
		err = plan.CheckMeaning(c.Before, c.After, found.Bindings)
	}
	if err != nil {
		return false, err
	}
	done, err := b.run(plan.Rebuild(c.Before, c.After, found, c.Options.Guard))
	if err == nil {
		err = b.verify(c.After)
	}
	isNew = err == nil || len(done) > 0 && c.IsNew(b.Part(c.Before))
	if isNew && c.Before.Delivery != c.After.Delivery {
		if left := b.deleteDelivery(c.Before, c.Options.Guard.Force); err == nil {
			err = left
		}
	}
	return isNew, err
}

func (b *Broker) destroy(c engine.Change) error {
	if c.Before.IsOfOthers(b.Part(c.Before)) {
		return nil
	}
	if err := b.remove(c, c.Before); err != nil {
		return err
	}
	return b.deleteDelivery(c.Before, c.Options.Guard.Force)
}

func (b *Broker) remove(c engine.Change, gone topology.Topology) error {
	if gone.IsOfOthers(b.Part(gone)) && (!c.Options.Adopt || c.After.IsEmpty()) {
		return &engine.OwnerError{}
	}
	return b.Run(b.Teardown(gone, c.Options.Guard))
}

// state has the objects that were read, with the delivery exchange of the topology after.
func (b *Broker) state(c engine.Change, read topology.Topology) *rabbit.State {
	delivery, exists := b.Exchanges[c.After.Delivery]
	return &rabbit.State{Topology: read, DeliveryExists: exists, DeliveryExchange: delivery}
}

func (b *Broker) verify(wanted topology.Topology) error {
	if left := plan.Repair(wanted, b.Part(wanted)).Steps(); len(left) > 0 {
		return fmt.Errorf("still to be done: %s", left)
	}
	return nil
}

// deleteDelivery deletes the delivery exchange if it belongs to the topology. Unless that is forced, it stays while
// anybody uses it.
func (b *Broker) deleteDelivery(of topology.Topology, force bool) error {
	if !of.Has(of.Delivery) || !force && b.IsUsed(of.Delivery) {
		return nil
	}
	return b.Run(plan.DeleteShared(of.Delivery, force))
}

// IsUsed tells whether anybody uses an exchange.
func (b *Broker) IsUsed(exchange string) bool {
	leads := func(binding topology.Binding) bool {
		return binding.Source == exchange || binding.LeadsTo(topology.ToExchange, exchange)
	}
	return len(b.Bindings.Where(leads)) > 0 ||
		slices.ContainsFunc(slices.Collect(maps.Values(b.Exchanges)),
			func(e topology.Exchange) bool { return e.AlternateExchange() == exchange }) ||
		slices.ContainsFunc(slices.Collect(maps.Values(b.Queues)),
			func(q topology.Queue) bool { return q.DeadLetterExchange() == exchange })
}

package provider

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/broker"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// glance is how long a plan waits for a broker, which may not be there yet.
const glance = 3 * time.Second

// misnamed says of what a destination names that it is a part of a cascade or ladder.
type misnamed struct {
	diag.Diagnostics
	vhost string
}

func (m *misnamed) delivery(exchange, of string) {
	m.AddAttributeError(path.Root("delivery_exchange"), "Not a delivery exchange", fmt.Sprintf(
		"Exchange %q in vhost %q leads into the delay queues of %s. What is bound there gets messages before their "+
			"time. Give the attribute delivery_exchange.", exchange, m.vhost, of))
}

func (m *misnamed) queue(queue, of string) {
	m.AddAttributeError(path.Root("queue"), "Not a queue for delivered messages", fmt.Sprintf(
		"Queue %q in vhost %q is one of the delay queues of %s: nothing stays in it, nor may anybody consume from "+
			"it. Give the queue of an application.", queue, m.vhost, of))
}

func (m *misnamed) exchange(exchange, delivery, of string) {
	m.AddAttributeError(path.Root("exchange"), "Messages would go in circles", fmt.Sprintf(
		"Exchange %q in vhost %q leads into the delay queues of %s, which ends in exchange %q. Messages that it gets "+
			"from there would come back. Give another exchange.",
		exchange, m.vhost, of, delivery))
}

func (m *misnamed) levels(d cascade.Destination, there map[int]bool) {
	if d.Match != cascade.Exact || d.Levels == 0 || len(there) == 0 || there[d.Levels] {
		return
	}
	var texts []string
	for _, levels := range slices.Sorted(maps.Keys(there)) {
		texts = append(texts, fmt.Sprint(levels))
	}
	m.AddAttributeWarning(path.Root("levels"), "Levels are not those of the cascade", fmt.Sprintf(
		"What ends in exchange %q in vhost %q has this number of levels: %s; the destination has levels = %d. Its "+
			"key matches none of the messages for %q, so that they are unroutable. "+
			"Give the attribute levels of the cascade.",
		d.DeliveryExchange, m.vhost, strings.Join(texts, ", "), d.Levels, d.Address))
}

// planned checks the names by what the plan has, and tells whether that includes what ends in the delivery exchange.
// Names that are not known yet are empty.
func (m *misnamed) planned(d cascade.Destination, all []planned) (ends bool) {
	there := map[int]bool{}
	for _, one := range all {
		of := fmt.Sprintf("the %s with entry exchange %q", one.kind, one.Entry)
		leadsOn := func(exchange string) bool { return one.Owns(exchange) && one.Exchanges[exchange].Type == "topic" }
		if leadsOn(d.DeliveryExchange) {
			m.delivery(d.DeliveryExchange, of)
		}
		if one.Queues[d.Queue].Delays() {
			m.queue(d.Queue, of)
		}
		if one.Delivery == d.DeliveryExchange {
			there[one.levels] = true
			if leadsOn(d.Exchange) {
				m.exchange(d.Exchange, d.DeliveryExchange, of)
			}
		}
	}
	m.levels(d, there)
	return len(there) > 0
}

// checkNames checks the names of a plan: by what else is planned, and by the broker if it answers. What has not changed
// is not asked for.
func (r *destinationResource) checkNames(ctx context.Context, plan *destinationModel, changed bool) diag.Diagnostics {
	if r.connection == nil || plan.Vhost.IsUnknown() {
		return nil
	}
	found := &misnamed{vhost: plan.Vhost.ValueString()}
	ends := found.planned(plan.config(), r.connection.planned.in(found.vhost))
	asks := changed && r.connection.client != nil && !r.connection.silent.Load() && !plan.hasUnknownName()
	if found.HasError() || !asks {
		return found.Diagnostics
	}
	o, diags := r.open(plan)
	if diags.HasError() {
		return diags
	}
	ctx, cancel := context.WithTimeout(ctx, glance)
	defer cancel()
	seen := &misnamed{vhost: o.vhost}
	err := o.checkNames(ctx, seen)
	if err == nil && !ends && !seen.HasError() {
		err = o.checkLevels(ctx, seen)
	}
	if err != nil {
		if ctx.Err() != nil || broker.IsKind(err, broker.Unreachable) {
			r.connection.silent.Store(true)
		}
		return found.Diagnostics // the apply asks again
	}
	return append(found.Diagnostics, seen.Diagnostics...)
}

// hasUnknownName tells whether the binding is not known yet.
func (m *destinationModel) hasUnknownName() bool {
	return m.Vhost.IsUnknown() || m.DeliveryExchange.IsUnknown() || m.Queue.IsUnknown() || m.Exchange.IsUnknown() ||
		m.RoutingKey.IsUnknown()
}

// checkNames checks the names by the keys that lead to them and from them.
func (o *rebinding) checkNames(ctx context.Context, found *misnamed) error {
	const of = "a cascade or ladder"
	look := o.client.Lookup(o.vhost)
	delays, err := cascade.Delays(ctx, look, o.binding.Source)
	if err != nil {
		return err
	}
	if delays {
		found.delivery(o.binding.Source, of)
	}
	if o.binding.DestinationType == topology.ToExchange {
		circles, err := cascade.LeadsTo(ctx, look, o.binding.Destination, o.binding.Source)
		if circles {
			found.exchange(o.binding.Destination, o.binding.Source, of)
		}
		return err
	}
	queue, _, err := look.Queue(ctx, o.binding.Destination)
	if err != nil || !queue.Delays() || queue.DeadLetterExchange() == "" {
		return err
	}
	inbound, err := o.client.Inbound(ctx, o.vhost, nil, []string{queue.Name})
	if err == nil && slices.ContainsFunc(inbound.Sorted(), cascade.LeadsOn) {
		found.queue(queue.Name, of)
	}
	return err
}

// checkLevels compares the levels with those of what ends in the delivery exchange. The bindings to it show these at
// once, but not that a ladder ends there, too, so that what seems wrong is looked at once more.
func (o *rebinding) checkLevels(ctx context.Context, found *misnamed) error {
	d, err := cascade.RecognizeDestination(o.vhost, o.binding)
	if err != nil || d.Match != cascade.Exact {
		return err
	}
	inbound, err := o.client.Inbound(ctx, o.vhost, []string{o.binding.Source}, nil)
	if err != nil {
		return err
	}
	there := map[int]bool{}
	for b := range inbound {
		if levels, ok := cascade.LevelsOf(b); ok {
			there[levels] = true
		}
	}
	if len(there) == 0 || there[d.Levels] {
		return nil
	}
	there, err = levelsInto(ctx, o.client, o.vhost, o.binding.Source)
	found.levels(d, there)
	return err
}

// levelsInto are the numbers of levels of all that ends in the delivery exchange.
func levelsInto(ctx context.Context, client *broker.Client, vhost, delivery string) (map[int]bool, error) {
	inventory, err := client.Inventory(ctx, vhost, func(e topology.Exchange) bool { return e.Name == delivery })
	if err != nil {
		return nil, err
	}
	there := map[int]bool{}
	for _, one := range inventory.All(ctx) {
		if one.Delivery == delivery {
			there[one.Levels] = true
		}
	}
	return there, nil
}

package resource

import (
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// alteredBy lists the attributes that change, if an exchange or queue gets other arguments or another name with them.
// Bindings can change as they are. Policies and the objects where they lead can come and go. Whether the delivery
// exchange belongs to the resource is a matter of the state.
func (d *declaredModel) alteredBy(
	plan *declaredModel, further []change, before, after func() (topology.Topology, diag.Diagnostics),
) (path.Paths, diag.Diagnostics) {
	var changed path.Paths
	known := true
	for _, c := range append(further,
		change{"vhost", d.Vhost, plan.Vhost},
		change{"name", d.Name, plan.Name},
		change{"queue_name", d.QueueName, plan.QueueName},
		change{"delivery_exchange", d.DeliveryExchange, plan.DeliveryExchange},
		change{"queue_type", d.QueueType, plan.QueueType},
		change{"max_length", d.MaxLength, plan.MaxLength},
		change{"queue_leader_locator", d.QueueLeaderLocator, plan.QueueLeaderLocator},
		change{"quorum_initial_group_size", d.QuorumInitialGroupSize, plan.QuorumInitialGroupSize},
		change{"park_unroutable", d.ParkUnroutable, plan.ParkUnroutable},
	) {
		if !c.prior.Equal(c.planned) {
			changed = append(changed, path.Root(c.attribute))
			known = known && !c.planned.IsUnknown()
		}
	}
	if len(changed) == 0 || !known || !d.hasPlaceOf(plan) {
		return changed, nil
	}
	had, diags := before()
	gets, more := after()
	diags.Append(more...)
	if had.WithoutPolicies().SameObjects(gets.WithoutPolicies()) {
		return nil, diags
	}
	return changed, diags
}

// hasPlaceOf tells whether publishers find both in the same place: what moves elsewhere is replaced, all else that
// alters objects is a rebuild. A place that is not known yet is another one.
func (d *declaredModel) hasPlaceOf(plan *declaredModel) bool {
	return d.Vhost.Equal(plan.Vhost) && d.EntryExchange.Equal(plan.EntryExchange)
}

// change is an attribute in the state and in the plan.
type change struct {
	attribute      string
	prior, planned attr.Value
}

// lostQueues are those that the plan removes where it is an update. They are none where the plan is not known yet.
// A cascade with other delay queues is rebuilt: it may lose the queue of unroutable messages.
func lostQueues[M any, P declaration[M]](state, plan P) []topology.Queue {
	if !plan.isKnown() {
		return nil
	}
	before, diags := state.expand()
	after, more := plan.expand()
	if diags.HasError() || more.HasError() {
		return nil
	}
	return slices.Collect(maps.Values(before.Without(after).Queues))
}

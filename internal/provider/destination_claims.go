package provider

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/claims"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// ifItMoved are the ways out for a binding that passes from one resource of the configuration to another.
const ifItMoved = "If another resource of this configuration has it, and is to lose it or was renamed, write a moved " +
	"block, which changes nothing on the broker. With adopt = true, whichever of the two Terraform calls first, the " +
	"binding stays; create_before_destroy needs that, too."

// plannedBindings are those that one plan makes.
type plannedBindings struct {
	mutex sync.Mutex
	all   map[claims.Object]bool
}

// add notes one more, and tells whether it was planned before.
func (p *plannedBindings) add(b claims.Object) (twice bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.all == nil {
		p.all = map[claims.Object]bool{}
	}
	twice = p.all[b]
	p.all[b] = true
	return twice
}

// checkPlannedOnce refuses a second new destination with the binding of another one in the same plan.
func (m *destinationModel) checkPlannedOnce(planned *plannedBindings) diag.Diagnostics {
	b, diags := m.binding()
	if diags.HasError() {
		return diags
	}
	if object := bindingObject(m.Vhost.ValueString(), b); planned.add(object) {
		diags.AddError("Binding is planned twice", fmt.Sprintf(
			"The %s in vhost %q is planned twice: another resource of this configuration is to make it, too. "+
				"Two destinations cannot have one binding: change or remove one of them.", object.Name, object.Vhost))
	}
	return diags
}

// sharedKey is where the private state keeps that another resource has taken the binding, which an update could not
// leave behind. Whoever has the binding in the state then has it no more.
const sharedKey = "shared"

// begin waits until no other resource works on any of the bindings. Who names this one in the errors of others.
func (o *rebinding) begin(ctx context.Context, who string, bindings ...topology.Binding) (err error) {
	o.claim, err = o.claims.Begin(ctx, who, bindingObjects(o.vhost, bindings))
	return err
}

// who names a destination in the errors of others, for whom all that is known of it is what it stands for.
func (m *destinationModel) who(doing string) string {
	kind, name := topology.ToQueue, m.Queue.ValueString()
	if name == "" {
		kind, name = topology.ToExchange, m.Exchange.ValueString()
	}
	address := m.Address.ValueString()
	return fmt.Sprintf("the destination for address %q and %s %q, which is %s", address, kind, name, doing)
}

// among are those of the bindings which others have such a claim on.
func (o *rebinding) among(
	bindings []topology.Binding, claimed func([]claims.Object) map[claims.Object]string,
) []topology.Binding {
	found := claimed(bindingObjects(o.vhost, bindings))
	return slices.DeleteFunc(slices.Clone(bindings), func(b topology.Binding) bool {
		_, is := found[bindingObject(o.vhost, b)]
		return !is
	})
}

// take notes what the destination has, and no longer has.
func (o *rebinding) take(gone ...topology.Binding) {
	o.claim.LetGo(bindingObjects(o.vhost, gone))
	o.claim.Take(bindingObjects(o.vhost, []topology.Binding{o.binding}))
}

// keep notes what the destination still has, but for what others have taken over.
func (o *rebinding) keep(bindings ...topology.Binding) {
	o.claim.Keep(bindingObjects(o.vhost, bindings))
}

// checkNotHeld refuses a binding that another resource has taken or keeps.
func (o *rebinding) checkNotHeld() diag.Diagnostics {
	var diags diag.Diagnostics
	for object, who := range o.claim.Held(bindingObjects(o.vhost, []topology.Binding{o.binding})) {
		diags.AddError("Binding belongs to another resource", fmt.Sprintf(
			"Nothing was written. The %s in vhost %q belongs to another resource of this configuration: %s. "+
				"Two destinations cannot have one binding: change or remove one of them. If that one is to lose it, "+
				"apply again; "+
				"a moved block spares the detour.", object.Name, o.vhost, who))
	}
	return diags
}

// checkNotWanted refuses to remove a binding that another resource has asked for in vain.
func (o *rebinding) checkNotWanted(bindings []topology.Binding) diag.Diagnostics {
	var diags diag.Diagnostics
	for object, who := range o.claim.AskedInVain(bindingObjects(o.vhost, bindings)) {
		diags.AddError("Binding is declared elsewhere", fmt.Sprintf(
			"The %s in vhost %q stays, because another resource of this configuration has asked for it: %s. %s",
			object.Name, o.vhost, who, ifItMoved))
	}
	return diags
}

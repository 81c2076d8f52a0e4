package provider

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/claims"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// claim waits until no other resource works on the objects of the topologies, nor on the exchange that they deliver to.
func (o *operation) claim(ctx context.Context, topologies ...topology.Topology) (*claims.Operation, error) {
	var all []claims.Object
	for _, t := range topologies {
		all = append(all, o.own(t)...)
		all = append(all, claims.Object{Vhost: o.vhost, Name: topology.ExchangeObject(t.Delivery)})
	}
	return o.claims.Begin(ctx, o.String(), all)
}

// own are the objects of a topology that no other resource can have: all but the delivery exchange, which is shared.
func (o *operation) own(t topology.Topology) []claims.Object {
	var own []claims.Object
	for name := range t.Exchanges {
		if name != t.Delivery {
			own = append(own, claims.Object{Vhost: o.vhost, Name: topology.ExchangeObject(name)})
		}
	}
	for name := range t.Queues {
		own = append(own, claims.Object{Vhost: o.vhost, Name: topology.QueueObject(name)})
	}
	return own
}

// endUpdate notes what a resource has after an update of what was there before.
func (o *operation) endUpdate(claim *claims.Operation, before topology.Topology, failed bool) {
	own, prior := o.own(o.desired), o.own(before)
	if failed {
		claim.Keep(prior)
	} else {
		claim.LetGo(prior)
		claim.Take(own)
	}
	claim.End()
}

// existing are the objects of the desired topology that are there.
func (o *operation) existing(actual topology.Topology) []claims.Object {
	return o.own(actual.Within(o.desired))
}

// spare is what is left of a topology without some of its objects.
func (o *operation) spare(t topology.Topology, spared map[claims.Object]string) topology.Topology {
	t.Exchanges, t.Queues = maps.Clone(t.Exchanges), maps.Clone(t.Queues)
	maps.DeleteFunc(t.Exchanges, func(name string, _ topology.Exchange) bool {
		_, is := spared[claims.Object{Vhost: o.vhost, Name: topology.ExchangeObject(name)}]
		return is
	})
	maps.DeleteFunc(t.Queues, func(name string, _ topology.Queue) bool {
		_, is := spared[claims.Object{Vhost: o.vhost, Name: topology.QueueObject(name)}]
		return is
	})
	return t
}

// held refuses what another resource of this run has.
func (o *operation) held(by map[claims.Object]string) diag.Diagnostics {
	var diags diag.Diagnostics
	if len(by) > 0 {
		diags.AddError(fmt.Sprintf("Objects of the %s are those of another resource", o.kind), fmt.Sprintf(
			"Nothing was written. In vhost %q, another resource of this apply has these objects:\n\n  %s\n\n"+
				"Two resources cannot share them: give one of the two other names. "+
				"%s", o.vhost, claimLines(by), useMoved))
	}
	return diags
}

// askedInVain refuses to delete what another resource of this run wanted to have.
func (o *operation) askedInVain(verb string, by map[claims.Object]string) diag.Diagnostics {
	var diags diag.Diagnostics
	if len(by) > 0 {
		diags.AddError(fmt.Sprintf("Another resource wants the objects of the %s", o.kind), fmt.Sprintf(
			"The %s was not %s, and nothing of it is gone. In this apply, another resource asked for these objects "+
				"in vain:\n\n  %s\n\n%s "+
				"If it is another one, apply the destroy first, or let the other one take over with adopt = true.",
			o,
			verb,
			claimLines(by),
			useMoved,
		))
	}
	return diags
}

// useMoved is the way to give a resource another address.
const useMoved = "If it is one and the same under a new address, say so in the configuration, and remove what this " +
	"apply has left " +
	"undone:\n\n  moved {\n    from = <address before>\n    to   = <address now>\n  }\n\n"

// twice warns of two resources of a state that stand for the same.
func (o *operation) twice() diag.Diagnostic {
	return diag.NewWarningDiagnostic(fmt.Sprintf("Two resources have the same %s", o.kind), fmt.Sprintf(
		"Another resource of this state has the %s, too. A destroy of one of them deletes it for both. Take one of "+
			"them out of the state with "+
			"a removed block that has destroy = false, or with terraform state rm.",
		o,
	))
}

// takenOver says that a destroy left what another resource has by now.
func (o *operation) takenOver(by map[claims.Object]string) diag.Diagnostics {
	var diags diag.Diagnostics
	if len(by) > 0 {
		diags.AddWarning(fmt.Sprintf("Objects of the %s were taken over", o.kind), fmt.Sprintf(
			"The destroy of the %s left these objects, because another resource of this apply has taken them "+
				"over:\n\n  %s",
			o,
			claimLines(by),
		))
	}
	return diags
}

// mostObjects is how many objects a message lists.
const mostObjects = 10

func claimLines(by map[claims.Object]string) string {
	var lines []string
	for object, who := range by {
		lines = append(lines, fmt.Sprintf("%s: %s", object.Name, who))
	}
	slices.Sort(lines)
	return strings.Join(atMost(lines), "\n  ")
}

// atMost leaves out what is too much and says how much that is.
func atMost(lines []string) []string {
	if more := len(lines) - mostObjects; more > 0 {
		return append(slices.Clone(lines[:mostObjects]), fmt.Sprintf("and %d more", more))
	}
	return lines
}

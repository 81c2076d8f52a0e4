package engine

import (
	"context"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Apply makes a change, if nothing stands in its way. A create that fails takes back what it has made. All else is
// taken back as far as the way of messages is concerned. What exists then is in the result, also after an error.
func (e *Engine) Apply(ctx context.Context, c Change) (result Result, err error) {
	end, err := e.turns.Begin(ctx, c.Vhost, c.objects())
	if err != nil {
		return result, err
	}
	defer end()
	vhost := e.vhost(c.Vhost)
	defer vhost.Close()
	if c.isOfBindings() {
		return c.bindingChange(vhost).apply(ctx)
	}
	o := c.topologyChange(vhost)
	switch {
	case c.After.IsEmpty():
		result, err = o.destroy(ctx)
	case c.Before.IsEmpty():
		result, err = o.create(ctx)
	case c.Options.Rebuild:
		result, err = o.rebuild(ctx)
	default:
		result, err = o.update(ctx)
	}
	result.Problems = o.problems
	return result, err
}

// objects are those that no other change may work on meanwhile, with the exchanges that they deliver to. Those of a
// destination are its bindings, whatever their arguments.
func (c Change) objects() (names []string) {
	for _, t := range []topology.Topology{c.Before, c.After} {
		if !t.IsEmpty() {
			names = append(names, t.Objects()...)
			if t.Delivery != "" {
				names = append(names, topology.ExchangeObject(t.Delivery))
			}
			continue
		}
		for b := range t.Bindings {
			names = append(names, topology.BindingObject(b))
		}
	}
	return names
}

// Preview says what a change would meet, as things are. It is for a plan: a broker that does not answer is no problem,
// because the change asks again.
func (e *Engine) Preview(ctx context.Context, c Change) []Problem {
	if c.isOfBindings() {
		return e.previewBindings(ctx, c)
	}
	o := c.topologyChange(e.vhost(c.Vhost))
	switch {
	case c.After.IsEmpty():
		return o.previewOthers(ctx)
	case o.isCreate() && e.silent.Load():
		return nil
	}
	var others []Problem // first, since they can be an error of the plan
	if !o.isCreate() && !c.Options.Replaces {
		others = o.previewOthers(ctx)
	}
	found, refusal, err := o.ahead(ctx)
	switch {
	case err != nil && o.isCreate():
		return e.unusable(ctx, err)
	case c.Options.Replaces && rabbit.IsKind(err, rabbit.VhostNotFound),
		rabbit.IsKind(err, rabbit.Forbidden) && !rabbit.IsBarred(err):
		refusal = err
	}
	problems := o.problems
	if refusal != nil {
		problems = append(problems, Problem{Refused, refusal})
	}
	problems = append(problems, others...)
	if err == nil {
		problems = append(problems, o.previewPolicies(found)...)
	}
	return problems
}

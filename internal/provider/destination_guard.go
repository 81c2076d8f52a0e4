package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/broker"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// guard is what a destination does about messages on their way before it takes a binding away.
func (m *destinationModel) guard() (topology.Guard, diag.Diagnostics) {
	return (&declaredModel{ForceDestroy: m.ForceDestroy, DrainTimeout: m.DrainTimeout}).guard()
}

// checkDrainTimeout makes sure that each operation that takes a binding away has the time to wait.
func (m *destinationModel) checkDrainTimeout(ctx context.Context) diag.Diagnostics {
	drain := declaredModel{DrainTimeout: m.DrainTimeout}
	diags := drain.checkDrainTimeout(ctx, "delete", m.Timeouts.Delete)
	return append(diags, drain.checkDrainTimeout(ctx, "update", m.Timeouts.Update)...)
}

// uncovered are those of the bindings whose messages the new binding does not take.
func (o *rebinding) uncovered(bindings []topology.Binding) []topology.Binding {
	own, _ := cascade.RecognizeDestination(o.vhost, o.binding)
	return slices.DeleteFunc(slices.Clone(bindings), func(b topology.Binding) bool {
		other, err := cascade.RecognizeDestination(o.vhost, b)
		return err == nil && b.Source == o.binding.Source && own.TakesAll(other)
	})
}

// vacate makes sure that no message is on its way to what is to be unbound. Nothing is closed while it waits.
func (o *rebinding) vacate(
	ctx context.Context, verb string, gone []topology.Binding, guard topology.Guard,
) diag.Diagnostics {
	if guard.Force || len(gone) == 0 {
		return nil
	}
	err := o.verifyVacant(ctx, gone, guard.Drain)
	var notEmpty *broker.NotEmptyError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &notEmpty):
		return diag.Diagnostics{o.onTheirWay(verb, notEmpty, gone, guard)}
	}
	return diag.Diagnostics{o.failed(verb, err)}
}

func (o *rebinding) verifyVacant(ctx context.Context, gone []topology.Binding, wait time.Duration) error {
	inventory, err := o.client.Inventory(ctx, o.vhost, func(e topology.Exchange) bool {
		return slices.ContainsFunc(gone, func(b topology.Binding) bool { return b.Source == e.Name })
	})
	if broker.IsKind(err, broker.VhostNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	queues := inventory.Upstream(ctx, gone)
	if len(queues) == 0 {
		return nil
	}
	verify := topology.VerifyEmpty{Queues: queues, Wait: wait, Why: "unbinding what takes their messages"}
	_, err = o.client.Run(ctx, o.vhost, topology.Plan{{Steps: []topology.Step{verify}}})
	return err
}

// onTheirWay says what waits, and the ways out.
func (o *rebinding) onTheirWay(
	verb string, err *broker.NotEmptyError, gone []topology.Binding, guard topology.Guard,
) diag.Diagnostic {
	lines := make([]string, len(err.Queues))
	for i, q := range err.Queues {
		lines[i] = fmt.Sprintf("queue %q: %s", q.Name, q.Text())
	}
	stand := make([]string, len(gone))
	for i, b := range gone {
		stand[i] = bindingObject(o.vhost, b).Name
	}
	after, longer := "", "drain_timeout, which makes it wait for them"
	if guard.Drain > 0 {
		after, longer = fmt.Sprintf(" after %s", guard.Drain), "a longer drain_timeout"
	}
	return diag.NewErrorDiagnostic("Messages are on their way", fmt.Sprintf(
		"The destination was not %sed, and nothing is unbound. In vhost %q this stands:\n\n  %s\n\n"+
			"Messages that wait for a delivery there may be for its address; nobody can tell without reading them. "+
			"These wait%s:\n\n  %s\n\n"+
			"Wait until they are delivered, or apply %s, or force_destroy = true, which unbinds at once and leaves "+
			"what then arrives for the address without a way; then try again. Where messages are always on their way, "+
			"only force_destroy helps.",
		strings.TrimSuffix(verb, "e"), o.vhost, strings.Join(stand, "\n  "), after,
		strings.Join(lines, "\n  "), longer))
}

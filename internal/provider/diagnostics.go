package provider

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/broker"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// failed turns an error of the broker into a diagnostic that says which operation on what
// it ended.
func (o *operation) failed(verb string, err error) diag.Diagnostic {
	return failed(verb, o.kind, o.String(), err)
}

// failed has the kind in its summary, and what exactly it concerns in its detail.
func failed(verb, kind, what string, err error) diag.Diagnostic {
	var described broker.Described
	if errors.As(err, &described) {
		return diag.NewErrorDiagnostic(described.Summary(), fmt.Sprintf("Could not %s the %s.\n\n%s", verb, what, described.Detail()))
	}
	return diag.NewErrorDiagnostic(fmt.Sprintf("Could not %s the %s", verb, kind), fmt.Sprintf("%s: %s", what, err))
}

// notTakenBack is the summary of an error after which more is there than before.
const notTakenBack = "What was created could not all be taken back"

// notConfigured, notImportable and notRefreshed are for a provider whose configuration is not known yet.
func notConfigured() diag.Diagnostic {
	return diag.NewErrorDiagnostic("Provider not configured", "The provider's configuration holds values that are not known, so that the broker cannot be reached.")
}

func notImportable(kind string) diag.Diagnostic {
	return diag.NewErrorDiagnostic("Provider not configured", fmt.Sprintf("The provider's configuration holds values that are not known, so that the %s cannot be read for the import.", kind))
}

func notRefreshed(kind string) diag.Diagnostic {
	return diag.NewWarningDiagnostic(title(kind)+" not refreshed", fmt.Sprintf("The provider's configuration is not known yet, so the %s was not read and the plan is made from the state.", kind))
}

// notRemoved says why a destroy, or a change that removes queues, did not take place.
func (o *operation) notRemoved(verb string, err error, guard topology.Guard) diag.Diagnostic {
	var notEmpty *broker.NotEmptyError
	var undo *broker.UndoError
	if errors.As(err, &notEmpty) && !errors.As(err, &undo) {
		return o.refused(verb, notEmpty, guard)
	}
	return o.failed(verb, err)
}

// refused says what waits, and the ways out.
func (o *operation) refused(verb string, err *broker.NotEmptyError, guard topology.Guard) diag.Diagnostic {
	var lines, ways []string
	var delayed, parked, overdue bool
	for _, q := range err.Queues {
		lines = append(lines, fmt.Sprintf("queue %q: %s", q.Name, q.Text()))
		overdue = overdue || q.Overdue
		delays := o.desired.Queues[q.Name].Delays()
		delayed, parked = delayed || delays, parked || !delays
	}
	after, waits := "", "a destroy"
	if verb != "destroy" {
		waits = "an update"
	}
	switch {
	case delayed && !parked && guard.Drain > 0:
		after = fmt.Sprintf(" after the entry was closed for %s", guard.Drain)
		ways = append(ways, "Wait until the delayed messages are delivered, or apply a longer drain_timeout, or apply force_destroy = true, which deletes them; then try again.")
	case delayed:
		ways = append(ways, "Wait until the delayed messages are delivered, or apply drain_timeout, which makes "+waits+" wait for them, or force_destroy = true, which makes it delete them; then try again.")
	}
	if overdue {
		ways = append(ways, "What is overdue leads nowhere, or to a queue that is full: bind a queue, or make room; RabbitMQ tries again within three minutes.")
	}
	if parked {
		ways = append(ways, "What is in the queue of unroutable messages does not leave it by itself: consume it, purge it, or apply force_destroy = true; then try again. While publishers go on, a message may get there in the moment in which the entry closes.")
	}
	return diag.NewErrorDiagnostic(title(o.kind)+" holds messages", fmt.Sprintf("The %s was not %sed, and nothing of it is gone. These messages wait in it%s:\n\n  %s\n\n%s",
		o, strings.TrimSuffix(verb, "e"), after, strings.Join(lines, "\n  "), strings.Join(ways, " ")))
}

// warnings are the things that no apply repairs, one diagnostic for all of them.
func (o *operation) warnings(state *broker.State) diag.Diagnostics {
	var diags diag.Diagnostics
	var lines []string
	// A policy mostly does the same to many queues.
	type same struct{ cause, effect string }
	objects := map[same][]string{}
	var order []same
	for _, f := range o.findings(state) {
		key := same{f.Cause, f.Effect}
		if objects[key] == nil {
			order = append(order, key)
		}
		objects[key] = append(objects[key], f.Object)
	}
	for _, key := range order {
		lines = append(lines, fmt.Sprintf("%s on %s: %s", key.cause, strings.Join(objects[key], ", "), key.effect))
	}
	if len(lines) > 0 {
		diags.AddWarning("Something changes what happens to messages", fmt.Sprintf(
			"This concerns the %s, and no apply repairs it:\n\n  %s", o, strings.Join(lines, "\n  ")))
	}
	return diags
}

// findings are the things that no apply repairs.
func (o *operation) findings(state *broker.State) []topology.Finding {
	found := topology.Findings(state.Queues, state.Status)
	parks := o.desired.Exchanges[o.desired.Entry].AlternateExchange() != ""
	if parks && !o.ownsDelivery() && state.DeliveryExists && state.DeliveryAlternate == "" {
		unless := ""
		if state.PolicyUnreadable {
			unless = fmt.Sprintf("unless policy %q names one, which only a user with the tag policymaker can read, ", state.DeliveryPolicy)
		}
		found = append(found, topology.Finding{
			Severity: topology.Warning, Object: fmt.Sprintf("exchange %q", o.desired.Delivery), Cause: "no alternate exchange",
			Effect: unless + "a message for a destination that is not bound there is not parked; " +
				"a quorum queue keeps it and tries again every three minutes, a classic queue loses it",
		})
	}
	return found
}

// configErrors turns what is wrong with a configuration into errors on the attributes.
func configErrors(err error) diag.Diagnostics {
	var diags diag.Diagnostics
	var errs cascade.Errors
	if !errors.As(err, &errs) {
		diags.AddError("Invalid configuration", err.Error())
		return diags
	}
	for _, e := range errs {
		diags.AddAttributeError(path.Root(e.Attribute), "Invalid "+e.Attribute, e.Error()+".")
	}
	return diags
}

// title is the kind at the beginning of a sentence.
func title(kind string) string { return strings.ToUpper(kind[:1]) + kind[1:] }

func objectNames(t *topology.Topology) string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(t.Exchanges)) {
		names = append(names, fmt.Sprintf("exchange %q", name))
	}
	for _, name := range slices.Sorted(maps.Keys(t.Queues)) {
		names = append(names, fmt.Sprintf("queue %q", name))
	}
	return strings.Join(names, ", ")
}

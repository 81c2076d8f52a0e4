package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/drain"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// explain turns all faults of a deployment into diagnostics. The verb is the intended action.
func (o *operation) explain(ctx context.Context, verb string, err error) diag.Diagnostics {
	var (
		list       engine.Errors
		delivery   *engine.DeliveryError
		exists     *engine.ExistsError
		takeover   *engine.TakeoverError
		rival      *engine.RivalError
		standing   *engine.StandingError
		displaced  *engine.DisplacedError
		held       *engine.HeldError
		wanted     *engine.WantedError
		notCreated *engine.NotCreatedError
		notRemoved *engine.NotRemovedError
		left       *engine.DeliveryLeftError
	)
	var one diag.Diagnostic
	switch {
	case err == nil:
		return nil
	case errors.As(err, &list):
		var diags diag.Diagnostics
		for _, each := range list {
			diags.Append(o.explain(ctx, verb, each)...)
		}
		return diags
	case errors.As(err, &delivery):
		one = o.unusable(delivery)
	case errors.As(err, &exists):
		one = o.existing(ctx, exists)
	case errors.As(err, &takeover):
		one = o.notTakenOver(takeover)
	case errors.As(err, &rival):
		one = o.outranked(rival)
	case errors.As(err, &standing):
		one = o.wouldStand(standing)
	case errors.As(err, &displaced):
		one = o.displaces(displaced)
	case errors.As(err, &held):
		one = o.held(held)
	case errors.As(err, &wanted):
		one = o.wanted(verb, wanted)
	case errors.As(err, &notCreated):
		one = o.notCreated(notCreated)
	case errors.As(err, &notRemoved):
		one = o.notRemoved(verb, notRemoved)
	case errors.As(err, &left):
		one = withMore(o.failed(verb, left.Err),
			fmt.Sprintf("All is gone but the delivery exchange, %q.", left.Exchange))
	default:
		one = o.failed(verb, err)
	}
	return diag.Diagnostics{one}
}

// failed turns an error of the broker into a diagnostic that says which operation on what it ended.
func (o *operation) failed(verb string, err error) diag.Diagnostic {
	return failed(verb, o.Kind, o.String(), err)
}

// unusable is for a delivery exchange that the resource does not create.
func (o *operation) unusable(err *engine.DeliveryError) diag.Diagnostic {
	where := fmt.Sprintf("delivery exchange %q in vhost %q", err.Exchange, o.Vhost)
	if !err.Missing {
		return diag.NewAttributeErrorDiagnostic(path.Root("delivery_exchange"), "Delivery exchange has the wrong type",
			fmt.Sprintf("The %s is of type %q. It has to be a topic exchange, which matches addresses behind the "+
				"delay in the routing key.", where, err.Type))
	}
	declare := "a durable topic exchange"
	if err.AnyType {
		declare = "a durable exchange"
	}
	return diag.NewAttributeErrorDiagnostic(path.Root("delivery_exchange"), "Delivery exchange does not exist",
		fmt.Sprintf("The %s does not exist, and create_delivery_exchange is false. Declare it first, as %s, or "+
			"let the %s create it.", where, declare, o.Kind))
}

// nothingWritten begins what an apply says of existing objects.
const nothingWritten = "Nothing was written. "

// existing is for objects that are there already.
func (o *operation) existing(ctx context.Context, err *engine.ExistsError) diag.Diagnostic {
	if len(err.Different) == 0 {
		return diag.NewErrorDiagnostic(fmt.Sprintf("Objects of the %s exist already", o.Kind), fmt.Sprintf(
			nothingWritten+"In vhost %q these objects exist, exactly as the %s would declare them:\n\n  %s\n\n%s",
			o.Vhost, o.Kind, strings.Join(err.Equal, "\n  "),
			o.orImport(ctx, "If nobody else owns them, set adopt = true to take them "+
				"over", "import the "+o.Kind)+waysOfOthers))
	}
	also := ""
	if len(err.Equal) > 0 {
		also = fmt.Sprintf("Exactly as the %s would declare them:\n\n  %s\n\n", o.Kind, strings.Join(err.Equal, "\n  "))
	}
	return diag.NewErrorDiagnostic(fmt.Sprintf("Objects of the %s exist and differ", o.Kind), fmt.Sprintf(
		nothingWritten+"In vhost %q these objects exist, and differ from those that the %s would declare:"+
			"\n\n  %s\n\n%s%s",
		o.Vhost, o.Kind, strings.Join(err.Different, "\n  "), also,
		o.orImport(ctx, "Use other names or remove these objects", "import the "+o.Kind+" and let an apply bring "+
			"it into line")))
}

// waysOfOthers are the ways out where the objects are those of another resource.
const waysOfOthers = "\n\nIf they are those of a resource that has got another address, a moved block says so. " +
	"If it replaces itself with create_before_destroy, these are its own: remove that, or set adopt = true."

// orImport adds the import as a way out, if enough of the resource exists. Then an import recognizes it, and an apply
// completes it without replacing anything.
func (o *operation) orImport(ctx context.Context, otherwise, purpose string) string {
	recognized, ok := o.importable(ctx)
	if !ok || !recognized.SameObjects(o.Desired) {
		return otherwise + "."
	}
	return fmt.Sprintf("%s, or %s:\n\n%s", otherwise, purpose, waysToImport(o.Kind, importID(o.Vhost, o.Desired.Entry)))
}

// notTakenOver is for a delivery exchange that is to become part of the resource and is not what it would declare.
func (o *operation) notTakenOver(err *engine.TakeoverError) diag.Diagnostic {
	return diag.NewAttributeErrorDiagnostic(path.Root("create_delivery_exchange"), "Delivery exchange differs",
		fmt.Sprintf("Nothing was written. In vhost %q the delivery exchange differs from the one that the %s would "+
			"declare:\n\n  %s\n\nLeave create_delivery_exchange at false, or let its owner delete it.",
			o.Vhost, o.Kind, err.Exchange))
}

// outranked is for a policy that would not apply because of others.
func (o *operation) outranked(err *engine.RivalError) diag.Diagnostic {
	lines := make([]string, len(err.Rivals))
	for i, rival := range err.Rivals {
		lines[i] = fmt.Sprintf("policy %q with priority %v and pattern %q, on %d of the exchanges", rival.Policy.Name,
			rival.Policy.Priority, rival.Policy.Pattern, len(rival.Exchanges))
	}
	return diag.NewAttributeErrorDiagnostic(path.Root("park_unroutable"), "Another policy is in the way", fmt.Sprintf(
		nothingWritten+"The %s parks by policy %q with priority %v. Only one policy applies to an exchange, and "+
			"these match its exchanges with the same or a higher priority:\n\n  %s\n\nGive them a lower priority, or "+
			"patterns that leave these exchanges out, or apply-to queues.", o, err.Policy.Name, err.Policy.Priority,
		strings.Join(lines, "\n  ")))
}

// displaces is for a policy that is to be set, and takes exchanges from others.
func (o *operation) displaces(d *engine.DisplacedError) diag.Diagnostic {
	lines := make([]string, len(d.Rivals))
	for i, rival := range d.Rivals {
		lines[i] = fmt.Sprintf("policy %q with priority %v and pattern %q, on %d of the exchanges: %s",
			rival.Policy.Name, rival.Policy.Priority, rival.Policy.Pattern, len(rival.Exchanges),
			rival.Policy.OfExchanges().JSON())
	}
	return diag.NewAttributeWarningDiagnostic(path.Root("park_unroutable"), "Exchanges lose keys of another policy",
		fmt.Sprintf("The %s parks by policy %q with priority %v. Only one policy applies to an exchange. These match "+
			"its exchanges with a lower priority, so the exchanges lose these keys with the apply:\n\n  %s\n\nIf the "+
			"exchanges need a key, set one more policy for them before: with that key, with alternate-exchange = %q, "+
			"and with a priority above %v. Other exchanges, and queues, keep the policies that they have.", o,
			d.Policy.Name, d.Policy.Priority, strings.Join(lines, "\n  "),
			d.Policy.AlternateExchange(), d.Policy.Priority))
}

// wouldStand is for a delivery exchange that a replacement would meet again, and is not what it would declare.
func (o *operation) wouldStand(err *engine.StandingError) diag.Diagnostic {
	return diag.NewAttributeErrorDiagnostic(path.Root("delivery_exchange"), "Delivery exchange would be left standing",
		fmt.Sprintf("Exchange %q stays, because others use it:\n\n  %s\n\nIt has other arguments than the %s would "+
			"declare. Apply the change of these first, without the replacement, or give another delivery_exchange.",
			err.Exchange, strings.Join(atMost(err.Users), "\n  "), o.Kind))
}

// held is for objects that another resource of this run has.
func (o *operation) held(err *engine.HeldError) diag.Diagnostic {
	return diag.NewErrorDiagnostic(fmt.Sprintf("Objects of the %s are those of another resource", o.Kind), fmt.Sprintf(
		"Nothing was written. In vhost %q, another resource of this apply has these objects:\n\n  %s\n\n"+
			"Two resources cannot share them: give one of the two other names. %s",
		o.Vhost, claimLines(err.By), useMoved))
}

// wanted is for objects that another resource of this run wanted to have.
func (o *operation) wanted(verb string, err *engine.WantedError) diag.Diagnostic {
	if verb == "update" {
		verb = "change"
	}
	return diag.NewErrorDiagnostic(fmt.Sprintf("Another resource wants the objects of the %s", o.Kind), fmt.Sprintf(
		"The %s was not %s, and nothing of it is gone. In this apply, another resource asked for these objects "+
			"in vain:\n\n  %s\n\n%s "+
			"If it is another one, apply the destroy first, or let the other one take over with adopt = true.",
		o, past(verb), claimLines(err.By), useMoved))
}

// useMoved is the way to give a resource another address.
const useMoved = "If it is one and the same under a new address, say so in the configuration, and apply again:" +
	"\n\n  moved {\n    from = <address before>\n    to   = <address now>\n  }\n\n"

func claimLines(by engine.Claimed) string { return strings.Join(atMost(by.Lines()), "\n  ") }

// past is the past participle of a verb.
func past(verb string) string { return strings.TrimSuffix(verb, "e") + "ed" }

// notCreated says why a create failed, and what of it is left.
func (o *operation) notCreated(err *engine.NotCreatedError) diag.Diagnostic {
	failure := o.failed("create", err.Err)
	switch {
	case err.OthersErr != nil:
		failure = withMore(failure, err.OthersErr.Error())
	case len(err.Others) > 0:
		failure = withMore(failure, fmt.Sprintf("In vhost %q, somebody else has these objects now:\n\n  %s\n\nUse "+
			"other names, or see who declares them.", o.Vhost, strings.Join(err.Others, "\n  ")))
	}
	if err.Left == nil {
		return failure
	}
	detail := notTakenBack(err.Err, err.Undo) + fmt.Sprintf("\n\nThese objects are still there: %s.",
		strings.Join(err.Left.Objects(), ", "))
	if o.options.Adopt {
		// Some of them may have been there before. A tainted state would have them deleted.
		return withMore(failure, detail+" None of them is in the state: the next apply adopts them "+
			"and adds the missing ones.")
	}
	return withMore(failure, detail+" They stay in the state, marked as tainted: the next apply "+
		"removes them, as soon as nothing waits in them, and creates everything anew.")
}

// notRemoved says why a destroy, or a change that removes queues, did not take place, and what of it is there.
func (o *operation) notRemoved(verb string, err *engine.NotRemovedError) diag.Diagnostic {
	var notEmpty *drain.NotEmptyError
	var undo *engine.UndoError
	var left *engine.LeftError
	if verb == "update" && !err.Of.IsWhole() {
		verb = "change"
	}
	failure := o.failed(verb, err.Err)
	switch {
	case errors.As(err, &left):
		return withMore(failure, "Somebody else has declared them again, or a gateway gave a wrong answer. They stay "+
			"in the state, and the next apply deletes them.")
	case errors.As(err, &undo) && slices.ContainsFunc(undo.Left, o.opensEntry):
		return withMore(failure, fmt.Sprintf(
			"Exchange %q, the entry, stays closed, because a message could get lost behind it: publishers get "+
				"an error. Remove the cause, then run terraform apply again: it brings back the missing objects, or "+
				"goes on with the destroy.", o.Desired.Entry))
	case errors.As(err, &undo):
		return withMore(failure, fmt.Sprintf("Exchange %q, the entry, is open.", o.Desired.Entry))
	case errors.As(err, &notEmpty):
		return o.holdsMessages(verb, notEmpty, err.Of)
	case verb == "update": // of a rebuild, whose new entry may be open
		return failure
	case o.options.Guard.Force && err.Begun:
		return withMore(failure,
			"With force_destroy, nothing brings deleted objects back. The next apply goes on from there.")
	}
	return withMore(failure, "Nothing of it is gone.")
}

// opensEntry tells whether a step belongs to the entry.
func (o *operation) opensEntry(step plan.Step) bool {
	return step.Effect().Makes && step.Effect().Object == topology.ExchangeObject(o.Desired.Entry)
}

// holdsMessages says what waits, and the ways out.
func (o *operation) holdsMessages(verb string, err *drain.NotEmptyError, of topology.Topology) diag.Diagnostic {
	var lines, ways []string
	var delayed, parked, overdue, byQueue bool
	var longest time.Duration
	for _, q := range err.Queues {
		longest = max(longest, of.LongestWait(q.Name)+q.DelayedFor())
		lines = append(lines, fmt.Sprintf("queue %q: %s", q.Name, q.Text()))
		overdue = overdue || q.Overdue
		delays := of.Queues[q.Name].Delays()
		delayed, parked = delayed || delays && (!q.Overdue || q.Delayed > 0), parked || !delays
		byQueue = byQueue || q.Delayed > 0
	}
	after, waits := "", "a destroy"
	if verb != "destroy" {
		waits = "an update"
	}
	wait := fmt.Sprintf("Wait until the delayed messages are delivered, which may take up to %s, and try again. Or "+
		"first apply ", plaintext.Duration(longest))
	switch {
	case delayed && !parked && o.options.Guard.Drain > 0:
		after = " after the entry was closed for " + plaintext.Duration(o.options.Guard.Drain)
		ways = append(ways, wait+"a longer drain_timeout. Or first apply force_destroy = true, which deletes them.")
	case delayed:
		ways = append(ways, wait+"drain_timeout, which makes "+waits+" wait for them, or force_destroy = true, which "+
			"makes it delete them.")
	}
	if byQueue {
		ways = append(ways, "A queue delays messages by itself that a client has put back (delayed-retry-type), or "+
			"that have a time of their own (x-opt-delivery-time).")
	}
	if overdue {
		ways = append(ways, "Overdue messages find no queue, or a full one: bind a queue, or make room. "+
			"RabbitMQ tries again within three minutes, or six if a queue was full. Or first apply force_destroy = "+
			"true, which deletes them.")
	}
	if parked {
		ways = append(ways, "Parked messages do not leave the queue of unroutable messages by themselves. Consume it, "+
			"purge it, or apply force_destroy = true, and try again. While publishers go on, a message may get "+
			"there in the moment in which the entry closes.")
	}
	return diag.NewErrorDiagnostic(title(o.Kind)+" holds messages", fmt.Sprintf("The %s was not %s, and nothing of "+
		"it is gone. These messages wait in it%s:\n\n  %s\n\n%s",
		o, past(verb), after, strings.Join(lines, "\n  "), strings.Join(ways, " ")))
}

// leftStanding says why a delivery exchange is still there.
func (o *operation) leftStanding(exchange string, users []string) diag.Diagnostics {
	var diags diag.Diagnostics
	if len(users) > 0 {
		diags.AddWarning("Delivery exchange left standing", fmt.Sprintf(
			"Exchange %q in vhost %q is still there, because others use it:\n\n  %s\n\nforce_destroy = true deletes "+
				"it all the same.", exchange, o.Vhost, strings.Join(atMost(users), "\n  ")))
	}
	return diags
}

// takenOver says that a destroy left what another resource has by now.
func (o *operation) takenOver(by engine.Claimed) diag.Diagnostics {
	var diags diag.Diagnostics
	if len(by) > 0 {
		diags.AddWarning(fmt.Sprintf("Objects of the %s were taken over", o.Kind), fmt.Sprintf(
			"The destroy of the %s left these objects, because another resource of this apply has taken them "+
				"over:\n\n  %s", o, claimLines(by)))
	}
	return diags
}

// twice warns of two resources of a state that stand for the same.
func (o *operation) twice() diag.Diagnostic {
	return diag.NewWarningDiagnostic(fmt.Sprintf("Two resources have the same %s", o.Kind), fmt.Sprintf(
		"Another resource of this state has the %s, too. A destroy of one of them deletes it for both. Take one of "+
			"them out of the state with a removed block that has destroy = false, or with terraform state rm.", o))
}

// warnings are the things that no apply repairs, one diagnostic for all of them.
func (o *operation) warnings(state *rabbit.State) diag.Diagnostics {
	var diags diag.Diagnostics
	if state == nil {
		return diags
	}
	// A policy mostly does the same to many queues.
	type finding struct{ cause, effect string }
	var causes []string
	of, objects := map[string][]finding{}, map[finding][]string{}
	for _, f := range engine.Findings(o.Vhost, o.Desired, state) {
		found := finding{f.Cause, f.Effect}
		if of[f.Cause] == nil {
			causes = append(causes, f.Cause)
		}
		if objects[found] == nil {
			of[f.Cause] = append(of[f.Cause], found)
		}
		objects[found] = append(objects[found], f.Object)
	}
	var lines []string
	for _, cause := range causes {
		var effects []string
		for _, found := range of[cause] {
			on := strings.Join(atMost(objects[found]), ", ")
			effects = append(effects, fmt.Sprintf("%s on %s: %s", cause, on, found.effect))
		}
		lines = append(lines, atMost(effects)...)
	}
	if len(lines) > 0 {
		diags.AddWarning("Something changes what happens to messages", fmt.Sprintf(
			"This concerns the %s, and no apply repairs it:\n\n  %s", o, strings.Join(lines, "\n  ")))
	}
	return diags
}

// notRecognized is for an entry exchange that was given and belongs to something else, or could not be read.
func (o *operation) notRecognized(verb string, err error) diag.Diagnostic {
	var other *recognize.OtherEntryError
	if !errors.As(err, &other) {
		return o.failed(verb, err)
	}
	instead := "Give that."
	if other.Kind != recognize.KindCascade {
		instead = "This works with cascades only."
	}
	return diag.NewAttributeErrorDiagnostic(path.Root("entry_exchange"), "Not the entry of a cascade", fmt.Sprintf(
		"Could not %s exchange %q in vhost %q: %s. %s", verb, o.Desired.Entry, o.Vhost, other, instead))
}

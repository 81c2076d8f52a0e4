package diagnose

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
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/importid"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Subject is the cascade or ladder that diagnostics are about.
type Subject struct {
	Kind, Vhost string
	// Desired is the topology of the configuration, or of the state for a destroy. Where only an entry exchange is
	// given, it has nothing else.
	Desired topology.Topology
	Options engine.Options
	// Importable is what an import would make of what the broker has, if it would recognize it.
	Importable func(context.Context) (topology.Topology, bool)
}

// OfEntry is a subject of which only the entry exchange is known.
func OfEntry(kind, vhost, entry string) Subject {
	return Subject{Kind: kind, Vhost: vhost, Desired: topology.Topology{Entry: entry}}
}

// String names the subject in messages.
func (s Subject) String() string {
	return fmt.Sprintf("%s with entry exchange %q in vhost %q", s.Kind, s.Desired.Entry, s.Vhost)
}

// Explain turns all faults of a deployment into diagnostics. The verb is the intended action.
func (s Subject) Explain(ctx context.Context, verb string, err error) diag.Diagnostics {
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
			diags.Append(s.Explain(ctx, verb, each)...)
		}
		return diags
	case errors.As(err, &delivery):
		one = s.unusable(delivery)
	case errors.As(err, &exists):
		one = s.existing(ctx, exists)
	case errors.As(err, &takeover):
		one = s.notTakenOver(takeover)
	case errors.As(err, &rival):
		one = s.outranked(rival)
	case errors.As(err, &standing):
		one = s.wouldStand(standing)
	case errors.As(err, &displaced):
		one = s.displaces(displaced)
	case errors.As(err, &held):
		one = s.held(held)
	case errors.As(err, &wanted):
		one = s.wanted(verb, wanted)
	case errors.As(err, &notCreated):
		one = s.notCreated(notCreated)
	case errors.As(err, &notRemoved):
		one = s.notRemoved(verb, notRemoved)
	case errors.As(err, &left):
		one = withMore(s.Failed(verb, left.Err),
			fmt.Sprintf("All is gone but the delivery exchange, %q.", left.Exchange))
	default:
		one = s.Failed(verb, err)
	}
	return diag.Diagnostics{one}
}

// Failed turns an error of the broker into a diagnostic that says which operation on what it ended.
func (s Subject) Failed(verb string, err error) diag.Diagnostic {
	return Failed(verb, s.Kind, s.String(), err)
}

// unusable is for a delivery exchange that the resource does not create.
func (s Subject) unusable(err *engine.DeliveryError) diag.Diagnostic {
	where := fmt.Sprintf("delivery exchange %q in vhost %q", err.Exchange, s.Vhost)
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
			"let the %s create it.", where, declare, s.Kind))
}

// NothingWritten begins what an apply says of existing objects.
const NothingWritten = "Nothing was written. "

// existing is for objects that are there already.
func (s Subject) existing(ctx context.Context, err *engine.ExistsError) diag.Diagnostic {
	if len(err.Different) == 0 {
		return diag.NewErrorDiagnostic(fmt.Sprintf("Objects of the %s exist already", s.Kind), fmt.Sprintf(
			NothingWritten+"In vhost %q these objects exist, exactly as the %s would declare them:\n\n  %s\n\n%s",
			s.Vhost, s.Kind, strings.Join(err.Equal, "\n  "),
			s.orImport(ctx, "If nobody else owns them, set adopt = true to take them "+
				"over", "import the "+s.Kind)+waysOfOthers))
	}
	also := ""
	if len(err.Equal) > 0 {
		also = fmt.Sprintf("Exactly as the %s would declare them:\n\n  %s\n\n", s.Kind, strings.Join(err.Equal, "\n  "))
	}
	return diag.NewErrorDiagnostic(fmt.Sprintf("Objects of the %s exist and differ", s.Kind), fmt.Sprintf(
		NothingWritten+"In vhost %q these objects exist, and differ from those that the %s would declare:"+
			"\n\n  %s\n\n%s%s",
		s.Vhost, s.Kind, strings.Join(err.Different, "\n  "), also,
		s.orImport(ctx, "Use other names or remove these objects", "import the "+s.Kind+" and let an apply bring "+
			"it into line")))
}

// waysOfOthers are the ways out where the objects are those of another resource.
const waysOfOthers = "\n\nIf they are those of a resource that has got another address, a moved block says so. " +
	"If it replaces itself with create_before_destroy, these are its own: remove that, or set adopt = true."

// orImport adds the import as a way out, if enough of the resource exists. Then an import recognizes it, and an apply
// completes it without replacing anything.
func (s Subject) orImport(ctx context.Context, otherwise, purpose string) string {
	recognized, ok := s.Importable(ctx)
	if !ok || !recognized.SameObjects(s.Desired) {
		return otherwise + "."
	}
	return fmt.Sprintf("%s, or %s:\n\n%s", otherwise, purpose,
		WaysToImport(s.Kind, importid.Entry(s.Vhost, s.Desired.Entry)))
}

// notTakenOver is for a delivery exchange that is to become part of the resource and is not what it would declare.
func (s Subject) notTakenOver(err *engine.TakeoverError) diag.Diagnostic {
	return diag.NewAttributeErrorDiagnostic(path.Root("create_delivery_exchange"), "Delivery exchange differs",
		fmt.Sprintf("Nothing was written. In vhost %q the delivery exchange differs from the one that the %s would "+
			"declare:\n\n  %s\n\nLeave create_delivery_exchange at false, or let its owner delete it.",
			s.Vhost, s.Kind, err.Exchange))
}

// outranked is for a policy that would not apply because of others.
func (s Subject) outranked(err *engine.RivalError) diag.Diagnostic {
	lines := make([]string, len(err.Rivals))
	for i, rival := range err.Rivals {
		lines[i] = fmt.Sprintf("policy %q with priority %v and pattern %q, on %d of the exchanges", rival.Policy.Name,
			rival.Policy.Priority, rival.Policy.Pattern, len(rival.Exchanges))
	}
	return diag.NewAttributeErrorDiagnostic(path.Root("park_unroutable"), "Another policy is in the way", fmt.Sprintf(
		NothingWritten+"The %s parks by policy %q with priority %v. Only one policy applies to an exchange, and "+
			"these match its exchanges with the same or a higher priority:\n\n  %s\n\nGive them a lower priority, or "+
			"patterns that leave these exchanges out, or apply-to queues.", s, err.Policy.Name, err.Policy.Priority,
		strings.Join(lines, "\n  ")))
}

// displaces is for a policy that is to be set, and takes exchanges from others.
func (s Subject) displaces(d *engine.DisplacedError) diag.Diagnostic {
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
			"and with a priority above %v. Other exchanges, and queues, keep the policies that they have.", s,
			d.Policy.Name, d.Policy.Priority, strings.Join(lines, "\n  "),
			d.Policy.AlternateExchange(), d.Policy.Priority))
}

// wouldStand is for a delivery exchange that a replacement would meet again, and is not what it would declare.
func (s Subject) wouldStand(err *engine.StandingError) diag.Diagnostic {
	return diag.NewAttributeErrorDiagnostic(path.Root("delivery_exchange"), "Delivery exchange would be left standing",
		fmt.Sprintf("Exchange %q stays, because others use it:\n\n  %s\n\nIt has other arguments than the %s would "+
			"declare. Apply the change of these first, without the replacement, or give another delivery_exchange.",
			err.Exchange, strings.Join(AtMost(err.Users), "\n  "), s.Kind))
}

// held is for objects that another resource of this run has.
func (s Subject) held(err *engine.HeldError) diag.Diagnostic {
	return diag.NewErrorDiagnostic(fmt.Sprintf("Objects of the %s are those of another resource", s.Kind), fmt.Sprintf(
		"Nothing was written. In vhost %q, another resource of this apply has these objects:\n\n  %s\n\n"+
			"Two resources cannot share them: give one of the two other names. %s",
		s.Vhost, claimLines(err.By), useMoved))
}

// wanted is for objects that another resource of this run wanted to have.
func (s Subject) wanted(verb string, err *engine.WantedError) diag.Diagnostic {
	if verb == "update" {
		verb = "change"
	}
	return diag.NewErrorDiagnostic(fmt.Sprintf("Another resource wants the objects of the %s", s.Kind), fmt.Sprintf(
		"The %s was not %s, and nothing of it is gone. In this apply, another resource asked for these objects "+
			"in vain:\n\n  %s\n\n%s "+
			"If it is another one, apply the destroy first, or let the other one take over with adopt = true.",
		s, past(verb), claimLines(err.By), useMoved))
}

// useMoved is the way to give a resource another address.
const useMoved = "If it is one and the same under a new address, say so in the configuration, and apply again:" +
	"\n\n  moved {\n    from = <address before>\n    to   = <address now>\n  }\n\n"

func claimLines(by engine.Claimed) string { return strings.Join(AtMost(by.Lines()), "\n  ") }

// past is the past participle of a verb.
func past(verb string) string { return strings.TrimSuffix(verb, "e") + "ed" }

// notCreated says why a create failed, and what of it is left.
func (s Subject) notCreated(err *engine.NotCreatedError) diag.Diagnostic {
	failure := s.Failed("create", err.Err)
	switch {
	case err.OthersErr != nil:
		failure = withMore(failure, err.OthersErr.Error())
	case len(err.Others) > 0:
		failure = withMore(failure, fmt.Sprintf("In vhost %q, somebody else has these objects now:\n\n  %s\n\nUse "+
			"other names, or see who declares them.", s.Vhost, strings.Join(err.Others, "\n  ")))
	}
	if err.Left == nil {
		return failure
	}
	detail := notTakenBack(err.Err, err.Undo) + fmt.Sprintf("\n\nThese objects are still there: %s.",
		strings.Join(err.Left.Objects(), ", "))
	if s.Options.Adopt {
		// Some of them may have been there before. A tainted state would have them deleted.
		return withMore(failure, detail+" None of them is in the state: the next apply adopts them "+
			"and adds the missing ones.")
	}
	return withMore(failure, detail+" They stay in the state, marked as tainted: the next apply "+
		"removes them, as soon as nothing waits in them, and creates everything anew.")
}

// notRemoved says why a destroy, or a change that removes queues, did not take place, and what of it is there.
func (s Subject) notRemoved(verb string, err *engine.NotRemovedError) diag.Diagnostic {
	var notEmpty *drain.NotEmptyError
	var undo *engine.UndoError
	var left *engine.LeftError
	if verb == "update" && !err.Of.IsWhole() {
		verb = "change"
	}
	failure := s.Failed(verb, err.Err)
	switch {
	case errors.As(err, &left):
		return withMore(failure, "Somebody else has declared them again, or a gateway gave a wrong answer. They stay "+
			"in the state, and the next apply deletes them.")
	case errors.As(err, &undo) && slices.ContainsFunc(undo.Left, s.opensEntry):
		return withMore(failure, fmt.Sprintf(
			"Exchange %q, the entry, stays closed, because a message could get lost behind it: publishers get "+
				"an error. Remove the cause, then run terraform apply again: it brings back the missing objects, or "+
				"goes on with the destroy.", s.Desired.Entry))
	case errors.As(err, &undo):
		return withMore(failure, fmt.Sprintf("Exchange %q, the entry, is open.", s.Desired.Entry))
	case errors.As(err, &notEmpty):
		return s.holdsMessages(verb, notEmpty, err.Of)
	case verb == "update": // of a rebuild, whose new entry may be open
		return failure
	case s.Options.Guard.Force && err.Begun:
		return withMore(failure,
			"With force_destroy, nothing brings deleted objects back. The next apply goes on from there.")
	}
	return withMore(failure, "Nothing of it is gone.")
}

// opensEntry tells whether a step belongs to the entry.
func (s Subject) opensEntry(step plan.Step) bool {
	return step.Effect().Makes && step.Effect().Object == topology.ExchangeObject(s.Desired.Entry)
}

// holdsMessages says what waits, and the ways out.
func (s Subject) holdsMessages(verb string, err *drain.NotEmptyError, of topology.Topology) diag.Diagnostic {
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
	case delayed && !parked && s.Options.Guard.Drain > 0:
		after = " after the entry was closed for " + plaintext.Duration(s.Options.Guard.Drain)
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
	return diag.NewErrorDiagnostic(Title(s.Kind)+" holds messages", fmt.Sprintf("The %s was not %s, and nothing of "+
		"it is gone. These messages wait in it%s:\n\n  %s\n\n%s",
		s, past(verb), after, strings.Join(lines, "\n  "), strings.Join(ways, " ")))
}

// LeftStanding says why a delivery exchange is still there.
func (s Subject) LeftStanding(exchange string, users []string) diag.Diagnostics {
	var diags diag.Diagnostics
	if len(users) > 0 {
		diags.AddWarning("Delivery exchange left standing", fmt.Sprintf(
			"Exchange %q in vhost %q is still there, because others use it:\n\n  %s\n\nforce_destroy = true deletes "+
				"it all the same.", exchange, s.Vhost, strings.Join(AtMost(users), "\n  ")))
	}
	return diags
}

// TakenOver says that a destroy left what another resource has by now.
func (s Subject) TakenOver(by engine.Claimed) diag.Diagnostics {
	var diags diag.Diagnostics
	if len(by) > 0 {
		diags.AddWarning(fmt.Sprintf("Objects of the %s were taken over", s.Kind), fmt.Sprintf(
			"The destroy of the %s left these objects, because another resource of this apply has taken them "+
				"over:\n\n  %s", s, claimLines(by)))
	}
	return diags
}

// Twice warns of two resources of a state that stand for the same.
func (s Subject) Twice() diag.Diagnostic {
	return diag.NewWarningDiagnostic(fmt.Sprintf("Two resources have the same %s", s.Kind), fmt.Sprintf(
		"Another resource of this state has the %s, too. A destroy of one of them deletes it for both. Take one of "+
			"them out of the state with a removed block that has destroy = false, or with terraform state rm.", s))
}

// Warnings are the things that no apply repairs, one diagnostic for all of them.
func (s Subject) Warnings(state *rabbit.State) diag.Diagnostics {
	var diags diag.Diagnostics
	if state == nil {
		return diags
	}
	// A policy mostly does the same to many queues.
	type finding struct{ cause, effect string }
	var causes []string
	of, objects := map[string][]finding{}, map[finding][]string{}
	for _, f := range engine.Findings(s.Vhost, s.Desired, state) {
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
			on := strings.Join(AtMost(objects[found]), ", ")
			effects = append(effects, fmt.Sprintf("%s on %s: %s", cause, on, found.effect))
		}
		lines = append(lines, AtMost(effects)...)
	}
	if len(lines) > 0 {
		diags.AddWarning("Something changes what happens to messages", fmt.Sprintf(
			"This concerns the %s, and no apply repairs it:\n\n  %s", s, strings.Join(lines, "\n  ")))
	}
	return diags
}

// NotRecognized is for an entry exchange that was given and belongs to something else, or could not be read.
func (s Subject) NotRecognized(verb string, err error) diag.Diagnostic {
	var other *recognize.OtherEntryError
	if !errors.As(err, &other) {
		return s.Failed(verb, err)
	}
	instead := "Give that."
	if other.Kind != recognize.KindCascade {
		instead = "This works with cascades only."
	}
	return diag.NewAttributeErrorDiagnostic(path.Root("entry_exchange"), "Not the entry of a cascade", fmt.Sprintf(
		"Could not %s exchange %q in vhost %q: %s. %s", verb, s.Desired.Entry, s.Vhost, other, instead))
}

// Outcome is what is left to say of a change that was made, or broke off.
func (s Subject) Outcome(before topology.Topology, result engine.Result) diag.Diagnostics {
	diags := s.TakenOver(result.TakenOver)
	diags.Append(s.Warnings(result.State)...)
	return append(diags, s.LeftStanding(before.Delivery, result.Users)...)
}

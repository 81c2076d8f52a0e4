package diagnose

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/drain"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/health"
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
	// Before is the topology of the state, for a change.
	Before  topology.Topology
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

// about begins with what a warning says, and names what it says it of.
func (s Subject) about(text string) string {
	return about(text, fmt.Sprintf("%s %q", s.Kind, s.Desired.Entry), s.Vhost)
}

// Explain turns all faults of a deployment into diagnostics. The verb is the intended action.
func (s Subject) Explain(ctx context.Context, verb string, err error) diag.Diagnostics {
	failed := func(err error) diag.Diagnostic { return s.Failed(verb, err) }
	return explain(err, failed, // of errors within errors, the inner one comes first
		when(s.unusable),
		when(func(e *engine.ExistsError) diag.Diagnostic { return s.existing(ctx, e) }),
		when(s.notTakenOver), when(s.outranked), when(s.wouldStand), when(s.displaces),
		when(s.misread),
		when(s.ofOthers), when(s.reached), when(s.notCreated),
		when(func(e *engine.NotRemovedError) diag.Diagnostic { return s.notRemoved(verb, e) }),
		when(func(e *engine.DeliveryLeftError) diag.Diagnostic {
			if verb == "update" {
				return withMore(failed(e.Err), "The old delivery exchange %q may still be there. No later apply "+
					"deletes it. Delete it by hand.", e.Exchange)
			}
			return withMore(failed(e.Err), "All is gone but the delivery exchange, %q.", e.Exchange)
		}))
}

// WouldNotBeReplaced are the errors of a replacement that could destroy, and then not create.
func (s Subject) WouldNotBeReplaced(ctx context.Context, err error) diag.Diagnostics {
	const refused = "Nothing was destroyed: the replacement could not be completed. "
	if rabbit.IsKind(err, rabbit.VhostNotFound) {
		return diag.Diagnostics{ErrorOn("vhost", "Vhost does not exist",
			refused+"There is no vhost %q. Declare it in an apply before this one.", s.Vhost)}
	}
	var diags diag.Diagnostics
	for _, d := range s.Explain(ctx, "create", err) {
		one := Error(d.Summary(), refused+"%s", strings.TrimPrefix(d.Detail(), nothingWritten))
		if at, ok := d.(diag.DiagnosticWithPath); ok {
			one = diag.WithPath(at.Path(), one)
		}
		diags.Append(one)
	}
	return diags
}

// Failed turns an error of the broker into a diagnostic that says which operation on what it ended.
func (s Subject) Failed(verb string, err error) diag.Diagnostic {
	d := failed(verb, s.Kind, s.String(), err)
	if undo, is := errors.AsType[*engine.UndoError](err); is && slices.ContainsFunc(undo.Left, s.bindsForOthers) {
		return withMore(d, "Bindings of other applications are among these steps. No later apply makes "+
			"them: make them by hand.")
	}
	return d
}

// bindsForOthers tells whether a step makes a binding that neither is the subject's nor was.
func (s Subject) bindsForOthers(step plan.Step) bool {
	bind, is := step.(plan.Bind)
	return is && !s.Desired.OwnsBinding(bind.Binding) && !s.Before.OwnsBinding(bind.Binding)
}

// unusable is for a delivery exchange that the resource does not create.
func (s Subject) unusable(err *engine.DeliveryError) diag.Diagnostic {
	where := fmt.Sprintf("delivery exchange %q in vhost %q", err.Exchange, s.Vhost)
	if !err.Missing {
		return ErrorOn("delivery_exchange", "Delivery exchange has the wrong type",
			"The %s is of type %q. The delivery exchange has to be a topic exchange, which matches addresses "+
				"behind the delay in the routing key.", where, err.Type)
	}
	declare := "a durable topic exchange"
	if err.AnyType {
		declare = "a durable exchange"
	}
	return ErrorOn("delivery_exchange", "Delivery exchange does not exist",
		"The %s does not exist, and create_delivery_exchange is false. Declare it first, as %s, or let the %s create "+
			"it.", where, declare, s.Kind)
}

// nothingWritten begins what an apply says of existing objects.
const nothingWritten = "Nothing was written. "

// existing is for objects that are there already.
func (s Subject) existing(ctx context.Context, err *engine.ExistsError) diag.Diagnostic {
	ways := waysOfOthers
	if err.Closed {
		ways = "\n\n" + entryIsMissing + ways
	}
	if len(err.Different) == 0 {
		return Error(fmt.Sprintf("Objects of the %s exist already", s.Kind),
			nothingWritten+"In vhost %q these objects exist, exactly as the %s would declare them:\n\n  %s\n\n%s",
			s.Vhost, s.Kind, listed(err.Equal),
			s.orImport(ctx, "If nobody else owns them, set adopt = true to take them over", "")+ways)
	}
	also := ""
	if len(err.Equal) > 0 {
		also = fmt.Sprintf("Exactly as the %s would declare them:\n\n  %s\n\n", s.Kind, listed(err.Equal))
	}
	return Error(fmt.Sprintf("Objects of the %s exist and differ", s.Kind),
		nothingWritten+"In vhost %q these objects exist, and differ from those that the %s would declare:\n\n  "+
			"%s\n\n%s%s", s.Vhost, s.Kind, listed(err.Different), also,
		s.orImport(ctx, "Use other names or remove these objects", " and let an apply bring it into line")+ways)
}

// entryIsMissing is said of objects that are to be adopted.
const entryIsMissing = "The entry exchange is missing, and other objects are there. Either a create or a destroy " +
	"broke off, or a destroy or a rebuild is under way. Make sure that none is before you adopt. Messages that are " +
	"published while it deletes queues can get lost."

// waysOfOthers are the ways out where the objects are those of another resource.
const waysOfOthers = "\n\nIf they are those of a resource that has got another address, a moved block says so. " +
	"If it replaces itself with create_before_destroy, these are its own: remove that, or set adopt = true."

// orImport adds the import as a way out, if enough of the resource exists. Then an import recognizes it, and an apply
// completes it without replacing anything.
func (s Subject) orImport(ctx context.Context, otherwise, then string) string {
	recognized, ok := s.Importable(ctx)
	if !ok || !recognized.SameObjects(s.Desired) {
		return otherwise + "."
	}
	return fmt.Sprintf("%s, or import the %s%s:\n\n%s", otherwise, s.Kind, then,
		WaysToImport(s.Kind, importid.Entry(s.Vhost, s.Desired.Entry)))
}

// notTakenOver is for a delivery exchange that is to become part of the resource and is not what it would declare.
func (s Subject) notTakenOver(err *engine.TakeoverError) diag.Diagnostic {
	return ErrorOn("create_delivery_exchange", "Delivery exchange differs",
		"Nothing was written. In vhost %q the delivery exchange differs from the one that the %s would declare:\n\n  "+
			"%s\n\nLeave create_delivery_exchange at false, or let its owner delete it.", s.Vhost, s.Kind, err.Exchange)
}

// outranked is for a policy that would not apply because of others.
func (s Subject) outranked(err *engine.RivalError) diag.Diagnostic {
	return ErrorOn("park_unroutable", "Another policy is in the way",
		nothingWritten+"The %s parks by policy %q with priority %v. Only one policy applies to an exchange, and "+
			"these match its exchanges with the same or a higher priority:\n\n  %s\n\nGive them a lower priority, or "+
			"patterns that leave these exchanges out, or apply-to queues.", s, err.Policy.Name, err.Policy.Priority,
		listed(plaintext.Texts(err.Rivals, rivalText)))
}

// rivalText is a policy that applies to some of the exchanges.
func rivalText(rival engine.Rival) string {
	return fmt.Sprintf("policy %q with priority %v and pattern %q, on %d of the exchanges", rival.Policy.Name,
		rival.Policy.Priority, rival.Policy.Pattern, len(rival.Exchanges))
}

// displaces is for a policy that is to be set, and takes exchanges from others.
func (s Subject) displaces(d *engine.DisplacedError) diag.Diagnostic {
	lines := plaintext.Texts(d.Rivals, func(rival engine.Rival) string {
		return rivalText(rival) + ": " + rival.Policy.OfExchanges().JSON()
	})
	return WarningOn("park_unroutable", s.about("Exchanges lose keys of another policy"),
		"The %s parks by policy %q with priority %v. Only one policy applies to an exchange. These match its "+
			"exchanges with a lower priority, so the exchanges lose these keys with the apply:\n\n  %s\n\nIf the "+
			"exchanges need a key, set one more policy for them before: with that key, with alternate-exchange = %q, "+
			"and with a priority above %v. Other exchanges, and queues, keep the policies that they have.", s,
		d.Policy.Name, d.Policy.Priority, listed(lines), d.Policy.AlternateExchange(), d.Policy.Priority)
}

// misread is for an entry that gets another type, where others have bound something.
func (s Subject) misread(err *plan.MisreadError) diag.Diagnostic {
	return ErrorOn("entry_exchange_type", "Bindings of other applications would take other messages",
		"A topic exchange takes the words \"*\" and \"#\" of a key as patterns. A direct exchange takes them as they "+
			"are. The entry of the %s changes from %q to %q. These bindings of other applications would take "+
			"other messages then:\n\n  %s\n\nLeave entry_exchange_type at %q, or let whoever made these bindings "+
			"remove them first.", s, err.Before, err.After,
		listed(atMost(plaintext.Texts(err.Bindings, topology.Binding.Describe))), err.Before)
}

// wouldStand is for a delivery exchange that a replacement would meet again, and is not what it would declare.
func (s Subject) wouldStand(err *engine.StandingError) diag.Diagnostic {
	return ErrorOn("delivery_exchange", "Delivery exchange would be left standing",
		"Exchange %q stays, because other exchanges or queues use it:\n\n  %s\n\nThe exchange has other "+
			"arguments than the %s would declare. Apply the change of these first, without the replacement, or give "+
			"another delivery_exchange.", err.Exchange, listed(atMost(err.Users)), s.Kind)
}

// reached is for objects to be adopted that the entry of another owner leads to.
func (s Subject) reached(err *engine.ReachedError) diag.Diagnostic {
	return ErrorOn("adopt", "Objects belong to another entry", nothingWritten+"In vhost %q, exchange %q leads into "+
		"these objects of the %s:\n\n  %s\n\nThe exchange has the owner's mark of another resource. A destroy of that "+
		"one would take the objects away. Use other names.", s.Vhost, err.Entry, s.Kind, listed(atMost(err.Objects)))
}

// ofOthers is for a change of what others own.
func (s Subject) ofOthers(err *engine.OwnerError) diag.Diagnostic {
	begin, way := nothingWritten+isOfOthers, "If this resource is to have it, set adopt = true, which takes it over. "
	switch {
	case err.Meanwhile && s.Options.Adopt:
		begin, way = isOfOthers+tookOver, "The next apply of this one takes it back, because adopt is true. "
	case err.Meanwhile:
		begin = isOfOthers + tookOver
	}
	return Error(fmt.Sprintf("Another resource owns the %s", s), "%s%s%s", begin, way, takeOut)
}

// TakesOver warns in a plan of a create that adopts what others own, or may be about to delete.
func (s Subject) TakesOver(err error) diag.Diagnostic {
	if _, closed := errors.AsType[*engine.ClosedError](err); closed {
		return Warning(fmt.Sprintf("The plan takes over the %s", s), "%s", entryIsMissing)
	}
	return Warning(fmt.Sprintf("The plan takes over the %s", s), "The entry exchange has the owner's mark of another "+
		"resource, in this state or in another one. The apply takes over all objects, because adopt is true. The "+
		"other resource then changes nothing, and its destroy leaves everything.")
}

const (
	isOfOthers = "The entry exchange has the owner's mark of another resource, and not that of this one. " +
		"The other one has adopted it, in this state or in another one. "
	tookOver = "The other one did so while this apply waited for messages, and the apply went no further. Bindings " +
		"of other applications to the entry exchange may be gone, because the apply had closed it before. "
	takeOut = "Otherwise take this one out of the state, with a removed block that has destroy = false, or with " +
		"terraform state rm."
)

// Owners warns in a refresh of other owners.
func (s Subject) Owners(wanted, actual topology.Topology) diag.Diagnostics {
	switch {
	case wanted.IsOfOthers(actual):
		then := "A change by this one is refused, and its destroy leaves everything. If it is to have it, set " +
			"adopt = true. "
		if s.Options.Adopt {
			then = "Its destroy leaves everything. But a change by this one takes it back, because adopt is true. " +
				"Set adopt = false where the other one is to keep it. "
		}
		return diag.Diagnostics{Warning(fmt.Sprintf("Another resource owns the %s", s), isOfOthers+then+takeOut)}
	case len(actual.Owners) > 1:
		return diag.Diagnostics{s.ownsWithOthers(&engine.SharedError{Owners: len(actual.Owners)})}
	}
	return nil
}

// ownsWithOthers is for a resource that is one owner of several.
func (s Subject) ownsWithOthers(err *engine.SharedError) diag.Diagnostic {
	return Warning(fmt.Sprintf("Several resources own the %s", s),
		"The entry exchange has %d owner's marks, and one of them is that of this resource. An adoption that broke "+
			"off leaves that, and so do restored definitions. Each of the owners can change and destroy it. With "+
			"adopt = true, an update takes the other marks away.", err.Owners)
}

// leftToOthers is for a destroy that has left what others own.
func (s Subject) leftToOthers(err *engine.OwnerError) diag.Diagnostic {
	text := isOfOthers
	left := "So the destroy left everything on the broker. "
	if err.Meanwhile {
		text += tookOver
		left = "So the destroy left all that it had not deleted before. The next plan of the other one shows the rest. "
	}
	return Warning(fmt.Sprintf("Another resource owns the %s", s), "%s%sThis resource is only out of this state.", text,
		left)
}

// notCreated says why a create failed, and what of it is left.
func (s Subject) notCreated(err *engine.NotCreatedError) diag.Diagnostic {
	failure := s.Failed("create", err.Err)
	switch {
	case err.OthersErr != nil:
		failure = withMore(failure, "%s", err.OthersErr)
	case len(err.Others) > 0:
		failure = withMore(failure, "In vhost %q, another application or resource has these objects now:\n\n  %s\n\n"+
			"Use other names, or see who declares them.", s.Vhost, listed(err.Others))
	}
	if err.Left == nil {
		return failure
	}
	next := "The objects stay in the state, marked as tainted: the next apply removes them, as soon as nothing waits " +
		"in them, and creates everything anew."
	if s.Options.Adopt { // some of them may have been there before, and a tainted state would have them deleted
		next = "None of them is in the state: the next apply adopts them and adds the missing ones."
	}
	return withMore(failure, "%s\n\nThese objects are still there: %s. %s", notTakenBack(err.Err, err.Undo),
		strings.Join(err.Left.Objects(), ", "), next)
}

// notRemoved says why a destroy, or a change that removes queues, did not take place, and what of it is there.
func (s Subject) notRemoved(verb string, err *engine.NotRemovedError) diag.Diagnostic {
	var notEmpty *drain.NotEmptyError
	var undo *engine.UndoError
	var left *engine.LeftError
	var bound *plan.BoundError
	if verb == "update" && !err.Of.IsWhole() {
		verb = "change"
	}
	failure := s.Failed(verb, err.Err)
	switch {
	case errors.As(err, &undo) && slices.ContainsFunc(undo.Left, s.opensEntry) &&
		rabbit.IsKind(undo.Undo, rabbit.Unauthorized):
		return Error("Credentials are no longer valid", "Give the provider valid credentials, and apply again. Until "+
			"then, exchange %q, the entry, is closed: publishers get an error. The apply brings back the missing "+
			"objects, or goes on.\n\n%s", s.Desired.Entry, failure.Detail())
	case errors.As(err, &left):
		return withMore(failure, "Another application has declared the objects again, or a gateway gave a wrong "+
			"answer. The objects stay in the state, and the next apply deletes them.")
	case errors.As(err, &undo) && slices.ContainsFunc(undo.Left, s.opensEntry):
		return withMore(failure, "Exchange %q, the entry, stays closed, because a message could get lost behind it: "+
			"publishers get an error. Remove the cause, then run terraform apply again: it brings back the missing "+
			"objects, or goes on with the destroy.", s.Desired.Entry)
	case errors.As(err, &undo):
		return withMore(failure, "Exchange %q, the entry, is open.", s.Desired.Entry)
	case errors.As(err, &notEmpty):
		return s.holdsMessages(verb, notEmpty, err.Of)
	case errors.As(err, &bound):
		return withMore(failure, "All is as it was before, and exchange %q, the entry, is open. Apply again.",
			s.Desired.Entry)
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

// holdsMessages says what waits in something that was to be removed, and the ways out.
func (s Subject) holdsMessages(verb string, err *drain.NotEmptyError, of topology.Topology) diag.Diagnostic {
	parks := func(queue string) bool { return !of.Queues[queue].Delays() }
	return Error(title(s.Kind)+" holds messages", "The %s was not %s, and nothing of it is gone. %s", s, past(verb),
		waitingText(err, s.Options.Guard, parks, "deletes the messages."))
}

// leftStanding says why a delivery exchange is still there.
func (s Subject) leftStanding(exchange string, users []string) diag.Diagnostics {
	return ifAny(users, Warning(s.about("Delivery exchange left standing"),
		"Exchange %q in vhost %q is still there, because other exchanges or queues use it:\n\n  %s\n\nforce_destroy "+
			"= true deletes it all the same.", exchange, s.Vhost, listed(atMost(users))))
}

// TakesAlong warns of bindings of others that go with what a destroy or an update deletes.
func (s Subject) TakesAlong(foreign []topology.Binding) diag.Diagnostics {
	return ifAny(foreign, Warning(s.about("Other applications lose bindings"),
		"The apply deletes objects of the %s. %s", s, strings.Join(goAlong(s.Desired.Entry, foreign), "\n\n")))
}

// InFlight says what a destroy has in its way.
func (s Subject) InFlight(waits *Waiting) diag.Diagnostic {
	return Warning(s.about("Messages in flight"),
		"The %s with entry exchange %q is to be destroyed. %s %s", s.Kind, s.Desired.Entry,
		waitsNow(waits, "through it"), Overhaul{Guard: s.Options.Guard, Waits: waits}.fate())
}

// InRemoved says what a change has in its way that removes queues, by what waits in these.
func (s Subject) InRemoved(waits Waiting) diag.Diagnostic {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(waits.Of)) {
		text := "not counted: RabbitMQ leaves it out"
		if held := waits.Of[name]; !held.Unknown {
			text = strconv.FormatInt(held.Messages, 10)
		}
		lines = append(lines, fmt.Sprintf("%s: %s", topology.QueueObject(name), text))
	}
	return Warning(s.about("Messages in flight"),
		"These queues, which the apply removes, hold messages, %s:\n\n  %s\n\n%s", waits.asOf(),
		listed(atMost(lines)), fateInSome.of(waits, s.Options.Guard))
}

// DelaysRemoved says what publishers see when delays are taken out of a ladder.
func (s Subject) DelaysRemoved(lost []topology.Queue, parks bool) diag.Diagnostic {
	names := plaintext.Texts(lost, func(q topology.Queue) string { return topology.QueueObject(q.Name) })
	slices.Sort(names)
	return WarningOn("delays", s.about("Delays are removed"),
		"The apply deletes the queues of these delays:\n\n  %s\n\nA message with a key for one of them is %s from "+
			"then on. To move publishers without that, add the new delays first, and remove these when nobody uses "+
			"them any more.", listed(atMost(names)), fateOfKeys(parks))
}

// KeysRemoved says what publishers see when delays of a ladder get other keys. Lost are the old ones by label.
func (s Subject) KeysRemoved(lost map[string]string, parks bool) diag.Diagnostics {
	lines := plaintext.Texts(slices.Sorted(maps.Keys(lost)),
		func(label string) string { return fmt.Sprintf("%q for the delay %s", lost[label], label) })
	return ifAny(lines, WarningOn("binding_keys", s.about("Keys are removed"), "The apply unbinds these keys:\n\n"+
		"  %s\n\nA message that no other key fits is %s from then on. To move publishers without that, first add a "+
		"delay that is 1 ms longer, with the new key. Remove the old one when nobody uses its key any more.",
		listed(atMost(lines)), fateOfKeys(parks)))
}

// ReachesLess says what publishers see when a cascade gets a shorter max_delay, so that queues go.
func (s Subject) ReachesLess(lost []topology.Queue, longest time.Duration, parks bool) diag.Diagnostic {
	return WarningOn("max_delay", s.about("Long delays are removed"),
		"The apply deletes %s of the %s. A message with a key for more than %s is %s from then on.",
		plaintext.Count(len(lost), "delay queue"), s, plaintext.Duration(longest), fateOfKeys(parks))
}

// LeavesOut warns in an import of queues that may be damaged delay queues.
func (s Subject) LeavesOut(queues []string) diag.Diagnostics {
	return ifAny(queues, Warning(s.about("Queues are left out"), "The entry exchange leads to these queues, too. "+
		"None of them is a delay queue of the ladder:\n\n  %s\n\nThese queues and their bindings stay as they are. If "+
		"one is to be a delay queue, mend it and import again.", listed(atMost(queues))))
}

// Unbound warns in an import of queues to which no binding leads, and that may be delay queues.
func (s Subject) Unbound(queues []string) diag.Diagnostics {
	return ifAny(queues, Warning(s.about("Queues without a binding are left out"), "No binding leads to these "+
		"queues, which hand messages on to the end of the %s:\n\n  %s\n\nThe import leaves these queues out, and "+
		"messages may wait in them. If one is to be a delay queue, bind the entry exchange to the queue and import "+
		"again.", s.Kind, listed(atMost(queues))))
}

// AssumesTopic warns in an import of a missing delivery exchange, whose type nothing shows.
func (s Subject) AssumesTopic(delivery string) diag.Diagnostic {
	return Warning(s.about("The type of the delivery exchange is not known"), "Exchange %q is missing, and nothing "+
		"shows its type. The import takes the exchange for a topic exchange, and an apply creates one. If the type is "+
		"another, declare the exchange before the apply, and set create_delivery_exchange = false.", delivery)
}

// LiteralKeys warns of keys of a direct exchange that a topic exchange would take as patterns.
func (s Subject) LiteralKeys(patterns []string) diag.Diagnostics {
	return ifAny(patterns, WarningOn("binding_keys", s.about("Keys are no patterns"),
		"A direct exchange takes these keys as they are:\n\n  %s\n\nOnly a message with just such a key gets to the "+
			"queue. For patterns, set entry_exchange_type = \"topic\".",
		listed(atMost(plaintext.Texts(patterns, strconv.Quote)))))
}

// fateOfKeys is what becomes of messages with keys that are none any more.
func fateOfKeys(parks bool) string {
	if parks {
		return "parked"
	}
	return "lost"
}

// Warnings are the things that no apply repairs, one diagnostic for all of them.
func (s Subject) Warnings(findings []health.Finding) diag.Diagnostics {
	return changing(s.about("Something changes what happens to messages"), s.String(), findings)
}

// Arguments say in a plan what the arguments of queues do that it makes. It refuses queues that RabbitMQ deletes before
// a message in them is due. A message that waits is no use of a queue (rabbitmq.com/docs/ttl#queue-ttl). A new
// declaration is one for classic queues only (TestExpiringQueueTakesItsMessages).
func (s Subject) Arguments(made map[string]topology.Queue) diag.Diagnostics {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(made)) {
		q := made[name]
		if expires, does := q.Arguments["x-expires"].(int64); does && expires <= q.TTLMillis() {
			lines = append(lines, fmt.Sprintf("%s: x-expires = %d, and a TTL of %d", topology.QueueObject(name),
				expires, q.TTLMillis()))
		}
	}
	if len(lines) == 0 {
		return s.Warnings(health.Weaknesses(made, made))
	}
	return diag.Diagnostics{ErrorOn("queue_arguments", "Queues expire before their messages are due",
		"RabbitMQ deletes a queue that nobody uses for x-expires milliseconds, with the messages in it. A message "+
			"that waits does not count as use. So these queues of the %s lose messages:\n\n  %s\n\nLeave x-expires "+
			"out. Or give more than the longest TTL, if the queues are classic and an application declares them again "+
			"before each message. An import of queues that exist so changes nothing.", s, listed(atMost(lines)))}
}

// NotObserved is for an entry exchange behind which a data source cannot look.
func (s Subject) NotObserved(err error) diag.Diagnostics {
	if err == nil {
		return nil
	}
	if other, ok := errors.AsType[*recognize.OtherEntryError](err); ok {
		err = fmt.Errorf("%w. Read that with the data source rabbitmqdelay_%s and entry_exchange = %q", err, other.Kind,
			other.Entry)
	}
	return diag.Diagnostics{s.Failed("read", err)}
}

// NotRecognized is for an entry exchange that was given and belongs to something else, or could not be read.
func (s Subject) NotRecognized(verb string, err error) diag.Diagnostic {
	var other *recognize.OtherEntryError
	if !errors.As(err, &other) {
		return s.Failed(verb, err)
	}
	instead := "Give that."
	if other.Kind != recognize.KindCascade {
		instead = "A probe works with cascades only."
	}
	return ErrorOn("entry_exchange", "Not the entry of a cascade",
		"Could not %s exchange %q in vhost %q: %s. %s", verb, s.Desired.Entry, s.Vhost, other, instead)
}

// Outcome has the other words for a change that was made, or broke off.
func (s Subject) Outcome(result engine.Result, made bool) diag.Diagnostics {
	var diags diag.Diagnostics
	for _, problem := range result.Problems {
		diags.Append(explain(problem.Cause, func(error) diag.Diagnostic { return nil },
			when(s.ownsWithOthers), when(s.leftToOthers),
			when(func(e *engine.DamagedError) diag.Diagnostic { return s.unplanned(e, made) }))...)
	}
	if result.State != nil {
		diags.Append(s.Warnings(engine.Findings(s.Vhost, s.Desired, result.State))...)
	}
	return append(diags, s.leftStanding(s.Before.Delivery, result.Users)...)
}

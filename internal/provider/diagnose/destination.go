package diagnose

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/drain"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Destination is the binding that diagnostics are about.
type Destination struct {
	Vhost   string
	Binding topology.Binding
	Options engine.Options
}

// String names the destination in messages.
func (d Destination) String() string {
	return fmt.Sprintf("%s in vhost %q", topology.BindingObject(d.Binding), d.Vhost)
}

// Explain turns all faults of a destination into diagnostics. The verb is the intended action.
func (d Destination) Explain(verb string, err error) diag.Diagnostics {
	return explain(err, func(err error) diag.Diagnostic { return d.Failed(verb, err) },
		when(d.unusable), when(d.missing),
		when(Misnaming{d.Vhost, "a cascade or ladder"}.Explain),
		when(func(e *engine.NotVacantError) diag.Diagnostic { return d.onTheirWay(verb, e) }),
		when(func(e *engine.UnfinishedError) diag.Diagnostic { return d.unfinished(verb, e) }),
		when(d.limited),
		whenever(func(e *engine.LevelsError) diag.Diagnostics {
			own, _ := recognize.Destination(d.Vhost, d.Binding)
			return OtherLevels(own, e.There)
		}),
		whenever(d.behind), when(d.notFollowed),
		when(d.losesOverdue), when(d.wasGone), when(d.inFlight))
}

// about begins with what a warning says, and names what it says it of.
func (d Destination) about(text string) string {
	own, _ := recognize.Destination(d.Vhost, d.Binding)
	return aboutWay(text, own)
}

// aboutWay is likewise for a destination of which not all may be known.
func aboutWay(text string, d delay.Destination) string {
	way := fmt.Sprintf("address %q from exchange %q", d.Address, d.DeliveryExchange)
	switch {
	case d.Queue != "":
		way += fmt.Sprintf(" to queue %q", d.Queue)
	case d.Exchange != "":
		way += fmt.Sprintf(" to exchange %q", d.Exchange)
	}
	return about(text, way, d.Vhost)
}

// Failed says which operation on the destination an error ended.
func (d Destination) Failed(verb string, err error) diag.Diagnostic {
	return failed(verb, "destination", d.String(), err)
}

const declareFirst = "Declare it first: refer to the resource that declares it, and Terraform does so."

// unusable is for a delivery exchange that is missing or of another type.
func (d Destination) unusable(err *engine.DeliveryError) diag.Diagnostic {
	if err.Missing {
		return ErrorOn("delivery_exchange", "Delivery exchange does not exist",
			"There is no exchange %q in vhost %q. %s", err.Exchange, d.Vhost, declareFirst)
	}
	return ErrorOn("delivery_exchange", "Delivery exchange has the wrong type",
		"Exchange %q in vhost %q is of type %q. The delivery exchange has to be a topic exchange, such as that of a "+
			"cascade: addresses are matched behind the delay in a routing key.", err.Exchange, d.Vhost, err.Type)
}

// missing is for a queue or exchange that is to get the messages.
func (d Destination) missing(err *engine.MissingError) diag.Diagnostic {
	kind := string(err.Type)
	return ErrorOn(kind, title(kind)+" does not exist", "There is no %s %q in vhost %q. %s %s", kind, err.Name, d.Vhost,
		declaredElsewhere(err.Type), declareFirst)
}

// declaredElsewhere says who declares the queue or exchange of a destination.
func declaredElsewhere(kind topology.DestinationType) string {
	return fmt.Sprintf("This provider declares none: an application does, or rabbitmq_%s of the cyrilgdn/rabbitmq "+
		"provider, see the guide \"Permissions\".", kind)
}

// Misnaming says that a name of a destination is that of a part of a cascade or ladder.
type Misnaming struct {
	Vhost string
	// Of is the cascade or ladder.
	Of string
}

// Explain says which name it is, and what it does to messages.
func (m Misnaming) Explain(err *engine.MisnamedError) diag.Diagnostic {
	b := err.Binding
	switch err.Misnaming {
	case engine.DelaysBehind:
		return ErrorOn("delivery_exchange", "Not a delivery exchange",
			"Exchange %q in vhost %q leads into the delay queues of %s. A queue that is bound there gets messages "+
				"before their time. Give the attribute delivery_exchange.", b.Source, m.Vhost, m.Of)
	case engine.IsDelayQueue:
		return ErrorOn("queue", "Not a queue for delivered messages",
			"Queue %q in vhost %q is one of the delay queues of %s: nothing stays in it, nor may anybody consume "+
				"from it. Give the queue of an application.", b.Destination, m.Vhost, m.Of)
	default:
		return ErrorOn("exchange", "Messages would go in circles",
			"Exchange %q in vhost %q leads into the delay queues of %s, which ends in exchange %q. Messages that it "+
				"gets from there would come back. Give another exchange.", b.Destination, m.Vhost, m.Of, b.Source)
	}
}

// OtherLevels warns of a destination that is made for another number of levels than any that is there.
func OtherLevels(d delay.Destination, there map[int]bool) diag.Diagnostics {
	if d.Match != delay.Exact || d.Levels == 0 || len(there) == 0 || there[d.Levels] {
		return nil
	}
	return diag.Diagnostics{WarningOn("levels", aboutWay("Levels are not those of the cascade", d),
		"The cascades and ladders that end in exchange %q in vhost %q have this number of levels: %s. The "+
			"destination has levels = %d. Its key matches none of the messages for %q, so that they are unroutable. "+
			"Give length(<cascade>.units), or the attribute levels of a ladder.", d.DeliveryExchange, d.Vhost,
		plaintext.Join(slices.Sorted(maps.Keys(there)), ", ", strconv.Itoa), d.Levels, d.Address)}
}

// PassesOn warns of a binding that one destination lets go of and another one makes, in one plan.
func (d Destination) PassesOn() diag.Diagnostic {
	return Warning(d.about("Address passes from one resource to another"),
		"One resource removes its %s. Another resource makes the same binding. Between the two, or if the apply "+
			"ends there, messages for the address do not get to %s. If both are one destination under another "+
			"name, write a moved block, which changes nothing on the broker.", d, d.Binding.DestinationObject())
}

// address is what the destination takes messages for.
func (d Destination) address() string {
	own, _ := delay.ParseDestinationKey(d.Binding.RoutingKey)
	return own.Address
}

// Moves warns of the messages that nobody takes once another binding is in its place.
func (d Destination) Moves(to topology.Binding, address string) diag.Diagnostic {
	var changes []string
	from := ""
	if to.Source != d.Binding.Source {
		changes = append(changes, fmt.Sprintf("the delivery exchange changes from %q to %q", d.Binding.Source,
			to.Source))
		from = fmt.Sprintf(" that arrive at exchange %q", d.Binding.Source)
	}
	if to.RoutingKey != d.Binding.RoutingKey {
		changes = append(changes, fmt.Sprintf("the key changes from %q to %q", d.Binding.RoutingKey, to.RoutingKey))
	}
	return Warning(d.about("Messages on their way may become unroutable"),
		"%s. Messages for the address %q%s, if some are on their way or still published, are then unroutable unless "+
			"something else is bound for them. To move publishers without that, add a second destination, and remove "+
			"this one when nobody uses it any more.", title(strings.Join(changes, ", and ")), address, from)
}

// onTheirWay says what waits, and the ways out.
func (d Destination) onTheirWay(verb string, err *engine.NotVacantError) diag.Diagnostic {
	notEmpty, ok := errors.AsType[*drain.NotEmptyError](err.Err)
	if !ok {
		return nil
	}
	return Error("Messages are on their way",
		"The destination was not %s, and nothing is unbound. In vhost %q this stands:\n\n  %s\n\nMessages that wait "+
			"for a delivery there may be for its address: nobody can tell without reading them. %s", past(verb),
		d.Vhost, listed(plaintext.Texts(err.Gone, topology.BindingObject)), waitingText(notEmpty, d.Options.Guard,
			func(string) bool { return false }, "unbinds at once: messages for the address then become unroutable. "+
				"Where messages are always on their way, only force_destroy helps."))
}

// inFlight warns in a plan of messages that may be on their way to bindings that go.
func (d Destination) inFlight(err *engine.WaitingError) diag.Diagnostic {
	d.Binding = err.Gone[0].Plain()
	waits := Waiting{Delayed: Tally{err.Messages, err.Uncounted}}
	fate := fateOnTheWay.of(waits, d.Options.Guard)
	if to := err.To; to.Source != "" {
		fate = fmt.Sprintf("Messages that arrive after the apply get to %s.", to.DestinationObject())
	} else if d.Options.Guard.Force {
		fate += " Messages for the address then become unroutable."
	}
	return Warning(d.about("Messages in flight"),
		"The apply takes this away:\n\n  %s\n\n%s Nobody can tell without reading them whether they are for its "+
			"address. %s", listed(plaintext.Texts(err.Gone, topology.BindingObject)), waitsNow(&waits,
			fmt.Sprintf("to exchange %q in vhost %q", d.Binding.Source, d.Vhost)), fate)
}

// unfinished is for a binding that may be there although it could not be made.
func (d Destination) unfinished(verb string, err *engine.UnfinishedError) diag.Diagnostic {
	if err.Undo == nil {
		return nil
	}
	stays := "The %s may still be there. The binding stays in the state, marked as tainted: the next apply removes " +
		"it and creates it anew."
	if verb == "update" {
		stays = "The %s may be there, besides the one before or in its place. The binding stays in the state as one " +
			"of leftover_bindings: the next apply goes on from there, whatever the configuration is then."
	}
	return withMore(d.Failed(verb, err.Err), "%s\n\n%s", notTakenBack(err.Err, err.Undo), fmt.Sprintf(stays, d))
}

// wasGone is for a binding that an apply has found gone and made again, and its plan did not know.
func (d Destination) wasGone(err *engine.GoneError) diag.Diagnostic {
	d.Binding = err.Binding
	return unplanned(d.about(unplannedSummary), "destination", []string{d.isGone(err.There)}, true)
}

// losesOverdue warns of a quorum queue behind classic delay queues.
func (d Destination) losesOverdue(*engine.LosesOverdueError) diag.Diagnostic {
	return WarningOn("queue", d.about("Overdue messages get lost at restarts"),
		"Quorum queue %q in vhost %q is behind classic delay queues, those of exchange %q. Some of the messages that "+
			"fall due while a node restarts are lost, at every restart. Classic queues hand a message on at most "+
			"once, and a quorum queue takes none before it has a leader. Use a cascade of quorum queues, or bind a "+
			"classic queue.", d.Binding.Destination, d.Vhost, d.Binding.Source)
}

// limited warns of a destination that refuses messages when it is full.
func (d Destination) limited(err *engine.LimitError) diag.Diagnostic {
	return WarningOn("queue", d.about("Destination refuses messages when it is full"),
		"Queue %q in vhost %q refuses messages when it is full: %s. A cascade of quorum queues offers a refused "+
			"message again three to six minutes later. 32 refused messages keep all other messages from leaving the "+
			"same delay queue, whatever their destination. A cascade of classic queues loses refused messages. Let "+
			"the queue take all messages, or give it a cascade of its own.", d.Binding.Destination, d.Vhost, err.Limit)
}

// behind warns that messages get no further behind the destination.
func (d Destination) behind(err *engine.BehindError) diag.Diagnostics {
	return changing(d.about("Messages do not arrive"), d.String(), err.Findings)
}

// notFollowed is for an exchange behind which nobody can tell what gets the messages.
func (d Destination) notFollowed(err *engine.NotFollowedError) diag.Diagnostic {
	return WarningOn("exchange", d.about("Messages are not followed"),
		"Make sure that a queue gets the messages of the %s. This provider cannot tell: %s. A message that no "+
			"queue gets stays in quorum delay queues, and holds up other messages there. Classic delay queues lose "+
			"the message.", d, err.Why)
}

// Overlaps say who else takes messages of this destination, or which messages of others it takes.
func (d Destination) Overlaps(there []topology.Binding) diag.Diagnostics {
	var lines []string
	for _, overlap := range delay.Overlaps(d.Binding, topology.Plain(there)) {
		other := fmt.Sprintf("%s, bound with %q,", overlap.Other.DestinationObject(), overlap.Other.RoutingKey)
		if overlap.Takes {
			lines = append(lines, fmt.Sprintf("%s also takes messages for %q", other, d.address()))
		} else {
			lines = append(lines, fmt.Sprintf("%s is there for %q, whose messages this destination also takes", other,
				overlap.Address))
		}
	}
	return ifAny(lines, Warning(d.about("Destinations take the same messages"),
		"Other bindings share messages with the %s. Each destination gets a copy of such a message:\n\n  %s\n\n"+
			"With match = \"exact\" a destination takes the messages for its own address only.", d,
		listed(atMost(lines))))
}

// StillBound warns, after a destroy, of the bindings that bring the messages to the same queue or exchange.
func (d Destination) StillBound(there topology.Bindings) diag.Diagnostics {
	lines := d.replacements(there)
	return ifAny(lines, Warning(d.about("Messages still arrive"),
		"The %s is removed. Messages for the address go there all the same, because of:\n\n  %s", d, listed(lines)))
}

// replacements are the bindings that bring the messages for the destination to the same queue or exchange.
func (d Destination) replacements(there topology.Bindings) (lines []string) {
	for _, b := range there.Where(func(b topology.Binding) bool { return delay.Replaces(b, d.Binding) }) {
		whose := "has no mark of a destination, such as one that an application has made"
		if b.DestinationMark() != "" {
			whose = "another destination has made"
		}
		lines = append(lines, fmt.Sprintf("a binding with key %q, which %s", b.RoutingKey, whose))
	}
	return atMost(lines)
}

// LeftBehind warns of what updates that broke off have left beside the binding, as import IDs.
func (d Destination) LeftBehind(leftovers []string) diag.Diagnostics {
	return ifAny(leftovers, WarningOn("leftover_bindings", d.about("Update is not finished"),
		"Besides the %s, an update that broke off has left these bindings, which get messages, too:\n\n  "+
			"%s\n\nThe next apply removes those that the configuration does not ask for.", d, listed(leftovers)))
}

// Gone is for the binding that a destination stands for. Others may bring its messages all the same.
func (d Destination) Gone(there topology.Bindings) diag.Diagnostics {
	return drifted(d.about, "destination", []string{d.isGone(there) + " The next apply makes it again."}, "")
}

func (d Destination) isGone(there topology.Bindings) string {
	text := fmt.Sprintf("The %s is gone. Messages for the address %q ", d, d.address())
	if lines := d.replacements(there); len(lines) > 0 {
		return text + "get there by " + strings.Join(lines, ", and ") + "."
	}
	return text + fmt.Sprintf("do not get to %s.", d.Binding.DestinationObject())
}

// Unmarked warns of an import of a binding that no destination has made, and of the same ones that destinations have.
func (d Destination) Unmarked(marked []topology.Binding) diag.Diagnostic {
	taken := Warning(d.about("Binding has no mark"),
		"The %s was made by no destination: it has no argument with a mark. The destination takes it as it is. The "+
			"next change of any attribute makes a binding with a mark, and then removes this one.", d)
	if len(marked) == 0 {
		return taken
	}
	return Warning(taken.Summary(), "%s\n\nDestinations have made the same binding, with these arguments:\n\n  "+
		"%s\n\nThe import takes none of these, and no change of this destination removes them. To import one of "+
		"them instead, take this destination out of the state with terraform state rm. Then unbind the binding "+
		"without a mark, and import again.", taken.Detail(), listed(arguments(marked)))
}

// Ambiguous is for an import that several destinations have made a binding for.
func (d Destination) Ambiguous(same []topology.Binding) error {
	return fmt.Errorf("several destinations have made this binding, each with its own arguments: %s. Unbind those "+
		"that belong to no configuration, and import the one that is left", strings.Join(arguments(same), ", "))
}

func arguments(bindings []topology.Binding) []string {
	return plaintext.Texts(bindings, func(b topology.Binding) string { return b.Arguments })
}

// NotFound lists the bindings that the destination has instead.
func (d Destination) NotFound(there []topology.Binding) error {
	keys := map[string]bool{}
	for _, b := range there {
		if b.DestinationType == d.Binding.DestinationType && b.Destination == d.Binding.Destination {
			keys[fmt.Sprintf("%q", b.RoutingKey)] = true
		}
	}
	if len(keys) == 0 {
		return fmt.Errorf("there is no such binding, nor any other of this exchange to this %s",
			d.Binding.DestinationType)
	}
	return fmt.Errorf("there is no such binding; this exchange is bound to this %s with %s", d.Binding.DestinationType,
		strings.Join(slices.Sorted(maps.Keys(keys)), ", "))
}

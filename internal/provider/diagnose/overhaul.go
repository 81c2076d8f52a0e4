package diagnose

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Overhaul is a rebuild or a replacement, as a plan knows it.
type Overhaul struct {
	Kind, Vhost, Entry string
	// Because are the attributes that ask for it, with their values.
	Because []string
	Waits   *Waiting
	Guard   plan.Guard
	// KeepsParked tells whether the queue of unroutable messages stays as it is.
	KeepsParked bool
	// Moved is set for a replacement.
	Moved *MovedEntry
	// Before and after are what keys are written in, nil where that is not known.
	Before, After *delay.Scale
	// Delivery and newDelivery are where messages arrive, empty where that is not known, or where they arrive at a
	// queue.
	Delivery, NewDelivery string
	// Queue and newQueue are those to which a ladder delivers through the default exchange.
	Queue, NewQueue string
	// Others are the bindings of others that go.
	Others plan.Others
}

// MovedEntry is where publishers find the entry after a replacement.
type MovedEntry struct {
	// Vhost and entry are empty where they are not known yet.
	Vhost, Entry string
	// StaysOpen is set if the entry before is then an exchange in the middle that takes published messages.
	StaysOpen bool
}

// Diagnostic says what asks for the overhaul, what becomes of messages, and what publishers and applications see.
func (o Overhaul) Diagnostic() diag.Diagnostic {
	s, because := OfEntry(o.Kind, o.Vhost, o.Entry), strings.Join(o.Because, " and ")
	summary, first := "Replacement", fmt.Sprintf("The %s is replaced, because %s.", s, because)
	if o.Moved == nil {
		queues := "all queues"
		if o.KeepsParked {
			queues = "all delay queues"
		}
		summary = "Update in place recreates " + queues
		first = fmt.Sprintf("The %s is rebuilt, because %s. The update deletes %s and makes them anew.", s, because,
			queues)
	}
	paragraphs := []string{
		first,
		waitsNow(o.Waits, "through it") + " " + o.fate(),
		o.publishers(),
	}
	if text := o.applications(); text != "" {
		paragraphs = append(paragraphs, text)
	}
	paragraphs = append(paragraphs, goAlong(o.Entry, o.Others.Lost)...)
	if again, _ := byDirection(o.Entry, o.Others.Again); len(again) > 0 {
		paragraphs = append(paragraphs, fmt.Sprintf("Bindings of %s lead into it. The apply takes them away, and "+
			"makes them again. Messages that they would take meanwhile are unroutable, and the publishers get no "+
			"error:\n\n  %s", sources(again), listed(bound(again))))
	}
	return Warning(s.about(summary), "%s", strings.Join(paragraphs, "\n\n"))
}

// fate is what becomes of messages that wait in all of it.
func (o Overhaul) fate() string {
	var waits Waiting
	if o.Waits != nil {
		waits = *o.Waits
	}
	parked := waits.Parked.Messages > 0
	if o.KeepsParked {
		waits.Parked = Tally{}
	}
	text := fateInAll.of(waits, o.Guard)
	if o.Guard.Drain > 0 && !o.Guard.Force && waits.Delayed.Messages > 0 {
		text += " The provider's credentials have to be valid for as long: if they end before, the entry stays closed."
	}
	if o.KeepsParked && parked {
		text += " Parked messages stay."
	}
	return text
}

// publishers is what they see meanwhile, and have to do.
func (o Overhaul) publishers() string {
	if o.Moved != nil {
		return o.publishersMove()
	}
	long := "for some seconds"
	if o.Guard.Drain > 0 && !o.Guard.Force {
		long = fmt.Sprintf("for as long as messages wait, at most %s, and some seconds longer",
			plaintext.Duration(o.Guard.Drain))
	}
	text := fmt.Sprintf("The entry is closed %s. Publishers get an error and have to try again.", long)
	if o.Before != nil && o.After != nil &&
		!slices.Equal(o.Before.Units, o.After.Units) {
		text += " A key then stands for another delay: publishers need other keys from then on."
	}
	return text
}

func (o Overhaul) publishersMove() string {
	text := fmt.Sprintf("Publishers to exchange %q get an error from then on.", o.Entry)
	if o.Moved.StaysOpen {
		text = fmt.Sprintf("Exchange %q is then in the middle of the %s, and misunderstands publishers who still use "+
			"it: messages wait for another time, or go astray. With internal_levels = true, RabbitMQ refuses them.",
			o.Entry, o.Kind)
	}
	where := ""
	if o.Moved.Vhost != o.Vhost && o.Moved.Vhost != "" {
		where = fmt.Sprintf(" in vhost %q", o.Moved.Vhost)
	}
	switch {
	case o.Moved.Entry == "" || o.Moved.Vhost == "":
		return text + " The new entry is not known yet."
	case o.Moved.Entry == o.Entry && where == "":
		return text + " The new entry has the same name."
	}
	return fmt.Sprintf("%s The new entry is exchange %q%s.", text, o.Moved.Entry, where)
}

// applications is what those have to do who have bound something to the delivery exchange, empty if that is nothing.
func (o Overhaul) applications() string {
	switch before, after := end(o.Delivery, o.Queue), end(o.NewDelivery, o.NewQueue); {
	case o.NewQueue != "" && before != after:
		return fmt.Sprintf("Messages then arrive at %s in place of %s.", after, before)
	case o.NewDelivery == "":
	case before != after:
		return fmt.Sprintf("Messages then arrive at %s in place of %s: applications have to bind their queues there.",
			after, before)
	case o.Before != nil && o.After != nil && o.Before.Levels() != o.After.Levels():
		return fmt.Sprintf("Delays get %d words in place of %d. Bindings of applications to exchange %q with a "+
			"\"*\" for each word then match no message: they have to bind again.", o.After.Levels(), o.Before.Levels(),
			o.Delivery)
	case o.Moved == nil:
		return fmt.Sprintf("The bindings of exchange %q stay.", o.Delivery)
	}
	return ""
}

// end is where messages arrive, in words.
func end(exchange, queue string) string {
	if queue != "" {
		return topology.QueueObject(queue)
	}
	return topology.ExchangeObject(exchange)
}

// byDirection parts bindings of others that lead in from those that lead from the entry to objects of theirs.
func byDirection(entry string, bindings []topology.Binding) (in, out []topology.Binding) {
	for _, b := range bindings {
		if b.Source == entry {
			out = append(out, b)
		} else {
			in = append(in, b)
		}
	}
	return in, out
}

// goAlong says which bindings of others go with the objects of an entry.
func goAlong(entry string, lost []topology.Binding) (paragraphs []string) {
	inbound, outbound := byDirection(entry, lost)
	if len(inbound) > 0 {
		paragraphs = append(paragraphs, fmt.Sprintf("Bindings of %s lead into it, and go with it. Whoever made them "+
			"has to bind again:\n\n  %s", sources(inbound), listed(bound(inbound))))
	}
	if len(outbound) > 0 {
		paragraphs = append(paragraphs, fmt.Sprintf("Its entry also leads to what other applications have bound. "+
			"These bindings go with it. Whoever made them has to bind again:\n\n  %s",
			listed(atMost(plaintext.Texts(outbound, topology.Binding.Describe)))))
	}
	return paragraphs
}

// bound are bindings of others to exchanges and queues, in words.
func bound(bindings []topology.Binding) []string {
	return atMost(plaintext.Texts(bindings, func(b topology.Binding) string {
		return fmt.Sprintf("exchange %q, bound to %s with key %q", b.Source, b.DestinationObject(), b.RoutingKey)
	}))
}

// sources are the exchanges that have the bindings.
func sources(bindings []topology.Binding) string {
	const most = 3
	names := map[string]bool{}
	for _, b := range bindings {
		names[topology.ExchangeObject(b.Source)] = true
	}
	all := slices.Sorted(maps.Keys(names))
	if more := len(all) - most; more > 0 {
		all = append(all[:most], fmt.Sprintf("%d more", more))
	}
	return strings.Join(all, " and ")
}

// Reasons are the attributes that ask for an overhaul, with their values before and after. Where the configuration
// gives some of those that change, the others only follow from them. Levels follow from max_delay, but another base or
// resolution changes them, too, while max_delay stays.
func Reasons(altered []string, config, before, after map[string]attr.Value) []string {
	isGiven := func(name string) bool { return config[name] != nil && !config[name].IsNull() }
	if slices.Contains(altered, "levels") && !isGiven("levels") && isGiven("max_delay") &&
		!before["max_delay"].Equal(after["max_delay"]) {
		altered = append(altered, "max_delay")
	}
	given := slices.DeleteFunc(slices.Clone(altered), func(name string) bool { return !isGiven(name) })
	if len(given) == 0 {
		given = altered
	}
	return plaintext.Texts(given, func(name string) string {
		return fmt.Sprintf("%s changes from %s to %s", name, valueText(before[name]), valueText(after[name]))
	})
}

func valueText(value attr.Value) string {
	switch {
	case value.IsUnknown():
		return "a value that is not known yet"
	case value.IsNull():
		return "no value"
	}
	return value.String()
}

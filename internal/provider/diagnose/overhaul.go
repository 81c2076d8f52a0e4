package diagnose

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
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
	// Delivery and newDelivery are where messages arrive, empty where that is not known.
	Delivery, NewDelivery string
	// Inbound are the bindings of others that go.
	Inbound []topology.Binding
}

// MovedEntry is where publishers find the entry after a replacement.
type MovedEntry struct {
	// Vhost and entry are empty where they are not known yet.
	Vhost, Entry string
	// StaysOpen is set if the entry before is then an exchange in the middle that takes published messages.
	StaysOpen bool
}

// Waiting is what waits, by the broker's lagging count.
type Waiting struct {
	// Delayed are on their way, and Parked are unroutable.
	Delayed, Parked Tally
	// Of are the queues that hold some, or may.
	Of map[string]Tally
	// At is when RabbitMQ was asked, if it counted some.
	At time.Time
}

// CountWaiting is what waits in the queues of a topology.
func CountWaiting(desired topology.Topology, state *rabbit.State) Waiting {
	waits := Waiting{Of: map[string]Tally{}}
	for name, status := range state.Status {
		waits.add(name, name == desired.Parking(), tallyOf(status.Messages)) // it is called like its exchange
	}
	if waits.Delayed.Messages+waits.Parked.Messages > 0 { // otherwise each refresh would change what Terraform keeps
		waits.At = time.Now()
	}
	return waits
}

// In is what waits in some of the queues.
func (w Waiting) In(queues []topology.Queue) Waiting {
	part := Waiting{Of: map[string]Tally{}, At: w.At}
	for _, q := range queues {
		part.add(q.Name, !q.Delays(), w.Of[q.Name])
	}
	return part
}

func (w *Waiting) add(queue string, parks bool, held Tally) {
	if held == (Tally{}) {
		return
	}
	w.Of[queue] = held
	to := &w.Delayed
	if parks {
		to = &w.Parked
	}
	to.Messages += held.Messages
	to.Unknown = to.Unknown || held.Unknown
}

// IsNone tells whether it is known that nothing waits.
func (w Waiting) IsNone() bool { return w.Delayed == Tally{} && w.Parked == Tally{} }

// Tally is how many messages several queues hold.
type Tally struct {
	// Messages are those that were counted.
	Messages int64
	// Unknown is set where RabbitMQ leaves out the count of one of the queues.
	Unknown bool
}

func tallyOf(messages *int64) Tally {
	if messages == nil {
		return Tally{Unknown: true}
	}
	return Tally{Messages: *messages}
}

// Value is null where it is not known.
func (t Tally) Value() types.Int64 {
	if t.Unknown {
		return types.Int64Null()
	}
	return types.Int64Value(t.Messages)
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
		waitsNow(o.Waits) + " " + o.fate(),
		o.publishers(),
	}
	if text := o.applications(); text != "" {
		paragraphs = append(paragraphs, text)
	}
	inbound, outbound := byDirection(o.Entry, o.Inbound)
	if len(inbound) > 0 {
		paragraphs = append(paragraphs, fmt.Sprintf("Bindings of %s lead into it, and go with it. Whoever made them "+
			"has to bind again:\n\n  %s", sources(inbound), listed(bound(inbound))))
	}
	if len(outbound) > 0 {
		paragraphs = append(paragraphs, leadsElsewhere(outbound))
	}
	return Warning(s.about(summary), "%s", strings.Join(paragraphs, "\n\n"))
}

// waitsNow says how many messages wait.
func waitsNow(waits *Waiting) string {
	if waits == nil {
		return "How many messages wait in it is not known without a refresh."
	}
	text := ""
	delayed, parked := waits.Delayed.Messages, waits.Parked.Messages
	switch {
	case delayed == 0 && parked == 0 && !waits.IsNone():
		return "How many messages wait in it is not known: RabbitMQ leaves out the counts of some of its queues."
	case delayed == 0 && parked == 0:
		text = "No message waited in it at the last refresh."
	case parked == 0:
		text = fmt.Sprintf("%s on the way through it now, %s.", messages(delayed), waits.asOf())
	case delayed == 0:
		text = fmt.Sprintf("%s parked in it now, %s.", messages(parked), waits.asOf())
	default:
		text = fmt.Sprintf("%s on the way through it now, and %d parked, %s.", messages(delayed), parked, waits.asOf())
	}
	if waits.Delayed.Unknown || waits.Parked.Unknown {
		text += " There may be more: RabbitMQ leaves out the counts of some of its queues."
	}
	return text
}

// asOf says how old the count is. Without a refresh, it may be older than RabbitMQ's own delay.
func (w Waiting) asOf() string {
	if age := time.Since(w.At).Round(time.Minute); !w.At.IsZero() && age > time.Minute {
		return fmt.Sprintf("if the count of %s ago still holds", plaintext.Duration(age))
	}
	return lastCount
}

const lastCount = "by the last count, which may be some seconds old"

func messages(n int64) string {
	if n == 1 {
		return "1 message is"
	}
	return fmt.Sprintf("%d messages are", n)
}

// fate is what becomes of messages that wait.
func (o Overhaul) fate() string {
	text, isParked := fateOf(o.Guard, o.Waits), o.Waits != nil && o.Waits.Parked.Messages > 0
	switch {
	case isParked && o.KeepsParked:
		return text + " Parked messages stay."
	case isParked && !o.Guard.Force:
		text = "The apply will fail, unless somebody consumes or purges the parked messages first."
		if o.Waits.Delayed.Messages > 0 && o.Guard.Drain == 0 {
			text += " It does not wait for the others either; drain_timeout makes it wait."
		}
	}
	return text
}

// fateOf is what becomes of messages on their way.
func fateOf(guard plan.Guard, waits *Waiting) string {
	switch {
	case guard.Force:
		return "The apply deletes waiting messages, because force_destroy is true."
	case guard.Drain > 0:
		text := fmt.Sprintf("The apply closes the entry and waits up to %s until all are delivered. If some are not, "+
			"it opens the entry again and fails.", plaintext.Duration(guard.Drain))
		if waits != nil && waits.Delayed.Messages > 0 {
			text += " The provider's credentials have to be valid for as long: if they end before, the entry stays " +
				"closed."
		}
		return text
	case waits != nil && waits.Delayed.Messages > 0:
		return "The apply will fail if one still waits by then; drain_timeout makes it wait."
	}
	return "The apply will fail if one waits by then."
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
	switch {
	case o.NewDelivery == "":
	case o.Delivery != o.NewDelivery:
		return fmt.Sprintf("Messages then arrive at exchange %q in place of exchange %q: applications have to bind "+
			"their queues there.", o.NewDelivery, o.Delivery)
	case o.Before != nil && o.After != nil && o.Before.Levels() != o.After.Levels():
		return fmt.Sprintf("Delays get %d words in place of %d. Bindings of applications to exchange %q with a "+
			"\"*\" for each word then match no message: they have to bind again.", o.After.Levels(), o.Before.Levels(),
			o.Delivery)
	case o.Moved == nil:
		return fmt.Sprintf("The bindings of exchange %q stay.", o.Delivery)
	}
	return ""
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

// leadsElsewhere says which bindings of others an entry takes along.
func leadsElsewhere(bindings []topology.Binding) string {
	lines := make([]string, len(bindings))
	for i, b := range bindings {
		lines[i] = b.Describe()
	}
	return fmt.Sprintf("Its entry also leads to what others have bound. These bindings go with it:\n\n  %s\n\nWhoever "+
		"made them has to bind again.", listed(atMost(lines)))
}

// bound are bindings of others to exchanges, in words.
func bound(bindings []topology.Binding) []string {
	lines := make([]string, len(bindings))
	for i, b := range bindings {
		lines[i] = fmt.Sprintf("exchange %q, bound to exchange %q with key %q", b.Source, b.Destination, b.RoutingKey)
	}
	return atMost(lines)
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
func Reasons(altered []string, config, before, after map[string]tftypes.Value) []string {
	isGiven := func(name string) bool { value := config[name]; return !value.IsNull() }
	if slices.Contains(altered, "levels") && !isGiven("levels") && isGiven("max_delay") &&
		valueText(before["max_delay"]) != valueText(after["max_delay"]) {
		altered = append(altered, "max_delay")
	}
	given := slices.DeleteFunc(slices.Clone(altered), func(name string) bool { return !isGiven(name) })
	if len(given) == 0 {
		given = altered
	}
	texts := make([]string, len(given))
	for i, name := range given {
		texts[i] = fmt.Sprintf("%s changes from %s to %s", name, valueText(before[name]), valueText(after[name]))
	}
	return texts
}

// valueText is a value as a configuration has it.
func valueText(value tftypes.Value) string {
	var (
		text   string
		number big.Float
		list   []tftypes.Value
		object map[string]tftypes.Value
	)
	switch {
	case !value.IsKnown():
		return "a value that is not known yet"
	case value.IsNull():
		return "no value"
	case value.As(&text) == nil:
		return fmt.Sprintf("%q", text)
	case value.As(&number) == nil:
		return number.Text('f', -1)
	case value.As(&list) == nil:
		texts := make([]string, len(list))
		for i, each := range list {
			texts[i] = valueText(each)
		}
		return "[" + strings.Join(texts, ", ") + "]"
	case value.As(&object) == nil:
		var texts []string
		for _, name := range slices.Sorted(maps.Keys(object)) {
			texts = append(texts, name+" = "+valueText(object[name]))
		}
		return "{" + strings.Join(texts, ", ") + "}"
	}
	return strconv.FormatBool(value.Equal(tftypes.NewValue(tftypes.Bool, true)))
}

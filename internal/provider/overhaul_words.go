package provider

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// overhaul is a rebuild or a replacement, as a plan knows it.
type overhaul struct {
	kind, vhost, entry string
	// because are the attributes that ask for it, with their values.
	because []string
	waits   *waiting
	guard   plan.Guard
	// keepsParked tells whether the queue of unroutable messages stays as it is.
	keepsParked bool
	// moved is set for a replacement.
	moved *movedEntry
	// before and after are what keys are written in, nil where that is not known.
	before, after *delay.Scale
	// delivery and newDelivery are where messages arrive, empty where that is not known.
	delivery, newDelivery string
	// inbound are the bindings of others that go, in words.
	inbound []string
}

// movedEntry is where publishers find the entry after a replacement.
type movedEntry struct {
	// vhost and entry are empty where they are not known yet.
	vhost, entry string
	// staysOpen is set if the entry before is then an exchange in the middle that takes published messages.
	staysOpen bool
}

// waiting is what waits, by the broker's lagging count.
type waiting struct {
	// Delayed are on their way, and Parked are unroutable.
	Delayed, Parked tally
}

// countWaiting is what waits in the queues of a topology.
func countWaiting(desired topology.Topology, state *rabbit.State) waiting {
	var waits waiting
	for name, status := range state.Status {
		if name == desired.Parking() { // which is called like its exchange
			waits.Parked.add(status.Messages)
		} else {
			waits.Delayed.add(status.Messages)
		}
	}
	return waits
}

// isNone tells whether it is known that nothing waits.
func (w waiting) isNone() bool { return w.Delayed == tally{} && w.Parked == tally{} }

// tally is how many messages several queues hold.
type tally struct {
	// Messages are those that were counted.
	Messages int64
	// Unknown is set where RabbitMQ leaves out the count of one of the queues.
	Unknown bool
}

func (t *tally) add(messages *int64) {
	if messages == nil {
		t.Unknown = true
	} else {
		t.Messages += *messages
	}
}

// value is null where it is not known.
func (t tally) value() types.Int64 {
	if t.Unknown {
		return types.Int64Null()
	}
	return types.Int64Value(t.Messages)
}

// diagnostic says what asks for the overhaul, what becomes of messages, and what publishers and applications see.
func (o overhaul) diagnostic() diag.Diagnostic {
	verb := "rebuilt"
	if o.moved != nil {
		verb = "replaced"
	}
	paragraphs := []string{
		fmt.Sprintf("The %s with entry exchange %q in vhost %q is %s, because %s.", o.kind, o.entry, o.vhost, verb,
			strings.Join(o.because, " and ")),
		waitsNow(o.waits) + " " + o.fate(),
		o.publishers(),
	}
	if text := o.applications(); text != "" {
		paragraphs = append(paragraphs, text)
	}
	if len(o.inbound) > 0 {
		paragraphs = append(paragraphs, "These bindings of others lead into it, and go with it. Whoever made them "+
			"has to bind again:\n\n  "+strings.Join(atMost(o.inbound), "\n  "))
	}
	return diag.NewWarningDiagnostic(fmt.Sprintf("%s is %s", title(o.kind), verb), strings.Join(paragraphs, "\n\n"))
}

// waitsNow says how many messages wait.
func waitsNow(waits *waiting) string {
	const lagging = "by the last count, which may be some seconds old"
	if waits == nil {
		return "How many messages wait in it is not known without a refresh."
	}
	text := ""
	delayed, parked := waits.Delayed.Messages, waits.Parked.Messages
	switch {
	case delayed == 0 && parked == 0 && !waits.isNone():
		return "How many messages wait in it is not known: RabbitMQ leaves out the counts of some of its queues."
	case delayed == 0 && parked == 0:
		text = fmt.Sprintf("No message waits in it now, %s.", lagging)
	case parked == 0:
		text = fmt.Sprintf("%s on the way through it now, %s.", messages(delayed), lagging)
	case delayed == 0:
		text = fmt.Sprintf("%s parked in it now, %s.", messages(parked), lagging)
	default:
		text = fmt.Sprintf("%s on the way through it now, and %d parked, %s.", messages(delayed), parked, lagging)
	}
	if waits.Delayed.Unknown || waits.Parked.Unknown {
		text += " There may be more: RabbitMQ leaves out the counts of some of its queues."
	}
	return text
}

func messages(n int64) string {
	if n == 1 {
		return "1 message is"
	}
	return fmt.Sprintf("%d messages are", n)
}

// fate is what becomes of messages that wait.
func (o overhaul) fate() string {
	text := fateOf(o.guard, o.waits)
	if o.waits != nil && o.waits.Parked.Messages > 0 {
		switch {
		case o.keepsParked:
			text += " Parked messages stay."
		case !o.guard.Force:
			text += whileParked
		}
	}
	return text
}

// whileParked is for messages that no drain takes away.
const whileParked = " Parked messages stop the apply, until somebody consumes or purges them."

// fateOf is what becomes of messages on their way.
func fateOf(guard plan.Guard, waits *waiting) string {
	switch {
	case guard.Force:
		return "The apply deletes waiting messages, because force_destroy is true."
	case guard.Drain > 0:
		return fmt.Sprintf("The apply closes the entry and waits up to %s until all are delivered. If some are not, "+
			"it opens the entry again and is refused.", plaintext.Duration(guard.Drain))
	case waits != nil && waits.Delayed.Messages > 0:
		return "The apply is refused while any waits; drain_timeout makes it wait."
	}
	return "The apply is refused if one waits by then."
}

// publishers is what they see meanwhile, and have to do.
func (o overhaul) publishers() string {
	if o.moved != nil {
		return o.publishersMove()
	}
	long := "for some seconds"
	if o.guard.Drain > 0 && !o.guard.Force {
		long = fmt.Sprintf("for as long as messages wait, at most %s, and some seconds longer",
			plaintext.Duration(o.guard.Drain))
	}
	text := fmt.Sprintf("The entry is closed %s. Publishers get an error and have to try again.", long)
	if o.before != nil && o.after != nil &&
		(o.before.Base != o.after.Base || o.before.Resolution != o.after.Resolution) {
		text += " A key then stands for another delay: publishers need other keys from then on."
	}
	return text
}

func (o overhaul) publishersMove() string {
	text := fmt.Sprintf("Publishers to exchange %q get an error from then on.", o.entry)
	if o.moved.staysOpen {
		text = fmt.Sprintf("Messages that publishers still send to exchange %q then get into the middle of the %s, "+
			"and go astray.", o.entry, o.kind)
	}
	where := ""
	if o.moved.vhost != o.vhost && o.moved.vhost != "" {
		where = fmt.Sprintf(" in vhost %q", o.moved.vhost)
	}
	switch {
	case o.moved.entry == "" || o.moved.vhost == "":
		return text + " The new entry is not known yet."
	case o.moved.entry == o.entry && where == "":
		return text + " The new entry has the same name."
	}
	return fmt.Sprintf("%s The new entry is exchange %q%s.", text, o.moved.entry, where)
}

// applications is what those have to do who have bound something to the delivery exchange, empty if that is nothing.
func (o overhaul) applications() string {
	switch {
	case o.newDelivery == "":
	case o.delivery != o.newDelivery:
		return fmt.Sprintf("Messages then arrive at exchange %q in place of exchange %q: applications have to bind "+
			"their queues there.", o.newDelivery, o.delivery)
	case o.before != nil && o.after != nil && o.before.Levels != o.after.Levels:
		return fmt.Sprintf("Routing keys get %d digits in place of %d. Bindings of applications to exchange %q with a "+
			"\"*\" for each digit then match no message: they have to bind again.", o.after.Levels, o.before.Levels,
			o.delivery)
	case o.moved == nil:
		return "Bindings of others stay."
	}
	return ""
}

// reasons are the attributes that ask for an overhaul, with their values before and after. Where the configuration
// gives some of those that change, the others only follow from them. Levels follow from max_delay, but another base or
// resolution changes them, too, while max_delay stays.
func reasons(altered []string, config, before, after map[string]tftypes.Value) []string {
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
		slices.Sort(texts)
		return "[" + strings.Join(texts, ", ") + "]"
	}
	return strconv.FormatBool(value.Equal(tftypes.NewValue(tftypes.Bool, true)))
}

package diagnose

import (
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/drain"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

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
		held := Tally{Unknown: status.Messages == nil}
		if !held.Unknown {
			held.Messages = *status.Messages
		}
		waits.add(name, name == desired.Parking(), held) // it is called like its exchange
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

// Value is null where it is not known.
func (t Tally) Value() types.Int64 {
	if t.Unknown {
		return types.Int64Null()
	}
	return types.Int64Value(t.Messages)
}

// waitsNow says how many messages wait, and where those go that are on their way.
func waitsNow(waits *Waiting, way string) string {
	const leftOut = "RabbitMQ leaves out the counts of some queues."
	if waits == nil {
		return "How many messages wait in it is not known without a refresh."
	}
	text := ""
	switch delayed, parked := waits.Delayed.Messages, waits.Parked.Messages; {
	case delayed == 0 && parked == 0 && !waits.IsNone():
		return "How many messages wait is not known: " + leftOut
	case delayed == 0 && parked == 0:
		return "No message waited in it at the last refresh."
	case parked == 0:
		text = fmt.Sprintf("%s on the way %s now, %s.", messages(delayed), way, waits.asOf())
	case delayed == 0:
		text = fmt.Sprintf("%s parked in it now, %s.", messages(parked), waits.asOf())
	default:
		text = fmt.Sprintf("%s on the way %s now, and %d parked, %s.", messages(delayed), way, parked, waits.asOf())
	}
	if waits.Delayed.Unknown || waits.Parked.Unknown {
		text += " There may be more: " + leftOut
	}
	return text
}

// asOf says how old the count is. Without a refresh, it may be older than RabbitMQ's own delay.
func (w Waiting) asOf() string {
	if age := time.Since(w.At).Round(time.Minute); !w.At.IsZero() && age > time.Minute {
		return fmt.Sprintf("if the count of %s ago still holds", plaintext.Duration(age))
	}
	return "by the last count, which may be some seconds old"
}

func messages(n int64) string {
	if n == 1 {
		return "1 message is"
	}
	return fmt.Sprintf("%d messages are", n)
}

// fate is the way of messages that wait: at once with force_destroy. With drain_timeout, it is what an apply does
// before the wait, and after a wait that leaves some.
type fate struct{ atOnce, before, after string }

var (
	fateInAll    = fate{"deletes waiting messages", "closes the entry and ", "opens the entry again"}
	fateInSome   = fate{"deletes waiting messages", "unbinds these queues and ", "binds the queues again"}
	fateOnTheWay = fate{"unbinds at once", "", "unbinds nothing"}
)

// of is the fate of these messages, in words.
func (f fate) of(waits Waiting, guard plan.Guard) string {
	const parked = "While messages are parked, the apply fails: consume or purge them first."
	text := "The apply will fail if one waits by then; drain_timeout makes it wait."
	if guard.Drain > 0 {
		text = fmt.Sprintf("The apply %swaits up to %s until all are delivered. If some are not, it %s and fails.",
			f.before, plaintext.Duration(guard.Drain), f.after)
	}
	switch isParked := waits.Parked.Messages > 0; {
	case guard.Force:
		return fmt.Sprintf("The apply %s, because force_destroy is true.", f.atOnce)
	case isParked && waits.Delayed == Tally{}:
		return parked
	case isParked:
		return text + " " + parked
	}
	return text
}

// waitingText says which messages an apply has met that was refused, and the ways out. Parks tells which queue is that
// of unroutable messages, and forced is what force_destroy does.
func waitingText(err *drain.NotEmptyError, guard plan.Guard, parks func(queue string) bool, forced string) string {
	var delayed, byQueue, overdue, parked bool
	lines := make([]string, len(err.Queues))
	for i, q := range err.Queues {
		lines[i] = fmt.Sprintf("queue %q: %s", q.Name, q.Text())
		delayed = delayed || !parks(q.Name) && (!q.Overdue || q.Delayed > 0)
		byQueue = byQueue || q.Delayed > 0
		overdue = overdue || q.Overdue
		parked = parked || parks(q.Name)
	}
	after, longer := "", ""
	if guard.Drain > 0 && delayed && !parked {
		after, longer = " after "+plaintext.Duration(guard.Drain), "a longer "
	}
	text := fmt.Sprintf("These messages wait%s:\n\n  %s\n\n", after, listed(lines))
	for _, way := range []struct {
		helps bool
		text  string
	}{
		{delayed, "Wait until the delayed messages are delivered, and try again. Or first apply " + longer +
			"drain_timeout, which makes the apply wait for them. "},
		{byQueue, "A queue delays messages by itself that a client has put back (delayed-retry-type), or that have a " +
			"time of their own (x-opt-delivery-time). "},
		{overdue, "Overdue messages find no queue, or a full one: bind a queue, or make room. RabbitMQ tries again " +
			"within three minutes, or six if a queue was full. "},
		{parked, "Parked messages do not leave the queue of unroutable messages by themselves: consume or purge it, " +
			"and try again. While publishers go on, a message may get there in the moment in which the entry closes. "},
	} {
		if way.helps {
			text += way.text
		}
	}
	return text + "To go on at once, first apply force_destroy = true, which " + forced
}

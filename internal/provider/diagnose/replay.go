package diagnose

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/replay"
)

// ReplayProgress says what has become of the messages so far.
func ReplayProgress(queue string, r replay.Report) string {
	text := fmt.Sprintf("Queue %q: %d of %s handled.", queue, r.Handled, plaintext.Count(r.There, "message"))
	for _, exchange := range slices.Sorted(maps.Keys(r.Published)) {
		text += fmt.Sprintf(" %d published again to exchange %q.", r.Published[exchange], exchange)
	}
	return text
}

// ParksNothing is for a cascade or ladder without a queue of unroutable messages.
func (s Subject) ParksNothing() diag.Diagnostic {
	return ErrorOn("entry_exchange", "Nothing is parked there",
		"The %s has no queue of unroutable messages. The %s is declared without park_unroutable, or its "+
			"alternate exchange is that of another application. There is nothing to replay.", s, s.Kind)
}

// Replayed says which messages stay parked after a replay, and what has ended it.
func (s Subject) Replayed(queue string, r replay.Report, err error) diag.Diagnostics {
	stay := stayParked(r)
	if err == nil && len(stay) == 0 {
		return nil
	}
	where := fmt.Sprintf("queue %q in vhost %q", queue, s.Vhost)
	if err == nil {
		return diag.Diagnostics{Warning(about("Messages stay parked", fmt.Sprintf("queue %q", queue), s.Vhost),
			"Of %s in %s, %d were published again. These messages are there now:\n\n  %s",
			plaintext.Count(r.There, "message"), where, r.Sum(), listed(stay))}
	}
	return explain(err, func(err error) diag.Diagnostic { return s.replayFailed(stay, r, err) },
		when(func(*replay.NotThereError) diag.Diagnostic {
			return Error("The queue of unroutable messages is missing", "There is no %s. A plan of the %s shows the "+
				"damage, and an apply repairs it.", where, s.Kind)
		}),
		when(func(e *replay.DropsError) diag.Diagnostic { return mayDrop(where, e) }))
}

func (s Subject) replayFailed(stay []string, r replay.Report, err error) diag.Diagnostic {
	d := s.Failed("replay all messages of", err)
	if r.There == 0 {
		return d
	}
	d = withMore(d, "No message is lost. Of %s, %d were published again. All other messages are still in the queue. "+
		"Invoke the action once more for them.", plaintext.Count(r.There, "message"), r.Sum())
	if len(stay) > 0 {
		d = withMore(d, "Of the messages that were handled, these are there now:\n\n  %s", listed(stay))
	}
	if r.BrokeOff && r.Handled > 0 {
		d = withMore(d, "The run broke off while messages were under way. RabbitMQ may have taken over up to %d of "+
			"those that are still in the queue. The next replay publishes these twice.", replay.MayDouble)
	}
	return d
}

// mayDrop is for a queue in which a message that stays may get lost.
func mayDrop(where string, e *replay.DropsError) diag.Diagnostic {
	const nothing = "Nothing was replayed. "
	if !e.Known {
		return Error("Delivery limit not known", nothing+"RabbitMQ does not tell yet which policy applies to the %s. "+
			"Try again in some seconds.", where)
	}
	return Error("The queue may drop messages", nothing+"The %s has a delivery limit of %d. Each replay gets and puts "+
		"back a message that stays, and RabbitMQ drops it after so many times. Raise the limit. The provider declares "+
		"such a queue with an x-delivery-limit of %d.", where, e.Limit, math.MaxInt32)
}

// stayReasons have the words for each reason of a message that stays.
var stayReasons = []struct {
	reason replay.Reason
	why    string
}{
	{replay.Malformed, "the key is malformed, and would be parked again. Publish them with a right key"},
	{replay.Foreign, "they were published to an exchange that is no part of this. Publish them to that one"},
	{replay.Unproven, "they are in the middle of their delay, and nothing proves how much of it is left"},
	{replay.Internal, "they are in the middle of their delay, and RabbitMQ takes no messages at an internal exchange"},
	{replay.FurtherKeys, "a header CC has further keys, so that copies of them may have arrived"},
	{replay.Waited, "a queue had delayed them before they came to the entry exchange, and nothing proves for how long"},
}

// stayParked lists how many messages stay in the queue, and why.
func stayParked(r replay.Report) (lines []string) {
	add := func(n int, why string) {
		if n > 0 {
			lines = append(lines, fmt.Sprintf("%s: %s.", plaintext.Count(n, "message"), strings.TrimSuffix(why, ".")))
		}
	}
	add(r.CameBack, "no binding took them, and they were parked again. Messages that were parked "+
		"meanwhile are among them")
	add(r.Returned, "no binding took them, and they stay as they are")
	add(r.Refused, "a queue refused them. The queue may be full")
	for _, each := range stayReasons {
		add(r.Stays[each.reason], each.why)
	}
	return lines
}

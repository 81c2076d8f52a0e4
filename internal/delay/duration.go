package delay

import (
	"strconv"
	"time"

	"github.com/xhit/go-str2duration/v2"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
)

// MaxTTL is the longest TTL of a queue: ten years, for classic and quorum queues,
// since RabbitMQ 3.10.2 (MAX_EXPIRY_TIMER in rabbit_misc).
const MaxTTL = 315_360_000_000 * time.Millisecond

const day = 24 * time.Hour

// writtenUnit is a unit that a duration is written in. Those for cascades have a word, too.
type writtenUnit struct {
	time.Duration
	letter, word string
}

// writtenUnits are all of them, the largest first.
var writtenUnits = []writtenUnit{
	{day, "d", "days"}, {time.Hour, "h", "hours"}, {time.Minute, "m", "minutes"}, {time.Second, "s", "seconds"},
	{time.Millisecond, "ms", "milliseconds"}, {time.Microsecond, "µs", ""}, {time.Nanosecond, "ns", ""},
}

// CommonUnits are days, hours, minutes, seconds and milliseconds.
func CommonUnits() (units []time.Duration) {
	for _, each := range writtenUnits {
		if each.word != "" {
			units = append(units, each.Duration)
		}
	}
	return units
}

// writtenAs is how a unit is written, empty if it is none of them.
func writtenAs(unit time.Duration) (as writtenUnit) {
	for _, each := range writtenUnits {
		if each.Duration == unit {
			as = each
		}
	}
	return as
}

// ParseDuration reads a duration in Go's syntax, and with "d" for 24 hours and "w" for 7 days: "1w2d", "1.5d", "36h".
func ParseDuration(text string) (time.Duration, error) { return str2duration.ParseDuration(text) }

// DurationText is a duration as it is written everywhere, in whole numbers of units: "30d", "1h30m", "1s500ms".
// ParseDuration reads it.
func DurationText(d time.Duration) string {
	text := ""
	if d < 0 {
		text = "-"
	}
	for _, unit := range writtenUnits {
		if n := int64(d / unit.Duration); n != 0 {
			text += strconv.FormatInt(max(n, -n), 10) + unit.letter
			d %= unit.Duration
		}
	}
	if text == "" {
		return "0s"
	}
	return text
}

// pictured is a limit as attributes take it, and in years where it has more than one.
func pictured(d time.Duration) string {
	switch text := DurationText(d); {
	case d == MaxTTL:
		return text + " (ten years)"
	case d > 365*day:
		return text + " (" + plaintext.Duration(d) + ")"
	default:
		return text
	}
}

package delay

import (
	"strconv"
	"time"

	"github.com/xhit/go-str2duration/v2"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
)

const day = 24 * time.Hour

// The units that a duration is written in, the largest first.
var writtenUnits = []struct {
	letter string
	unit   time.Duration
}{{"d", day}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond},
	{"µs", time.Microsecond}, {"ns", time.Nanosecond}}

// ParseDuration reads a duration in Go's syntax, and with "d" for 24 hours and "w" for 7 days: "1w2d", "1.5d", "36h".
func ParseDuration(text string) (time.Duration, error) { return str2duration.ParseDuration(text) }

// DurationText is a duration as it is written everywhere, in whole numbers of units: "30d", "1h30m", "1s500ms".
// ParseDuration reads it.
func DurationText(d time.Duration) string {
	text := ""
	if d < 0 {
		text = "-"
	}
	for _, written := range writtenUnits {
		if n := int64(d / written.unit); n != 0 {
			text += strconv.FormatInt(max(n, -n), 10) + written.letter
			d %= written.unit
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

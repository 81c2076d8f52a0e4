package delay

import (
	"strconv"
	"strings"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
)

// mostSpelled is the longest duration that is written in hours and so on, six weeks. Nobody can picture 74565h24m15s.
const mostSpelled = 999 * time.Hour

// DurationText is a duration in the shortest form that people read and attributes take, in Go's syntax: "36h" and
// "1m30s", without units that are zero. A longer one is written in seconds where that is shorter.
func DurationText(d time.Duration) string {
	text := d.String()
	if cut, ok := strings.CutSuffix(text, "m0s"); ok {
		text = cut + "m"
	}
	text = strings.Replace(text, "h0m", "h", 1)
	if d.Abs() <= mostSpelled || d%time.Millisecond != 0 {
		return text
	}
	if seconds := strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"; len(seconds) < len(text) {
		return seconds
	}
	return text
}

// pictured is a limit as attributes take it, and in words where nobody can picture that.
func pictured(d time.Duration) string {
	switch text := DurationText(d); {
	case d == MaxTTL:
		return text + " (ten years)"
	case d > mostSpelled:
		return text + " (" + plaintext.Duration(d) + ")"
	default:
		return text
	}
}

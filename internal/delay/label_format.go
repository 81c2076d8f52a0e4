package delay

import (
	"fmt"
	"slices"
	"strings"
)

// LabelFormat names the queues of a ladder by the labels of their delays: a text with one verb, %s, such as
// "retry.delay-%s". A literal percent sign is written %%. A ladder with a single rung needs no verb.
type LabelFormat string

// Name is the name of the queue with the label. The format has to be valid.
func (f LabelFormat) Name(label string) string {
	return strings.NewReplacer("%%", "%", "%s", label).Replace(string(f))
}

// Same tells whether both formats give the same names to the delays.
func (f LabelFormat) Same(other LabelFormat, delays []string) bool {
	return !slices.ContainsFunc(delays, func(label string) bool { return f.Name(label) != other.Name(label) })
}

// check says what to change in the format, and nothing if it suits so many rungs.
func (f LabelFormat) check(rungs int) string {
	rest := strings.ReplaceAll(string(f), "%%", "")
	verbs := strings.Count(rest, "%s")
	switch {
	case strings.Count(rest, "%") > verbs:
		return "has a percent sign that begins no %s; the delay is written %s, a literal percent sign %%"
	case verbs > 1:
		return fmt.Sprintf("has %%s %d times; once is enough, in the place of the delay", verbs)
	case verbs == 0 && rungs > 1:
		return fmt.Sprintf("has no %%s in the place of the delay; without it, all %d delays would have the same queue",
			rungs)
	}
	return ""
}

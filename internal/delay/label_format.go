package delay

import (
	"fmt"
	"regexp"
	"slices"
)

// LabelFormat names the queues of a ladder by the labels of their delays: a text with one verb, %s, such as
// "retry.delay-%s". A literal percent sign is written %%. A ladder with a single rung needs no verb.
type LabelFormat string

// Name is the name of the queue with the label. The format has to be valid.
func (f LabelFormat) Name(label string) string {
	return labelVerb.ReplaceAllStringFunc(string(f), func(found string) string {
		if found == "%s" {
			return label
		}
		return "%"
	})
}

// Same tells whether both formats give the same names to the delays.
func (f LabelFormat) Same(other LabelFormat, delays []string) bool {
	return !slices.ContainsFunc(delays, func(label string) bool { return f.Name(label) != other.Name(label) })
}

// labelVerb is what may follow a percent sign.
var labelVerb = regexp.MustCompile(`%[%s]?`)

// check says what to change in the format, and nothing if it suits so many rungs.
func (f LabelFormat) check(rungs int) string {
	verbs := 0
	for _, found := range labelVerb.FindAllString(string(f), -1) {
		switch found {
		case "%":
			return "has a percent sign that begins no %s; the delay is written %s, a literal percent sign %%"
		case "%s":
			verbs++
		}
	}
	switch {
	case verbs > 1:
		return fmt.Sprintf("has %%s %d times; once is enough, in the place of the delay", verbs)
	case verbs == 0 && rungs > 1:
		return fmt.Sprintf("has no %%s in the place of the delay; without it, all %d delays would have the same queue",
			rungs)
	}
	return ""
}

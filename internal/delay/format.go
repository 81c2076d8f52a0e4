package delay

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Format names the objects of one kind by their level: a text with one integer verb, such as
// "tasks.delay-%02d". Queues in a base over 2 have a second verb, for the digit: "tasks.delay-%02d-%x". With units and
// in a ladder, it has a %s, for a label: the units from a level on, or the delay of a queue. A ladder with a single
// rung needs none. A literal percent sign is written %%.
type Format string

// Name is the name of the object at a level. The format has to be valid.
func (f Format) Name(level int) string { return fmt.Sprintf(string(f), level) }

// Queue is the name of the level's queue for the digit. The format has to be valid for the base.
func (f Format) Queue(base, level, digit int) string {
	if base == DefaultBase {
		return f.Name(level)
	}
	return fmt.Sprintf(string(f), level, digit)
}

// Labelled is the name with a label. The format has to be valid for units or for a ladder.
func (f Format) Labelled(label string) string {
	return strings.NewReplacer("%%", "%", "%s", label).Replace(string(f))
}

// checkText returns an error unless the format has exactly one %s and nothing else that a percent sign begins.
func (f Format) checkText() error {
	verbs := strings.ReplaceAll(string(f), "%%", "")
	if strings.Count(verbs, "%") != 1 || !strings.Contains(verbs, "%s") {
		return errors.New("has to have exactly one %s, in the place of the units, unless levels or base is given. " +
			"Write a literal percent sign as %%")
	}
	return nil
}

// Same tells whether both formats give the same names to so many levels.
func (f Format) Same(other Format, levels int) bool { return f.SameQueues(other, DefaultBase, levels) }

// SameQueues tells whether both formats give the same names to the queues of so many levels.
func (f Format) SameQueues(other Format, base, levels int) bool {
	for level := range levels {
		for digit := 1; digit < base; digit++ {
			if f.Queue(base, level, digit) != other.Queue(base, level, digit) {
				return false
			}
		}
	}
	return true
}

// SameLabelled tells whether both formats give the same names to the labels.
func (f Format) SameLabelled(other Format, labels []string) bool {
	return !slices.ContainsFunc(labels, func(label string) bool { return f.Labelled(label) != other.Labelled(label) })
}

// checkRungs says what to change in the format of a ladder, and nothing if it suits so many rungs.
func (f Format) checkRungs(rungs int) string {
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

// verb is what may follow a percent sign: %%, %d or %x, also with a width, padded with blanks or zeros.
var verb = regexp.MustCompile(`%(%|0?[0-9]{0,2}[dx])?`)

// Check returns an error unless the format has exactly one integer verb and nothing else that
// a percent sign begins.
func (f Format) Check() error {
	integers, ok := f.integers()
	isDigit := func(verb string) bool { return strings.HasSuffix(verb, "x") }
	switch {
	case !ok || slices.ContainsFunc(integers, isDigit):
		return errors.New("has a percent sign that begins no %d. Write the level as %d or %02d, and a literal " +
			"percent sign as %%")
	case len(integers) != 1:
		return fmt.Errorf("has %d integer verbs. Write exactly one, %%d or %%02d, in the place of the level",
			len(integers))
	}
	return nil
}

// integers are the integer verbs. Not ok is a format with a percent sign that begins nothing.
func (f Format) integers() (verbs []string, ok bool) {
	found := verb.FindAllString(string(f), -1)
	verbs = slices.DeleteFunc(found, func(verb string) bool { return verb == "%%" })
	return verbs, !slices.Contains(verbs, "%")
}

// checkQueue is Check for the names of queues in the base.
func (f Format) checkQueue(base int) error {
	if base == DefaultBase {
		return f.Check()
	}
	integers, ok := f.integers()
	switch {
	case !ok:
		return errors.New("has a percent sign that begins no %d or %x. Write the level as %d or %02d, the digit " +
			"as %x or %d, and a literal percent sign as %%")
	case len(integers) != 2:
		return fmt.Errorf("has %d integer verbs. In base %d write exactly two: first %%d or %%02d for the level, then "+
			"%%x or %%d for the digit", len(integers), base)
	case strings.HasSuffix(integers[0], "x"):
		return fmt.Errorf("has %s in the place of the level. Write the level first, as %%d or %%02d, then the digit, "+
			"as %%x or %%d", integers[0])
	}
	return nil
}

// Escape makes a text stand for itself within a format.
func Escape(text string) string { return strings.ReplaceAll(text, "%", "%%") }

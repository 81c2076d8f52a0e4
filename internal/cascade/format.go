package cascade

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Format names the objects of one kind by their level: a text with one integer verb, such as
// "tasks.delay-%02d". Queues in a base over 2 have a second verb, for the digit: "tasks.delay-%02d-%x". A literal
// percent sign is written %%.
type Format string

// Name is the name of the object at a level. The format has to be valid.
func (f Format) Name(level int) string { return fmt.Sprintf(string(f), level) }

// queue is the name of the level's queue for the digit. The format has to be valid for the base.
func (f Format) queue(base, level, digit int) string {
	if base == DefaultBase {
		return f.Name(level)
	}
	return fmt.Sprintf(string(f), level, digit)
}

// Same tells whether both formats give the same names to so many levels.
func (f Format) Same(other Format, levels int) bool { return sameNames([]Format{f, other}, levels) }

// SameQueues tells whether both formats give the same names to the queues of so many levels.
func (f Format) SameQueues(other Format, base, levels int) bool {
	for level := range levels {
		for digit := 1; digit < base; digit++ {
			if f.queue(base, level, digit) != other.queue(base, level, digit) {
				return false
			}
		}
	}
	return true
}

// verb is what may follow a percent sign: %%, %d, and %d with a width, padded with blanks or zeros.
var verb = regexp.MustCompile(`%(%|0?[0-9]{0,2}d)?`)

// Check returns an error unless the format has exactly one integer verb and nothing else that
// a percent sign begins.
func (f Format) Check() error {
	integers := 0
	for _, found := range verb.FindAllString(string(f), -1) {
		switch found {
		case "%":
			return errors.New("has a percent sign that begins no %d; the level is written %d or %02d, a literal " +
				"percent sign %%")
		case "%%":
		default:
			integers++
		}
	}
	if integers != 1 {
		return fmt.Errorf("has %d integer verbs; exactly one is needed, %%d or %%02d, in the place of the level",
			integers)
	}
	return nil
}

// digitVerb is like verb, and may be %x where %d may be.
var digitVerb = regexp.MustCompile(`%(%|0?[0-9]{0,2}[dx])?`)

// checkQueue is Check for the names of queues in the base.
func (f Format) checkQueue(base int) error {
	if base == DefaultBase {
		return f.Check()
	}
	var integers []string
	for _, found := range digitVerb.FindAllString(string(f), -1) {
		switch found {
		case "%":
			return errors.New("has a percent sign that begins no %d or %x; the level is written %d or %02d, the " +
				"digit %x or %d, a literal percent sign %%")
		case "%%":
		default:
			integers = append(integers, found)
		}
	}
	switch {
	case len(integers) != 2:
		return fmt.Errorf("has %d integer verbs; in base %d exactly two are needed, first %%d or %%02d in the place "+
			"of the level, then %%x or %%d in the place of the digit", len(integers), base)
	case strings.HasSuffix(integers[0], "x"):
		return fmt.Errorf("has %s in the place of the level, which is written %%d or %%02d; the verb of the digit, "+
			"%%x or %%d, is the second one", integers[0])
	}
	return nil
}

// Escape makes a text stand for itself within a format.
func Escape(text string) string { return strings.ReplaceAll(text, "%", "%%") }

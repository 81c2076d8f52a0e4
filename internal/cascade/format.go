package cascade

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Format names the objects of one kind by their level: a text with one integer verb, such as
// "tasks.delay-%02d". A literal percent sign is written %%.
type Format string

// verb is what may follow a percent sign: %%, %d, and %d with a width, padded with blanks or zeros.
var verb = regexp.MustCompile(`%(%|0?[0-9]{0,2}d)?`)

// Name is the name of the object at a level. The format has to be valid.
func (f Format) Name(level int) string { return fmt.Sprintf(string(f), level) }

// Check returns an error unless the format has exactly one integer verb and nothing else that
// a percent sign begins.
func (f Format) Check() error {
	integers := 0
	for _, found := range verb.FindAllString(string(f), -1) {
		switch found {
		case "%":
			return errors.New("has a percent sign that begins no %d; the level is written %d or %02d, a literal percent sign %%")
		case "%%":
		default:
			integers++
		}
	}
	if integers != 1 {
		return fmt.Errorf("has %d integer verbs; exactly one is needed, %%d or %%02d, in the place of the level", integers)
	}
	return nil
}

// Escape makes a text stand for itself within a format.
func Escape(text string) string { return strings.ReplaceAll(text, "%", "%%") }

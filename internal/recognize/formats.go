package recognize

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
)

// exchangeFormats are the formats that give a name to a level, the likeliest first. The level is more likely at the
// end, and more likely padded with zeros than bare or padded with blanks.
func exchangeFormats(name string, level int) []delay.Format {
	var formats []delay.Format
	for _, n := range numeralsIn(name, level, "d") {
		formats = append(formats, delay.Format(delay.Escape(n.before)+n.verb+delay.Escape(n.behind)))
	}
	return formats
}

// place is where a message waits that has the number at the level.
type place struct{ level, number int }

// queueFormats are the formats that give a name to a level's queue for a digit in a base over 2, the likeliest first.
func queueFormats(name string, at place) []delay.Format {
	var formats []delay.Format
	for _, level := range numeralsIn(name, at.level, "d") {
		for _, digit := range numeralsIn(level.behind, at.number, "x") {
			formats = append(formats, delay.Format(delay.Escape(level.before)+level.verb+
				delay.Escape(digit.before)+digit.verb+delay.Escape(digit.behind)))
		}
	}
	return formats
}

// textFormats are the formats that give a name with the text, the likeliest first: it stands rather at the end.
func textFormats(name, text string) (formats []delay.Format) {
	for at := strings.LastIndex(name, text); at >= 0; at = strings.LastIndex(name[:at+len(text)-1], text) {
		formats = append(formats, delay.Format(delay.Escape(name[:at])+"%s"+delay.Escape(name[at+len(text):])))
	}
	return formats
}

// numeral is a number within a name, and the verb that writes it.
type numeral struct{ before, verb, behind string }

const widestVerb = 99

// numeralsIn are the places of a number in a name, the likeliest first. The letter is that of the verb.
func numeralsIn(name string, number int, letter string) (numerals []numeral) {
	for end := len(name); end > 0; end-- {
		if !strings.HasSuffix(name[:end], strconv.Itoa(number)) {
			continue
		}
		written := func(verb string) (found []numeral) {
			if before, ok := strings.CutSuffix(name[:end], fmt.Sprintf(verb, number)); ok {
				found = append(found, numeral{before, verb, name[end:]})
			}
			return found
		}
		padded := func(flag string) (all []numeral) {
			for width, found := 2, []numeral{{}}; len(found) > 0 && width <= widestVerb; width++ {
				found = written(fmt.Sprintf("%%%s%d%s", flag, width, letter))
				all = append(found, all...)
			}
			return all
		}
		numerals = slices.Concat(numerals, padded("0"), written("%"+letter), padded(""))
	}
	return numerals
}

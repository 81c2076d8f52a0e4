package recognize

import (
	"fmt"
	"strconv"

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

// queueFormats are the formats that give a name to a level's queue for a digit in a base over 2, the likeliest first.
func queueFormats(name string, at place) []delay.Format {
	var formats []delay.Format
	for _, level := range numeralsIn(name, at.level, "d") {
		for _, digit := range numeralsIn(level.behind, at.digit, "x") {
			formats = append(formats, delay.Format(delay.Escape(level.before)+level.verb+
				delay.Escape(digit.before)+digit.verb+delay.Escape(digit.behind)))
		}
	}
	return formats
}

// numeral is a number within a name, and the verb that writes it.
type numeral struct{ before, verb, behind string }

// numeralsIn are the places of a number in a name, the likeliest first. The letter is that of the verb.
func numeralsIn(name string, number int, letter string) []numeral {
	digits := strconv.Itoa(number)
	var numerals []numeral
	for end := len(name); end >= len(digits); end-- {
		start := end - len(digits)
		if name[start:end] != digits {
			continue
		}
		padded := func(padding byte, flag string) {
			first := start
			for first > 0 && name[first-1] == padding && end-first < 99 {
				first--
			}
			for ; first < start || first == start && len(digits) > 1; first++ {
				verb := fmt.Sprintf("%%%s%d%s", flag, end-first, letter)
				numerals = append(numerals, numeral{name[:first], verb, name[end:]})
			}
		}
		padded('0', "0")
		numerals = append(numerals, numeral{name[:start], "%" + letter, name[end:]})
		padded(' ', "")
	}
	return numerals
}

package cascade

import (
	"fmt"
	"strconv"
	"strings"
)

// digitWord is the word of a routing key that stands for the digit.
func digitWord(digit int) string { return strconv.FormatInt(int64(digit), MaxBase) }

// parseDigit is the inverse of digitWord. Not ok is a word that is no digit of the base.
func parseDigit(base int, word string) (digit int, ok bool) {
	if len(word) != 1 {
		return 0, false
	}
	digit = strings.Index("0123456789abcdef"[:base], word)
	return digit, digit >= 0
}

// digitsText lists the digits of the base.
func digitsText(base int) string {
	const decimals = 10
	last := digitWord(base - 1)
	switch {
	case base == MinBase:
		return "0 or 1"
	case base <= decimals:
		return "0 to " + last
	case base == decimals+1:
		return "0 to 9 or a, in lowercase"
	}
	return fmt.Sprintf("0 to 9 or a to %s, in lowercase", last)
}

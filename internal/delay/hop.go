package delay

import (
	"regexp"
	"strconv"
	"strings"
)

// Hop is a way on from the exchange of a level, as the key of its binding says. Of all messages that come by, the
// binding takes those with so many zeros and then the number.
type Hop struct {
	// Above is the number of words that the levels above have looked at.
	Above int
	Zeros int
	// Number is that of the queue to which the hop leads, 0 for a hop to an exchange.
	Number int
	// Below is the number of words that a strict entry asks for: one for each level left, and one for the address.
	Below int
}

// Words is the number of words that the exchange looks at.
func (h Hop) Words() int {
	if h.Number > 0 {
		return h.Zeros + 1
	}
	return h.Zeros
}

// Key is the key of the binding.
func (h Hop) Key() string {
	key := strings.Repeat("*.", h.Above) + strings.Repeat("0.", h.Zeros)
	if h.Number > 0 {
		key += strconv.Itoa(h.Number) + "."
	}
	return key + strings.Repeat("*.", h.Below) + "#"
}

var hopKey = regexp.MustCompile(`^((?:\*\.)*)((?:0\.)*)(?:([1-9][0-9]{0,3})\.)?((?:\*\.)*)#$`)

// ParseHop is the inverse of Key. Not ok is a key of another kind.
func ParseHop(key string) (h Hop, ok bool) {
	part := hopKey.FindStringSubmatch(key)
	if part == nil {
		return h, false
	}
	words := func(i int) int { return strings.Count(part[i], ".") }
	h = Hop{Above: words(1), Zeros: words(2), Below: words(4)}
	h.Number, _ = strconv.Atoi(part[3])
	return h, h.Words() > 0 && (h.Above == 0 || h.Below == 0)
}

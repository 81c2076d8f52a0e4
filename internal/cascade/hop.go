package cascade

import (
	"regexp"
	"slices"
	"strings"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// hop is a binding with the key of a level exchange. The key has a "*" for each digit that the levels above have looked
// at, then zeros. It ends with another digit if it leads to a queue. At a strict entry a "*" follows for each digit
// left and one for the address.
type hop struct {
	stars, zeros, tail int
	// digit is that of the queue, 0 for a hop to an exchange.
	digit int
	to    string
}

var hopKey = regexp.MustCompile(`^((?:\*\.)*)((?:0\.)*)(?:([1-9])\.)?((?:\*\.)*)#$`)

// hopsOf are the hops among the bindings of an exchange, and how many digits they skip. That is what
// most of them say, since others may have bound something beside; in doubt it is no entry.
func hopsOf(bindings []topology.Binding) (hops []hop, stars int) {
	count := map[int]int{}
	for _, b := range bindings {
		part := hopKey.FindStringSubmatch(b.RoutingKey)
		if part == nil || b.Arguments != "" {
			continue
		}
		words := func(i int) int { return strings.Count(part[i], ".") }
		h := hop{stars: words(1), zeros: words(2), tail: words(4), to: b.Destination}
		h.digit, _ = parseDigit(MaxBase, part[3])
		if h.digits() == 0 || h.stars > 0 && h.tail > 0 || h.waits() != (b.DestinationType == topology.ToQueue) {
			continue
		}
		hops = append(hops, h)
		count[h.stars]++
	}
	for n := range count {
		if count[n] > count[stars] || count[n] == count[stars] && n > stars {
			stars = n
		}
	}
	return slices.DeleteFunc(hops, func(h hop) bool { return h.stars != stars }), stars
}

// waits tells whether the hop leads to a queue.
func (h hop) waits() bool { return h.digit > 0 }

// digits is how many digits the hop looks at.
func (h hop) digits() int {
	if h.waits() {
		return h.zeros + 1
	}
	return h.zeros
}

package cascade

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// MaxKeyBytes is the longest routing key that AMQP 0-9-1 can carry, and the longest name of an
// exchange or queue.
const MaxKeyBytes = 255

// RoutingKey is the key that sends a message to the destination after the delay: the delay in
// steps of the resolution, in binary with one digit for each level, most significant first, then
// the destination. A delay between two steps is rounded up, so that no message is early. A delay
// out of range, an empty destination and a key of more than 255 bytes are errors, as is a number
// of levels that no cascade of the resolution can have.
func RoutingKey(delay time.Duration, levels int, resolution time.Duration, destination string) (string, error) {
	if err := checkLevels(levels, resolution); err != nil {
		return "", err
	}
	if delay < 0 {
		return "", fmt.Errorf("the delay %s is negative", delay)
	}
	steps := int64(delay / resolution)
	if delay%resolution != 0 {
		steps++
	}
	if steps > maxSteps(levels) {
		return "", fmt.Errorf("the delay %s is longer than %s, the longest that %d levels of %s can give",
			delay, longestDelay(levels, resolution), levels, resolution)
	}
	if destination == "" {
		return "", errors.New("the destination is empty")
	}
	var key strings.Builder
	for level := levels - 1; level >= 0; level-- {
		fmt.Fprintf(&key, "%d.", steps>>level&1)
	}
	key.WriteString(destination)
	if key.Len() > MaxKeyBytes {
		return "", fmt.Errorf("the routing key for destination %q has %d bytes; AMQP allows %d, which leaves %d for a destination behind %d levels",
			destination, key.Len(), MaxKeyBytes, MaxKeyBytes-2*levels, levels)
	}
	return key.String(), nil
}

// maxSteps is the longest delay of a cascade in steps of its resolution.
func maxSteps(levels int) int64 { return 1<<levels - 1 }

// waitKey matches, at the exchange of the level, the messages whose next set bit is `zeros` levels
// further down.
func (c Config) waitKey(level, zeros int) string {
	return c.bindingKey(level, append(repeat("0", zeros), "1"))
}

// passKey matches, at the exchange of the level, the messages whose next `zeros` bits are clear.
func (c Config) passKey(level, zeros int) string {
	return c.bindingKey(level, repeat("0", zeros))
}

// bindingKey is the key of a binding of the level's exchange that looks at the digits from the
// level downwards.
func (c Config) bindingKey(level int, digits []string) string {
	words := append(repeat("*", c.Levels-1-level), digits...)
	if c.StrictKeys && level == c.Levels-1 {
		const firstWordOfDestination = 1
		words = append(words, repeat("*", c.Levels-len(words)+firstWordOfDestination)...)
	}
	return strings.Join(append(words, "#"), ".")
}

func repeat(word string, times int) []string {
	words := make([]string, times, times+2)
	for i := range words {
		words[i] = word
	}
	return words
}

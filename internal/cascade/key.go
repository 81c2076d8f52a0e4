package cascade

import (
	"fmt"
	"strconv"
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
// of levels that no cascade of the resolution can have. They are of type AttributeError and name
// the parameter that is wrong.
func RoutingKey(delay time.Duration, levels int, resolution time.Duration, destination string) (string, error) {
	if err := checkLevels(levels, resolution); err != nil {
		return "", err
	}
	if delay < 0 {
		return "", attributeError("delay", "is %s; a message cannot be delivered before it is sent", delay)
	}
	steps := int64(delay / resolution)
	if delay%resolution != 0 {
		steps++
	}
	if steps > maxSteps(levels) {
		return "", attributeError("delay", "is %s, longer than %s, the longest that %d levels of %s can give",
			delay, longestDelay(levels, resolution), levels, resolution)
	}
	if err := checkAddress("destination", destination, levels); err != nil {
		return "", err
	}
	var key strings.Builder
	for level := levels - 1; level >= 0; level-- {
		fmt.Fprintf(&key, "%d.", steps>>level&1)
	}
	key.WriteString(destination)
	return key.String(), nil
}

// BindingKey is the key of the two bindings that the exchange of a level needs, as frameworks declare
// them: with bit 1 the one to the level's queue, with bit 0 the one to the exchange below. It takes the
// digits of the levels above as they are. An error is of type AttributeError and names the parameter.
func BindingKey(level, levels, bit int) (string, error) {
	// No cascade has more levels than one of the finest resolution.
	if err := checkLevels(levels, time.Millisecond); err != nil {
		return "", err
	}
	if level < 0 || level >= levels {
		return "", attributeError("level", "is %d; with %d levels it can be 0, the lowest, to %d, the entry", level, levels, levels-1)
	}
	if bit != 0 && bit != 1 {
		return "", attributeError("bit", "is %d; it can be 1, which leads to the queue, or 0, which leads past it", bit)
	}
	return Config{Levels: levels}.bindingKey(level, []string{strconv.Itoa(bit)}), nil
}

// DestinationKey is the key with which the delivery exchange is bound to what takes the messages for one
// address: a "*" for each digit, then the address. It matches no other address, unless the address has
// a word "*" or "#" itself. An error is of type AttributeError and names the parameter.
func DestinationKey(levels int, address string) (string, error) {
	if err := checkLevels(levels, time.Millisecond); err != nil {
		return "", err
	}
	if err := checkAddress("address", address, levels); err != nil {
		return "", err
	}
	return strings.Repeat("*.", levels) + address, nil
}

// checkAddress checks what follows the digits of a key.
func checkAddress(parameter, address string, levels int) error {
	if address == "" {
		return attributeError(parameter, "is empty; without it no key says where a message goes")
	}
	if most := MaxKeyBytes - 2*levels; len(address) > most {
		return attributeError(parameter, "is %q of %d bytes; behind %d levels it can have %d, because AMQP allows a key %d",
			address, len(address), levels, most, MaxKeyBytes)
	}
	return nil
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

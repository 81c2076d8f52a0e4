package delay

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// MaxKeyBytes is the longest routing key that AMQP 0-9-1 can carry, and the longest name of an
// exchange or queue.
const MaxKeyBytes = 255

// RoutingKey is the key that sends a message to the address after the delay. It has a word for each unit, the largest
// first, then the address. A delay is rounded up to the smallest unit, so that no message is early. A delay out of
// range, an empty address and a key of more than 255 bytes are errors. They are of type AttributeError and name the
// parameter that is wrong.
func (s Scale) RoutingKey(delay time.Duration, address string) (string, error) {
	if delay < 0 {
		return "", attributeError("delay", "is %s; a message cannot be delivered before it is sent", delay)
	}
	if delay > s.Longest {
		return "", attributeError("delay", "is %s, longer than %s, the longest that has a key here", delay,
			pictured(s.Longest))
	}
	words, rest := "", delay
	if over := delay % s.Resolution(); over > 0 {
		rest += s.Resolution() - over
	}
	for _, unit := range s.Units {
		words += strconv.Itoa(int(rest/unit)) + "."
		rest %= unit
	}
	return withAddress(words, address)
}

// ParseRoutingKey is the inverse of RoutingKey: what a cascade makes of a key. The first words are
// numbers, one for each unit; all that follows is the address, dots included. An error is of
// type AttributeError.
func (s Scale) ParseRoutingKey(key string) (delay time.Duration, address string, err error) {
	if key == "" {
		return 0, "", attributeError("key", "is empty")
	}
	if len(key) > MaxKeyBytes {
		return 0, "", attributeError("key", "is %q of %d bytes; AMQP allows %d", key, len(key), MaxKeyBytes)
	}
	levels := s.Levels()
	words := strings.SplitN(key, ".", levels+1)
	for i, word := range words[:min(levels, len(words))] {
		most := s.LargestNumber(levels - 1 - i)
		number, ok := parseNumber(most, word)
		if !ok {
			return 0, "", attributeError("key", "is %q, whose word %d is %q; the first %d words say the delay, and "+
				"this one has to be %s", key, i+1, word, levels, numbersText(most))
		}
		delay += time.Duration(number) * s.Units[i]
	}
	switch {
	case len(words) < levels:
		return 0, "", attributeError("key", "is %q, which has only %d words; %d levels need as many, then the "+
			"address", key, len(words), levels)
	case len(words) == levels || words[levels] == "":
		return 0, "", attributeError("key", "is %q, which has no address behind its first %d words", key, levels)
	case delay > s.Longest:
		return 0, "", attributeError("key", "is %q, a delay of %s; the longest that has a key here is %s", key, delay,
			pictured(s.Longest))
	}
	return delay, words[levels], nil
}

// parseNumber reads a word of a routing key. Not ok is a word that is no number up to the most, or is written otherwise
// than by RoutingKey.
func parseNumber(most int, word string) (number int, ok bool) {
	number, err := strconv.Atoi(word)
	return number, err == nil && strconv.Itoa(number) == word && 0 <= number && number <= most
}

// numbersText lists the numbers up to the most.
func numbersText(most int) string {
	switch most {
	case 0:
		return "0"
	case 1:
		return "0 or 1"
	}
	return fmt.Sprintf("0 to %d", most)
}

// BindingKey is the key of the bindings that the exchange of a level needs, as frameworks declare them. With digit 0 it
// leads to the exchange below, with another digit to the level's queue for that digit. It takes the digits of the
// levels above as they are. An error is of type AttributeError and names the parameter.
func BindingKey(level, levels, digit int) (string, error) {
	if err := checkAnyLevels(levels); err != nil {
		return "", err
	}
	if level < 0 || level >= levels {
		return "", attributeError("level", "is %d; with %d levels it can be 0, the lowest, to %d, the entry", level,
			levels, levels-1)
	}
	if digit < 0 || digit >= MaxBase {
		return "", attributeError("digit", "is %d; it can be 1 to %d, each of which leads to its queue, or 0, which "+
			"leads past them", digit, MaxBase-1)
	}
	h := Hop{Above: levels - 1 - level, Number: digit}
	if digit == 0 {
		h.Zeros = 1
	}
	return h.Key(), nil
}

// DestinationKey is the key that binds the delivery exchange to the destination of an address: a "*" for each level,
// then the address. It matches no other address, unless the address has a word "*" or "#" itself. An error is of type
// AttributeError and names the parameter.
func DestinationKey(levels int, address string) (string, error) {
	if err := checkAnyLevels(levels); err != nil {
		return "", err
	}
	return withAddress(strings.Repeat("*.", levels), address)
}

// checkAnyLevels is for where the resolution does not matter: no cascade has more levels than one of the finest.
func checkAnyLevels(levels int) error {
	if levels < 1 || levels > MaxLevels {
		return attributeError("levels", "is %d; it can be 1 to %d", levels, MaxLevels)
	}
	return nil
}

// withAddress is the key of words and an address behind them.
func withAddress(words, address string) (string, error) {
	if address == "" {
		return "", attributeError("address", "is empty; without it no key says where a message goes")
	}
	if most := MaxKeyBytes - len(words); len(address) > most {
		return "", attributeError("address", "is %q of %d bytes; it can have %d, because the words before it take %d "+
			"of the %d that AMQP allows a key", address, len(address), most, len(words), MaxKeyBytes)
	}
	return words + address, nil
}

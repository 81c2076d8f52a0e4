package cascade

import (
	"strings"
	"time"
)

// ParseRoutingKey is the inverse of RoutingKey: what a cascade makes of a key. The first words are
// the digits, one for each level; all that follows is the destination, dots included. An error is of
// type AttributeError and names the parameter that is wrong.
func ParseRoutingKey(key string, levels int, resolution time.Duration) (delay time.Duration, destination string, err error) {
	if err := checkLevels(levels, resolution); err != nil {
		return 0, "", err
	}
	if key == "" {
		return 0, "", attributeError("key", "is empty")
	}
	if len(key) > MaxKeyBytes {
		return 0, "", attributeError("key", "is %q of %d bytes; AMQP allows %d", key, len(key), MaxKeyBytes)
	}
	words := strings.SplitN(key, ".", levels+1)
	var steps int64
	for i, word := range words[:min(levels, len(words))] {
		if word != "0" && word != "1" {
			return 0, "", attributeError("key", "is %q, whose word %d is %q; the first %d words, one for each level, have to be 0 or 1",
				key, i+1, word, levels)
		}
		steps = steps<<1 | int64(word[0]-'0')
	}
	switch {
	case len(words) < levels:
		return 0, "", attributeError("key", "is %q, which has only %d digits; %d levels need as many, then the destination", key, len(words), levels)
	case len(words) == levels || words[levels] == "":
		return 0, "", attributeError("key", "is %q, which has no destination behind its %d digits", key, levels)
	}
	return time.Duration(steps) * resolution, words[levels], nil
}

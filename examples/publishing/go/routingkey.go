package main

import (
	"fmt"
	"strconv"
	"time"
)

// RoutingKey is the delay in steps of the resolution, then the address. The delay is rounded up so
// that no message is early. It is written in the base with one digit for each level.
func RoutingKey(
	delay time.Duration, levels int, resolution time.Duration, address string, base int,
) (string, error) {
	if base < 2 || base > 10 {
		return "", fmt.Errorf("the base is %d, not one of 2 to 10", base)
	}
	steps := int64(delay / resolution)
	if delay%resolution > 0 {
		steps++
	}
	key := address
	for range levels {
		key = strconv.FormatInt(steps%int64(base), 10) + "." + key
		steps /= int64(base)
	}
	if delay < 0 || steps > 0 {
		return "", fmt.Errorf("a delay of %s does not fit %d levels of %s in base %d", delay, levels, resolution, base)
	}
	if address == "" || len(key) > 255 {
		return "", fmt.Errorf("the address %q is empty or too long", address)
	}
	return key, nil
}

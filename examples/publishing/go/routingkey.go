package main

import (
	"fmt"
	"time"
)

// RoutingKey is the delay in steps of the resolution, rounded up so that no message is early, in binary
// with one digit for each level, then the destination.
func RoutingKey(delay time.Duration, levels int, resolution time.Duration, destination string) (string, error) {
	steps := int64(delay / resolution)
	if delay%resolution > 0 {
		steps++
	}
	if delay < 0 || steps >= 1<<levels {
		return "", fmt.Errorf("a delay of %s does not fit %d levels of %s", delay, levels, resolution)
	}
	key := ""
	for level := levels - 1; level >= 0; level-- {
		key += fmt.Sprintf("%d.", steps>>level&1)
	}
	key += destination
	if destination == "" || len(key) > 255 {
		return "", fmt.Errorf("the destination %q is empty or too long", destination)
	}
	return key, nil
}

package main

import (
	"fmt"
	"strconv"
	"time"
)

// RoutingKey has a number for each unit, the largest unit first, then the address. The delay is
// rounded up to the last unit so that no message is early.
func RoutingKey(delay time.Duration, unitsMS []int64, maxDelayMS int64, address string) (string, error) {
	if delay < 0 || delay > time.Duration(maxDelayMS)*time.Millisecond {
		return "", fmt.Errorf("a delay of %s is not within 0 to %d ms", delay, maxDelayMS)
	}
	last := unitsMS[len(unitsMS)-1]
	rest := int64((delay + time.Millisecond - 1) / time.Millisecond)
	rest = (rest + last - 1) / last * last
	key := ""
	for _, unit := range unitsMS {
		key += strconv.FormatInt(rest/unit, 10) + "."
		rest %= unit
	}
	key += address
	if address == "" || len(key) > 255 {
		return "", fmt.Errorf("the address %q is empty or too long", address)
	}
	return key, nil
}

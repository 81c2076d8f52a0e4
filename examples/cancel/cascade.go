package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"
)

// cascade is what publishers have to know of a cascade.
type cascade struct {
	EntryExchange string  `json:"entry_exchange"`
	UnitsMS       []int64 `json:"units_ms"`
	MaxDelayMS    int64   `json:"max_delay_ms"`
}

func cascadeFromEnvironment() (c cascade, err error) {
	err = json.Unmarshal([]byte(os.Getenv("PUBLISHER")), &c)
	if err != nil || c.EntryExchange == "" || len(c.UnitsMS) == 0 || slices.Min(c.UnitsMS) < 1 || c.MaxDelayMS < 1 {
		return c, fmt.Errorf("set PUBLISHER to the attribute publisher of the cascade, as JSON; %w", errUsage)
	}
	return c, nil
}

// key is the routing key for a delay, rounded up to the last unit: a number for each unit.
func (c cascade) key(delay time.Duration, address string) (string, error) {
	ms := int64((delay + time.Millisecond - 1) / time.Millisecond)
	if delay < 0 || ms > c.MaxDelayMS {
		return "", fmt.Errorf("the cascade delays by 0 to %d ms, not by %s; %w", c.MaxDelayMS, delay, errUsage)
	}
	last := c.UnitsMS[len(c.UnitsMS)-1]
	rest, key := (ms+last-1)/last*last, ""
	for _, unit := range c.UnitsMS {
		key += strconv.FormatInt(rest/unit, 10) + "."
		rest %= unit
	}
	return key + address, nil
}

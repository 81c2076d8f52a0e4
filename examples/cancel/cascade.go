package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// cascade is what publishers have to know of a cascade.
type cascade struct {
	EntryExchange string `json:"entry_exchange"`
	Base          int    `json:"base"`
	Levels        int    `json:"levels"`
	ResolutionMS  int64  `json:"resolution_ms"`
	MaxDelayMS    int64  `json:"max_delay_ms"`
}

func cascadeFromEnvironment() (c cascade, err error) {
	err = json.Unmarshal([]byte(os.Getenv("PUBLISHER")), &c)
	if err != nil || c.EntryExchange == "" || c.Base < 2 || c.Base > 10 || c.Levels < 1 || c.ResolutionMS < 1 ||
		c.MaxDelayMS < 1 {
		return c, fmt.Errorf("set PUBLISHER to the attribute publisher of the cascade, as JSON; %w", errUsage)
	}
	return c, nil
}

// key is the routing key for a delay, in whole steps and never less.
func (c cascade) key(delay time.Duration, address string) (string, error) {
	ms := int64((delay + time.Millisecond - 1) / time.Millisecond)
	if delay < 0 || ms > c.MaxDelayMS {
		return "", fmt.Errorf("the cascade delays by 0 to %d ms, not by %s; %w", c.MaxDelayMS, delay, errUsage)
	}
	steps := strconv.FormatInt((ms+c.ResolutionMS-1)/c.ResolutionMS, c.Base)
	digits := strings.Repeat("0", c.Levels-len(steps)) + steps
	return strings.Join(strings.Split(digits, ""), ".") + "." + address, nil
}

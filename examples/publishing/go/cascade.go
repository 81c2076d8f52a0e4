package main

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"time"
)

// Cascade is what publishers have to know of a cascade.
type Cascade struct {
	EntryExchange string  `json:"entry_exchange"`
	UnitsMS       []int64 `json:"units_ms"`
	MaxDelayMS    int64   `json:"max_delay_ms"`
}

// CascadeFromEnvironment reads the JSON in the environment variable PUBLISHER.
func CascadeFromEnvironment() (Cascade, error) {
	var c Cascade
	err := json.Unmarshal([]byte(os.Getenv("PUBLISHER")), &c)
	if err != nil || c.EntryExchange == "" || len(c.UnitsMS) == 0 || slices.Min(c.UnitsMS) < 1 || c.MaxDelayMS < 1 {
		return c, errors.New("set the environment variable PUBLISHER to JSON with a text entry_exchange, " +
			"a list units_ms of positive integers, and a positive integer max_delay_ms")
	}
	return c, nil
}

// RoutingKey is the key that delays a message in this cascade.
func (c Cascade) RoutingKey(delay time.Duration, address string) (string, error) {
	return RoutingKey(delay, c.UnitsMS, c.MaxDelayMS, address)
}

package main

import (
	"encoding/json"
	"errors"
	"os"
	"time"
)

// Cascade is what publishers have to know of a cascade.
type Cascade struct {
	EntryExchange string `json:"entry_exchange"`
	Base          int    `json:"base"`
	Levels        int    `json:"levels"`
	ResolutionMS  int64  `json:"resolution_ms"`
}

// CascadeFromEnvironment reads the JSON in the environment variable PUBLISHER.
func CascadeFromEnvironment() (Cascade, error) {
	var c Cascade
	err := json.Unmarshal([]byte(os.Getenv("PUBLISHER")), &c)
	if err != nil || c.EntryExchange == "" || c.Base < 1 || c.Levels < 1 || c.ResolutionMS < 1 {
		return c, errors.New("set the environment variable PUBLISHER to JSON with a text entry_exchange " +
			"and positive integers base, levels and resolution_ms")
	}
	return c, nil
}

// RoutingKey is the key that delays a message in this cascade.
func (c Cascade) RoutingKey(delay time.Duration, address string) (string, error) {
	return RoutingKey(delay, c.Levels, time.Duration(c.ResolutionMS)*time.Millisecond, address, c.Base)
}

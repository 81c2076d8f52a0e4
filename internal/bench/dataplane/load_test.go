package dataplane

import (
	"testing"
	"time"
)

// Batches of confirmations count as what lies between their ends.
func TestPerSecond(t *testing.T) {
	var acks []time.Duration
	for second := range 4 {
		for i := range 400 {
			acks = append(acks, time.Duration(second)*time.Second+time.Duration(i)*time.Microsecond)
		}
	}
	if got, err := perSecond(acks); err != nil || got < 399 || got > 401 {
		t.Errorf("got %f, %v", got, err)
	}
	if _, err := perSecond(acks[:400]); err == nil {
		t.Error("a single batch has a rate")
	}
}

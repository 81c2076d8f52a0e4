package drain

import (
	"testing"
	"time"
)

// TestText says what a queue holds. A time that is too early would have somebody try again in vain.
func TestText(t *testing.T) {
	noon := time.Date(2026, 1, 1, 13, 0, 0, 0, time.FixedZone("", 3600))
	for name, test := range map[string]struct {
		depth QueueDepth
		want  string
	}{
		"one":      {QueueDepth{Messages: 1}, "1"},
		"overdue":  {QueueDepth{Messages: 2, Overdue: true}, "2, overdue"},
		"consumed": {QueueDepth{Messages: 2, Consumers: 1}, "2, consumers: 1"},
		"all are delayed, until one time": {QueueDepth{Messages: 2, Delayed: 2, NextDelayed: noon, LastDelayed: noon},
			"2, delayed by the queue until 2026-01-01T12:00:00Z"},
		"more are delayed than counted": {QueueDepth{Messages: 2, Delayed: 3, NextDelayed: noon, LastDelayed: noon},
			"2, delayed by the queue until 2026-01-01T12:00:00Z"},
		"some are delayed": {QueueDepth{Messages: 3, Delayed: 1, NextDelayed: noon, LastDelayed: noon},
			"3, 1 of them delayed by the queue until 2026-01-01T12:00:00Z"},
		"a part of a second": {QueueDepth{Messages: 1, Delayed: 1, NextDelayed: noon.Add(1), LastDelayed: noon.Add(1)},
			"1, delayed by the queue until 2026-01-01T12:00:01Z"},
		"until two times in a second": {QueueDepth{Messages: 2, Delayed: 2, NextDelayed: noon.Add(1),
			LastDelayed: noon.Add(time.Second)}, "2, delayed by the queue until 2026-01-01T12:00:01Z"},
		"until two times": {QueueDepth{Messages: 2, Delayed: 2, NextDelayed: noon, LastDelayed: noon.Add(1)},
			"2, delayed by the queue until 2026-01-01T12:00:00Z, the last until 2026-01-01T12:00:01Z"},
		"all of it": {QueueDepth{Messages: 3, Delayed: 2, NextDelayed: noon, LastDelayed: noon, Overdue: true,
			Consumers: 4},
			"3, 2 of them delayed by the queue until 2026-01-01T12:00:00Z, overdue, consumers: 4"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.depth.Text(); got != test.want {
				t.Error(got)
			}
		})
	}
}

// TestNotEmptyError has the sum in one line, and each queue in a line of the details.
func TestNotEmptyError(t *testing.T) {
	err := &NotEmptyError{Vhost: "v", Why: "the deletion", Queues: []QueueDepth{{Name: "q", Messages: 2},
		{Name: "r", Messages: 3, Overdue: true}}}
	if got, want := err.Error(), `the deletion in vhost "v" is not possible while messages wait: 5 in queue "q" (2), `+
		`queue "r" (3, overdue)`; got != want {
		t.Error(got)
	}
	if got, want := err.Summary(), "RabbitMQ: messages are waiting"; got != want {
		t.Error(got)
	}
	want := "The deletion in vhost \"v\" is not possible while queues hold messages, which would be lost:\n\n" +
		"  \"q\": 2\n  \"r\": 3, overdue\n\nTry again when they are delivered or consumed."
	if got := err.Detail(); got != want {
		t.Error(got)
	}
}

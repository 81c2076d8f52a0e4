package acceptance

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/docstest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
)

// The times of examples/recurring, on days that have 23 and 25 hours, and after a worker was away.
func TestRecurringTimes(t *testing.T) {
	t.Parallel()
	python := languages["python"].interpreter(t, "import pika")
	for _, c := range []struct{ schedule, last, now, want string }{
		{"30s", "2026-11-25T10:00:00+00:00", "2026-11-25T10:00:00+00:00", "2026-11-25T10:00:30+00:00"},
		{"30s", "2026-11-25T10:00:00+00:00", "2026-11-25T10:00:29+00:00", "2026-11-25T10:00:30+00:00"},
		{"30s", "2026-11-25T10:00:00+00:00", "2026-11-25T11:00:01+00:00", "2026-11-25T11:00:30+00:00"},
		{"09:00 Europe/Berlin", "2026-11-25T08:00:00+00:00", "2026-11-25T08:00:02+00:00", "2026-11-26T09:00:00+01:00"},
		{"09:00 Europe/Berlin", "2026-11-25T07:00:00+00:00", "2026-11-25T07:00:00+00:00", "2026-11-25T09:00:00+01:00"},
		{"09:00 Europe/Berlin", "2026-03-28T08:00:00+00:00", "2026-03-28T08:00:00+00:00", "2026-03-29T09:00:00+02:00"},
		{"09:00 Europe/Berlin", "2026-10-24T07:00:00+00:00", "2026-10-24T07:00:00+00:00", "2026-10-25T09:00:00+01:00"},
		{"09:00 Europe/Berlin", "2026-11-01T08:00:00+00:00", "2026-11-25T12:00:00+00:00", "2026-11-26T09:00:00+01:00"},
	} {
		program := fmt.Sprintf("import recurring\nfrom datetime import datetime\nprint(recurring.next_time(%q, "+
			"datetime.fromisoformat(%q), datetime.fromisoformat(%q)).isoformat())", c.schedule, c.last, c.now)
		got := docstest.RunIn(t, filepath.Join(docstest.Examples, "recurring"), []string{"PYTHONDONTWRITEBYTECODE=1"},
			"", append(python, "-c", program)...)
		if got != c.want+"\n" {
			t.Errorf("%s after %s, at %s: %s, want %s", c.schedule, c.last, c.now, got, c.want)
		}
	}
}

// The worker of examples/recurring keeps a message coming back, until the command has enough. An occurrence that a
// killed worker has left twice is handled once, and there is one series afterwards.
func TestRecurringExample(t *testing.T) {
	t.Parallel()
	program := append(languages["python"].interpreter(t, "import pika"),
		filepath.Join(docstest.Examples, "recurring", "recurring.py"))
	mustSayUsage(t, append(program, "start", "reminders")...)
	inEachForm(t, func(c *exampleCascade) { c.keepsComingBack(program) })
}

func (c *exampleCascade) keepsComingBack(recurring []string) {
	const occurrences = 6
	v, t := c.Vhost, c.t
	program := func(arguments ...string) []string { return c.run(slices.Concat(recurring, arguments)...) }
	v.DeclareQueue("reminders", map[string]any{"x-queue-type": "quorum", "x-single-active-consumer": true})
	v.Bind("tasks.delivery", c.destination("reminders"), "queue", "reminders")
	directory := t.TempDir()
	handled, command := filepath.Join(directory, "handled"), filepath.Join(directory, "command")
	script := fmt.Sprintf("#!/bin/sh\ncat >> %[1]s\n[ $(wc -l < %[1]s) -lt %d ] || exit 10\n", handled, occurrences)
	if err := os.WriteFile(command, []byte(script), 0o700); err != nil { //nolint:gosec // it has to be executable
		t.Fatal(err)
	}
	times := func() int {
		text, _ := os.ReadFile(handled) //nolint:gosec // there is none before the first
		return strings.Count(string(text), "\n")
	}
	worker := program("work", "reminders", command)
	stop := docstest.Run(t, v, worker...)
	docstest.RunIn(t, ".", nil, "", program("start", "reminders", "daily", "1s", "hello\n")...)
	v.Eventually("the message has come back", func() bool { return times() >= 2 })
	stop()
	doubles(v, "reminders")
	docstest.Run(t, v, worker...)
	v.Eventually("the command has enough", func() bool { return times() >= occurrences })
	v.Settled("reminders")
	v.Settled(slices.Collect(maps.Keys(v.Objects().Queues))...)
	if n := times(); n != occurrences {
		t.Errorf("%d occurrences were handled, want %d", n, occurrences)
	}
}

// doubles puts the message of a queue into it twice.
func doubles(v *harness.Vhost, queue string) {
	v.T.Helper()
	v.Eventually("a message is in "+queue, func() bool { return v.Depth(queue) > 0 })
	channel, err := v.Conn.Channel()
	if err != nil {
		v.T.Fatal(err)
	}
	const autoAck, exclusive, noLocal, noWait = true, false, false, false // RabbitMQ 3 refuses a get here
	deliveries, err := channel.Consume(queue, "", autoAck, exclusive, noLocal, noWait, nil)
	if err != nil {
		v.T.Fatal(err)
	}
	message := <-deliveries
	if err := channel.Close(); err != nil {
		v.T.Fatal(err)
	}
	for range 2 {
		if err := v.Publisher().Publish(v.T.Context(), "", queue, amqp.Publishing{Headers: message.Headers,
			MessageId: message.MessageId, DeliveryMode: amqp.Persistent, Body: message.Body}); err != nil {
			v.T.Fatal(err)
		}
	}
}

// Command retry takes messages from a queue and lets those that fail come back later and later,
// through a ladder:
//
//	PUBLISHER='{"entry_exchange": ...}' go run . <queue> <command>
//
// PUBLISHER is the attribute publisher of the ladder, as JSON. The command gets the body on its
// standard input. If it fails, the worker publishes the message anew with the next of the delays. It
// acknowledges the old one when the broker has confirmed the new one: in doubt the message comes
// twice, and it is never lost. When there is no further delay, the worker rejects the message for
// good: give the queue a dead-letter exchange to keep it.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	amqp "github.com/rabbitmq/amqp091-go"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: retry <queue> <command>")
		os.Exit(2)
	}
	var to ladder
	if err := json.Unmarshal([]byte(os.Getenv("PUBLISHER")), &to); err != nil {
		fmt.Fprintln(os.Stderr, "set PUBLISHER to the attribute publisher of the ladder, as JSON:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	w := worker{queue: os.Args[1], command: os.Args[2], entry: to.EntryExchange, delays: to.labels()}
	if err := w.run(ctx); err != nil && ctx.Err() == nil {
		log.Fatal(err) //nolint:gocritic // The broker gives unacknowledged messages to another worker.
	}
}

// ladder is what a publisher has to know of it.
type ladder struct {
	EntryExchange string           `json:"entry_exchange"`
	DelaysMS      map[string]int64 `json:"delays_ms"`
}

// labels are the keys of the delays, the shortest first.
func (l ladder) labels() []string {
	return slices.SortedFunc(maps.Keys(l.DelaysMS), func(x, y string) int {
		return cmp.Or(cmp.Compare(l.DelaysMS[x], l.DelaysMS[y]), strings.Compare(x, y))
	})
}

type worker struct {
	queue, command, entry string
	delays                []string // the labels
	channel               *amqp.Channel
	returned              chan amqp.Return
}

func (w *worker) run(ctx context.Context) error {
	connection, err := amqp.Dial(os.Getenv("RABBITMQ_AMQP_URI"))
	if err != nil {
		return err
	}
	defer connection.Close()
	if w.channel, err = connection.Channel(); err != nil {
		return err
	}
	if err := w.channel.Confirm(false); err != nil {
		return err
	}
	w.returned = w.channel.NotifyReturn(make(chan amqp.Return, 1))
	// One at a time: how many messages wait for this worker.
	if err := w.channel.Qos(1, 0, false); err != nil {
		return err
	}
	const autoAck, exclusive, noLocal, noWait = false, false, false, false
	deliveries, err := w.channel.ConsumeWithContext(ctx, w.queue, "", autoAck, exclusive, noLocal, noWait, nil)
	if err != nil {
		return err
	}
	for d := range deliveries {
		if err := w.handle(ctx, d); err != nil {
			return err
		}
	}
	return errors.New("the connection is gone")
}

// handle runs the command and decides what becomes of the message.
func (w *worker) handle(ctx context.Context, d amqp.Delivery) error {
	command := exec.CommandContext(ctx, w.command)
	command.Stdin, command.Stderr = bytes.NewReader(d.Body), os.Stderr
	failure := command.Run()
	if failure == nil {
		return d.Ack(false)
	}
	retries := w.retries(d)
	if retries >= len(w.delays) {
		log.Printf("given up after %d attempts: %v", retries+1, failure)
		return d.Reject(false)
	}
	delay := w.delays[retries]
	log.Printf("attempt %d failed, again in %s: %v", retries+1, delay, failure)
	if err := w.again(ctx, d, delay); err != nil {
		return err
	}
	return d.Ack(false)
}

// retries is how many times the message has come back. RabbitMQ says in the first entry of x-death with which key the
// message has come to the queue where it has waited last.
func (w *worker) retries(d amqp.Delivery) int {
	deaths, _ := d.Headers["x-death"].([]any)
	if len(deaths) == 0 {
		return 0
	}
	death, _ := deaths[0].(amqp.Table)
	keys, _ := death["routing-keys"].([]any)
	if death["exchange"] != w.entry || len(keys) == 0 {
		return 0
	}
	return slices.IndexFunc(w.delays, func(label string) bool { return keys[0] == label }) + 1
}

// again publishes the message for a further attempt, and returns when the broker has taken
// responsibility for it.
func (w *worker) again(ctx context.Context, d amqp.Delivery, delay string) error {
	headers := amqp.Table{}
	for name, value := range d.Headers {
		if !isHarmful(name) {
			headers[name] = value
		}
	}
	const mandatory, immediate = true, false
	confirmation, err := w.channel.PublishWithDeferredConfirmWithContext(ctx, w.entry, delay, mandatory, immediate,
		amqp.Publishing{
			Headers: headers, ContentType: d.ContentType, DeliveryMode: amqp.Persistent, MessageId: d.MessageId,
			Timestamp: d.Timestamp, Body: d.Body,
		})
	if err != nil {
		return err
	}
	confirmed, err := confirmation.WaitContext(ctx)
	if err != nil {
		return err
	}
	if !confirmed {
		return errors.New("the broker refused the message")
	}
	select {
	case r := <-w.returned: // it comes before the confirmation
		return fmt.Errorf("no binding takes the key %q: %s", r.RoutingKey, r.ReplyText)
	default:
		return nil
	}
}

// isHarmful tells further keys, which RabbitMQ would use again, and the headers that it wrote
// during the delay. RabbitMQ 3 takes a message with such headers for one that goes in circles, lost
// or stuck. RabbitMQ 4.4 would hold one until x-opt-delivery-time.
func isHarmful(header string) bool {
	return slices.Contains([]string{"CC", "BCC", "x-death", "x-opt-delivery-time"}, header) ||
		strings.HasPrefix(header, "x-first-death-") || strings.HasPrefix(header, "x-last-death-")
}

// Command wheel is the controller of a wheel. After every wait of a message it decides, by the
// clock, whether and where the message waits again. Otherwise it delivers the message.
//
//	PUBLISHER='{"entry_exchange": ...}' go run . [<command>]
//
// PUBLISHER is the attribute publisher of the ladder, as JSON.
//
// A message for the wheel goes to the exchange "wheel.delivery" with the key "new.<address>" and
// the header "due", the time at which it is to be delivered, in milliseconds since 1970. It is
// delivered to the exchange "wheel.due" with the key "<address>": never before its time, and at
// most the shortest delay after it, as long as a controller runs.
//
// After every wait, and before it delivers, the controller asks the command, if there is one. The
// command gets the message's address, its ID and the time in "due", and the body on its standard
// input. It prints nothing to leave all as it is, "cancel", or another time in milliseconds since
// 1970, earlier or later. When it fails, the message is kept, and asked for again.
//
// The controller acknowledges a message when the broker has confirmed its successor. So no message
// is lost, however a controller ends, and a message between the two is delivered twice. Any number
// of controllers can run.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	delivery  = "wheel.delivery"   // of the ladder
	unrouted  = "wheel.unroutable" // of the ladder: what cannot be delivered is kept there
	queue     = "wheel.control"    // of the controllers
	due       = "wheel.due"        // where applications bind their queues
	dueHeader = "due"
	// atOnce is how many messages a controller works on at the same time, each with a channel
	// of its own.
	atOnce = 16
)

func main() {
	if len(os.Args) > 2 {
		fmt.Fprintln(os.Stderr, "usage: wheel [<command>]")
		os.Exit(2)
	}
	to, err := ladderFromEnvironment()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	command := strings.Join(os.Args[1:], "")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for ctx.Err() == nil {
		if err := run(ctx, to, command); err != nil && ctx.Err() == nil {
			log.Printf("begin anew in a second: %v", err)
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	}
}

// ladder is what a publisher has to know of it.
type ladder struct {
	EntryExchange string           `json:"entry_exchange"`
	DelaysMS      map[string]int64 `json:"delays_ms"`
	delays        []delay          // the longest first
}

// delay is one that the ladder has, with its label.
type delay struct {
	time.Duration
	label string
}

func ladderFromEnvironment() (ladder, error) {
	var l ladder
	if err := json.Unmarshal([]byte(os.Getenv("PUBLISHER")), &l); err != nil {
		return l, fmt.Errorf("set PUBLISHER to the attribute publisher of the ladder, as JSON: %w", err)
	}
	for label, ms := range l.DelaysMS {
		l.delays = append(l.delays, delay{time.Duration(ms) * time.Millisecond, label})
	}
	if len(l.delays) == 0 {
		return l, errors.New("PUBLISHER has no delays: it is not that of a ladder")
	}
	slices.SortFunc(l.delays, func(x, y delay) int { return int(y.Duration - x.Duration) })
	return l, nil
}

// run declares what belongs to the controllers and works until the connection or the context ends.
func run(ctx context.Context, to ladder, command string) error {
	connection, err := amqp.Dial(os.Getenv("RABBITMQ_AMQP_URI"))
	if err != nil {
		return err
	}
	defer connection.Close()
	if err := declare(connection); err != nil {
		return err
	}
	ended := make(chan error, atOnce)
	for range atOnce {
		w := worker{to: to, command: command}
		go func() { ended <- w.run(ctx, connection) }()
	}
	// One that ends takes the others along: the broker gives their messages to the next
	// controller.
	return <-ended
}

func declare(connection *amqp.Connection) error {
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	defer channel.Close()
	const durable, autoDelete, internal, exclusive, noWait = true, false, false, false, false
	if err := channel.ExchangeDeclare(due, "topic", durable, autoDelete, internal, noWait, nil); err != nil {
		return err
	}
	_, err = channel.QueueDeclare(queue, durable, autoDelete, exclusive, noWait, amqp.Table{
		"x-queue-type": "quorum", "x-dead-letter-exchange": unrouted, "x-dead-letter-strategy": "at-least-once",
		"x-overflow": "reject-publish",
		// A controller that is killed gives back what it held; that may happen often, and
		// is no reason to drop it.
		"x-delivery-limit": int32(1<<31 - 1),
	})
	if err != nil {
		return err
	}
	return channel.QueueBind(queue, "#", delivery, noWait, nil)
}

// worker takes one message after the other.
type worker struct {
	to       ladder
	command  string
	channel  *amqp.Channel
	returned chan amqp.Return
}

func (w *worker) run(ctx context.Context, connection *amqp.Connection) (err error) {
	if w.channel, err = connection.Channel(); err != nil {
		return err
	}
	if err := w.channel.Confirm(false); err != nil {
		return err
	}
	w.returned = w.channel.NotifyReturn(make(chan amqp.Return, 1))
	if err := w.channel.Qos(1, 0, false); err != nil {
		return err
	}
	const autoAck, exclusive, noLocal, noWait = false, false, false, false
	deliveries, err := w.channel.ConsumeWithContext(ctx, queue, "", autoAck, exclusive, noLocal, noWait, nil)
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

// handle lets the message wait again, or delivers it.
func (w *worker) handle(ctx context.Context, d amqp.Delivery) error {
	millis, timed := d.Headers[dueHeader].(int64)
	_, address, addressed := strings.Cut(d.RoutingKey, ".")
	if !timed || !addressed {
		log.Printf("rejected: a message with key %q and header %s = %v", d.RoutingKey, dueHeader, d.Headers[dueHeader])
		return d.Reject(false)
	}
	millis, wanted, err := w.ask(ctx, address, millis, d)
	if err != nil {
		return err
	}
	if !wanted {
		return d.Ack(false)
	}
	// Anew each time: however long the message has waited for a controller, the clock decides.
	exchange, key := due, address
	if left := time.Until(time.UnixMilli(millis)); left > 0 {
		exchange, key = w.to.EntryExchange, w.next(left).label+"."+address
	}
	routed, err := w.publish(ctx, exchange, key, millis, d)
	switch {
	case err != nil:
		return err
	case !routed:
		log.Printf("rejected: nothing at exchange %q takes the key %q", exchange, key)
		return d.Reject(false)
	}
	return d.Ack(false)
}

// ask asks the command when the message is due, and whether anybody still wants it.
func (w *worker) ask(ctx context.Context, address string, millis int64, d amqp.Delivery) (int64, bool, error) {
	if w.command == "" {
		return millis, true, nil
	}
	command := exec.CommandContext(ctx, w.command, address, d.MessageId, strconv.FormatInt(millis, 10))
	command.Stdin, command.Stderr = bytes.NewReader(d.Body), os.Stderr
	out, err := command.Output()
	if err != nil {
		return 0, false, fmt.Errorf("ask %s for message %q: %w", w.command, d.MessageId, err)
	}
	switch answer := strings.TrimSpace(string(out)); answer {
	case "":
		return millis, true, nil
	case "cancel":
		return 0, false, nil
	default:
		millis, err = strconv.ParseInt(answer, 10, 64)
		return millis, true, err
	}
}

// next is the longest delay that is not too long, or else the shortest: a message may be late by
// that, and is never early.
func (w *worker) next(left time.Duration) delay {
	for _, d := range w.to.delays {
		if d.Duration <= left {
			return d
		}
	}
	return w.to.delays[len(w.to.delays)-1]
}

// publish returns when the broker has taken responsibility for the message, or has nothing that
// takes it.
func (w *worker) publish(
	ctx context.Context, exchange, key string, millis int64, d amqp.Delivery,
) (routed bool, err error) {
	headers := amqp.Table{}
	for name, value := range d.Headers {
		if !isHarmful(name) {
			headers[name] = value
		}
	}
	headers[dueHeader] = millis
	const mandatory, immediate = true, false
	confirmation, err := w.channel.PublishWithDeferredConfirmWithContext(ctx, exchange, key, mandatory, immediate,
		amqp.Publishing{
			Headers: headers, ContentType: d.ContentType, DeliveryMode: amqp.Persistent, MessageId: d.MessageId,
			Timestamp: d.Timestamp, Body: d.Body,
		})
	if err != nil {
		return false, err
	}
	confirmed, err := confirmation.WaitContext(ctx)
	if err != nil {
		return false, err
	}
	if !confirmed {
		return false, errors.New("the broker refused a message")
	}
	select {
	case <-w.returned: // it comes before the confirmation
		return false, nil
	default:
		return true, nil
	}
}

// isHarmful tells further keys, which RabbitMQ would use again, and the headers that it wrote
// during the delay. RabbitMQ 3 takes a message with such headers for one that goes in circles, lost
// or stuck. RabbitMQ 4.4 would hold one until x-opt-delivery-time.
func isHarmful(header string) bool {
	return slices.Contains([]string{"CC", "BCC", "x-death", "x-opt-delivery-time"}, header) ||
		strings.HasPrefix(header, "x-first-death-") || strings.HasPrefix(header, "x-last-death-")
}

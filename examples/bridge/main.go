// Command bridge takes messages that ask for a delay by the header x-delay, in milliseconds, and
// publishes them into a delay cascade:
//
//	PUBLISHER='{"entry_exchange": ...}' go run . <queue>
//
// PUBLISHER is the attribute publisher of the cascade, as JSON. The routing key of a message
// becomes its address. A message without the header has no delay. One that cannot be delayed is
// rejected for good: give the queue a dead-letter exchange to keep it. Every message is
// acknowledged when the broker has confirmed its successor: in doubt it comes twice, and it is
// never lost.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/errgroup"
)

const (
	delayHeader = "x-delay"
	// workers is how many messages are on their way through the bridge, and so the most that
	// come twice when it is killed.
	workers = 32
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Print("usage: bridge <queue>")
		os.Exit(2)
	}
	to, err := cascadeFromEnvironment()
	if err != nil {
		log.Print(err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1], to); err != nil && ctx.Err() == nil {
		log.Fatal(err) //nolint:gocritic // The broker gives unacknowledged messages to the next bridge.
	}
}

func run(ctx context.Context, queue string, to cascade) error {
	connection, err := amqp.Dial(os.Getenv("RABBITMQ_AMQP_URI"))
	if err != nil {
		return err
	}
	defer connection.Close()
	group, ctx := errgroup.WithContext(ctx)
	for range workers {
		group.Go(func() error { return work(ctx, connection, queue, to) })
	}
	return group.Wait()
}

// work handles one message at a time, on a channel of its own.
func work(ctx context.Context, connection *amqp.Connection, queue string, to cascade) error {
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	if err := channel.Confirm(false); err != nil {
		return err
	}
	if err := channel.Qos(1, 0, false); err != nil {
		return err
	}
	returned := channel.NotifyReturn(make(chan amqp.Return, 1))
	const autoAck, exclusive, noLocal, noWait = false, false, false, false
	deliveries, err := channel.ConsumeWithContext(ctx, queue, "", autoAck, exclusive, noLocal, noWait, nil)
	if err != nil {
		return err
	}
	for d := range deliveries {
		key, err := to.key(d)
		if err != nil {
			log.Printf("message %q for %q is rejected: %v", d.MessageId, d.RoutingKey, err)
			err = d.Reject(false)
		} else if err = publish(ctx, channel, returned, to.EntryExchange, key, d); err == nil {
			err = d.Ack(false)
		}
		if err != nil {
			return err
		}
	}
	return errors.New("the connection is gone")
}

// publish returns when the broker has taken responsibility for the message.
func publish(
	ctx context.Context, channel *amqp.Channel, returned <-chan amqp.Return, exchange, key string, d amqp.Delivery,
) error {
	headers := amqp.Table{}
	for name, value := range d.Headers {
		if !isHarmful(name) {
			headers[name] = value
		}
	}
	const mandatory, immediate = true, false
	confirmation, err := channel.PublishWithDeferredConfirmWithContext(ctx, exchange, key, mandatory, immediate,
		amqp.Publishing{
			Headers: headers, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding,
			DeliveryMode: amqp.Persistent, CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, MessageId: d.MessageId,
			Timestamp: d.Timestamp, Type: d.Type, AppId: d.AppId, Body: d.Body,
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
	case r := <-returned: // it comes before the confirmation
		return fmt.Errorf("no binding takes the key %q: %s", r.RoutingKey, r.ReplyText)
	default:
		return nil
	}
}

// isHarmful tells further keys, which RabbitMQ would use again, and what it wrote while a message
// was delayed.
func isHarmful(header string) bool {
	return slices.Contains([]string{"CC", "BCC", "x-death"}, header) ||
		strings.HasPrefix(header, "x-first-death-") || strings.HasPrefix(header, "x-last-death-")
}

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
	if err != nil || c.EntryExchange == "" || c.Base < 2 || c.Base > 16 || c.Levels < 1 || c.ResolutionMS < 1 ||
		c.MaxDelayMS < 1 {
		return c, errors.New("set PUBLISHER to the attribute publisher of the cascade, as JSON")
	}
	return c, nil
}

// key is the routing key for the delay that the message asks for, in whole steps and never less.
func (c cascade) key(d amqp.Delivery) (string, error) {
	var delay int64
	if asked, ok := d.Headers[delayHeader]; ok {
		var err error
		if delay, err = strconv.ParseInt(fmt.Sprint(asked), 10, 64); err != nil || delay < 0 {
			return "", fmt.Errorf("its header %s is %v; it has to be a number of milliseconds", delayHeader, asked)
		}
	}
	if delay > c.MaxDelayMS {
		return "", fmt.Errorf("the cascade delays by %d ms at most, and it asks for %d", c.MaxDelayMS, delay)
	}
	steps := strconv.FormatInt((delay+c.ResolutionMS-1)/c.ResolutionMS, c.Base)
	digits := strings.Repeat("0", c.Levels-len(steps)) + steps
	return strings.Join(strings.Split(digits, ""), ".") + "." + d.RoutingKey, nil
}

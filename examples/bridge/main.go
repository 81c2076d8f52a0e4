// Command bridge takes messages that ask for a delay by the header x-delay, in milliseconds, and
// publishes them into a delay cascade:
//
//	PUBLISHER='{"entry_exchange": ...}' go run . <queue>
//
// PUBLISHER is the attribute publisher of the cascade, as JSON. The routing key of a message
// becomes its address. A message without the header has no delay. One that cannot be delayed is
// rejected, so that the dead-letter exchange of the queue keeps it. Every message is acknowledged
// when the broker has confirmed its successor: in doubt it comes twice, and it is never lost.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"math"
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
	// noKey is the address of messages with an empty routing key.
	noKey = "no-key"
	// longestKey is how many bytes AMQP has for a routing key.
	longestKey = 255
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
	// All workers share one consumer, so that a kill gives each message back once. A channel each
	// would hand messages on while they close one by one, up to RabbitMQ's limit of deliveries.
	consumer, err := connection.Channel()
	if err != nil {
		return err
	}
	if err := consumer.Qos(workers, 0, false); err != nil {
		return err
	}
	const autoAck, exclusive, noLocal, noWait = false, false, false, false
	deliveries, err := consumer.ConsumeWithContext(ctx, queue, "", autoAck, exclusive, noLocal, noWait, nil)
	if err != nil {
		return err
	}
	for range workers {
		group.Go(func() error { return work(ctx, connection, deliveries, to) })
	}
	return group.Wait()
}

// work handles one message at a time. It publishes on a channel of its own.
func work(ctx context.Context, connection *amqp.Connection, deliveries <-chan amqp.Delivery, to cascade) error {
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	if err := channel.Confirm(false); err != nil {
		return err
	}
	returned := channel.NotifyReturn(make(chan amqp.Return, 1))
	for d := range deliveries {
		key, message, err := to.successor(d)
		if err != nil {
			log.Printf("message %q for %q is rejected: %v", d.MessageId, d.RoutingKey, err)
			err = d.Reject(false)
		} else if err = publish(ctx, channel, returned, to.EntryExchange, key, message); err == nil {
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
	ctx context.Context, channel *amqp.Channel, returned <-chan amqp.Return, exchange, key string, m amqp.Publishing,
) error {
	const mandatory, immediate = true, false
	confirmation, err := channel.PublishWithDeferredConfirmWithContext(ctx, exchange, key, mandatory, immediate, m)
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

// cascade is what publishers have to know of a cascade.
type cascade struct {
	EntryExchange string  `json:"entry_exchange"`
	UnitsMS       []int64 `json:"units_ms"`
	MaxDelayMS    int64   `json:"max_delay_ms"`
}

func cascadeFromEnvironment() (c cascade, err error) {
	err = json.Unmarshal([]byte(os.Getenv("PUBLISHER")), &c)
	if err != nil || c.EntryExchange == "" || len(c.UnitsMS) == 0 || slices.Min(c.UnitsMS) < 1 || c.MaxDelayMS < 1 {
		return c, errors.New("set PUBLISHER to the attribute publisher of the cascade, as JSON")
	}
	return c, nil
}

// successor is the message that goes into the cascade, and its routing key.
func (c cascade) successor(d amqp.Delivery) (key string, message amqp.Publishing, err error) {
	delay, err := milliseconds(d.Headers)
	if err != nil {
		return "", message, err
	}
	if key, err = c.key(delay, cmp.Or(d.RoutingKey, noKey)); err != nil {
		return "", message, err
	}
	headers := amqp.Table{}
	for name, value := range d.Headers {
		if !isHarmful(name) {
			headers[name] = value
		}
	}
	if delay > 0 {
		// As the plugin does: a receiver sees that the message was delayed, and who forwards it
		// with its headers does not delay it again.
		headers[delayHeader] = -delay
	}
	return key, amqp.Publishing{
		Headers: headers, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding,
		DeliveryMode: amqp.Persistent, CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, MessageId: d.MessageId,
		Timestamp: d.Timestamp, Type: d.Type, AppId: d.AppId, Body: d.Body,
	}, nil
}

// milliseconds is the delay that a message asks for, by the rules of the plugin. A number has any
// type of AMQP or stands in a text, and its fraction is cut off. Without the header, or with a
// negative number, there is no delay.
func milliseconds(headers amqp.Table) (int64, error) {
	asked, ok := headers[delayHeader]
	if !ok {
		return 0, nil
	}
	switch value := asked.(type) {
	case amqp.Decimal:
		asked = float64(value.Value) / math.Pow10(int(value.Scale))
	case []byte:
		asked = string(value)
	}
	// A float64 has every millisecond of 285,000 years.
	delay, err := strconv.ParseFloat(fmt.Sprint(asked), 64)
	if err != nil || math.Abs(delay) >= math.MaxInt64 || math.IsNaN(delay) {
		return 0, fmt.Errorf("its header %s is %#v; it has to be a number of milliseconds", delayHeader, asked)
	}
	return max(0, int64(delay)), nil
}

// key is the routing key for a delay, rounded up to the last unit: a number for each unit.
func (c cascade) key(delay int64, address string) (string, error) {
	if delay > c.MaxDelayMS {
		return "", fmt.Errorf("the cascade delays by %d ms at most, and it asks for %d", c.MaxDelayMS, delay)
	}
	last := c.UnitsMS[len(c.UnitsMS)-1]
	rest, key := (delay+last-1)/last*last, ""
	for _, unit := range c.UnitsMS {
		key += strconv.FormatInt(rest/unit, 10) + "."
		rest %= unit
	}
	key += address
	if len(key) > longestKey {
		return "", fmt.Errorf("its routing key has %d bytes with its delay, and AMQP has %d", len(key), longestKey)
	}
	return key, nil
}

// isHarmful tells further keys, which RabbitMQ would use again, and what it wrote while a message
// was delayed. RabbitMQ 4.4 would hold a message until x-opt-delivery-time.
func isHarmful(header string) bool {
	return slices.Contains([]string{"CC", "BCC", "x-death", "x-opt-delivery-time"}, header) ||
		strings.HasPrefix(header, "x-first-death-") || strings.HasPrefix(header, "x-last-death-")
}

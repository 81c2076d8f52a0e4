// Command go sends a message through a delay cascade, or takes one from a queue and sends it again,
// later:
//
//	go run . send <delay> <address> <body>
//	go run . retry <queue> <delay>
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 4 {
		log.Fatal("usage: send <delay> <address> <body> | retry <queue> <delay>")
	}
	cascade, err := CascadeFromEnvironment()
	if err != nil {
		log.Print(err)
		os.Exit(2)
	}
	connection, err := amqp.Dial(os.Getenv("RABBITMQ_AMQP_URI"))
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if os.Args[1] == "retry" {
		err = retry(ctx, connection, cascade, os.Args[2], os.Args[3])
	} else {
		err = publish(ctx, connection, cascade, os.Args[2], os.Args[3], amqp.Publishing{Body: []byte(os.Args[4])})
	}
	if err != nil {
		log.Fatal(err) //nolint:gocritic // The broker closes a connection that is gone.
	}
}

// publish returns when the broker has taken responsibility for the message, without what harms it
// or others in a cascade. An application keeps its channel and publishes many messages on it before
// it waits.
func publish(
	ctx context.Context, connection *amqp.Connection, cascade Cascade, delay, address string,
	message amqp.Publishing,
) error {
	wait, err := time.ParseDuration(delay)
	if err != nil {
		return err
	}
	key, err := cascade.RoutingKey(wait, address)
	if err != nil {
		return err
	}
	message.DeliveryMode, message.Priority, message.Expiration = amqp.Persistent, 0, ""
	message.Headers = maps.Clone(message.Headers)
	maps.DeleteFunc(message.Headers, func(name string, _ any) bool { return isHarmful(name) })
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	defer channel.Close()
	if err := channel.Confirm(false); err != nil {
		return err
	}
	returned := channel.NotifyReturn(make(chan amqp.Return, 1))
	const mandatory, immediate = true, false
	confirmation, err := channel.PublishWithDeferredConfirmWithContext(
		ctx, cascade.EntryExchange, key, mandatory, immediate, message)
	if err != nil {
		return err
	}
	accepted, err := confirmation.WaitContext(ctx)
	if err != nil {
		return err
	}
	if !accepted {
		return errors.New("the broker refused the message; try again later")
	}
	select {
	case r := <-returned: // it comes before the confirmation
		return fmt.Errorf("no binding takes the key %q: %s", key, r.ReplyText)
	default:
		return nil
	}
}

// retry acknowledges a message only when its successor is safe: in doubt it is delivered twice,
// never lost.
func retry(ctx context.Context, connection *amqp.Connection, cascade Cascade, queue, delay string) error {
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	defer channel.Close()
	delivery, ok, err := channel.Get(queue, false)
	if err != nil || !ok {
		return fmt.Errorf("no message in %s: %w", queue, err)
	}
	message := amqp.Publishing{
		Headers: delivery.Headers, ContentType: delivery.ContentType, MessageId: delivery.MessageId,
		Body: delivery.Body,
	}
	words := len(cascade.UnitsMS)
	address := strings.SplitN(delivery.RoutingKey, ".", words+1)[words]
	if err := publish(ctx, connection, cascade, delay, address, message); err != nil {
		return err
	}
	return delivery.Ack(false)
}

// isHarmful tells further keys, which RabbitMQ uses again at every level, and the headers that it
// wrote during the delay. RabbitMQ 3 takes a message with such headers for one that goes in
// circles, lost or stuck. RabbitMQ 4.4 would hold one until x-opt-delivery-time.
func isHarmful(header string) bool {
	return slices.Contains([]string{"CC", "BCC", "x-death", "x-opt-delivery-time"}, header) ||
		strings.HasPrefix(header, "x-first-death-") || strings.HasPrefix(header, "x-last-death-")
}

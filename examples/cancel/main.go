// Command cancel schedules jobs through a delay cascade, and cancels and reschedules them:
//
//	go run . schedule <id> <delay> <address> <body>
//	go run . reschedule <id> <delay> <address> <body>
//	go run . cancel <id>
//	go run . work <queue> <command>
//
// A message cannot be taken out of a cascade. So a store keeps the times at which a job is wanted,
// and the worker asks it before it acts. It drops a message whose time the store no longer has. The
// command gets the body on its standard input, and its success removes the job from the store.
// Environment: PUBLISHER is the attribute publisher of the cascade, as JSON, and STORE the file of
// the store.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const usage = "usage: schedule|reschedule <id> <delay> <address> <body> | cancel <id> | work <queue> <command>"

// errUsage is for what the user has to write in another way.
var errUsage = errors.New(usage)

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := run(ctx, os.Args[1:]); {
	case errors.Is(err, errUsage):
		log.Print(err)
		os.Exit(2) //nolint:gocritic // The process ends anyway.
	case err != nil && ctx.Err() == nil:
		log.Fatal(err)
	}
}

func run(ctx context.Context, arguments []string) error {
	jobs := store{os.Getenv("STORE")}
	if len(arguments) == 0 || jobs.path == "" {
		return fmt.Errorf("set STORE to a file; %w", errUsage)
	}
	switch verb := arguments[0]; {
	case verb == "cancel" && len(arguments) == 2:
		return jobs.cancel(arguments[1])
	case verb == "work" && len(arguments) == 3:
		return work(ctx, jobs, arguments[1], arguments[2])
	case (verb == "schedule" || verb == "reschedule") && len(arguments) == 5:
		to, err := cascadeFromEnvironment()
		if err != nil {
			return err
		}
		delay, err := time.ParseDuration(arguments[2])
		if err != nil {
			return fmt.Errorf("%q is no delay such as 90m: %w", arguments[2], errUsage)
		}
		key, err := to.key(delay, arguments[3])
		if err != nil {
			return err
		}
		job := job{id: arguments[1], due: time.Now().Add(delay).UnixMilli(), key: key, body: arguments[4]}
		return put(ctx, jobs, to.EntryExchange, job, verb == "reschedule")
	}
	return errUsage
}

type job struct {
	id        string
	due       int64 // milliseconds since 1970; it tells the messages of a job apart
	key, body string
}

// put tells the store the new time before it sends the message, and makes it forget the old one
// after that. If put is killed in between, the worker does the job at one of the two times.
func put(ctx context.Context, jobs store, exchange string, job job, again bool) error {
	if err := jobs.add(job.id, job.due, again); err != nil {
		return err
	}
	if err := publish(ctx, exchange, job); err != nil {
		return err
	}
	return jobs.keepOnly(job.id, job.due)
}

func open() (*amqp.Connection, *amqp.Channel, error) {
	connection, err := amqp.Dial(os.Getenv("RABBITMQ_AMQP_URI"))
	if err != nil {
		return nil, nil, err
	}
	channel, err := connection.Channel()
	return connection, channel, err
}

// publish returns when the broker has taken responsibility for the message.
func publish(ctx context.Context, exchange string, job job) error {
	connection, channel, err := open()
	if err != nil {
		return err
	}
	defer connection.Close()
	if err := channel.Confirm(false); err != nil {
		return err
	}
	const mandatory, immediate = false, false // the cascade parks what nobody takes
	confirmation, err := channel.PublishWithDeferredConfirmWithContext(ctx, exchange, job.key, mandatory, immediate,
		amqp.Publishing{MessageId: job.id, Headers: amqp.Table{dueHeader: job.due}, DeliveryMode: amqp.Persistent,
			Body: []byte(job.body)})
	if err != nil {
		return err
	}
	if confirmed, err := confirmation.WaitContext(ctx); err != nil || !confirmed {
		return errors.Join(errors.New("the broker did not take the message: run the command again"), err)
	}
	return nil
}

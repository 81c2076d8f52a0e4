package main

import (
	"bytes"
	"context"
	"errors"
	"log"
	"os"
	"os/exec"

	amqp "github.com/rabbitmq/amqp091-go"
)

// dueHeader says which time of its job a message is for.
const dueHeader = "due"

// work takes one message at a time. A worker that is killed after its command has succeeded does
// that job once more.
func work(ctx context.Context, jobs store, queue, command string) error {
	connection, channel, err := open()
	if err != nil {
		return err
	}
	defer connection.Close()
	if err := channel.Qos(1, 0, false); err != nil {
		return err
	}
	const autoAck, exclusive, noLocal, noWait = false, false, false, false
	deliveries, err := channel.ConsumeWithContext(ctx, queue, "", autoAck, exclusive, noLocal, noWait, nil)
	if err != nil {
		return err
	}
	for d := range deliveries {
		if err := handle(ctx, jobs, d, command); err != nil {
			return err
		}
	}
	return errors.New("the connection is gone")
}

// handle drops a message whose job is not wanted at its time any more. One whose command fails is
// rejected for good: give the queue a dead-letter exchange to keep it. Its job stays in the store.
func handle(ctx context.Context, jobs store, d amqp.Delivery, command string) error {
	due, _ := d.Headers[dueHeader].(int64)
	wanted, err := jobs.isWanted(d.MessageId, due)
	if err != nil {
		return err
	}
	if !wanted {
		log.Printf("job %q is not wanted at this time any more", d.MessageId)
		return d.Ack(false)
	}
	do := exec.CommandContext(ctx, command)
	do.Stdin, do.Stderr = bytes.NewReader(d.Body), os.Stderr
	if err := do.Run(); err != nil {
		log.Printf("job %q failed: %v", d.MessageId, err)
		return d.Reject(false)
	}
	if err := jobs.done(d.MessageId); err != nil {
		return err
	}
	return d.Ack(false)
}

package replay

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
)

const (
	// patience is how long nothing may go on, neither a message nor a confirmation.
	patience = time.Minute
	// goodbye is the same after the context has ended, for the messages that are under way.
	goodbye = 10 * time.Second
)

// Run handles the messages that the rule's queue holds, up to the limit, if that is not 0. It follows the order of the
// queue. Progress is called every few seconds. The end of the context ends the run in order. Whatever ends it, each
// message is in the queue still, or where the rule has sent it. An error is a rabbit.Described, a NotThereError or a
// DropsError. The report tells the part that was done before.
func Run(ctx context.Context, vhost *rabbit.Vhost, rule Rule, limit int, progress func(Report)) (Report, error) {
	queue, err := check(ctx, vhost, rule)
	if err != nil {
		return Report{}, err
	}
	working, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	var isLate atomic.Bool
	watch := time.AfterFunc(patience, func() { isLate.Store(true); hangUp() })
	defer watch.Stop()
	defer context.AfterFunc(ctx, func() { watch.Reset(goodbye) })()
	isForOne, _ := queue.Arguments["x-single-active-consumer"].(bool)
	r := &run{rule: rule, progress: progress, isForOne: isForOne, alive: func() {
		if ctx.Err() == nil {
			watch.Reset(patience)
		}
	}}
	op := fmt.Sprintf("replay the messages of queue %q in vhost %q", rule.Queue, vhost.Name())
	var lost *consumerError
	err = vhost.OnChannel(working, op, "it takes permission to read this queue, "+
		"and nobody else may have it alone", func(consumer *amqp.Channel) error {
		err := vhost.OnChannel(working, op, "it takes permission to write to this exchange, where topic permissions, "+
			"if there are any, have to include the key", func(publisher *amqp.Channel) error {
			r.consumer, r.publisher = consumer, publishing{publisher}
			err := r.through(ctx, limit)
			if errors.As(err, &lost) {
				return nil
			}
			return err
		})
		if lost != nil {
			return lost.err
		}
		return err
	})
	switch {
	case err == nil:
	case ctx.Err() != nil:
		err = vhost.Client().Interrupted(op, ctx.Err())
	case isLate.Load():
		err = &rabbit.Error{Kind: rabbit.Timeout, Op: op,
			Reason: fmt.Sprintf("for %s, RabbitMQ has neither handed over nor confirmed a message",
				plaintext.Duration(patience)),
			Hint: "a queue may lack its majority of nodes, or have a single active consumer. Or the broker has an " +
				"alarm"}
	}
	return r.report, err
}

// publishing publishes on a channel.
type publishing struct{ *amqp.Channel }

// Send waits for each confirmation by itself. With NotifyPublish, the library takes a refused message for a confirmed
// one, if RabbitMQ confirms several later ones at a time. See confirms.Multiple in amqp091-go 1.16: two of three
// refused messages were lost.
func (p publishing) Send(
	exchange, key string, message amqp.Publishing,
) (outcome func() (isTaken, isKnown bool), err error) {
	const mandatory, immediate = true, false
	confirmation, err := p.PublishWithDeferredConfirm(exchange, key, mandatory, immediate, message)
	if err != nil {
		return nil, err
	}
	return func() (isTaken, isKnown bool) {
		// When the channel ends, the library refuses all that are not confirmed.
		isTaken = confirmation.Wait()
		return isTaken, isTaken || !p.IsClosed()
	}, nil
}

// Package recognize goes back from objects to the cascade, the ladder or the destination that they are, whoever
// declared them. In come exchanges, queues and bindings, out comes what internal/delay expands to them.
//
// Call Cascade or Ladder with an entry exchange, and Destination with a binding. Call NewInventory for all that a vhost
// has. LeadsTo, Delays and LevelsOf tell where messages go. NewOnward follows them to a queue.
//
// Of a cascade, the name of the entry gives units or a number of levels. Each way to read that name is a candidate, and
// the one is taken that most bindings and queues agree with. The queues give times and arguments. The entry of a ladder
// may have any name: its keys and queues give the delays.
// Missing and damaged objects do no harm as long as the rest determines them: the result expands to the cascade as it
// should be.
//
// The package is pure: it reads by a Lookup, as few objects as possible, and writes nothing.
package recognize

import (
	"context"
	"errors"
	"fmt"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
)

// Cascade is the one behind the entry exchange. The entry of something else is an OtherEntryError.
//
// For full lookahead it reads the entry, its bindings, two or three queues, the delivery and the alternate exchange. It
// also looks for internal exchanges. With less, it reads the bindings of every exchange on the way, too, but for those
// of the delivery exchange.
func Cascade(ctx context.Context, look Lookup, vhost, entry string) (delay.Cascade, error) {
	o := newObjects(ctx, look, vhost)
	if delay.IsDefaultExchange(entry) {
		return delay.Cascade{}, o.result(KindCascade, entry, errDefaultExchange)
	}
	c, err := o.cascade(entry)
	if errors.Is(err, errNoEntry) || errors.Is(err, errNoHops) {
		c, err = o.cascadeBelow(entry, o.withArguments(entry, err))
	}
	return c, o.result(KindCascade, entry, err)
}

// Ladder is the one behind the entry exchange. The bindings of the entry say which delays there are. A rung may have a
// queue that is missing or damaged as long as another queue is sound. A rung to which the entry does not lead cannot be
// found. A queue with another kind of name that leads elsewhere, such as one of another ladder, is a stranger's.
//
// An entry without such keys has those of an application. Then the TTL of each queue is its delay, and all queues that
// hold messages and hand them on have to lead to one end. RabbitMQ removes a binding with its queue, so a rung whose
// queue is gone is not found.
func Ladder(ctx context.Context, look Lookup, vhost, entry string) (delay.Ladder, error) {
	o := newObjects(ctx, look, vhost)
	if delay.IsDefaultExchange(entry) {
		return delay.Ladder{}, o.result(KindLadder, entry, errDefaultExchange)
	}
	l, err := o.ladder(entry)
	return l, o.result(KindLadder, entry, err)
}

// result puts an error into words: the broker's own, or why the exchange is no entry of the kind.
func (o *objects) result(kind, entry string, err error) error {
	if err != nil && o.failure == nil && !errors.Is(err, errDefaultExchange) {
		err = o.otherEntry(kind, entry, err)
	}
	if errors.Is(err, errNoEntry) {
		err = o.noExchange(entry)
	}
	if o.failure != nil {
		err = o.failure
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("recognize the %s behind exchange %q in vhost %q: %w", kind, entry, o.vhost, err)
}

package replay

import (
	"bytes"
	"maps"
	"reflect"

	amqp "github.com/rabbitmq/amqp091-go"
)

const deathsHeader = "x-death"

// pending is a message that was published and not confirmed yet.
type pending struct {
	tag        uint64
	to         Verdict
	message    amqp.Publishing
	isReturned bool
}

// messageOf is the part that a rule looks at.
func messageOf(d amqp.Delivery) Message {
	_, hasFurtherKeys := d.Headers["CC"]
	m := Message{Exchange: d.Exchange, Key: d.RoutingKey, HasFurtherKeys: hasFurtherKeys}
	list, _ := d.Headers[deathsHeader].([]any)
	for _, each := range list {
		entry, _ := each.(amqp.Table)
		text := func(key string) string {
			value, _ := entry[key].(string)
			return value
		}
		m.Deaths = append(m.Deaths, Death{Queue: text("queue"), Reason: text("reason"), Exchange: text("exchange")})
	}
	return m
}

// again is published in the place of a message. It leaves out all that would keep it from its receiver:
//
//   - expiration, after which a queue would drop it;
//   - the user ID, because RabbitMQ refuses one that is not the publisher's;
//   - the counts of the queue that it is taken from, which are no headers of its own (x-acquired-count: 4.3.6);
//   - x-death of one that begins, because RabbitMQ 3 drops or keeps what seems to go in circles.
func again(d amqp.Delivery, begins bool) amqp.Publishing {
	headers := maps.Clone(d.Headers)
	delete(headers, "x-delivery-count")
	delete(headers, "x-acquired-count")
	if begins {
		delete(headers, deathsHeader)
	}
	if len(headers) == 0 {
		headers = nil
	}
	return amqp.Publishing{Headers: headers, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding,
		DeliveryMode: d.DeliveryMode, Priority: d.Priority, CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo,
		MessageId: d.MessageId, Timestamp: d.Timestamp, Type: d.Type, AppId: d.AppId, Body: d.Body}
}

// isReturn tells whether a message is the one that RabbitMQ returns. It does not say which publication that was. Two
// messages that are equal in all that was published are one as good as the other.
func isReturn(p *pending, r amqp.Return) bool {
	published := p.message
	published.Body = nil
	return p.to.Exchange == r.Exchange && p.to.Key == r.RoutingKey && bytes.Equal(p.message.Body, r.Body) &&
		reflect.DeepEqual(published, amqp.Publishing{Headers: r.Headers, ContentType: r.ContentType,
			ContentEncoding: r.ContentEncoding, DeliveryMode: r.DeliveryMode, Priority: r.Priority,
			CorrelationId: r.CorrelationId, ReplyTo: r.ReplyTo, MessageId: r.MessageId, Timestamp: r.Timestamp,
			Type: r.Type, AppId: r.AppId})
}

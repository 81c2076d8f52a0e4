package cascade

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// defaultEntry is an entry exchange with a default name.
var defaultEntry = regexp.MustCompile(`^(.+)\.delay-(\d{2,})$`)

// remains understands what is left of a cascade whose entry shows nothing: one that somebody deleted,
// or a cascade that was never completed, because the entry comes last. Only default names say enough.
// What the remains do not show is taken to be as the defaults have it.
func (r *recognizer) remains(ctx context.Context, entry string) (c Config, found bool, err error) {
	parts := defaultEntry.FindStringSubmatch(entry)
	if parts == nil {
		return Config{}, false, nil
	}
	top, err := strconv.Atoi(parts[2])
	if err != nil || top >= MaxLevels || fmt.Sprintf("%02d", top) != parts[2] {
		return Config{}, false, nil //nolint:nilerr // it is no level, and this no default name
	}
	c = Config{
		Vhost: r.vhost, Name: parts[1], Levels: top + 1, Resolution: time.Second,
		ExchangeName: Format(Escape(parts[1]) + defaultLevel), QueueName: Format(Escape(parts[1]) + defaultLevel),
		DeliveryExchange: parts[1] + defaultDelivery, QueueType: Quorum, StrictKeys: true,
	}
	foundQueue, err := r.anyQueue(ctx, &c)
	if err != nil {
		return Config{}, false, err
	}
	foundExchange, err := r.anyExchange(ctx, &c)
	if err != nil || !foundQueue && !foundExchange {
		return Config{}, false, err
	}
	if c.CreateDeliveryExchange, err = r.ownsDelivery(ctx, c.parts()); err != nil {
		return Config{}, false, err
	}
	if c.InternalLevels, err = r.internalLevels(ctx, c); err != nil {
		return Config{}, false, err
	}
	_, err = c.Resolve()
	return c, err == nil, nil
}

// anyQueue reads resolution, type, limit and delivery exchange off the first delay queue that there is, or
// else the type off the queue of unroutable messages.
func (r *recognizer) anyQueue(ctx context.Context, c *Config) (found bool, err error) {
	for level := range c.Levels {
		queue, exists, err := r.look.Queue(ctx, c.QueueName.Name(level))
		if err != nil {
			return false, err
		}
		ttl, expires := queue.Arguments["x-message-ttl"].(int64)
		if step := ttl >> level; !exists || !expires || step < 1 || step<<level != ttl {
			continue
		}
		c.Resolution = time.Duration(ttl>>level) * time.Millisecond
		c.QueueType = QueueType(queue.Type())
		if limit, ok := queue.Arguments["x-max-length"].(int64); ok && c.QueueType == Quorum {
			c.MaxLength = limit
		}
		if level == 0 && queue.DeadLetterExchange() != "" {
			c.DeliveryExchange = queue.DeadLetterExchange()
		}
		return true, nil
	}
	parking, exists, err := r.look.Queue(ctx, c.parts().parking())
	if exists {
		c.QueueType = QueueType(parking.Type())
	}
	return exists, err
}

// anyExchange reads off the first exchange below the entry whether unroutable messages are parked.
func (r *recognizer) anyExchange(ctx context.Context, c *Config) (found bool, err error) {
	c.ParkUnroutable = true
	for level := c.Levels - 2; level >= -1; level-- {
		e, exists, err := r.look.Exchange(ctx, c.exchange(level))
		if err != nil {
			return false, err
		}
		if exists && e.Type == "topic" {
			c.ParkUnroutable = e.AlternateExchange() == c.parts().parking()
			return true, nil
		}
	}
	_, found, err = r.look.Exchange(ctx, c.parts().parking())
	return found, err
}

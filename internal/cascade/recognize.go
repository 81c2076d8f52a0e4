package cascade

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Lookup reads single objects off a broker. The bool tells whether the object exists.
type Lookup interface {
	Exchange(ctx context.Context, name string) (topology.Exchange, bool, error)
	Queue(ctx context.Context, name string) (topology.Queue, bool, error)
	// BindingsFrom lists the bindings whose source is the exchange.
	BindingsFrom(ctx context.Context, exchange string) ([]topology.Binding, error)
}

// Recognize reads the configuration of the cascade behind the entry exchange off a broker, whoever
// declared it. What is missing or damaged below the top level does not matter as long as the rest
// says what it was: expanded, the result is the cascade as it should be.
//
// The entry, its bindings, the top and the lowest queue, the delivery and the alternate exchange
// are enough for most cascades; a few lower queues are looked for where names leave a choice. The
// bindings of the delivery exchange are never read.
func Recognize(ctx context.Context, look Lookup, vhost, entry string) (Config, error) {
	c, err := (&recognizer{look: look, vhost: vhost}).recognize(ctx, entry)
	if err != nil {
		return Config{}, fmt.Errorf("recognize the cascade behind exchange %q in vhost %q: %w", entry, vhost, err)
	}
	return c, nil
}

type recognizer struct {
	look     Lookup
	vhost    string
	entry    topology.Exchange
	bindings []topology.Binding // those of the entry
}

func (r *recognizer) recognize(ctx context.Context, name string) (Config, error) {
	err := r.readEntry(ctx, name)
	if errors.Is(err, errNoEntry) {
		return r.orRemains(ctx, name, err)
	}
	if err != nil {
		return Config{}, err
	}
	readings, err := r.readings(ctx)
	if errors.Is(err, errNoTop) {
		return r.orRemains(ctx, name, err)
	}
	if err != nil {
		return Config{}, err
	}
	c, err := r.choose(ctx, readings)
	if err != nil {
		return Config{}, err
	}
	c.Lookahead = r.lookahead(c)
	if c.DeliveryExchange, err = r.delivery(ctx, c); err != nil {
		return Config{}, err
	}
	if c.Name, c.ParkUnroutable, err = r.parking(ctx); err != nil {
		return Config{}, err
	}
	if c.CreateDeliveryExchange, err = r.ownsDelivery(ctx, c.parts()); err != nil {
		return Config{}, err
	}
	if c.Name == "" {
		c.Name = c.derivedName()
	}
	if c.Levels == presetLevels {
		top, _, err := r.look.Queue(ctx, c.QueueName.Name(c.Levels-1))
		if err != nil {
			return Config{}, err
		}
		c.Preset = c.recognizePreset(top)
	}
	if c.Preset == "" {
		if c.InternalLevels, err = r.internalLevels(ctx, c); err != nil {
			return Config{}, err
		}
	}
	if _, err := c.Resolve(); err != nil {
		return Config{}, fmt.Errorf("what is there does not make a valid cascade: %w", err)
	}
	return c, nil
}

// readEntry reads the entry exchange and its bindings.
func (r *recognizer) readEntry(ctx context.Context, name string) (err error) {
	var exists bool
	r.entry, exists, err = r.look.Exchange(ctx, name)
	switch {
	case err != nil:
		return err
	case !exists:
		return errNoEntry
	case r.entry.Type != "topic":
		return fmt.Errorf("it is a %s exchange, and the entry of a cascade or a ladder is a topic exchange", r.entry.Type)
	}
	r.bindings, err = r.look.BindingsFrom(ctx, name)
	return err
}

var errNoEntry = errors.New("there is no such exchange")

// reading is one way to understand the entry exchange and the queue of the top level.
type reading struct {
	// Config has what the top level shows, except for the names.
	Config
	// exchanges and queues are the formats that fit what was seen so far, the likeliest first.
	exchanges, queues []Format
	// deadLetters is where the top queue's messages go, for a single level the delivery exchange.
	deadLetters string
}

// topKey is the key under which an entry exchange leads to the queue of the top level. A strict one
// has a "*" for each digit left and one for the first word of the destination.
var topKey = regexp.MustCompile(`^1(?:\.\*)*\.#$`)

// leadsToTop tells whether a binding is like that of an entry exchange to the queue of the top level.
func leadsToTop(b topology.Binding) bool {
	return topKey.MatchString(b.RoutingKey) && b.DestinationType == topology.ToQueue && b.Arguments == ""
}

// readings are the ways to understand the top level, the likeliest first. There is more than one
// where others have bound a queue with the same key, or where digits stand before the level: level
// 16 of "t.delay-%d" could be level 6 of "t.delay-1%d".
func (r *recognizer) readings(ctx context.Context) ([]reading, error) {
	var (
		readings []reading
		unlike   error
	)
	for _, b := range r.bindings {
		if !leadsToTop(b) {
			continue
		}
		queue, exists, err := r.look.Queue(ctx, b.Destination)
		if err != nil {
			return nil, err
		}
		if !exists {
			continue // gone since the bindings were read
		}
		found, err := r.read(queue, strings.Count(b.RoutingKey, "*"))
		if err != nil && unlike == nil {
			unlike = fmt.Errorf("queue %q, bound with key %q, is not like that of a cascade's top level: %w", queue.Name, b.RoutingKey, err)
		}
		readings = append(readings, found...)
	}
	switch {
	case len(readings) > 0:
		slices.SortStableFunc(readings, likelier)
		return readings, nil
	case unlike != nil:
		return nil, unlike
	default:
		return nil, errNoTop
	}
}

var errNoTop = errors.New(`it has no binding like that of a cascade's top level, to a queue with key "1.#" or "1.*.….#"`)

// orRemains is for an entry that shows nothing: what remains of the cascade below may still do.
func (r *recognizer) orRemains(ctx context.Context, entry string, otherwise error) (Config, error) {
	c, found, err := r.remains(ctx, entry)
	switch {
	case err != nil:
		return Config{}, err
	case !found:
		return Config{}, otherwise
	}
	return c, nil
}

// likelier puts readings of strict keys first, which show the number of levels, then those with
// more levels.
func likelier(x, y reading) int {
	if x.StrictKeys != y.StrictKeys {
		if x.StrictKeys {
			return -1
		}
		return 1
	}
	return y.Levels - x.Levels
}

// read understands a queue as that of the top level. Strict keys show the number of levels, for lax
// ones it is 0.
func (r *recognizer) read(queue topology.Queue, strictLevels int) ([]reading, error) {
	ttl, expires := queue.Arguments["x-message-ttl"].(int64)
	queueType := QueueType(queue.Type())
	switch {
	case !expires || ttl < 1 || ttl > MaxTTL.Milliseconds():
		return nil, errors.New("it has no valid x-message-ttl")
	case queue.DeadLetterExchange() == "":
		return nil, errors.New("it has no x-dead-letter-exchange")
	case queueType != Quorum && queueType != Classic:
		return nil, fmt.Errorf("it is a %s queue, and those of a cascade are quorum or classic queues", queueType)
	}
	shown := reading{
		Config:      Config{Vhost: r.vhost, QueueType: queueType, StrictKeys: strictLevels > 0},
		deadLetters: queue.DeadLetterExchange(),
	}
	if limit, ok := queue.Arguments["x-max-length"].(int64); ok && queueType == Quorum {
		shown.MaxLength = limit
	}
	most, fewest := strictLevels, strictLevels
	if !shown.StrictKeys {
		most, fewest = MaxLevels, 2
	}
	var readings []reading
	named := false
	for levels := most; levels >= fewest; levels-- {
		shown.Levels = levels
		if !r.named(&shown, queue.Name) {
			continue
		}
		named = true
		step := ttl >> (levels - 1)
		if step<<(levels-1) == ttl {
			shown.Resolution = time.Duration(step) * time.Millisecond
			readings = append(readings, shown)
		}
	}
	if !named && !shown.StrictKeys {
		// A single level is the last thing to think of: every name with a 0 could be its name.
		shown.Levels, shown.Resolution = 1, time.Duration(ttl)*time.Millisecond
		passes := slices.Contains(destinations(r.bindings, shown.passKey(0, 1), topology.ToExchange), shown.deadLetters)
		if passes && r.named(&shown, queue.Name) {
			readings = append(readings, shown)
		}
	}
	switch {
	case len(readings) > 0:
		return readings, nil
	case named:
		return nil, fmt.Errorf("its x-message-ttl of %d is not a whole number of milliseconds times a power of two, as its name and that of the exchange want it", ttl)
	default:
		return nil, fmt.Errorf("its name, that of the exchange and its x-dead-letter-exchange %q do not show which level it has", shown.deadLetters)
	}
}

// named finds the formats of a reading with so many levels, and tells whether there are any. The
// top queue dead-letters to the exchange of the next level.
func (r *recognizer) named(shown *reading, queue string) bool {
	shown.exchanges, shown.queues = formatsOf(r.entry.Name, shown.Levels-1), formatsOf(queue, shown.Levels-1)
	if shown.Levels > 1 {
		shown.exchanges = with(shown.exchanges, shown.Levels-2, shown.deadLetters)
	}
	return len(shown.exchanges) > 0 && len(shown.queues) > 0
}

// choose is the first reading that a lower level confirms, or else the first.
func (r *recognizer) choose(ctx context.Context, readings []reading) (Config, error) {
	for i := range readings {
		confirmed, err := r.narrow(ctx, &readings[i], len(readings) == 1)
		if err != nil {
			return Config{}, err
		}
		if confirmed {
			return readings[i].config(), nil
		}
	}
	return readings[0].config(), nil
}

// narrow settles the formats by what lower levels are called, and tells whether any of them
// confirms the reading. Above level 9, names with and without padding are the same.
func (r *recognizer) narrow(ctx context.Context, shown *reading, confirmed bool) (bool, error) {
	top := shown.Levels - 1
	for level := top - 1; level >= 0; level-- {
		shown.queues = prefer(shown.queues, level, destinations(r.bindings, shown.waitKey(top, top-level), topology.ToQueue)...)
		shown.exchanges = prefer(shown.exchanges, level, destinations(r.bindings, shown.passKey(top, top-level), topology.ToExchange)...)
	}
	settled := func() bool {
		return confirmed && sameNames(shown.exchanges, shown.Levels) && sameNames(shown.queues, shown.Levels)
	}
	lastPadded := min(top-1, 9)
	for level := lastPadded; level >= 0 && !settled(); level-- {
		for _, name := range names(shown.queues, level) {
			queue, exists, err := r.look.Queue(ctx, name)
			if err != nil {
				return false, err
			}
			if !exists || queue.Arguments["x-message-ttl"] != shown.TTL(level).Milliseconds() {
				continue
			}
			confirmed = true
			shown.queues = with(shown.queues, level, name)
			if level > 0 {
				shown.exchanges = prefer(shown.exchanges, level-1, queue.DeadLetterExchange())
			}
			break
		}
	}
	for level := lastPadded; level >= 0 && !settled(); level-- {
		for _, name := range names(shown.exchanges, level) {
			_, exists, err := r.look.Exchange(ctx, name)
			if err != nil {
				return false, err
			}
			if exists {
				confirmed = true
				shown.exchanges = with(shown.exchanges, level, name)
				break
			}
		}
	}
	return confirmed, nil
}

func destinations(bindings []topology.Binding, key string, to topology.DestinationType) []string {
	var destinations []string
	for _, b := range bindings {
		if b.RoutingKey == key && b.DestinationType == to && b.Arguments == "" {
			destinations = append(destinations, b.Destination)
		}
	}
	return destinations
}

func (shown reading) config() Config {
	c := shown.Config
	c.ExchangeName, c.QueueName = shown.exchanges[0], shown.queues[0]
	if c.Levels == 1 {
		c.DeliveryExchange = shown.deadLetters
	}
	return c
}

// lookahead is the furthest queue that the entry leads to.
func (r *recognizer) lookahead(c Config) int {
	top := c.Levels - 1
	for level := range top {
		if slices.Contains(destinations(r.bindings, c.waitKey(top, top-level), topology.ToQueue), c.QueueName.Name(level)) {
			return c.Levels - level
		}
	}
	return 1
}

// delivery is the exchange to which level 0 leads, by the first of three things that show it: the
// entry itself, if it looks at all digits, the lowest queue, and the lowest exchange.
func (r *recognizer) delivery(ctx context.Context, c Config) (string, error) {
	if c.DeliveryExchange != "" {
		return c.DeliveryExchange, nil
	}
	beyond := func(names ...string) (name string, shown bool) {
		for level := range c.Levels {
			names = slices.DeleteFunc(names, func(name string) bool { return name == c.ExchangeName.Name(level) })
		}
		if len(names) != 1 || names[0] == "" {
			return "", false
		}
		return names[0], true
	}
	if name, shown := beyond(destinations(r.bindings, c.passKey(c.Levels-1, c.Levels), topology.ToExchange)...); shown {
		return name, nil
	}
	queue, _, err := r.look.Queue(ctx, c.QueueName.Name(0))
	if err != nil {
		return "", err
	}
	if name, shown := beyond(queue.DeadLetterExchange()); shown {
		return name, nil
	}
	var lowest []topology.Binding
	if _, exists, err := r.look.Exchange(ctx, c.exchange(0)); err != nil {
		return "", err
	} else if exists {
		if lowest, err = r.look.BindingsFrom(ctx, c.exchange(0)); err != nil {
			return "", err
		}
	}
	if name, shown := beyond(destinations(lowest, c.passKey(0, 1), topology.ToExchange)...); shown {
		return name, nil
	}
	return "", fmt.Errorf("nothing shows its delivery exchange: neither queue %q nor exchange %q leads to one", c.QueueName.Name(0), c.exchange(0))
}

// internalLevels tells whether an exchange below the entry is internal. Where there is none at all, the default
// holds.
func (r *recognizer) internalLevels(ctx context.Context, c Config) (bool, error) {
	none := true
	for level := c.Levels - 2; level >= 0; level-- {
		e, exists, err := r.look.Exchange(ctx, c.exchange(level))
		if err != nil || e.Internal {
			return err == nil, err
		}
		none = none && !exists
	}
	return none, nil
}

// parking reads the cascade's name off the alternate exchange of the entry. An alternate exchange
// that a cascade would not declare like this is somebody else's.
func (r *recognizer) parking(ctx context.Context) (name string, parks bool, err error) {
	alternate := r.entry.AlternateExchange()
	name, named := strings.CutSuffix(alternate, parkingSuffix)
	if !named || name == "" {
		return "", false, nil
	}
	e, exists, err := r.look.Exchange(ctx, alternate)
	if err != nil || exists && !e.Equal(parkingExchange(alternate)) {
		return "", false, err
	}
	return name, true, nil
}

// ownsDelivery tells whether the cascade or ladder can have declared the delivery exchange. If there is none,
// it is the cascade that has to bring it back.
func (r *recognizer) ownsDelivery(ctx context.Context, p parts) (bool, error) {
	if strings.HasPrefix(p.delivery, reservedPrefix) {
		return false, nil
	}
	e, exists, err := r.look.Exchange(ctx, p.delivery)
	if err != nil {
		return false, err
	}
	return !exists || e.Equal(p.topicExchange(p.delivery)), nil
}

// derivedName is the name from which the default names would be the names that are there.
func (c Config) derivedName() string {
	for _, format := range []Format{c.ExchangeName, c.QueueName} {
		if name, ok := strings.CutSuffix(string(format), defaultLevel); ok {
			return strings.ReplaceAll(name, "%%", "%")
		}
	}
	name, _ := strings.CutSuffix(c.DeliveryExchange, defaultDelivery)
	if name == c.DeliveryExchange {
		return ""
	}
	return name
}

// formatsOf are the formats that give a name to a level, the likeliest first: the level stands
// rather at the end, and rather padded with zeros than without padding or with blanks.
func formatsOf(name string, level int) []Format {
	digits := strconv.Itoa(level)
	var formats []Format
	for end := len(name); end >= len(digits); end-- {
		start := end - len(digits)
		if name[start:end] != digits {
			continue
		}
		var verbs []string
		padded := func(padding byte, flag string) {
			first := start
			for first > 0 && name[first-1] == padding && end-first < 99 {
				first--
			}
			for ; first < start || first == start && len(digits) > 1; first++ {
				verbs = append(verbs, fmt.Sprintf("%s%%%s%dd%s", Escape(name[:first]), flag, end-first, Escape(name[end:])))
			}
		}
		padded('0', "0")
		verbs = append(verbs, Escape(name[:start])+"%d"+Escape(name[end:]))
		padded(' ', "")
		for _, verb := range verbs {
			formats = append(formats, Format(verb))
		}
	}
	return formats
}

// with are the formats that give one of the names to the level.
func with(formats []Format, level int, names ...string) []Format {
	var kept []Format
	for _, f := range formats {
		if slices.Contains(names, f.Name(level)) {
			kept = append(kept, f)
		}
	}
	return kept
}

// prefer is with, unless that leaves none: the names are then those of something else.
func prefer(formats []Format, level int, names ...string) []Format {
	if kept := with(formats, level, names...); len(kept) > 0 {
		return kept
	}
	return formats
}

// names are what the formats call the level.
func names(formats []Format, level int) []string {
	var all []string
	for _, f := range formats {
		if name := f.Name(level); !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

func sameNames(formats []Format, levels int) bool {
	for level := range levels {
		if len(names(formats, level)) > 1 {
			return false
		}
	}
	return true
}

package cascade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

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
// declared it. The keys of the bindings say which level an exchange is and how many there are; names
// only tell what format they have. What is missing or damaged does not matter as long as the rest says
// what it was: expanded, the result is the cascade as it should be. An entry of something else is an
// ElsewhereError.
//
// The entry, its bindings, the top and the lowest queue, the delivery and the alternate exchange are
// enough for full lookahead, beside the look for internal exchanges. With less, the bindings of every
// exchange on the way are read, too; those of the delivery exchange are not.
func Recognize(ctx context.Context, look Lookup, vhost, entry string) (Config, error) {
	r := &recognizer{look: look, vhost: vhost}
	c, err := r.cascade(ctx, entry)
	if err != nil {
		err = r.elsewhere(ctx, KindCascade, entry, err)
		return Config{}, fmt.Errorf("recognize the cascade behind exchange %q in vhost %q: %w", entry, vhost, err)
	}
	return c, nil
}

type recognizer struct {
	look     Lookup
	vhost    string
	entry    topology.Exchange
	bindings []topology.Binding // those of the entry
	// hopsOnly leaves out entries that show nothing, which only the exchanges below can prove.
	hopsOnly bool
}

// cascade is Recognize without a look for what else the exchange may belong to.
func (r *recognizer) cascade(ctx context.Context, name string) (Config, error) {
	missing := r.readEntry(ctx, name)
	if missing != nil && !errors.Is(missing, errNoEntry) {
		return Config{}, missing
	}
	hops, stars := hopsOf(r.bindings)
	if stars > 0 {
		return Config{}, inMiddle(stars)
	}
	unlike := missing
	if unlike == nil && len(hops) == 0 {
		unlike = errNoHops
	}
	if len(hops) == 0 && r.hopsOnly {
		return Config{}, unlike
	}
	for levels := MaxLevels; levels > 0; levels-- {
		formats := formatsOf(name, levels-1)
		if len(formats) == 0 {
			continue
		}
		c, err := (&reading{recognizer: r, levels: levels, hops: hops, exchanges: formats}).read(ctx)
		var refused notThis
		switch {
		case err == nil:
			return c, nil
		case !errors.As(err, &refused):
			return Config{}, err
		case unlike == nil:
			unlike = err
		}
	}
	if unlike == nil {
		unlike = notThis("its name has no number of a level")
	}
	return Config{}, unlike
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
		return notThisf("it is a %s exchange, and the entry of a cascade or a ladder is a topic exchange", r.entry.Type)
	}
	r.bindings, err = r.look.BindingsFrom(ctx, name)
	return err
}

// read understands the entry as that of a cascade with so many levels.
func (s *reading) read(ctx context.Context) (Config, error) {
	if err := s.walk(ctx); err != nil {
		return Config{}, err
	}
	if err := s.readQueues(ctx); err != nil {
		return Config{}, err
	}
	if err := s.settleExchanges(ctx); err != nil {
		return Config{}, err
	}
	c := s.config()
	if err := s.prove(ctx, &c); err != nil {
		return Config{}, err
	}
	var err error
	if c.Name, c.ParkUnroutable, err = s.parking(ctx); err != nil {
		return Config{}, err
	}
	if c.CreateDeliveryExchange, err = s.ownsDelivery(ctx, c.parts()); err != nil {
		return Config{}, err
	}
	if c.Name == "" {
		c.Name = c.derivedName()
	}
	c.Preset = c.recognizePreset(s.sample, s.sampleLevel)
	if c.Preset == "" {
		if c.InternalLevels, err = s.internalLevels(ctx, c); err != nil {
			return Config{}, err
		}
	}
	if _, err := c.Resolve(); err != nil {
		return Config{}, notThisf("what is there does not make a valid cascade: %s", err)
	}
	return c, nil
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
				f := fmt.Sprintf("%s%%%s%dd%s", Escape(name[:first]), flag, end-first, Escape(name[end:]))
				verbs = append(verbs, f)
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

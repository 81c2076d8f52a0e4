package cascade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Recognize reads the cascade behind the entry exchange off a broker, whoever declared it. The keys of the bindings
// give the level of an exchange and the number of levels. The TTLs give the base. Names only give their format. It
// accepts missing and damaged objects as long as the rest determines them: expanded, the result is the cascade as it
// should be. The entry of something else is an OtherEntryError.
//
// For full lookahead it reads the entry, its bindings, the top and the lowest queue, the delivery and the alternate
// exchange. It also looks for internal exchanges. With less, it reads the bindings of every exchange on the way, too,
// but for those of the delivery exchange.
func Recognize(ctx context.Context, look Lookup, vhost, entry string) (Cascade, error) {
	r := &recognizer{look: look, vhost: vhost}
	c, err := r.cascade(ctx, entry)
	if err != nil {
		err = r.otherEntry(ctx, KindCascade, entry, err)
		return Cascade{}, fmt.Errorf("recognize the cascade behind exchange %q in vhost %q: %w", entry, vhost, err)
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

// Lookup reads single objects off a broker. The bool tells whether the object exists.
type Lookup interface {
	Exchange(ctx context.Context, name string) (topology.Exchange, bool, error)
	Queue(ctx context.Context, name string) (topology.Queue, bool, error)
	// BindingsFrom lists the bindings whose source is the exchange.
	BindingsFrom(ctx context.Context, exchange string) ([]topology.Binding, error)
	// Policies are those of users in the vhost, none if they cannot be read.
	Policies(ctx context.Context) ([]topology.Policy, error)
}

// cascade is Recognize without a look for what else the exchange may belong to.
func (r *recognizer) cascade(ctx context.Context, name string) (Cascade, error) {
	missing := r.readEntry(ctx, name)
	if missing != nil && !errors.Is(missing, errNoEntry) {
		return Cascade{}, missing
	}
	hops, stars := hopsOf(r.bindings)
	if stars > 0 {
		return Cascade{}, inMiddle(stars)
	}
	unlike := missing
	if unlike == nil && len(hops) == 0 {
		unlike = errNoHops
	}
	if len(hops) == 0 && r.hopsOnly {
		return Cascade{}, unlike
	}
	for levels := MaxLevels; levels > 0; levels-- {
		formats := formatsOf(name, levels-1)
		if len(formats) == 0 {
			continue
		}
		c, err := (&attempt{recognizer: r, levels: levels, hops: hops, exchanges: formats}).read(ctx)
		switch {
		case err == nil:
			return c, nil
		case !isNotThis(err):
			return Cascade{}, err
		case unlike == nil:
			unlike = err
		}
	}
	if unlike == nil {
		unlike = notThis("its name has no number of a level")
	}
	return Cascade{}, unlike
}

// notThis says why an exchange is not the entry that was asked for. Other errors are the broker's.
type notThis string

func (e notThis) Error() string { return string(e) }

func isNotThis(err error) bool {
	_, is := errors.AsType[notThis](err)
	return is
}

func notThisf(format string, args ...any) notThis { return notThis(fmt.Sprintf(format, args...)) }

const (
	errNoEntry notThis = "there is no such exchange"
	errNoHops  notThis = `it has no binding like that of a cascade's top level, with a key such as "1.#" or "0.1.*.*.#"`
)

func inMiddle(stars int) error {
	return notThisf("the keys of its bindings skip %d digit(s), so it is a level in the middle of a cascade", stars)
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
func (r *recognizer) ownsDelivery(ctx context.Context, p shared) (bool, error) {
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
	for _, given := range []struct {
		format Format
		suffix string
	}{{c.ExchangeName, defaultLevel}, {c.QueueName, defaultQueue(c.Base)}} {
		if name, ok := strings.CutSuffix(string(given.format), given.suffix); ok {
			return strings.ReplaceAll(name, "%%", "%")
		}
	}
	name, _ := strings.CutSuffix(c.DeliveryExchange, defaultDelivery)
	if name == c.DeliveryExchange {
		return ""
	}
	return name
}

// with are the formats that give one of the names to the level.
func with(formats []Format, level int, names ...string) []Format {
	return slices.DeleteFunc(slices.Clone(formats), func(f Format) bool {
		return !slices.Contains(names, f.Name(level))
	})
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

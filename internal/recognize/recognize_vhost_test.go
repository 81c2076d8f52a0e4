package recognize

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay/delaytest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// randomVhost is what a vhost holds: cascades and ladders by their entries, and whether they are as they were declared.
type randomVhost struct {
	*rand.Rand
	there    topology.Topology
	cascades map[string]delay.Cascade
	ladders  map[string]delay.Ladder
	damaged  map[string]bool
	gone     []string
}

// A vhost has several cascades and ladders, healthy and damaged, beside exchanges that are called or bound like theirs.
// Whatever is asked for as an entry, every result was declared there, and the healthy ones always are results.
func TestRecognizeInRandomVhosts(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short, no vhosts of many cascades")
	}
	var healthy, mended, refused int
	for seed := range uint64(200) {
		v := newRandomVhost(t, seed)
		i := NewInventory("/", v.there)
		for _, name := range v.asked() {
			want, declared := v.cascades[name]
			got, err := Cascade(t.Context(), i, "/", name)
			switch {
			case err == nil && (!declared || !sameObjects(got, want)):
				t.Errorf("seed %d: %q is taken for %+v, declared %t %+v, damaged %t",
					seed, name, got, declared, want, v.damaged[name])
			case err == nil && !v.damaged[name]:
				healthy++
				want.CreateDeliveryExchange = got.CreateDeliveryExchange // several may end in it
				expandsTo(t, got, delay.Config(want))
			case err == nil:
				mended++
			case declared && !v.damaged[name]:
				t.Errorf("seed %d: %q is healthy (%+v): %v", seed, name, want, err)
			case declared:
				refused++
			default:
				v.namesTheEntry(t, seed, name, err)
			}
			v.askForLadder(t, i, seed, name)
		}
		if want := v.healthy(); !subset(want, entries(t, i, KindCascade)) {
			t.Errorf("seed %d: found %q, want at least %q", seed, entries(t, i, KindCascade), want)
		}
	}
	t.Logf("%d healthy, %d damaged and recognized, %d damaged and refused", healthy, mended, refused)
	if mended < refused {
		t.Errorf("of damaged cascades, %d are recognized and %d are refused", mended, refused)
	}
}

func (v *randomVhost) askForLadder(t *testing.T, i *Inventory, seed uint64, name string) {
	t.Helper()
	want, declared := v.ladders[name]
	got, err := Ladder(t.Context(), i, "/", name)
	var other *OtherEntryError
	right := got.QueueName == want.QueueName && got.DeliveryExchange == want.DeliveryExchange &&
		subset(got.Delays, want.Delays)
	switch {
	case err == nil && !declared && v.isKeyed(got):
	case err == nil && (!declared || !right):
		t.Errorf("seed %d: %q is taken for the ladder %+v, declared %t %+v", seed, name, got, declared, want)
	case err != nil && declared && !v.damaged[name]:
		t.Errorf("seed %d: the ladder %q is healthy: %v", seed, name, err)
	case err == nil || v.damaged[name] || v.cascades[name].Levels == 0:
	case !errors.As(err, &other) || other.Kind != KindCascade || other.Entry != name:
		t.Errorf("seed %d: %q is no ladder but a cascade: %v", seed, name, err)
	}
}

// namesTheEntry checks the error for an exchange that is no entry of a cascade, if it belongs to a healthy one, or to a
// ladder.
func (v *randomVhost) namesTheEntry(t *testing.T, seed uint64, name string, err error) {
	t.Helper()
	var other *OtherEntryError
	found := errors.As(err, &other)
	if found && v.cascades[other.Entry].Levels == 0 && v.ladders[other.Entry].Delays == nil {
		l, wrong := Ladder(t.Context(), NewInventory("/", v.there), "/", name)
		if wrong != nil || !v.isKeyed(l) {
			t.Errorf("seed %d: %q is said to belong to what was not declared: %v", seed, name, err)
		}
	}
	for entry, c := range v.cascades {
		for level := range c.Levels {
			if !v.damaged[entry] && name == c.Exchange(level) && (!found || other.Entry != entry) {
				t.Errorf("seed %d: the error for %q does not name its entry %q: %v", seed, name, entry, err)
			}
		}
	}
	_, isLadder := v.ladders[name]
	if isLadder && (!found || other.Kind != KindLadder || other.Entry != name) {
		t.Errorf("seed %d: the error for %q does not say that it is a ladder: %v", seed, name, err)
	}
}

// isKeyed tells whether a stranger's exchange is a ladder with keys of its own. All that it should have is there as it
// is, and it is no exchange of a healthy cascade.
func (v *randomVhost) isKeyed(l delay.Ladder) bool {
	for entry, c := range v.cascades {
		if _, owned := c.Expand().Exchanges[l.EntryExchange]; owned && !v.damaged[entry] {
			return false
		}
	}
	want := l.Expand()
	there := v.there.Part(want)
	return l.BindingKeys != nil && len(topology.Diff(want, there).MissingBindings) == 0 &&
		maps.EqualFunc(want.Queues, there.Queues, topology.Queue.Equal)
}

// sameObjects tells whether what matters most is the same: levels, names, times and the end.
func sameObjects(x, y delay.Cascade) bool {
	if x.Levels != y.Levels || x.Resolution != y.Resolution || x.DeliveryExchange != y.DeliveryExchange {
		return false
	}
	for level := range x.Levels {
		if x.Exchange(level) != y.Exchange(level) || x.QueueName.Name(level) != y.QueueName.Name(level) {
			return false
		}
	}
	return true
}

func subset(part, whole []string) bool {
	return !slices.ContainsFunc(part, func(each string) bool { return !slices.Contains(whole, each) })
}

func (v *randomVhost) healthy() []string {
	var entries []string
	for entry := range v.cascades {
		if !v.damaged[entry] {
			entries = append(entries, entry)
		}
	}
	return entries
}

func newRandomVhost(t *testing.T, seed uint64) *randomVhost {
	v := &randomVhost{
		rand.New(rand.NewPCG(seed, 1)), //nolint:gosec // to be repeatable
		topology.New(), map[string]delay.Cascade{}, map[string]delay.Ladder{}, map[string]bool{}, nil,
	}
	for range 1 + v.IntN(4) {
		c := delaytest.Resolve(t, v.config())
		expanded := c.Expand()
		if v.add(expanded) {
			v.cascades[expanded.Entry] = c
		}
	}
	for range v.IntN(3) {
		name := oneOf(v, "m", "retry", "x-1", "m.delay-07")
		l := delaytest.Resolve(t, delay.LadderConfig{
			Vhost: "/", Name: name, EntryExchange: oneOf(v, "", name+".delay-03", "x-3"),
			Delays:                 []string{"5s", "1m", "10m", "1h"}[:1+v.IntN(4)],
			CreateDeliveryExchange: true, ParkUnroutable: v.IntN(2) == 0,
		})
		expanded := l.Expand()
		if v.add(expanded) {
			v.ladders[expanded.Entry] = l
		}
	}
	for range v.IntN(6) {
		v.addStranger()
	}
	for _, entry := range slices.Sorted(maps.Keys(v.cascades)) {
		if v.IntN(2) == 0 {
			v.damaged[entry] = true
			for n := range 1 + v.IntN(3) {
				v.damage(v.cascades[entry], n)
			}
		}
	}
	return v
}

var formatsInUse = []delay.Format{
	"m.delay-%02d", "m.delay-%d", "m.delay-1%d", "m.delay-0%d", "m.delay-2%d", "m2.delay-%02d",
	"x-%d", "x-1%d", "10-%02d", "10-%d", "a%%b%03d", "%d0x", "0x-%d", "n%dn1", "v2.%d.1", "%dx-1",
}

func (v *randomVhost) config() delay.Config {
	if v.IntN(10) == 0 {
		return delay.Config{Vhost: "/", Preset: oneOf(v, delay.NServiceBus, delay.NServiceBusV1, delay.Celery),
			CreateDeliveryExchange: true}
	}
	c := delay.Config{
		Vhost: "/", Levels: 1 + v.IntN(14), QueueType: oneOf(v, delay.Quorum, delay.Classic),
		Resolution: oneOf(v, time.Second, 100*time.Millisecond, 1024*time.Millisecond, time.Minute),
		StrictKeys: v.IntN(2) == 0, InternalLevels: v.IntN(2) == 0, CreateDeliveryExchange: v.IntN(2) == 0,
	}
	c.Lookahead = oneOf(v, 1, c.Levels, c.Levels, 1+v.IntN(c.Levels))
	if v.IntN(3) == 0 {
		c.Name, c.ParkUnroutable = oneOf(v, "m", "tasks", "m.delay-1", "50%"), v.IntN(2) == 0
		return c
	}
	c.ExchangeName = oneOf(v, formatsInUse...)
	c.QueueName = oneOf(v, c.ExchangeName, c.ExchangeName, "q-%d", "q-%02d", "1q%d")
	c.DeliveryExchange = oneOf(v, "amq.topic", "delivery", "m.delivery", "d-1")
	c.CreateDeliveryExchange = c.CreateDeliveryExchange && c.DeliveryExchange != "amq.topic"
	return c
}

func oneOf[T any](v *randomVhost, values ...T) T { return values[v.IntN(len(values))] }

// add adds objects with new names, but for the end, which may be shared.
func (v *randomVhost) add(more topology.Topology) bool {
	for name := range more.Exchanges {
		if _, there := v.there.Exchanges[name]; there {
			return false
		}
	}
	for name := range more.Queues {
		if _, there := v.there.Queues[name]; there {
			return false
		}
	}
	maps.Copy(v.there.Exchanges, more.Exchanges)
	maps.Copy(v.there.Queues, more.Queues)
	maps.Copy(v.there.Bindings, more.Bindings)
	return true
}

var temptingKeys = []string{
	"1.#", "0.#", "*.1.#", "*.0.#", "*.*.1.#", "1.*.*.*.#", "0.1.#", "0.0.#", "0.0.*.#",
	"#", "5s.*.#", "5s.#", "1", "*.*.#",
}

// addStranger adds a topic exchange with a name and bindings that are like those of others.
func (v *randomVhost) addStranger() {
	name := oneOf(v, formatsInUse...).Name(v.IntN(15))
	if _, there := v.there.Exchanges[name]; there {
		return
	}
	v.there.Exchanges[name] = topology.Exchange{Name: name, Type: "topic", Durable: true}
	for range v.IntN(3) {
		v.bindStranger(name)
	}
}

// bindStranger binds an application's queue, which may be one for retries, or an exchange.
func (v *randomVhost) bindStranger(source string) {
	b := topology.Binding{
		Source: source, RoutingKey: oneOf(v, temptingKeys...),
		DestinationType: topology.ToQueue, Destination: oneOf(v, "audit", "retry-1", "retry-0", "3"),
	}
	if v.IntN(3) == 0 {
		b.DestinationType, b.Destination = topology.ToExchange, oneOf(v, "events", "events-0")
		v.there.Exchanges[b.Destination] = topology.Exchange{Name: b.Destination, Type: "topic", Durable: true}
	} else if _, there := v.there.Queues[b.Destination]; !there {
		q := topology.Queue{Name: b.Destination, Durable: true}
		if b.Destination != "audit" {
			end := oneOf(v, source, "events")
			q.Arguments = topology.Arguments{"x-message-ttl": int64(7000), "x-dead-letter-exchange": end}
		}
		v.there.Queues[b.Destination] = q
	}
	v.there.Bindings.Add(b)
}

// damage does one thing to a cascade. Whoever changes most of the times that queues show makes another
// cascade of it.
func (v *randomVhost) damage(c delay.Cascade, before int) {
	level := v.IntN(c.Levels)
	exchange, queue := c.Exchange(level), c.QueueName.Name(level)
	switch v.IntN(5) {
	case 0:
		delete(v.there.Queues, queue)
		maps.DeleteFunc(v.there.Bindings, func(b topology.Binding, _ struct{}) bool {
			return b.DestinationType == topology.ToQueue && b.Destination == queue
		})
	case 1:
		delete(v.there.Exchanges, exchange)
		v.gone = append(v.gone, exchange)
		maps.DeleteFunc(v.there.Bindings, func(b topology.Binding, _ struct{}) bool {
			return b.Source == exchange || b.DestinationType == topology.ToExchange && b.Destination == exchange
		})
	case 2:
		for _, b := range v.there.Bindings.Sorted() {
			if b.Source == exchange && v.IntN(3) == 0 {
				delete(v.there.Bindings, b)
			}
		}
	case 3:
		if q, there := v.there.Queues[queue]; there && before == 0 && c.Levels > 4 {
			q.Arguments = maps.Clone(q.Arguments)
			q.Arguments["x-message-ttl"] = oneOf(v, int64(1), int64(8000), 2*c.DelayQueues(level)[0].TTL.Milliseconds())
			v.there.Queues[queue] = q
		}
	case 4:
		if _, there := v.there.Exchanges[exchange]; there {
			v.bindStranger(exchange)
		}
	}
}

var number = regexp.MustCompile(`[0-9]+`)

// asked are all names of exchanges, those that are gone, and those with a neighbouring number.
func (v *randomVhost) asked() []string {
	names := append(slices.Collect(maps.Keys(v.there.Exchanges)), v.gone...)
	for _, name := range names {
		for _, at := range number.FindAllStringIndex(name, -1) {
			n, err := strconv.Atoi(name[at[0]:at[1]])
			if err != nil {
				continue
			}
			for _, neighbour := range []int{n - 1, n + 1, n + 2} {
				for _, verb := range []string{"%d", fmt.Sprintf("%%0%dd", at[1]-at[0])} {
					text := strings.TrimPrefix(fmt.Sprintf(verb, neighbour), "-")
					names = append(names, name[:at[0]]+text+name[at[1]:])
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// An entry that has lost the bindings to its queues still shows how many digits it looks at.
func TestRecognizeEntryWithoutQueues(t *testing.T) {
	config := delay.Config{Name: "t", Levels: 3, StrictKeys: true, ParkUnroutable: true, CreateDeliveryExchange: true}
	whole := delaytest.Expand(t, config)
	for b := range whole.Bindings {
		if b.Source == whole.Entry && b.DestinationType == topology.ToQueue {
			delete(whole.Bindings, b)
		}
	}
	got, err := Cascade(t.Context(), NewInventory("/", whole), "/", whole.Entry)
	if err != nil || got.Levels != 3 || got.Name != "t" || got.DeliveryExchange != "t.delivery" {
		t.Errorf("recognized as %+v: %v", got, err)
	}
}

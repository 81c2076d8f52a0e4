package recognize

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay/delaytest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/policy"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// A recognized cascade expands to the existing objects, whatever the names look like.
func TestRecognizeRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := delaytest.AnyConfig().Draw(t, "config")
		b := declared(t, c)
		got, err := Cascade(t.Context(), b, c.Vhost, b.there.Entry)
		if err != nil {
			t.Fatal(err)
		}
		expandsTo(t, got, c)
		if got.Vhost != c.Vhost {
			t.Fatalf("vhost %q, want %q", got.Vhost, c.Vhost)
		}
	})
}

// With names as people give them, the configuration itself comes back, in few requests.
func TestRecognizeGivesBackTheConfiguration(t *testing.T) {
	for _, name := range []string{"t", "tasks", "v2.tasks", "100%"} {
		for _, levels := range []int{1, 2, 5, 10, 11, 12, 17, 28, 29} {
			for _, lookahead := range []int{1, 2, 10, levels} {
				for _, strict := range []bool{false, true} {
					for _, parks := range []bool{false, true} {
						comesBack(t, delay.Config{
							Vhost: "/", Name: name, Levels: levels, Lookahead: min(lookahead, levels),
							StrictKeys:     strict,
							InternalLevels: parks && levels > 1, ParkUnroutable: parks, CreateDeliveryExchange: true,
						})
					}
				}
			}
		}
	}
}

func comesBack(t *testing.T, c delay.Config) {
	t.Helper()
	want := delaytest.Resolve(t, c)
	b := declared(t, c)
	got, err := Cascade(t.Context(), b, "/", b.there.Entry)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v (%v), want %+v", got, err, want)
	}
	most := c.Levels + 6
	if !c.InternalLevels {
		most += c.Levels - 2 // any of them could be internal
	}
	if len(c.Units) > 0 {
		most += c.Levels + 2 // a longer queue could have lost its binding
	}
	if b.lookups > most {
		t.Errorf("%+v took %d lookups", c, b.lookups)
	}
}

func TestRecognizeVectors(t *testing.T) {
	for name, want := range delaytest.Vectors {
		t.Run(name, func(t *testing.T) {
			resolved := delaytest.Resolve(t, want)
			resolved.Vhost = "delays"
			b := &fakeBroker{t: t, there: delaytest.ReadVector(t, name), delivery: resolved.DeliveryExchange}
			got, err := Cascade(t.Context(), b, "delays", resolved.Exchange(resolved.Levels-1))
			if err != nil || !reflect.DeepEqual(got, resolved) {
				t.Errorf("got %+v (%v), want %+v", got, err, resolved)
			}
		})
	}
}

func TestRecognizePadding(t *testing.T) {
	for _, test := range []struct {
		format delay.Format
		levels int
		want   delay.Format
	}{
		{"celery_delayed_%d", 28, "celery_delayed_%d"},
		{"celery_delayed_%d", 5, "celery_delayed_%d"},
		{"nsb.v2.delay-level-%02d", 28, "nsb.v2.delay-level-%02d"},
		{"nsb.v2.delay-level-%02d", 3, "nsb.v2.delay-level-%02d"},
		{"t%3d", 28, "t%3d"},
		{"t.%03d", 28, "t.%03d"},
		{"t.%03d", 5, "t.%03d"},
		{"t 27 of %d", 28, "t 27 of %d"},
		{"t1%d", 17, "t1%d"},
		{"%d levels", 12, "%d levels"},
		{"%02d in 16", 17, "%02d in 16"},
		{"100%%%d", 11, "100%%%d"},
		{"t%d-v1", 1, "t%d-v1"},
	} {
		for _, lookahead := range []int{1, test.levels} {
			c := delay.Config{
				Levels: test.levels, ExchangeName: test.format, QueueName: test.format, DeliveryExchange: "delivery",
				CreateDeliveryExchange: true, Lookahead: lookahead,
			}
			b := declared(t, c)
			got, err := Cascade(t.Context(), b, "", b.there.Entry)
			if err != nil || got.Levels != test.levels || got.ExchangeName != test.want || got.QueueName != test.want {
				t.Errorf("%q on %d levels: got %+v (%v)", test.format, test.levels, got, err)
			}
		}
	}
}

func TestRecognizeName(t *testing.T) {
	for _, test := range []struct {
		name   string
		config delay.Config
		want   string
	}{
		{"exchange names", delay.Config{Name: "t", QueueName: "q%d", DeliveryExchange: "d"}, "t"},
		{"queue names", delay.Config{Name: "t", ExchangeName: "x%d", DeliveryExchange: "d"}, "t"},
		{"the delivery exchange", delay.Config{Name: "t", ExchangeName: "x%d", QueueName: "q%d"}, "t"},
		{"parking before other names", delay.Config{Name: "t", ExchangeName: "x.delay-%02d", ParkUnroutable: true},
			"t"},
		{"nothing", delay.Config{ExchangeName: "x%d", QueueName: "q%d", DeliveryExchange: "d"}, ""},
	} {
		test.config.Levels = 3
		b := declared(t, test.config)
		got, err := Cascade(t.Context(), b, "/", b.there.Entry)
		if err != nil || got.Name != test.want {
			t.Errorf("%s: got %q (%v), want %q", test.name, got.Name, err, test.want)
		}
	}
}

// Damage that leaves the information somewhere does not keep a cascade from being recognized.
func TestRecognizeDamaged(t *testing.T) {
	chain := delay.Config{Name: "t", Levels: 28, Lookahead: 1, CreateDeliveryExchange: true,
		StrictKeys: true, InternalLevels: true, ParkUnroutable: true}
	full := chain
	full.Lookahead = 28
	lax := full
	lax.StrictKeys = false
	short := chain
	short.Levels = 4
	deleteQueues := func(levels ...int) func(*topology.Topology) {
		return func(to *topology.Topology) {
			for _, level := range levels {
				delete(to.Queues, fmt.Sprintf("t.delay-%02d", level))
				maps.DeleteFunc(to.Bindings, func(b topology.Binding, _ struct{}) bool {
					return b.DestinationType == topology.ToQueue && b.Destination == fmt.Sprintf("t.delay-%02d", level)
				})
			}
		}
	}
	deleteExchange := func(name string) func(*topology.Topology) {
		return func(to *topology.Topology) {
			delete(to.Exchanges, name)
			maps.DeleteFunc(to.Bindings, func(b topology.Binding, _ struct{}) bool {
				return b.Source == name || b.DestinationType == topology.ToExchange && b.Destination == name
			})
		}
	}
	changeQueue := func(level int, key string, value any) func(*topology.Topology) {
		return func(to *topology.Topology) {
			q := to.Queues[fmt.Sprintf("t.delay-%02d", level)]
			q.Arguments = maps.Clone(q.Arguments)
			q.Arguments[key] = value
			to.Queues[q.Name] = q
		}
	}
	bind := func(source, key string, to topology.DestinationType, destination string) func(*topology.Topology) {
		return func(there *topology.Topology) {
			there.Bindings.Add(topology.Binding{Source: source, RoutingKey: key, DestinationType: to,
				Destination: destination})
		}
	}
	all := func(damages ...func(*topology.Topology)) func(*topology.Topology) {
		return func(to *topology.Topology) {
			for _, damage := range damages {
				damage(to)
			}
		}
	}
	audit := func(to *topology.Topology) { to.Queues["audit"] = topology.Queue{Name: "audit", Durable: true} }
	for _, test := range []struct {
		name   string
		config delay.Config
		damage func(*topology.Topology)
	}{
		{"queues in the middle are missing", chain, deleteQueues(9, 10, 11)},
		{"the lowest queue is missing", chain, deleteQueues(0)},
		{"the lowest queue leads back up", chain, changeQueue(0, "x-dead-letter-exchange", "t.delay-02")},
		{"the lowest queue leads nowhere", chain, changeQueue(0, "x-dead-letter-exchange", "")},
		{"the lowest exchange is missing", chain, deleteExchange("t.delay-00")},
		{"a TTL is wrong", chain, changeQueue(9, "x-message-ttl", int64(1))},
		{"a dead-letter exchange is wrong", chain, changeQueue(9, "x-dead-letter-exchange", "elsewhere")},
		{"all queues below the top are missing", chain, deleteQueues(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
			15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26)},
		{"the entry leads nowhere else", full, func(to *topology.Topology) {
			maps.DeleteFunc(to.Bindings, func(b topology.Binding, _ struct{}) bool {
				return b.Source == "t.delay-27" && b.RoutingKey != "1"+strings.Repeat(".*", 28)+".#" &&
					b.RoutingKey != strings.Repeat("0.", 27)+"1.*.#"
			})
		}},
		{"all queues but the top and the lowest are missing, without strict keys", lax, deleteQueues(1, 2, 3, 4, 5, 6,
			7, 8, 9, 10, 11, 12)},
		{"the exchange at the next level is missing", full, deleteExchange("t.delay-26")},
		{"the delivery exchange is missing", chain, deleteExchange("t.delivery")},
		{"the parking exchange is missing", chain, deleteExchange("t.unroutable")},
		{"the parking queue is missing", chain, func(to *topology.Topology) { delete(to.Queues, "t.unroutable") }},
		{"a stranger is bound like the top queue", short, all(audit, bind("t.delay-03", "1.*.*.*.*.#", topology.ToQueue,
			"audit"))},
		{"a stranger is bound like the top queue of a lax entry", short,
			all(audit, bind("t.delay-03", "1.#", topology.ToQueue, "audit"))},
		{"a stranger is bound like a further queue", short,
			all(audit, bind("t.delay-03", "0.1.*.*.*.#", topology.ToQueue, "audit"))},
		{"an exchange is bound beside the delivery exchange", full, bind("t.delay-27", strings.Repeat("0.", 28)+"*.#",
			topology.ToExchange, "amq.topic")},
		{"the lax key of the top queue is left over", short, bind("t.delay-03", "1.#", topology.ToQueue, "t.delay-03")},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := declared(t, test.config)
			test.damage(&b.there)
			got, err := Cascade(t.Context(), b, "/", b.there.Entry)
			if err != nil {
				t.Fatal(err)
			}
			expandsTo(t, got, test.config)
		})
	}
}

// One internal exchange below the entry shows that all of them are to be internal.
func TestRecognizeInternalLevels(t *testing.T) {
	plain := delay.Config{Name: "t", Levels: 4, StrictKeys: true, ParkUnroutable: true, CreateDeliveryExchange: true}
	internal := plain
	internal.InternalLevels = true
	for _, test := range []struct {
		name     string
		config   delay.Config
		internal map[string]bool
		want     bool
	}{
		{"as declared", internal, nil, true},
		{"plain", plain, nil, false},
		{"all but one made plain", internal, map[string]bool{"t.delay-02": false, "t.delay-01": false}, true},
		{"one made internal", plain, map[string]bool{"t.delay-00": true}, true},
		{"the entry made internal", plain, map[string]bool{"t.delay-03": true}, false},
		{"what is around made internal", plain, map[string]bool{"t.delivery": true, "t.unroutable": true}, false},
	} {
		b := declared(t, test.config)
		for name, internal := range test.internal {
			e := b.there.Exchanges[name]
			e.Internal = internal
			b.there.Exchanges[name] = e
		}
		got, err := Cascade(t.Context(), b, "/", b.there.Entry)
		if err != nil || got.InternalLevels != test.want {
			t.Errorf("%s: got %+v (%v)", test.name, got, err)
		}
	}
}

// An alternate exchange that is not the cascade's own stays what it is.
func TestRecognizeForeignAlternateExchange(t *testing.T) {
	for _, alternate := range []topology.Exchange{
		{Name: "company.lost", Type: "fanout", Durable: true},
		{Name: "company.unroutable", Type: "topic", Durable: true},
		{Name: ".unroutable", Type: "fanout", Durable: true},
	} {
		b := declared(t, delay.Config{Name: "t", Levels: 3, CreateDeliveryExchange: true})
		e := b.there.Exchanges["t.delay-02"]
		e.Arguments = topology.Arguments{"alternate-exchange": alternate.Name}
		b.there.Exchanges[e.Name], b.there.Exchanges[alternate.Name] = e, alternate
		got, err := Cascade(t.Context(), b, "/", e.Name)
		if err != nil || got.ParkUnroutable || got.Name != "t" {
			t.Errorf("%q: got %+v (%v)", alternate.Name, got, err)
		}
	}
}

func TestRecognizeDeliveryExchange(t *testing.T) {
	own := delay.Config{Name: "t", Levels: 3, ParkUnroutable: true, CreateDeliveryExchange: true}
	for _, test := range []struct {
		name   string
		change func(*topology.Topology)
		want   bool
	}{
		{"as the cascade declares it", func(*topology.Topology) {}, true},
		{"missing", func(to *topology.Topology) { delete(to.Exchanges, "t.delivery") }, true},
		{"without alternate exchange", func(to *topology.Topology) {
			to.Exchanges["t.delivery"] = topology.Exchange{Name: "t.delivery", Type: "topic", Durable: true}
		}, false},
		{"of another type", func(to *topology.Topology) {
			e := to.Exchanges["t.delivery"]
			e.Type = "direct"
			to.Exchanges["t.delivery"] = e
		}, false},
	} {
		b := declared(t, own)
		test.change(&b.there)
		got, err := Cascade(t.Context(), b, "/", b.there.Entry)
		if err != nil || got.CreateDeliveryExchange != test.want || got.DeliveryExchange != "t.delivery" {
			t.Errorf("%s: got %+v (%v)", test.name, got, err)
		}
	}
	b := declared(t, delay.Config{Name: "t", Levels: 3, DeliveryExchange: "amq.topic"})
	got, err := Cascade(t.Context(), b, "/", b.there.Entry)
	if err != nil || got.CreateDeliveryExchange {
		t.Errorf("amq.topic: got %+v (%v)", got, err)
	}
}

// Damage that could make another cascade of it is seen through, or is an error.
func TestRecognizeMisleadingDamage(t *testing.T) {
	change := func(queue, key string, value any) func(topology.Topology) {
		return func(there topology.Topology) {
			q := there.Queues[queue]
			q.Arguments = maps.Clone(q.Arguments)
			q.Arguments[key] = value
			there.Queues[queue] = q
		}
	}
	for name, test := range map[string]struct {
		config delay.Config
		damage func(topology.Topology)
		want   string // none if it comes back
	}{
		"a lower level has a wrong key": {delay.Config{Preset: delay.NServiceBusV1, CreateDeliveryExchange: true},
			func(there topology.Topology) {
				b := topology.Binding{Source: "nsb.delay-level-19", RoutingKey: "*.*.*.*.*.*.*.*.1.#",
					DestinationType: topology.ToQueue, Destination: "nsb.delay-level-19"}
				delete(there.Bindings, b)
				b.RoutingKey = "*." + b.RoutingKey
				there.Bindings.Add(b)
			}, `it goes on below exchange "nsb.delay-level-20" with exchange "nsb.delay-level-19"`},
		"a TTL is as in another base": {delay.Config{Name: "t", Base: 3, Levels: 3, StrictKeys: true},
			change("t.delay-02-1", "x-message-ttl", int64(18_000)), ""},
		"a damaged queue is better than none": {delay.Config{Name: "t", Levels: 2, ParkUnroutable: true},
			func(there topology.Topology) {
				change("t.delay-01", "x-message-ttl", int64(201))(there)
				delete(there.Bindings, topology.Binding{Source: "t.delay-01", RoutingKey: "1.#",
					DestinationType: topology.ToQueue, Destination: "t.delay-01"})
			}, ""},
		"only the lowest exchange shows its name": {delay.Config{ExchangeName: "x-1%d", QueueName: "q-%02d",
			DeliveryExchange: "d", Levels: 2, StrictKeys: true}, change("q-01", "x-queue-type", "stream"), ""},
		"one of two queues is of another type": {delay.Config{Name: "t", Levels: 2, StrictKeys: true},
			change("t.delay-01", "x-queue-type", "classic"), `do not agree on their type: queue ` +
				`"t.delay-01" is of type classic, and queue "t.delay-00" of type quorum`},
	} {
		t.Run(name, func(t *testing.T) {
			b := declared(t, test.config)
			test.damage(b.there)
			got, err := Cascade(t.Context(), b, "/", b.there.Entry)
			switch {
			case (err != nil) != (test.want != ""), err != nil && !strings.Contains(err.Error(), test.want):
				t.Errorf("got %+v and %v, want %q", got, err, test.want)
			case err == nil:
				expandsTo(t, got, test.config)
			}
		})
	}
}

func TestRecognizeErrors(t *testing.T) {
	change := func(key string, value any) func(*fakeBroker) {
		return func(b *fakeBroker) {
			q := b.there.Queues["t.delay-00"]
			q.Arguments = maps.Clone(q.Arguments)
			q.Arguments[key] = value
			b.there.Queues[q.Name] = q
		}
	}
	for _, test := range []struct {
		name   string
		levels int
		change func(*fakeBroker)
		want   string
	}{
		{"nothing", 1, func(b *fakeBroker) { b.there = topology.New() }, "there is no such exchange"},
		{"no entry above one without keys", 2, func(b *fakeBroker) {
			delete(b.there.Exchanges, "t.delay-01")
			clear(b.there.Bindings)
		}, "there is no such exchange"},
		{"other type", 1, func(b *fakeBroker) {
			b.there.Exchanges["t.delay-00"] = topology.Exchange{Name: "t.delay-00", Type: "fanout"}
		}, "it is a fanout exchange, and the entry of a cascade or a ladder is a topic exchange"},
		{"no bindings", 1, func(b *fakeBroker) { clear(b.there.Bindings) },
			`it has no binding like that of a cascade's top level, with a key such as "1.#"`},
		{"no queue", 1, func(b *fakeBroker) { delete(b.there.Queues, "t.delay-00") },
			`there is no queue such as "t.delay-00"`},
		{"no TTL", 1, change("x-message-ttl", nil),
			`queue "t.delay-00" is not like that of level 0 of 1: it has no valid x-message-ttl`},
		{"TTL of nothing", 1, change("x-message-ttl", int64(0)), "it has no valid x-message-ttl"},
		{"no dead-letter exchange", 1, change("x-dead-letter-exchange", ""), "it has no x-dead-letter-exchange"},
		{"another dead-letter exchange", 1, change("x-dead-letter-exchange", "elsewhere"),
			"nothing shows its delivery exchange"},
		{"a stream", 1, change("x-queue-type", "stream"), "it is a stream queue"},
		{"times that do not agree", 2, change("x-message-ttl", int64(7)),
			"its queues do not agree on the x-message-ttl of the lowest level, which can be 1s or 7ms"},
		{"nothing shows the end", 4, func(b *fakeBroker) {
			delete(b.there.Queues, "t.delay-00")
			unbindAll(b.there, "t.delay-00")
		}, `nothing shows its delivery exchange: queue "t.delay-00" and exchange "t.delay-00" do not lead to one and ` +
			`the same`},
		{"the broker fails", 4, func(b *fakeBroker) { b.failure = errors.New("connection refused") },
			"connection refused"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := declared(t, delay.Config{Name: "t", Levels: test.levels, Lookahead: 1})
			entry := b.there.Entry
			test.change(b)
			got, err := Cascade(t.Context(), b, "orders", entry)
			prefix := fmt.Sprintf("recognize the cascade behind exchange %q in vhost %q: ", entry, "orders")
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), prefix) {
				t.Errorf("got %+v and %v, want %q", got, err, test.want)
			}
		})
	}
}

// The name of an exchange ends like units by chance, hours and milliseconds. Such a cascade would have 3.6 million
// queues, and nobody looks for them.
func TestRecognizeUnitsByChance(t *testing.T) {
	there := topology.New()
	there.Exchanges["fresh.msgs"] = topology.Exchange{Name: "fresh.msgs", Type: "topic", Durable: true}
	there.Queues["keep-1h"] = topology.Queue{Name: "keep-1h", Durable: true, Arguments: topology.Arguments{
		"x-queue-type": "quorum", "x-message-ttl": int64(3600000), "x-dead-letter-exchange": "fresmsgs"}}
	there.Bindings.Add(topology.Binding{Source: "fresh.msgs", RoutingKey: "1.#", DestinationType: topology.ToQueue,
		Destination: "keep-1h"})
	b := holding(t, there)
	for _, named := range layouts("fresh.msgs") {
		for _, c := range newObjects(t.Context(), b, "/").candidates(named) {
			if len(c.places) > delay.MaxQueues+delay.MaxLevels {
				t.Fatalf("with the units %v, it looks for %d queues", c.Units, len(c.places))
			}
		}
	}
	if got, err := Cascade(t.Context(), b, "/", "fresh.msgs"); err == nil {
		t.Errorf("it is %+v", got)
	}
}

// Other numbers in the names of queues are no digits.
func TestRecognizeNumbersInNames(t *testing.T) {
	for _, format := range []delay.Format{"t.delay-%02d.v1", "t.delay-%02d-1", "t.delay-%02ddc1"} {
		for levels := range 3 {
			c := delay.Config{Name: "t", Levels: levels + 1, QueueName: format, CreateDeliveryExchange: true}
			b := declared(t, c)
			got, err := Cascade(t.Context(), b, "/", b.there.Entry)
			if err != nil {
				t.Fatal(err)
			}
			expandsTo(t, got, c)
		}
	}
}

// An exchange that is no entry of a cascade is refused with the name of the one that is, where there is one.
func TestRecognizeNamesTheEntry(t *testing.T) {
	full := delay.Config{Name: "m", Levels: 5, StrictKeys: true, ParkUnroutable: true, CreateDeliveryExchange: true}
	chain := delay.Config{ExchangeName: "10-%02d", QueueName: "10-%02d", DeliveryExchange: "amq.topic", Levels: 12,
		Lookahead: 1}
	remove := func(there topology.Topology, name string) {
		delete(there.Exchanges, name)
		maps.DeleteFunc(there.Bindings, func(b topology.Binding, _ struct{}) bool {
			return b.Source == name || b.DestinationType == topology.ToExchange && b.Destination == name
		})
	}
	for _, test := range []struct {
		config delay.Config
		gone   string
		asked  string
		want   string // the entry named in the error
		reason string
	}{
		{full, "", "m.delay-05", "m.delay-04", "there is no such exchange"},
		{full, "", "m.delay-06", "m.delay-04", "there is no such exchange"},
		{full, "", "m.delay-02", "m.delay-04", "skip 2 words, so it is a level in the middle of a cascade"},
		{full, "", "m.delay-00", "m.delay-04", "skip 4 words"},
		{full, "m.delay-02", "m.delay-02", "m.delay-04", "there is no such exchange"},
		{full, "m.delay-04", "m.delay-03", "", "skip 1 word"},
		{full, "m.delay-04", "m.delay-05", "", "there is no such exchange"},
		{full, "", "m.delivery", "", "it has no binding"},
		{chain, "", "10-12", "10-11", "there is no such exchange"},
		{chain, "", "10-05", "10-11", "skip 6 words"},
		{chain, "", "11-00", "10-11", "there is no such exchange"},
	} {
		t.Run(test.asked+" without "+test.gone, func(t *testing.T) {
			b := declared(t, test.config)
			b.delivery = "" // it may be asked for itself
			remove(b.there, test.gone)
			got, err := Cascade(t.Context(), b, "/", test.asked)
			var other *OtherEntryError
			found := errors.As(err, &other)
			if err == nil || found != (test.want != "") || found && other.Entry != test.want ||
				!strings.Contains(err.Error(), test.reason) {
				t.Errorf("got %+v and %v, want %q and %q", got, err, test.want, test.reason)
			}
		})
	}
}

// An entry that is gone, or leads nowhere, is one as long as the exchange below proves it.
func TestRecognizeWithoutEntry(t *testing.T) {
	for _, c := range []delay.Config{
		{Name: "t", Levels: 4, StrictKeys: true, ParkUnroutable: true, CreateDeliveryExchange: true},
		{Name: "50%.t", Levels: 2, StrictKeys: true, ParkUnroutable: true},
		{Name: "t", Levels: 28, StrictKeys: true, CreateDeliveryExchange: true, Lookahead: 1},
		{ExchangeName: "x-%d", QueueName: "q-%d", DeliveryExchange: "d", Levels: 12, StrictKeys: true,
			QueueType:  delay.Classic,
			Resolution: time.Minute},
	} {
		for _, gone := range []bool{false, true} {
			t.Run(fmt.Sprintf("%+v gone %t", c, gone), func(t *testing.T) {
				b := declared(t, c)
				entry := b.there.Entry
				unbindAll(b.there, entry)
				if gone {
					delete(b.there.Exchanges, entry)
				}
				got, err := Cascade(t.Context(), b, "", entry)
				if err != nil {
					t.Fatal(err)
				}
				expandsTo(t, got, c)
			})
		}
	}
}

// The exchanges of another cascade have the names that those of the first would have with padding.
func TestRecognizeBesideItsPaddedNames(t *testing.T) {
	bare := delay.Config{ExchangeName: "m.delay-%d", QueueName: "q-%02d", DeliveryExchange: "d", Levels: 14,
		StrictKeys: true, CreateDeliveryExchange: true}
	padded := delay.Config{ExchangeName: "m.delay-0%d", QueueName: "p-%02d", DeliveryExchange: "d", Levels: 14,
		StrictKeys: true, CreateDeliveryExchange: true}
	b := declared(t, bare)
	other := delaytest.Expand(t, padded)
	maps.Copy(b.there.Exchanges, other.Exchanges)
	maps.Copy(b.there.Queues, other.Queues)
	maps.Copy(b.there.Bindings, other.Bindings)
	for entry, want := range map[string]delay.Config{"m.delay-13": bare, "m.delay-013": padded} {
		got, err := Cascade(t.Context(), b, "", entry)
		if err != nil {
			t.Fatal(err)
		}
		expandsTo(t, got, want)
	}
}

// Every request can fail, and none of the failures is taken for something missing.
func TestRecognizePassesFailuresOn(t *testing.T) {
	failure := errors.New("connection reset")
	c := delay.Config{Name: "t", Levels: 28, Lookahead: 1, CreateDeliveryExchange: true, ParkUnroutable: true}
	for after := 0; ; after++ {
		b := declared(t, c)
		b.failure, b.failsAfter = failure, after
		if _, err := Cascade(t.Context(), b, "/", b.there.Entry); err == nil {
			if b.lookups > after {
				t.Fatalf("the failure of lookup %d has no effect", after+1)
			}
			return
		} else if !errors.Is(err, failure) {
			t.Fatalf("lookup %d: got %v", after+1, err)
		}
	}
}

// However little is left of a cascade, the answer is a valid configuration or an error.
func TestRecognizeSurvivesAnyDamage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := delaytest.AnyConfig().Draw(t, "config")
		b := declared(t, c)
		for range rapid.IntRange(1, 5).Draw(t, "damages") {
			exchange := rapid.SampledFrom(slices.Sorted(maps.Keys(b.there.Exchanges))).Draw(t, "exchange")
			queue := rapid.SampledFrom(slices.Sorted(maps.Keys(b.there.Queues))).Draw(t, "queue")
			binding := rapid.SampledFrom(b.there.Bindings.Sorted()).Draw(t, "binding")
			switch rapid.IntRange(0, 4).Draw(t, "damage") {
			case 0:
				b.there.Exchanges[exchange] = topology.Exchange{Name: exchange, Type: "direct"}
			case 1:
				b.there.Queues[queue] = topology.Queue{Name: queue, Arguments: topology.Arguments{}}
			case 2:
				q := b.there.Queues[queue]
				q.Arguments = maps.Clone(q.Arguments)
				key := rapid.SampledFrom([]string{"x-message-ttl", "x-dead-letter-exchange", "x-queue-type",
					"x-max-length"}).Draw(t, "argument")
				q.Arguments[key] = rapid.SampledFrom([]any{nil, int64(-1), int64(0), int64(1) << 62, "", "stream",
					exchange, b.there.Delivery, true}).Draw(t, "value")
				b.there.Queues[queue] = q
			case 3:
				binding.RoutingKey = rapid.SampledFrom([]string{"1.#", "1.*.#", "1" + strings.Repeat(".*", 126) + ".#",
					"", "#"}).Draw(t, "key")
				binding.Source = b.there.Entry
				b.there.Bindings.Add(binding)
			case 4:
				if len(b.there.Bindings) > 1 {
					delete(b.there.Bindings, binding)
				}
			}
		}
		if handsAllOn(b.there, b.there.Entry) {
			b.delivery = "" // only its bindings show that it is no entry
		}
		got, err := Cascade(t.Context(), b, c.Vhost, b.there.Entry)
		if err != nil {
			return
		}
		if again, err := delay.Config(got).Resolve(); err != nil || !reflect.DeepEqual(again, got) {
			t.Fatalf("recognized %+v, which resolves to %+v (%v)", got, again, err)
		}
	})
}

// handsAllOn tells whether an exchange passes every message on, as one in front of an entry does.
func handsAllOn(there topology.Topology, exchange string) bool {
	all, chosen := 0, 0
	for b := range there.Bindings {
		switch {
		case b.Source != exchange:
		case b.RoutingKey == "#":
			all++
		default:
			chosen++
		}
	}
	return all > 0 && chosen == 0
}

// fakeBroker answers from a topology.
type fakeBroker struct {
	t     delaytest.Tester
	there topology.Topology
	// delivery is the exchange whose bindings are the applications' own business.
	delivery string
	lookups  int
	// failure is what all lookups but the first few meet with.
	failure    error
	failsAfter int
}

// declared is a broker with the cascade and, if it does not create one, a delivery exchange that
// differs from what it would create.
func declared(t delaytest.Tester, c delay.Config) *fakeBroker {
	t.Helper()
	expanded := delaytest.Expand(t, c)
	return holding(t, expanded)
}

func holding(t delaytest.Tester, expanded topology.Topology) *fakeBroker {
	if _, creates := expanded.Exchanges[expanded.Delivery]; !creates && expanded.Delivery != "" {
		expanded.Exchanges[expanded.Delivery] = topology.Exchange{
			Name: expanded.Delivery, Type: "topic", Durable: true,
			Arguments: topology.Arguments{"alternate-exchange": "elsewhere"},
		}
	}
	return &fakeBroker{t: t, there: expanded, delivery: expanded.Delivery}
}

func (b *fakeBroker) Exchange(_ context.Context, name string) (topology.Exchange, bool, error) {
	e, exists := b.there.Exchanges[name]
	return e, exists, b.lookup()
}

func (b *fakeBroker) Queue(_ context.Context, name string) (topology.Queue, bool, error) {
	q, exists := b.there.Queues[name]
	return q, exists, b.lookup()
}

func (b *fakeBroker) Policies(ctx context.Context) (policy.Policies, error) {
	return NewInventory("/", b.there).Policies(ctx)
}

func (b *fakeBroker) BindingsFrom(_ context.Context, exchange string) ([]topology.Binding, error) {
	b.t.Helper()
	if exchange == b.delivery {
		b.t.Fatal("the delivery exchange was asked for its bindings")
	}
	from := slices.DeleteFunc(b.there.Bindings.Sorted(),
		func(binding topology.Binding) bool { return binding.Source != exchange })
	return from, b.lookup()
}

func (b *fakeBroker) lookup() error {
	b.lookups++
	if b.lookups > b.failsAfter {
		return b.failure
	}
	return nil
}

func unbindAll(there topology.Topology, source string) {
	maps.DeleteFunc(there.Bindings, func(b topology.Binding, _ struct{}) bool { return b.Source == source })
}

func expandsTo(t delaytest.Tester, got delay.Cascade, want delay.Config) {
	t.Helper()
	if !reflect.DeepEqual(got.Expand(), delaytest.Expand(t, want)) {
		t.Fatalf("recognized %+v, which is not %+v", got, want)
	}
}

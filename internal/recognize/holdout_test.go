package recognize

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay/delaytest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// application is what an application declares when it starts.
type application struct{ topology.Topology }

func (a application) exchange(kind string, names ...string) {
	for _, name := range names {
		a.Exchanges[name] = topology.Exchange{Name: name, Type: kind, Durable: true}
	}
}

// waits declares a queue that holds messages and hands them on, with their own key if there is none.
func (a application) waits(name string, wait time.Duration, to, key string) {
	a.Queues[name] = topology.Queue{Name: name, Durable: true,
		Arguments: topology.Arguments{"x-message-ttl": wait.Milliseconds(), "x-dead-letter-exchange": to}}
	if key != "" {
		a.Queues[name].Arguments["x-dead-letter-routing-key"] = key
	}
}

func (a application) quorum(name string) { a.Queues[name].Arguments["x-queue-type"] = "quorum" }

func (a application) work(names ...string) {
	for _, name := range names {
		a.Queues[name] = topology.Queue{Name: name, Durable: true}
	}
}

func (a application) bind(exchange, key, queue string) {
	a.Bindings.Add(topology.Binding{Source: exchange, RoutingKey: key, DestinationType: topology.ToQueue,
		Destination: queue})
}

// isHeldOut is one of the topologies that applications are known to declare. An import of each of the entries says what
// it refuses, or changes nothing. Damaged, it says what it refuses, or repairs just that.
type isHeldOut struct {
	declare func(a application)
	entries []string
	refused string
	damage  func(a application)
	// repairs are the objects that a repair of the damaged one makes anew.
	repairs        []string
	refusedDamaged string
}

const minute = time.Minute

var heldOut = map[string]isHeldOut{
	"1: direct entry, a fixed key": {
		declare: func(a application) {
			a.exchange("direct", "checkout.wait", "checkout.work")
			a.work("checkout")
			a.bind("checkout.work", "again", "checkout")
			for label, wait := range map[string]time.Duration{"5s": 5e9, "30s": 30e9, "2m": 2 * minute} {
				a.waits("checkout.wait."+label, wait, "checkout.work", "again")
				a.bind("checkout.wait", "checkout."+label, "checkout.wait."+label)
			}
		},
		entries: []string{"checkout.wait"},
		damage:  func(a application) { a.quorum("checkout.wait.30s") },
		repairs: []string{"checkout.wait.30s"},
	},
	"2: two ladders behind one direct entry": {
		declare: func(a application) {
			a.exchange("direct", "pay", "pay.in", "pay.out")
			for n, label := range []string{"10s", "1m"} {
				wait := []time.Duration{10e9, minute}[n]
				a.waits("in-"+label, wait, "pay.in", "")
				a.waits("out-"+label, wait, "pay.out", "")
				a.bind("pay", "in."+label, "in-"+label)
				a.bind("pay", "out."+label, "out-"+label)
			}
		},
		entries: []string{"pay"},
		refused: `its delay queues lead to different ends, and a ladder has one: queue "in-10s" leads to exchange ` +
			`"pay.in", and queue "out-10s" to exchange "pay.out". The guide`,
		damage:         func(a application) { delete(a.Queues["in-1m"].Arguments, "x-dead-letter-exchange") },
		refusedDamaged: `queue "out-10s" to exchange "pay.out". The guide`,
	},
	"3: topic entry, a key with a prefix": {
		declare: func(a application) {
			a.exchange("topic", "mail.later")
			a.exchange("fanout", "mail")
			a.waits("mail.later.queue", 20*time.Second, "mail", "")
			a.quorum("mail.later.queue")
			a.bind("mail.later", "later.20000.#", "mail.later.queue")
		},
		entries:        []string{"mail.later"},
		damage:         func(a application) { clear(a.Bindings) },
		refusedDamaged: "it has no binding like that of a ladder's rung",
	},
	"4: topic entry, a whole key": {
		declare: func(a application) {
			a.exchange("topic", "sync", "sync.due")
			a.waits("sync.q", 5*minute, "sync.due", "")
			a.bind("sync", "sync.5m", "sync.q")
			a.bind("sync.due", "sync.5m", "worker")
			a.work("worker")
		},
		entries: []string{"sync"},
		damage:  func(a application) { delete(a.Exchanges, "sync.due") },
		repairs: []string{"sync.due"},
	},
	"5: topic entry, every key, a queue of the same name": {
		declare: func(a application) {
			a.exchange("topic", "hold", "released")
			a.waits("hold", 45*time.Second, "released", "go")
			a.bind("hold", "#", "hold")
		},
		entries: []string{"hold"},
		damage:  func(a application) { delete(a.Queues["hold"].Arguments, "x-dead-letter-exchange") },
		refusedDamaged: `it has no binding like that of a ladder's rung, to a queue with a key such as "30s.*.#". ` +
			`Nor does it lead to a queue with an x-message-ttl and an x-dead-letter-exchange`,
	},
	"6: an entry for each rung": {
		declare: func(a application) {
			a.exchange("direct", "jobs")
			for label, wait := range map[string]time.Duration{"1m": minute, "10m": 10 * minute, "1h": 60 * minute} {
				a.exchange("topic", "jobs.in."+label)
				a.waits("jobs.in."+label, wait, "jobs", "")
				a.bind("jobs.in."+label, "#", "jobs.in."+label)
			}
		},
		entries:        []string{"jobs.in.10m", "jobs.in.1h", "jobs.in.1m"},
		damage:         func(a application) { a.exchange("headers", "jobs.in.1h", "jobs.in.1m", "jobs.in.10m") },
		refusedDamaged: "it is a headers exchange",
	},
	"7: retry queues of several work queues": {
		declare: func(a application) {
			a.exchange("direct", "again")
			for n, name := range []string{"bills", "stock"} {
				a.work(name)
				a.waits(name+".again", time.Duration(n+1)*10*time.Second, "", name)
				a.bind("again", name, name+".again")
			}
		},
		entries: []string{"again"},
		refused: `its delay queues lead to different ends, and a ladder has one: queue "bills.again" leads to ` +
			`queue "bills", and queue "stock.again" to queue "stock". The guide`,
		damage:         func(a application) { delete(a.Queues, "bills") },
		refusedDamaged: `queue "stock.again" to queue "stock". The guide`,
	},
	"8: nine rungs to several work queues": {
		declare: func(a application) {
			a.exchange("topic", "fleet")
			for _, name := range []string{"cars", "vans", "bikes"} {
				for n, wait := range []time.Duration{minute, 5 * minute, 15 * minute} {
					queue := fmt.Sprintf("%s.wait%d", name, n)
					a.waits(queue, wait, "fleet.work", name)
					a.bind("fleet", fmt.Sprintf("%s.%d", name, n), queue)
				}
			}
		},
		entries: []string{"fleet"},
		refused: `queue "bikes.wait0" leads to exchange "fleet.work" with key "bikes", and queue "cars.wait0" to ` +
			`exchange "fleet.work" with key "cars". The guide`,
		damage:         func(a application) { a.quorum("vans.wait1") },
		refusedDamaged: `queue "cars.wait0" to exchange "fleet.work" with key "cars". The guide`,
	},
	"9: ordinals, and a queue for given-up messages": {
		declare: func(a application) {
			a.exchange("direct", "upload", "upload.work")
			a.work("upload.dead")
			a.bind("upload", "dead", "upload.dead")
			for n, wait := range []time.Duration{7 * time.Second, 70 * time.Second, 700 * time.Second} {
				queue := fmt.Sprintf("upload-retry-%d", n+1)
				a.waits(queue, wait, "upload.work", "upload")
				a.bind("upload", fmt.Sprintf("attempt.%d", n+1), queue)
			}
		},
		entries: []string{"upload"},
		damage: func(a application) {
			a.Queues["upload-retry-2"].Arguments["x-message-ttl"] = int64(7000)
		},
		refusedDamaged: `queues "upload-retry-1" and "upload-retry-2" both hold messages for 7s, and each delay of a ` +
			"ladder has one queue. The guide",
	},
	"10: a cascade of 28 levels": {
		declare: func(a application) {
			a.exchange("topic", "delay-infra-delivery")
			name := func(level int) string { return fmt.Sprintf("delay-infra-%02d", level) }
			next := "delay-infra-delivery"
			for level := range 28 {
				skips := strings.Repeat("*.", 27-level)
				a.exchange("topic", name(level))
				a.waits(name(level), time.Second<<level, next, "")
				a.quorum(name(level))
				a.bind(name(level), skips+"1.#", name(level))
				a.Bindings.Add(topology.Binding{Source: name(level), RoutingKey: skips + "0.#",
					DestinationType: topology.ToExchange, Destination: next})
				next = name(level)
			}
		},
		entries: []string{"delay-infra-27"},
		damage:  func(a application) { delete(a.Queues, "delay-infra-03") },
		repairs: []string{"delay-infra-03"},
	},
}

// Applications declare these, under other names. An import changes nothing of them, or says what it has seen.
func TestHeldOutTopologies(t *testing.T) {
	for name, test := range heldOut {
		a := application{topology.New()}
		test.declare(a)
		for _, damaged := range []bool{false, true} {
			refused, repairs := test.refused, []string(nil)
			if damaged {
				test.damage(a)
				refused, repairs = test.refusedDamaged, test.repairs
			}
			for _, entry := range test.entries {
				t.Run(fmt.Sprintf("%s/%s/damaged=%t", name, entry, damaged), func(t *testing.T) {
					got, err := heldOutAt(t, NewInventory("/", a.Topology), entry)
					if refused == "" && err == nil {
						mustRepair(t, got, a.Topology, repairs)
					} else if err == nil || refused == "" || !strings.Contains(err.Error(), refused) {
						t.Errorf("recognized %+v, %v, want %q", got, err, refused)
					}
				})
			}
		}
	}
}

// mustRepair makes sure that a plan makes these objects anew, and changes nothing else.
func mustRepair(t *testing.T, desired, there topology.Topology, objects []string) {
	t.Helper()
	d := topology.Diff(desired, there.Part(desired))
	wrong := slices.Concat(d.MissingExchanges, d.MissingQueues, d.WrongQueues, d.WrongExchanges)
	if !slices.Equal(wrong, objects) || len(d.ForeignBindings)+len(d.MissingBindings) > 0 {
		t.Errorf("a plan has %+v, want changes of %q", d, objects)
	}
}

// heldOutAt is what an import recognizes behind the entry.
func heldOutAt(t *testing.T, look Lookup, entry string) (topology.Topology, error) {
	t.Helper()
	if c, err := Cascade(t.Context(), look, "/", entry); err == nil {
		return c.Expand(), nil
	}
	l, err := Ladder(t.Context(), look, "/", entry)
	if err != nil {
		return topology.Topology{}, err
	}
	return l.Expand(), nil
}

// Whatever keys, names and type of entry a ladder has, an import finds them. Bindings of others to the entry stay.
func TestRecognizeKeyedLadderRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		given := delaytest.AnyKeyedLadder().Draw(t, "ladder")
		want := delaytest.Resolve(t, given).Expand()
		there := want.Clone()
		there.Exchanges, there.Queues = maps.Clone(want.Exchanges), maps.Clone(want.Queues)
		there.Queues["others"] = topology.Queue{Name: "others", Durable: true}
		application{there}.bind(want.Entry, "others", "others")
		got, err := Ladder(t.Context(), holding(t, there), given.Vhost, want.Entry)
		if err != nil {
			t.Fatal(err)
		}
		d := topology.Diff(got.Expand(), there.Part(got.Expand()))
		if !got.Expand().SameObjects(want) || !maps.Equal(got.Expand().Bindings, want.Bindings) ||
			len(d.ForeignBindings) > 0 {
			t.Fatalf("recognized %+v, which is not %+v; foreign are %v", got, given, d.ForeignBindings)
		}
	})
}

// Package recognizetest has topologies that applications declare, for tests of imports. Read HeldOuts.
package recognizetest

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Application is what an application declares when it starts.
type Application struct{ topology.Topology }

// Exchange declares exchanges of a type.
func (a Application) Exchange(kind string, names ...string) {
	for _, name := range names {
		a.Exchanges[name] = topology.Exchange{Name: name, Type: kind, Durable: true}
	}
}

// Waits declares a queue that holds messages and hands them on, with their own key if there is none.
func (a Application) Waits(name string, wait time.Duration, to, key string) {
	a.Queues[name] = topology.Queue{Name: name, Durable: true,
		Arguments: topology.Arguments{"x-message-ttl": wait.Milliseconds(), "x-dead-letter-exchange": to}}
	if key != "" {
		a.Queues[name].Arguments["x-dead-letter-routing-key"] = key
	}
}

// Quorum makes a queue a quorum queue.
func (a Application) Quorum(name string) { a.Queues[name].Arguments["x-queue-type"] = "quorum" }

// Work declares queues without arguments.
func (a Application) Work(names ...string) {
	for _, name := range names {
		a.Queues[name] = topology.Queue{Name: name, Durable: true}
	}
}

// Bind leads from an exchange to a queue.
func (a Application) Bind(exchange, key, queue string) {
	a.Bindings.Add(topology.Binding{Source: exchange, RoutingKey: key, DestinationType: topology.ToQueue,
		Destination: queue})
}

// chain declares a binary cascade with such names and keys.
func (a Application) chain(format string, levels int, key func(level int, digit string) string) {
	next := fmt.Sprintf(format, levels) + ".end"
	a.Exchange("topic", next)
	for level := range levels {
		name := fmt.Sprintf(format, level)
		a.Exchange("topic", name)
		a.Waits(name, time.Second<<level, next, "")
		a.Bind(name, key(level, "1"), name)
		a.Bindings.Add(topology.Binding{Source: name, RoutingKey: key(level, "0"), DestinationType: topology.ToExchange,
			Destination: next})
		next = name
	}
}

// binary declares a cascade of 28 levels with such names, and with further arguments of its queues.
func (a Application) binary(format, delivery string, further topology.Arguments) {
	next := delivery
	a.Exchange("topic", delivery)
	for level := range 28 {
		name, skips := fmt.Sprintf(format, level), strings.Repeat("*.", 27-level)
		a.Exchange("topic", name)
		a.Waits(name, time.Second<<level, next, "")
		maps.Copy(a.Queues[name].Arguments, further)
		a.Bind(name, skips+"1.#", name)
		a.Bindings.Add(topology.Binding{Source: name, RoutingKey: skips + "0.#", DestinationType: topology.ToExchange,
			Destination: next})
		next = name
	}
}

// HeldOut is one of the topologies that applications are known to declare. An import of each of the entries says what
// it refuses, or changes nothing. Damaged, it says what it refuses, or repairs just that.
type HeldOut struct {
	// Source is the public project, and the file in it, that declares this. It is empty for a common shape.
	Source  string
	Declare func(a Application)
	Entries []string
	Refused string
	Damage  func(a Application)
	// Repairs are the objects that a repair of the damaged one makes anew.
	Repairs        []string
	RefusedDamaged string
}

const minute = time.Minute

// HeldOuts are those of public projects, with other names, and some after common shapes.
var HeldOuts = map[string]HeldOut{
	"1: direct entry, a fixed key": {
		Source: "15204711493/springboot-rabbitmq, src/main/java/com/atguigu/rabbitmq/springbootrabbitmq/config/" +
			"TtlQueueConfig.java",
		Declare: func(a Application) {
			a.Exchange("direct", "checkout.wait", "checkout.work")
			a.Work("checkout")
			a.Bind("checkout.work", "again", "checkout")
			for label, wait := range map[string]time.Duration{"short": 10e9, "long": 40e9} {
				a.Waits("checkout.wait."+label, wait, "checkout.work", "again")
				a.Bind("checkout.wait", "checkout."+label, "checkout.wait."+label)
			}
		},
		Entries: []string{"checkout.wait"},
		Damage:  func(a Application) { a.Quorum("checkout.wait.long") },
		Repairs: []string{"checkout.wait.long"},
	},
	"2: after a common shape, two ladders behind one direct entry": {
		Declare: func(a Application) {
			a.Exchange("direct", "pay", "pay.in", "pay.out")
			for n, label := range []string{"10s", "1m"} {
				wait := []time.Duration{10e9, minute}[n]
				a.Waits("in-"+label, wait, "pay.in", "")
				a.Waits("out-"+label, wait, "pay.out", "")
				a.Bind("pay", "in."+label, "in-"+label)
				a.Bind("pay", "out."+label, "out-"+label)
			}
		},
		Entries: []string{"pay"},
		Refused: `its delay queues lead to different ends, and a ladder has one: queue "in-10s" leads to exchange ` +
			`"pay.in", and queue "out-10s" to exchange "pay.out". The guide`,
		Damage:         func(a Application) { delete(a.Queues["in-1m"].Arguments, "x-dead-letter-exchange") },
		RefusedDamaged: `queue "out-10s" to exchange "pay.out". The guide`,
	},
	"3: topic entry, the key of the work": {
		Source: "alphasights/sneakers_handlers, lib/sneakers_handlers/delayed_retry_handler.rb",
		Declare: func(a Application) {
			a.Exchange("topic", "mail", "mail.later", "mail.error")
			a.Work("send", "send.error")
			a.Bind("mail", "letter.written", "send")
			a.Bind("mail.error", "letter.written", "send.error")
			a.Waits("send.later", 5*time.Second, "mail", "")
			a.Bind("mail.later", "letter.written", "send.later")
		},
		Entries:        []string{"mail.later"},
		Damage:         func(a Application) { clear(a.Bindings) },
		RefusedDamaged: "it has no binding like that of a ladder's rung",
	},
	"4: topic entry, keys that end in a delay": {
		Source: "qintingshuang/MyProject, src/main/java/com/qintingshuang/web/config/RabbitConfig.java",
		Declare: func(a Application) {
			a.Exchange("topic", "sync", "sync.due")
			for label, wait := range map[string]time.Duration{"5s": 5e9, "1min": minute, "5min": 5 * minute,
				"30min": 30 * minute} {
				a.Waits("sync_"+label, wait, "sync.due", "")
				a.Bind("sync", "#."+label, "sync_"+label)
			}
			for _, name := range []string{"files", "folders", "links"} {
				a.Work(name)
				a.Bind("sync.due", name+".#", name)
			}
		},
		Entries: []string{"sync"},
		Damage: func(a Application) {
			delete(a.Exchanges, "sync.due")
			a.Quorum("sync_1min")
		},
		Repairs: []string{"sync.due", "sync_1min"},
	},
	"5: topic entry, every key, a queue of the same name": {
		Source: "wki/MessageQ, examples/definitions.js",
		Declare: func(a Application) {
			a.Exchange("topic", "hold", "released")
			a.Waits("hold", 45*time.Second, "released", "go")
			a.Bind("hold", "#", "hold")
		},
		Entries: []string{"hold"},
		Damage: func(a Application) {
			delete(a.Queues["hold"].Arguments, "x-dead-letter-exchange")
			delete(a.Queues["hold"].Arguments, "x-dead-letter-routing-key")
		},
		RefusedDamaged: `it has no binding like that of a ladder's rung, to a queue with a key such as "30s.*.#". ` +
			`Nor does it lead to a queue with an x-message-ttl and an x-dead-letter-exchange`,
	},
	"6: an entry for each work queue": {
		Source: "jondot/sneakers, lib/sneakers/handlers/maxretry.rb",
		Declare: func(a Application) {
			for _, work := range []string{"crop", "scale", "store"} {
				a.Exchange("topic", work+"-later", work+"-error", work+"-later-again")
				a.Work(work, work+"-error")
				a.Waits(work+"-later", minute, work+"-later-again", "")
				a.Bind(work+"-later", "#", work+"-later")
				a.Bind(work+"-error", "#", work+"-error")
				a.Bind(work+"-later-again", "#", work)
			}
		},
		Entries:        []string{"crop-later", "scale-later", "store-later"},
		Damage:         func(a Application) { a.Exchange("headers", "crop-later", "scale-later", "store-later") },
		RefusedDamaged: "it is a headers exchange",
	},
	"7: after a common shape, retry queues of several work queues": {
		Declare: func(a Application) {
			a.Exchange("direct", "again")
			for n, name := range []string{"bills", "stock"} {
				a.Work(name)
				a.Waits(name+".again", time.Duration(n+1)*10*time.Second, "", name)
				a.Bind("again", name, name+".again")
			}
		},
		Entries: []string{"again"},
		Refused: `its delay queues lead to different ends, and a ladder has one: queue "bills.again" leads to ` +
			`queue "bills", and queue "stock.again" to queue "stock". The guide`,
		Damage:         func(a Application) { delete(a.Queues, "bills") },
		RefusedDamaged: `queue "stock.again" to queue "stock". The guide`,
	},
	"8: after a common shape, nine rungs to several work queues": {
		Declare: func(a Application) {
			a.Exchange("topic", "fleet")
			for _, name := range []string{"cars", "vans", "bikes"} {
				for n, wait := range []time.Duration{minute, 5 * minute, 15 * minute} {
					queue := fmt.Sprintf("%s.wait%d", name, n)
					a.Waits(queue, wait, "fleet.work", name)
					a.Bind("fleet", fmt.Sprintf("%s.%d", name, n), queue)
				}
			}
		},
		Entries: []string{"fleet"},
		Refused: `queue "bikes.wait0" leads to exchange "fleet.work" with key "bikes", and queue "cars.wait0" to ` +
			`exchange "fleet.work" with key "cars". The guide`,
		Damage:         func(a Application) { a.Quorum("vans.wait1") },
		RefusedDamaged: `queue "cars.wait0" to exchange "fleet.work" with key "cars". The guide`,
	},
	"9: after a common shape, ordinals, and a queue for given-up messages": {
		Declare: func(a Application) {
			a.Exchange("direct", "upload", "upload.work")
			a.Work("upload.dead")
			a.Bind("upload", "dead", "upload.dead")
			for n, wait := range []time.Duration{7 * time.Second, 70 * time.Second, 700 * time.Second} {
				queue := fmt.Sprintf("upload-retry-%d", n+1)
				a.Waits(queue, wait, "upload.work", "upload")
				a.Bind("upload", fmt.Sprintf("attempt.%d", n+1), queue)
			}
		},
		Entries: []string{"upload"},
		Damage: func(a Application) {
			a.Queues["upload-retry-2"].Arguments["x-message-ttl"] = int64(7000)
		},
		RefusedDamaged: `queues "upload-retry-1" and "upload-retry-2" both hold messages for 7s, and each delay of a ` +
			"ladder has one queue. The guide",
	},
	"10: a cascade of 28 levels": {
		Source: "huysentruitw/Whispr, src/Whispr.RabbitMq/Management/DelayInfrastructure.cs",
		Declare: func(a Application) {
			a.binary("delay-infra-%02d", "delay-infra-delivery", topology.Arguments{"x-queue-type": "quorum"})
		},
		Entries: []string{"delay-infra-27"},
		Damage:  func(a Application) { delete(a.Queues, "delay-infra-03") },
		Repairs: []string{"delay-infra-03"},
	},
	"11: after a common shape, a cascade whose keys ask for an address": {
		Declare: func(a Application) {
			a.chain("gen-%d", 12, func(level int, digit string) string {
				return strings.Repeat("*.", 11-level) + digit + ".*.#"
			})
		},
		Entries: []string{"gen-11"},
		Refused: `the key "0.*.#" from exchange "gen-11" to "gen-10" asks for 1 word behind the digits, ` +
			`where a cascade has none or, at its entry, 12. The guide`,
		Damage: func(a Application) {
			maps.DeleteFunc(a.Bindings, func(b topology.Binding, _ struct{}) bool { return b.RoutingKey == "1.*.#" })
		},
		RefusedDamaged: `the key "0.*.#" from exchange "gen-11" to "gen-10" asks for 1 word`,
	},
	"12: after a common shape, the same, with numbers of two digits": {
		Declare: func(a Application) {
			a.chain("app.wait-%02d", 5, func(level int, digit string) string {
				return strings.Repeat("*.", 4-level) + digit + ".*.#"
			})
		},
		Entries: []string{"app.wait-04"},
		Refused: `its keys are those of one level, and exchange "app.wait-03", to which they lead, goes on to a ` +
			`delay queue with key "*.1.*.#". The guide`,
		Damage:         func(a Application) { delete(a.Queues, "app.wait-00") },
		RefusedDamaged: `goes on to a delay queue with key "*.1.*.#". The guide`,
	},
	"13: after a common shape, a chain whose keys have no address": {
		Declare: func(a Application) {
			a.chain("pace.%d", 5, func(level int, digit string) string {
				return strings.Repeat("*.", 4-level) + digit + strings.Repeat(".*", level)
			})
		},
		Entries: []string{"pace.4"},
		Refused: `it leads to exchange "pace.3" with key "0.*.*.*.*", and that goes on to a further delay queue with ` +
			`key "*.1.*.*.*". So it is a chain with keys of its own. The guide`,
		Damage:         func(a Application) { delete(a.Queues, "pace.0") },
		RefusedDamaged: "So it is a chain with keys of its own. The guide",
	},
	"14: topic entry, whole keys, one TTL for all": {
		Source: "wppurking/hutch-schedule, lib/hutch/schedule.rb and lib/hutch/schedule/core.rb",
		Declare: func(a Application) {
			a.Exchange("topic", "shop", "shop.later")
			for _, label := range []string{"5s", "10s", "20s", "30s", "60s", "120s"} {
				a.Waits("shop_later_"+label, 30*24*60*minute, "shop", "")
				a.Bind("shop.later", "shop.later."+label, "shop_later_"+label)
			}
		},
		Entries:        []string{"shop.later"},
		Refused:        `both hold messages for 30d, and each delay of a ladder has one queue. The guide`,
		Damage:         func(a Application) { delete(a.Queues, "shop_later_5s") },
		RefusedDamaged: "both hold messages for 30d, and each delay of a ladder has one queue. The guide",
	},
	"15: a queue that rejects into its retry queue": {
		Source: "gbzarelli/quarkus-rabbitmq-retry-strategy, stack/rabbitmq/definitions.json",
		Declare: func(a Application) {
			a.Exchange("direct", "given-up")
			a.Exchange("topic", "reports")
			a.Waits("report.wait", 10*time.Second, "", "report")
			a.Work("report.given-up")
			a.Queues["report"] = topology.Queue{Name: "report", Durable: true, Arguments: topology.Arguments{
				"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "report.wait"}}
			for _, name := range []string{"report", "report.wait"} {
				a.Queues[name].Arguments["x-queue-type"] = "classic"
			}
			a.Bind("given-up", "report.given-up", "report.given-up")
		},
		Entries:        []string{"report.wait"},
		Refused:        "there is no such exchange, but a queue of that name. Give the exchange that leads to it.",
		Damage:         func(a Application) { delete(a.Queues, "report") },
		RefusedDamaged: "Messages that come through the default exchange have no entry to import. The guide",
	},
	"16: one exchange for work and retries": {
		Source: "alphasights/sneakers_handlers, lib/sneakers_handlers/exponential_backoff_handler.rb",
		Declare: func(a Application) {
			a.Exchange("topic", "events", "events.dead")
			a.Work("count", "count.error")
			a.Bind("events", "page.seen", "count")
			a.Bind("events", "count", "count")
			a.Bind("events.dead", "count", "count.error")
			for _, times := range []int{1, 4, 9} { // of a minute, not of a second: a queue expires while nobody looks
				queue := fmt.Sprintf("count.again.%d", times)
				a.Waits(queue, time.Duration(times)*time.Minute, "events", "count")
				a.Queues[queue].Arguments["x-expires"] = int64(times * 120_000)
				a.Bind("events", fmt.Sprintf("count.%d", times), queue)
			}
		},
		Entries:        []string{"events"},
		Refused:        "lead back to it, and a ladder has another exchange at its end. The guide",
		Damage:         func(a Application) { delete(a.Queues["count.again.4"].Arguments, "x-message-ttl") },
		RefusedDamaged: "lead back to it, and a ladder has another exchange at its end. The guide",
	},
	"17: a cascade with other names, and safe queues": {
		Source: "anze3db/potatoq, src/potatoq/brokers/rabbitmq.py",
		Declare: func(a Application) {
			a.binary("spud.wait.N%02d", "spud.due", topology.Arguments{"x-queue-type": "quorum",
				"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"})
		},
		Entries: []string{"spud.wait.N27"},
		Damage:  func(a Application) { delete(a.Queues, "spud.wait.N11") },
		Repairs: []string{"spud.wait.N11"},
	},
}

package health_test

import (
	"strings"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/health"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan/plantest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology/topologytest"
)

// world is a broker that somebody damages.
type world struct {
	*plantest.Broker
	t       *testing.T
	desired topology.Topology
}

func (w *world) do(steps ...plan.Step) {
	w.t.Helper()
	for _, step := range steps {
		if err := w.Step(step); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) noExchange(name string) { w.do(plan.DeleteExchange{Name: name}) }

func (w *world) noQueue(name string) { w.do(plan.DeleteQueue{Queue: w.desired.Queues[name]}) }

// queue gives a queue an argument, or takes it away, and leaves its bindings as they are.
func (w *world) queue(name, argument string, value any) {
	q := w.Queues[name]
	q.Arguments = with(q.Arguments, argument, value)
	w.Queues[name] = q
}

func (w *world) exchange(name string, change func(*topology.Exchange)) {
	e := w.Exchanges[name]
	change(&e)
	w.Exchanges[name] = e
}

func with(arguments topology.Arguments, name string, value any) topology.Arguments {
	changed := topology.Arguments{}
	for key, each := range arguments {
		changed[key] = each
	}
	if changed[name] = value; value == nil {
		delete(changed, name)
	}
	return changed
}

func (w *world) unbind(which func(topology.Binding) bool) {
	for b := range w.desired.Bindings {
		if which(b) {
			w.do(plan.Unbind{Binding: b})
		}
	}
}

func (w *world) bind(source string, kind topology.DestinationType, destination, key, arguments string) {
	w.Bindings.Add(topology.Binding{Source: source, RoutingKey: key, DestinationType: kind, Destination: destination,
		Arguments: arguments})
}

type damageCase struct {
	name string
	do   func(*world)
	want string
}

var (
	parks = delay.Config{Name: "t", Levels: 3, StrictKeys: true, InternalLevels: true, ParkUnroutable: true,
		CreateDeliveryExchange: true}
	preset  = delay.Config{Preset: delay.Celery, ParkUnroutable: true, CreateDeliveryExchange: true}
	bare    = delay.Config{Name: "t", Levels: 3, CreateDeliveryExchange: true}
	classic = delay.Config{Name: "t", Levels: 3, Lookahead: 1, QueueType: delay.Classic, DeliveryExchange: "others"}
	weak    = delay.Config{Name: "t", Levels: 3, QueueArguments: topology.Arguments{"x-expires": int64(60_000),
		"x-overflow": "drop-head"}, CreateDeliveryExchange: true}
)

func TestSentences(t *testing.T) {
	for shape, test := range map[string]struct {
		desired topology.Topology
		cases   []damageCase
	}{
		"parks":   {plantest.Expand(t, parks), ofParkingCascade},
		"bare":    {plantest.Expand(t, bare), ofBareCascade},
		"classic": {plantest.Expand(t, classic), ofClassicCascade},
		"weak":    {plantest.Expand(t, weak), ofWeakCascade},
		"ladder":  {plantest.ExpandLadder(t, "1s", "1h"), ofLadder},
		"preset":  {plantest.Expand(t, preset), ofPreset},
	} {
		for _, each := range test.cases {
			t.Run(shape+"/"+each.name, func(t *testing.T) {
				w := &world{deployedAlone(t, test.desired), t, test.desired}
				each.do(w)
				said := health.Sentences(health.Damages(w.desired, w.Part(w.desired), map[string]health.QueueStatus{
					"t.delay-00": {Messages: new(int64(3))}}))
				if got := strings.Join(said, "\n"); got != each.want {
					t.Errorf("it says\n%s\nand not\n%s", got, each.want)
				}
			})
		}
	}
}

var ofParkingCascade = []damageCase{
	{"nothing", func(*world) {}, ""},
	{"a missing queue", func(w *world) { w.noQueue("t.delay-01") },
		"The queue t.delay-01 is gone. Any messages that waited in it are lost. Messages that need it are parked. " +
			"The next apply declares it again."},
	{"a missing entry", func(w *world) { w.noExchange("t.delay-02") },
		"The exchange t.delay-02 is gone. Publishers get an error. The next apply declares it again."},
	{"a missing level exchange", func(w *world) { w.noExchange("t.delay-00") },
		"The exchange t.delay-00 is gone. Messages that need it stay in the quorum queue before it. RabbitMQ " +
			"tries again every three minutes. The next apply declares it again."},
	{"a missing delivery exchange", func(w *world) { w.noExchange("t.delivery") },
		"The exchange t.delivery is gone. Messages that need it are parked or stay in the quorum queue before it. " +
			"RabbitMQ tries again every three minutes. The next apply declares it again. Applications that had " +
			"bound something to it have to do so again."},
	{"a missing parking exchange", func(w *world) { w.noExchange("t.unroutable") },
		"The exchange t.unroutable is gone. Messages that would be parked are lost or stay in the quorum queue " +
			"before it. RabbitMQ tries again every three minutes. The next apply declares it again."},
	{"a missing parking queue", func(w *world) { w.noQueue("t.unroutable") },
		"The queue t.unroutable is gone. Any messages that were parked in it are lost. Messages that would be " +
			"parked are lost or stay in the quorum queue before it. RabbitMQ tries again every three minutes. The " +
			"next apply declares it again."},
	{"a missing queue and no parking queue", func(w *world) {
		w.noQueue("t.unroutable")
		w.noQueue("t.delay-01")
	},
		"The queue t.delay-01 is gone. Any messages that waited in it are lost. Messages that need it are lost or " +
			"stay in the quorum queue before it. RabbitMQ tries again every three minutes. The next apply " +
			"declares it again.\n" +
			"The queue t.unroutable is gone. Any messages that were parked in it are lost. Messages that would be " +
			"parked are lost or stay in the quorum queue before it. RabbitMQ tries again every three minutes. The " +
			"next apply declares it again."},
	{"a missing binding", func(w *world) {
		w.do(plan.Unbind{Binding: topologytest.ToQueue("t.delay-01", "*.1.#", "t.delay-01")})
	},
		`The binding of exchange t.delay-01 to queue t.delay-01 with key "*.1.#" is gone. Messages with such a ` +
			"key are parked. The next apply makes it again."},
	{"bindings with other keys", func(w *world) {
		w.unbind(func(b topology.Binding) bool { return b.Source == "t.delay-01" })
		w.bind("t.delay-01", topology.ToQueue, "t.delay-01", "*.1.*.#", "")
		w.bind("t.delay-01", topology.ToQueue, "t.delay-00", "*.0.1.*.#", "")
		w.bind("t.delay-01", topology.ToExchange, "t.delivery", "*.0.0.*.#", "")
	},
		`The binding of exchange t.delay-01 to exchange t.delivery with key "*.0.0.#" is gone. Another ` +
			`binding leads there, and takes messages with keys like "*.0.0.*.#". The next apply makes it ` +
			`again.` + "\n" +
			`The binding of exchange t.delay-01 to queue t.delay-00 with key "*.0.1.#" is gone. Another ` +
			`binding leads there, and takes messages with keys like "*.0.1.*.#". The next apply makes it ` +
			`again.` + "\n" +
			`The binding of exchange t.delay-01 to queue t.delay-01 with key "*.1.#" is gone. Another ` +
			`binding leads there, and takes messages with keys like "*.1.*.#". The next apply makes it ` +
			`again.` + "\n" +
			`The binding of exchange t.delay-01 to exchange t.delivery with key "*.0.0.*.#" was added. ` +
			`Messages with such a key go there, too, and can arrive twice or early. The next apply removes ` +
			`it.` + "\n" +
			`The binding of exchange t.delay-01 to queue t.delay-00 with key "*.0.1.*.#" was added. Messages ` +
			`with such a key wait there, too, and can arrive twice, early or late. The next apply removes ` +
			`it.` + "\n" +
			`The binding of exchange t.delay-01 to queue t.delay-01 with key "*.1.*.#" was added. Messages ` +
			`with such a key wait there, too, and can arrive twice, early or late. The next apply removes ` +
			`it.`},
	{"a missing binding of the parking exchange", func(w *world) {
		w.unbind(func(b topology.Binding) bool { return b.Source == "t.unroutable" })
	},
		`The binding of exchange t.unroutable to queue t.unroutable with key "#" is gone. Messages that would be ` +
			"parked are lost or stay in the quorum queue before it. RabbitMQ tries again every three minutes. The " +
			"next apply makes it again."},
	{"an exchange declared anew", func(w *world) {
		w.unbind(func(b topology.Binding) bool {
			return b.Source == "t.delay-01" || b.Destination == "t.delay-01" &&
				b.DestinationType == topology.ToExchange
		})
	},
		"The exchange t.delay-01 has lost all its bindings. Messages that get to it are parked. The next apply " +
			"binds it again."},
	{"the delivery exchange declared anew", func(w *world) {
		w.unbind(func(b topology.Binding) bool { return b.Destination == "t.delivery" })
	},
		"The exchange t.delivery has lost all its bindings. Messages that need it are parked. The next apply " +
			"binds it again."},
	{"a queue declared anew with another TTL", func(w *world) {
		w.queue("t.delay-01", "x-message-ttl", int64(60000))
		w.unbind(func(b topology.Binding) bool {
			return b.Destination == "t.delay-01" && b.DestinationType == topology.ToQueue
		})
	},
		"The queue t.delay-01 has a TTL of 1 min, not 2 s and has lost all its bindings. Messages that need it " +
			"are parked. The next apply recreates it, if it is empty."},
	{"a longer TTL", func(w *world) { w.queue("t.delay-01", "x-message-ttl", int64(60000)) },
		"The queue t.delay-01 has a TTL of 1 min, not 2 s. Messages leave it late. The next apply recreates it, " +
			"if it is empty."},
	{"a shorter TTL of a queue that holds messages", func(w *world) {
		w.queue("t.delay-00", "x-message-ttl", int64(250))
	},
		"The queue t.delay-00 has a TTL of 250 ms, not 1 s. Messages leave it early. The next apply is refused " +
			"while messages wait in it, 3 by the last count."},
	{"no TTL", func(w *world) { w.queue("t.delay-01", "x-message-ttl", nil) },
		"The queue t.delay-01 has no TTL. Messages stay in it. The next apply recreates it, if it is empty."},
	{"another dead-letter exchange", func(w *world) { w.queue("t.delay-01", "x-dead-letter-exchange", "t.delivery") },
		"The queue t.delay-01 has x-dead-letter-exchange t.delivery, not t.delay-00. Messages leave it for " +
			"exchange t.delivery in place of exchange t.delay-00. The next apply recreates it, if it is empty."},
	{"no dead-letter exchange", func(w *world) { w.queue("t.delay-01", "x-dead-letter-exchange", nil) },
		"The queue t.delay-01 has no x-dead-letter-exchange. Messages are lost when they have waited in it. The " +
			"next apply recreates it, if it is empty."},
	{"a dead-letter key", func(w *world) { w.queue("t.delay-01", "x-dead-letter-routing-key", "k") },
		`The queue t.delay-01 has x-dead-letter-routing-key k. Messages leave it with the routing key "k" in ` +
			"place of their own. The messages get only where this key leads. The next apply recreates it, if it " +
			"is empty."},
	{"no strategy", func(w *world) { w.queue("t.delay-01", "x-dead-letter-strategy", nil) },
		"The queue t.delay-01 has no x-dead-letter-strategy. Messages that leave it can be lost. The next apply " +
			"recreates it, if it is empty."},
	{"another overflow", func(w *world) { w.queue("t.delay-01", "x-overflow", "drop-head") },
		"The queue t.delay-01 has x-overflow drop-head, not reject-publish. Messages that leave it can be lost. " +
			"The next apply recreates it, if it is empty."},
	{"a limit", func(w *world) { w.queue("t.delay-01", "x-max-length", int64(100)) },
		"The queue t.delay-01 has x-max-length 100. At 100 messages it refuses further ones. Then publishers get " +
			"a negative confirmation, and messages on their way into it are late. The next apply recreates it, if " +
			"it is empty."},
	{"a limit of bytes, and drop-head", func(w *world) {
		w.queue("t.delay-01", "x-overflow", nil)
		w.queue("t.delay-01", "x-max-length-bytes", int64(100))
	},
		"The queue t.delay-01 has x-max-length-bytes 100 and has no x-overflow. At 100 bytes, the oldest leave it " +
			"early. Messages that leave it can be lost. The next apply recreates it, if it is empty."},
	{"an expiry", func(w *world) { w.queue("t.delay-01", "x-expires", int64(3600000)) },
		"The queue t.delay-01 has x-expires 3600000. RabbitMQ deletes it, with the messages in it, 1 h after it " +
			"was declared or last looked at. Messages that pass through do not count. The next apply recreates " +
			"it, if it is empty."},
	{"a leader locator", func(w *world) { w.queue("t.delay-01", "x-queue-leader-locator", "balanced") },
		"The queue t.delay-01 has x-queue-leader-locator balanced. Messages pass through it all the same. The " +
			"next apply recreates it, if it is empty."},
	{"another argument", func(w *world) { w.queue("t.delay-01", "x-note", "a") },
		"The queue t.delay-01 has x-note a. Messages may take another way or another time than they should. The " +
			"next apply recreates it, if it is empty."},
	{"a stream", func(w *world) { w.queue("t.delay-01", "x-queue-type", "stream") },
		"The queue t.delay-01 is of type stream, not quorum. Messages do not leave it. The next apply recreates " +
			"it, if it is empty."},
	{"a classic queue", func(w *world) {
		w.queue("t.delay-01", "x-queue-type", "classic")
		w.queue("t.delay-01", "x-dead-letter-strategy", nil)
		w.queue("t.delay-01", "x-overflow", nil)
	},
		"The queue t.delay-01 is of type classic, not quorum, has no x-dead-letter-strategy and has no " +
			"x-overflow. Messages that leave it can be lost. The next apply recreates it, if it is empty."},
	{"a TTL of the parking queue", func(w *world) { w.queue("t.unroutable", "x-message-ttl", int64(1000)) },
		"The queue t.unroutable has a TTL of 1 s. Messages in it are dropped after 1 s. The next apply recreates " +
			"it, if it is empty."},
	{"a delivery limit", func(w *world) { w.queue("t.delay-01", "x-delivery-limit", int64(2)) },
		"The queue t.delay-01 has x-delivery-limit 2. A message in it that is got and put back more than 2 times " +
			"leaves it early. The next apply recreates it, if it is empty."},
	{"no delivery limit since 4.0", func(w *world) { w.queue("t.delay-01", "x-delivery-limit", int64(-1)) },
		"The queue t.delay-01 has x-delivery-limit -1. Before RabbitMQ 4.0, a message in it that is got and put " +
			"back leaves it early. The next apply recreates it, if it is empty."},
	{"no delivery limit of the parking queue", func(w *world) { w.queue("t.unroutable", "x-delivery-limit", nil) },
		"The queue t.unroutable has no x-delivery-limit. A message in it that is got and put back too often can " +
			"be dropped. The next apply recreates it, if it is empty."},
	{"a low delivery limit of the parking queue", func(w *world) {
		w.queue("t.unroutable", "x-delivery-limit", int64(2))
	},
		"The queue t.unroutable has x-delivery-limit 2, not 2147483647. A message in it that is got and put back " +
			"more than 2 times is dropped. The next apply recreates it, if it is empty."},
	{"retries that the queue delays", func(w *world) {
		w.queue("t.delay-01", "x-delayed-retry-type", "all")
		w.queue("t.delay-01", "x-delayed-retry-min", int64(1000))
	},
		"The queue t.delay-01 has x-delayed-retry-min 1000 and has x-delayed-retry-type all. A message in it that is " +
			"got and put back is late: it stays until the time of its retry. The next apply recreates it, if it is " +
			"empty."},
	{"retries of the parking queue", func(w *world) { w.queue("t.unroutable", "x-delayed-retry-type", "failed") },
		"The queue t.unroutable has x-delayed-retry-type failed. A message in it that is got and put back, as a " +
			"replay does, is not ready until the time of its retry. The next apply recreates it, if it is empty."},
	{"retries that are switched off", func(w *world) {
		w.queue("t.delay-01", "x-delayed-retry-type", "disabled")
	},
		"The queue t.delay-01 has x-delayed-retry-type disabled. Messages pass through it all the same. The next " +
			"apply recreates it, if it is empty."},
	{"a dead-letter exchange of the parking queue", func(w *world) {
		w.queue("t.unroutable", "x-dead-letter-exchange", "bin")
	},
		"The queue t.unroutable has x-dead-letter-exchange bin. Messages that have to leave it are handed on to " +
			"exchange bin. The next apply recreates it, if it is empty."},
	{"an entry that is direct", func(w *world) {
		w.exchange("t.delay-02", func(e *topology.Exchange) { e.Type = "direct" })
	},
		"The exchange t.delay-02 is of type direct, not topic. No key matches a binding of it, and messages that " +
			"get to it are parked. The next apply recreates it."},
	{"a level exchange that is fanout", func(w *world) {
		w.exchange("t.delay-01", func(e *topology.Exchange) { e.Type = "fanout" })
	},
		"The exchange t.delay-01 is of type fanout, not topic. Messages go the way of all its bindings. The " +
			"messages arrive several times, early and late. The next apply recreates it."},
	{"a level exchange of a plugin's type", func(w *world) {
		w.exchange("t.delay-01", func(e *topology.Exchange) { e.Type = "x-random" })
	},
		"The exchange t.delay-01 is of type x-random, not topic. Messages may take another way or another time " +
			"than they should. The next apply recreates it."},
	{"a parking exchange that is topic", func(w *world) {
		w.exchange("t.unroutable", func(e *topology.Exchange) { e.Type = "topic" })
	},
		"The exchange t.unroutable is of type topic, not fanout. Messages are parked all the same. The next apply " +
			"recreates it."},
	{"a parking exchange that is direct", func(w *world) {
		w.exchange("t.unroutable", func(e *topology.Exchange) { e.Type = "direct" })
	},
		"The exchange t.unroutable is of type direct, not fanout. Messages that would be parked are lost or stay " +
			"in the quorum queue before it. RabbitMQ tries again every three minutes. The next apply recreates " +
			"it."},
	{"a delivery exchange that is direct", func(w *world) {
		w.exchange("t.delivery", func(e *topology.Exchange) { e.Type = "direct" })
	},
		"The exchange t.delivery is of type direct, not topic. No key matches a binding of it, and messages that " +
			"get to it are parked. The next apply recreates it, if nothing is bound to it."},
	{"an entry that is internal", func(w *world) {
		w.exchange("t.delay-02", func(e *topology.Exchange) { e.Internal = true })
	},
		"The exchange t.delay-02 is internal. Publishers get an error. The next apply recreates it."},
	{"a level exchange that is not internal", func(w *world) {
		w.exchange("t.delay-01", func(e *topology.Exchange) { e.Internal = false })
	},
		"The exchange t.delay-01 is not internal. Publishers can get into the middle of the way. The next apply " +
			"recreates it."},
	{"a delivery exchange that is internal", func(w *world) {
		w.exchange("t.delivery", func(e *topology.Exchange) { e.Internal = true })
	},
		"The exchange t.delivery is internal. Publishers cannot use it, and need not. The next apply recreates " +
			"it, if nothing is bound to it."},
	{"an exchange that is not durable, and deletes itself", func(w *world) {
		w.exchange("t.delay-01", func(e *topology.Exchange) { e.Durable, e.AutoDelete = false, true })
	},
		"The exchange t.delay-01 is not durable and is auto-delete. The exchange goes when RabbitMQ restarts. " +
			"The exchange goes with the last binding from it. The next apply recreates it."},
	{"no alternate exchange", func(w *world) {
		w.exchange("t.delay-02", func(e *topology.Exchange) { e.Arguments = nil })
	},
		"The exchange t.delay-02 has no alternate-exchange. Messages that no binding of it takes are lost. The " +
			"next apply recreates it."},
	{"another alternate exchange", func(w *world) {
		w.exchange("t.delay-01", func(e *topology.Exchange) {
			e.Arguments = topology.Arguments{"alternate-exchange": "bin"}
		})
	},
		"The exchange t.delay-01 has alternate-exchange bin, not t.unroutable. Messages that no binding of it " +
			"takes go to exchange bin. The next apply recreates it."},
	{"another argument of an exchange", func(w *world) {
		w.exchange("t.delay-01", func(e *topology.Exchange) { e.Arguments = with(e.Arguments, "x-note", "a") })
	},
		"The exchange t.delay-01 has x-note a. Messages may take another way or another time than they should. " +
			"The next apply recreates it."},
	{"a foreign binding", func(w *world) { w.bind("t.delay-01", topology.ToQueue, "audit", "#", "") },
		`The binding of exchange t.delay-01 to queue audit with key "#" was added. Queue audit gets copies of ` +
			"messages with such a key before their time. The next apply removes it."},
	{"a foreign binding to a delay queue", func(w *world) {
		w.bind("t.delay-01", topology.ToQueue, "t.delay-00", "#", "")
	},
		`The binding of exchange t.delay-01 to queue t.delay-00 with key "#" was added. Messages with such a key ` +
			"wait there, too, and can arrive twice, early or late. The next apply removes it."},
	{"a foreign binding to a level exchange", func(w *world) {
		w.bind("t.delay-02", topology.ToExchange, "t.delay-00", "#", "")
	},
		`The binding of exchange t.delay-02 to exchange t.delay-00 with key "#" was added. Messages with such a ` +
			"key go there, too, and can arrive twice or early. The next apply removes it."},
	{"a foreign binding to the parking queue", func(w *world) {
		w.bind("t.delay-02", topology.ToQueue, "t.unroutable", "#", "")
	},
		`The binding of exchange t.delay-02 to queue t.unroutable with key "#" was added. Copies of messages with ` +
			"such a key are parked. The next apply removes it."},
	{"a foreign binding of the parking exchange", func(w *world) {
		w.bind("t.unroutable", topology.ToExchange, "audit", "#", "")
	},
		`The binding of exchange t.unroutable to exchange audit with key "#" was added. Parked messages also get ` +
			"into exchange audit. The next apply removes it."},
	{"the same binding with an argument", func(w *world) {
		w.bind("t.delay-01", topology.ToQueue, "t.delay-01", "*.1.#", `{"x-note":1}`)
	},
		`The binding of exchange t.delay-01 to queue t.delay-01 with key "*.1.#" and arguments {"x-note":1} was ` +
			"added. Messages take the same way as without it. The next apply removes it."},
	{"a lock of a create", func(w *world) { w.Bindings.Add(w.desired.LockOn("t.delay-02", "m")) },
		`The binding of exchange t.delay-02 to exchange t.delay-02 with key "0.0.0.*.#" and arguments ` +
			`{"rabbitmqdelay-claim":"m"} was added. A create that was killed has left it, and it does nothing. ` +
			"The next apply removes it."},
	{"a missing queue, and a foreign binding", func(w *world) {
		w.noQueue("t.delay-01")
		w.bind("t.delay-02", topology.ToQueue, "the audit", "#", "")
	},
		"The queue t.delay-01 is gone. Any messages that waited in it are lost. Messages that need it are parked. " +
			"The next apply declares it again.\n" +
			`The binding of exchange t.delay-02 to queue "the audit" with key "#" was added. Queue "the audit" ` +
			"gets copies of messages with such a key before their time. The next apply removes it."},
}

var ofBareCascade = []damageCase{
	{"a missing queue", func(w *world) { w.noQueue("t.delay-01") },
		"The queue t.delay-01 is gone. Any messages that waited in it are lost. Messages that need it are lost or " +
			"stay in the quorum queue before it. RabbitMQ tries again every three minutes. The next apply " +
			"declares it again."},
	{"a missing queue of the entry alone", func(w *world) { w.noQueue("t.delay-02") },
		"The queue t.delay-02 is gone. Any messages that waited in it are lost. Messages that need it are lost. " +
			"The next apply declares it again."},
	{"a missing level exchange", func(w *world) { w.noExchange("t.delay-00") },
		"The exchange t.delay-00 is gone. Messages that need it stay in the quorum queue before it. RabbitMQ " +
			"tries again every three minutes. The next apply declares it again."},
	{"an alternate exchange", func(w *world) {
		w.exchange("t.delay-01", func(e *topology.Exchange) {
			e.Arguments = topology.Arguments{"alternate-exchange": "bin"}
		})
	},
		"The exchange t.delay-01 has alternate-exchange bin. Messages that no binding of it takes go to exchange " +
			"bin. After the next apply, RabbitMQ drops them. The next apply recreates it."},
	{"a queue that nothing leads to, as its exchanges are gone", func(w *world) {
		w.noExchange("t.delay-02")
		w.noQueue("t.delay-02")
	},
		"The exchange t.delay-02 is gone. Publishers get an error. The next apply declares it again.\n" +
			"The queue t.delay-02 is gone. Any messages that waited in it are lost. The next apply declares it " +
			"again."},
	{"a level exchange that is internal", func(w *world) {
		w.exchange("t.delay-01", func(e *topology.Exchange) { e.Internal = true })
	},
		"The exchange t.delay-01 is internal. Publishers cannot use it, and need not. The next apply recreates " +
			"it."},
}

var ofClassicCascade = []damageCase{
	{"a missing queue", func(w *world) { w.noQueue("t.delay-01") },
		"The queue t.delay-01 is gone. Any messages that waited in it are lost. Messages that need it are lost. " +
			"The next apply declares it again."},
	{"a missing level exchange", func(w *world) { w.noExchange("t.delay-00") },
		"The exchange t.delay-00 is gone. Messages that need it are lost. The next apply declares it again."},
	{"a missing delivery exchange of others", func(w *world) { w.noExchange("others") },
		"The exchange others is gone. Messages that need it are lost. Its owner has to declare it again: until " +
			"then, an apply is refused."},
	{"a delivery exchange of others that is fanout", func(w *world) {
		w.exchange("others", func(e *topology.Exchange) { e.Type = "fanout" })
	},
		"The exchange others is of type fanout, not topic. Messages go the way of all its bindings. The messages " +
			"arrive several times, early and late. An apply is refused until it is a topic exchange."},
	{"a changed exchange", func(w *world) {
		w.exchange("t.delay-01", func(e *topology.Exchange) { e.AutoDelete = true })
	},
		"The exchange t.delay-01 is auto-delete. The exchange goes with the last binding from it. The next apply " +
			"recreates it, if the queues are empty that hand on to it."},
	{"a queue that is not durable", func(w *world) {
		q := w.Queues["t.delay-01"]
		q.Durable, q.AutoDelete, q.Exclusive = false, true, true
		w.Queues["t.delay-01"] = q
	},
		"The queue t.delay-01 is not durable, is auto-delete and is exclusive. The queue and its messages go " +
			"when RabbitMQ restarts. The queue and its messages go with its last consumer. The queue and its " +
			"messages go with the connection that declared it. The next apply recreates it, if it is empty."},
	{"a quorum queue", func(w *world) { w.queue("t.delay-01", "x-queue-type", "quorum") },
		"The queue t.delay-01 is of type quorum, not classic. Messages may take another way or another time than " +
			"they should. The next apply recreates it, if it is empty."},
}

var ofWeakCascade = []damageCase{
	{"nothing", func(*world) {}, ""},
	{"no expiry", func(w *world) { w.queue("t.delay-01", "x-expires", nil) },
		"The queue t.delay-01 has no x-expires. The queue stays when nobody looks at it. The next apply recreates " +
			"it, if it is empty."},
	{"a strategy", func(w *world) { w.queue("t.delay-01", "x-dead-letter-strategy", "at-least-once") },
		"The queue t.delay-01 has x-dead-letter-strategy at-least-once. Messages pass through it all the same. The " +
			"next apply recreates it, if it is empty."},
	{"another overflow, with a limit", func(w *world) {
		w.queue("t.delay-01", "x-max-length", int64(5))
		w.queue("t.delay-01", "x-overflow", "reject-publish")
	},
		"The queue t.delay-01 has x-max-length 5 and has x-overflow reject-publish, not drop-head. At 5 messages, " +
			"further ones that are dead-lettered into it are lost. The next apply recreates it, if it is empty."},
}

var ofLadder = []damageCase{
	{"a missing queue", func(w *world) { w.noQueue("t.delay-1h") },
		"The queue t.delay-1h is gone. Any messages that waited in it are lost. Messages that need it are parked. " +
			"The next apply declares it again."},
	{"a missing entry", func(w *world) { w.noExchange("t.entry") },
		"The exchange t.entry is gone. Publishers get an error. The next apply declares it again."},
	{"a missing delivery exchange", func(w *world) { w.noExchange("t.delivery") },
		"The exchange t.delivery is gone. Messages that need it stay in the quorum queue before it. RabbitMQ " +
			"tries again every three minutes. The next apply declares it again. Applications that had bound " +
			"something to it have to do so again."},
	{"a longer TTL", func(w *world) { w.queue("t.delay-1h", "x-message-ttl", int64(7200000)) },
		"The queue t.delay-1h has a TTL of 2 h, not 1 h. Messages leave it late. The next apply recreates it, if " +
			"it is empty."},
	{"a missing binding", func(w *world) {
		w.do(plan.Unbind{Binding: topologytest.ToQueue("t.entry", "1h.*.#", "t.delay-1h")})
	},
		`The binding of exchange t.entry to queue t.delay-1h with key "1h.*.#" is gone. Messages with such a key ` +
			"are parked. The next apply makes it again."},
}

// policy changes the policy of the preset.
func (w *world) policy(change func(*topology.Policy)) {
	p := w.Policies["celery.unroutable"]
	change(&p)
	w.Policies[p.Name] = p
}

const unparked = "Messages that no binding takes are lost or stay in the quorum queue before it. RabbitMQ tries " +
	"again every three minutes."

var ofPreset = []damageCase{
	{"nothing", func(*world) {}, ""},
	{"a missing policy", func(w *world) { w.do(plan.DeletePolicy{Name: "celery.unroutable"}) },
		"The policy celery.unroutable is gone. " + unparked + " The next apply sets it again."},
	{"another exchange", func(w *world) {
		w.policy(func(p *topology.Policy) { p.Definition = topology.Arguments{"alternate-exchange": "other"} })
	},
		"The policy celery.unroutable has alternate-exchange other, not celery.unroutable. " + unparked +
			" The next apply sets it as it was."},
	{"queues", func(w *world) { w.policy(func(p *topology.Policy) { p.ApplyTo = "queues" }) },
		"The policy celery.unroutable has apply-to queues, not exchanges. " + unparked +
			" The next apply sets it as it was."},
	{"a lower priority", func(w *world) { w.policy(func(p *topology.Policy) { p.Priority = 2 }) },
		"The policy celery.unroutable has priority 2, not 10. Another policy for the same exchanges may apply in " +
			"its place. The next apply sets it as it was."},
	{"a missing queue", func(w *world) { w.noQueue("celery_delayed_4") },
		"The queue celery_delayed_4 is gone. Any messages that waited in it are lost. Messages that need it are " +
			"parked. The next apply declares it again."},
	{"a missing queue and no policy", func(w *world) {
		w.do(plan.DeletePolicy{Name: "celery.unroutable"})
		w.noQueue("celery_delayed_27")
	},
		"The queue celery_delayed_27 is gone. Any messages that waited in it are lost. Messages that need it are " +
			"lost. The next apply declares it again.\nThe policy celery.unroutable is gone. " + unparked +
			" The next apply sets it again."},
}

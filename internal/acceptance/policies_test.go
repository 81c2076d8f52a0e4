package acceptance

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// policyCase is a definition and the expected words of a refresh, by queue. Level 2 waits 4 s, level 1 2 s, level 0 1
// s, and the parking queue for ever.
type policyCase struct {
	definition rabbithole.PolicyDefinition
	operator   bool // also as an operator policy
	quorum     map[string]string
	classic    map[string]string
}

const (
	level0, level1, level2, parkingQueue = "level 0", "level 1", "level 2", "parking"
)

func everywhere(text string) map[string]string {
	return map[string]string{level0: text, level1: text, level2: text, parkingQueue: text}
}

func delayQueues(text string) map[string]string {
	return map[string]string{level0: text, level1: text, level2: text}
}

var policyCases = []policyCase{
	{
		definition: rabbithole.PolicyDefinition{"message-ttl": 1500}, operator: true,
		quorum: map[string]string{level1: "after 1.5 s instead of 2 s", level2: "after 1.5 s instead of 4 s",
			parkingQueue: "dropped after 1.5 s"},
		classic: map[string]string{level1: "after 1.5 s instead of 2 s", level2: "after 1.5 s instead of 4 s",
			parkingQueue: "dropped after 1.5 s"},
	},
	{
		definition: rabbithole.PolicyDefinition{"message-ttl": 3000, "dead-letter-exchange": "elsewhere"},
		quorum: map[string]string{level2: "after 3 s instead of 4 s", parkingQueue: `handed on to exchange ` +
			`"elsewhere" after 3 s`},
		classic: map[string]string{level2: "after 3 s instead of 4 s", parkingQueue: `handed on to exchange ` +
			`"elsewhere" after 3 s`},
	},
	{definition: rabbithole.PolicyDefinition{"expires": 3_600_000}, operator: true,
		quorum: everywhere("RabbitMQ deletes"), classic: everywhere("RabbitMQ deletes")},
	{
		definition: rabbithole.PolicyDefinition{"max-length": 5}, operator: true,
		quorum: withParking(delayQueues("at 5 messages it refuses further ones"), "at 5 messages, the oldest "+
			"are dropped"),
		classic: withParking(delayQueues("at 5 messages, the oldest leave it early"), "the oldest are dropped"),
	},
	{
		definition: rabbithole.PolicyDefinition{"max-length-bytes": 1000}, operator: true,
		quorum: withParking(delayQueues("at 1000 bytes it refuses further ones"), "at 1000 bytes, the oldest "+
			"are dropped"),
		classic: withParking(delayQueues("at 1000 bytes, the oldest leave it early"), "the oldest are dropped"),
	},
	{
		definition: rabbithole.PolicyDefinition{"max-length": 5, "overflow": "reject-publish"}, operator: true,
		quorum:  everywhere("at 5 messages it refuses further ones"),
		classic: everywhere("at 5 messages, further ones that are dead-lettered into it are lost"),
	},
	{
		definition: rabbithole.PolicyDefinition{"max-length": 5, "overflow": "drop-head"}, operator: true,
		quorum:  withParking(delayQueues("switches at-least-once dead-lettering off"), "the oldest are dropped"),
		classic: withParking(delayQueues("the oldest leave it early"), "the oldest are dropped"),
	},
	{definition: rabbithole.PolicyDefinition{"overflow": "drop-head"}, operator: true,
		quorum: delayQueues(`overflow "drop-head" switches at-least-once dead-lettering off`)},
	{definition: rabbithole.PolicyDefinition{"overflow": "reject-publish"}, operator: true},
	{definition: rabbithole.PolicyDefinition{"dead-letter-routing-key": "lost"},
		quorum: delayQueues(`with the routing key "lost"`), classic: delayQueues(`with the routing key "lost"`)},
	{
		definition: rabbithole.PolicyDefinition{"delivery-limit": 3}, operator: true,
		quorum: withParking(delayQueues("leaves it early"), "got and put back more than 3 times is dropped"),
	},
	// These change nothing: the arguments win, or the values are larger, or they do not concern messages.
	{definition: rabbithole.PolicyDefinition{"message-ttl": 315_360_000_000, "dead-letter-exchange": "elsewhere"},
		quorum: map[string]string{parkingQueue: "handed on"}, classic: map[string]string{parkingQueue: "handed on"}},
	{definition: rabbithole.PolicyDefinition{"dead-letter-exchange": "elsewhere"}},
	{definition: rabbithole.PolicyDefinition{"dead-letter-exchange": "elsewhere",
		"dead-letter-strategy": "at-most-once"}},
	{definition: rabbithole.PolicyDefinition{"queue-leader-locator": "balanced"}},
	{definition: rabbithole.PolicyDefinition{"queue-mode": "lazy"}},
}

func withParking(delays map[string]string, parking string) map[string]string {
	delays[parkingQueue] = parking
	return delays
}

// Every key that a policy or an operator policy can set, of which only the highest priority counts. A refresh warns
// exactly if messages fare differently, and names the policy and the consequence.
func TestPolicyWarnings(t *testing.T) {
	t.Parallel()
	for name, is := range queueForms {
		t.Run(name, func(t *testing.T) {
			warnOfPolicy(t, is)
		})
	}
}

// warnOfPolicy plans, applies and refreshes under a policy, and looks at the words about it.
func warnOfPolicy(t *testing.T, is ofQueues) {
	t.Parallel()
	v := harness.NewVhost(t)
	p := harness.NewProtocol(t, v.Broker, nil)
	cascades := map[string]policyExpectation{}
	add := func(name, cause string, says map[string]string, policies ...func(pattern string)) {
		for _, put := range policies {
			put("^" + name + `\.`)
		}
		mine, cascade := *p, eitherForm{name, 3, time.Second, is.inUnits, 2}
		mine.MustApply(cascade.given().With(harness.Attributes{"vhost": v.Name, "queue_type": is.queueType}))
		cascades[name] = policyExpectation{&mine, cascade, cause, says}
	}
	for i, c := range policyCases {
		says := c.quorum
		if is.queueType == "classic" {
			says = c.classic
		}
		name := fmt.Sprintf("p%d", i)
		add(name, fmt.Sprintf("policy %q", "its "+name), says, v.Policy("its "+name, 0, c.definition))
		if c.operator && takesOperatorPolicy(v, c.definition) {
			name = fmt.Sprintf("o%d", i)
			add(name, fmt.Sprintf("operator policy %q", "its "+name), says, v.OperatorPolicy("its "+name, c.definition))
		}
	}
	early, harmless := rabbithole.PolicyDefinition{"message-ttl": 10},
		rabbithole.PolicyDefinition{"max-length": 1 << 40, "message-ttl": 1 << 35}
	delete(harmless, "max-length")
	add("higher", `policy "short"`, withParking(delayQueues("after 10 ms instead of"), "after 10 ms"),
		v.Policy("long", 5, harmless), v.Policy("short", 6, early))
	add("lower", `policy "long too"`, map[string]string{parkingQueue: "dropped after"},
		v.Policy("long too", 6, harmless), v.Policy("short too", 5, early))
	add("both", `policy "mine" with operator policy "theirs"`, withParking(delayQueues("after 20 ms instead of"),
		"after 20 ms"),
		v.Policy("mine", 0, rabbithole.PolicyDefinition{"message-ttl": 30}),
		v.OperatorPolicy("theirs", rabbithole.PolicyDefinition{"message-ttl": 20}))
	add("none", "", nil)

	for _, name := range slices.Sorted(maps.Keys(cascades)) {
		cascades[name].check()
	}
}

// policyExpectation is what a refresh of a cascade says under a policy, by queues.
type policyExpectation struct {
	*harness.Protocol
	cascade eitherForm
	cause   string
	says    map[string]string
}

// check makes sure that the warnings say that, and nothing of other queues.
func (c policyExpectation) check() {
	c.T.Helper()
	diagnostics, name := c.Refresh(c.T.Context()), c.cascade.name
	harness.NoErrors(c.T, diagnostics)
	text := harness.WarningText(diagnostics)
	for queue, called := range map[string]string{level0: c.cascade.queue(0), level1: c.cascade.queue(1),
		level2: c.cascade.queue(2), parkingQueue: name + ".unroutable"} {
		prefix, object := c.cause+" on queue ", fmt.Sprintf("queue %q", called)
		if want := c.says[queue]; want == "" && strings.Contains(text, object) {
			c.T.Errorf("%s: nothing is to be said of %s: %s", name, queue, text)
		} else if want != "" && !slices.ContainsFunc(strings.Split(text, "\n"), func(line string) bool {
			return strings.HasPrefix(strings.TrimSpace(line), prefix) && strings.Contains(line, object) &&
				strings.Contains(line, want)
		}) {
			c.T.Errorf("%s: no line begins with %q, names %s and says %q: %s", name, prefix, object, want, text)
		}
	}
	if len(c.says) == 0 && text != "" {
		c.T.Errorf("%s: nothing is to be said: %s", name, text)
	}
}

// What the warnings say happens to messages does happen.
func TestPolicyConsequences(t *testing.T) {
	t.Parallel()
	for form, is := range queueForms {
		for name, test := range policyConsequences(is.queueType) {
			t.Run(form+", "+name, func(t *testing.T) {
				sufferPolicy(t, test, is)
			})
		}
	}
}

// policyConsequences are policies with what they do to messages, by their names. The unit is long where a message would
// be late without the policy, or has to be there for a while. A busy machine does nothing for seconds.
func policyConsequences(queueType string) map[string]policyConsequence {
	const short = 1500 * time.Millisecond
	return map[string]policyConsequence{
		"message-ttl": {rabbithole.PolicyDefinition{"message-ttl": 50}, func(u *underPolicy) {
			u.send(3, 1)
			if took := u.Arrived(u.collector, 1)[0].At.Sub(u.began); took > 2*u.unit {
				u.Vhost.T.Errorf("a message with a delay of %s took %s", 3*u.unit, took)
			}
		}, time.Minute},
		"dead-letter-routing-key": {rabbithole.PolicyDefinition{"dead-letter-routing-key": "lost"},
			func(u *underPolicy) {
				u.send(3, 1)
				u.Eventually("the message is parked", func() bool { return u.Depth("t.unroutable") == 1 })
			}, short},
		"dead-letter-exchange": {rabbithole.PolicyDefinition{"dead-letter-exchange": "amq.fanout"},
			func(u *underPolicy) { u.send(3, 1); u.Arrived(u.collector, 1) }, short},
		"dead-letter-strategy": {rabbithole.PolicyDefinition{"dead-letter-exchange": "amq.fanout",
			"dead-letter-strategy": "at-most-once"}, func(u *underPolicy) {
			u.send(3, 1)
			u.Arrived(u.collector, 1)
		}, short},
		"expires": {rabbithole.PolicyDefinition{"expires": 600_000}, func(u *underPolicy) {
			// No earlier: the apply would find queues gone that it has just declared.
			u.Policy("p", 0, rabbithole.PolicyDefinition{"expires": 1000})(".*")
			u.Eventually("the queues are gone", func() bool { return len(u.Objects().Queues) == 0 })
		}, short},
		"max-length": {rabbithole.PolicyDefinition{"max-length": 1}, func(u *underPolicy) {
			if queueType == "classic" {
				u.send(2, 5)
				if took := u.Arrived(u.collector, 4)[3].At.Sub(u.began); took > u.unit {
					u.Vhost.T.Errorf("four of five messages with a delay of %s took %s", 2*u.unit, took)
				}
			} else if refused := u.send(2, 20); refused == 0 {
				u.Vhost.T.Error("no message was refused")
			}
		}, time.Minute},
		"max-length and reject-publish": {rabbithole.PolicyDefinition{"max-length": 1,
			"overflow": "reject-publish"}, func(u *underPolicy) {
			if queueType != "classic" {
				return // as without it
			}
			u.publishTo(u.exchange(0), "0.1.here", 1)
			if refused := u.publishTo(u.exchange(0), "0.1.here", 1); refused != 1 {
				u.Vhost.T.Error("a full queue does not refuse what is published")
			}
			u.Arrived(u.collector, 1)
			// A message that is dead-lettered into a full queue is lost: this one expires into the queue that is full
			// then.
			u.send(3, 1)
			harness.Sleep(u.Vhost.T.Context(), time.Until(u.began.Add(u.unit*3/2)))
			u.publishTo(u.exchange(0), "0.1.here", 1)
			u.Eventually("all queues are empty", func() bool { return u.Depth(u.queue(0))+u.Depth(u.queue(1)) == 0 })
			u.Arrived(u.collector, 2)
			if n := len(u.collector.Arrivals()); n != 2 {
				u.Vhost.T.Errorf("%d messages arrived", n)
			}
		}, 4 * time.Second},
		"overflow": {rabbithole.PolicyDefinition{"overflow": "drop-head"}, func(u *underPolicy) {
			// While there is no way out, at-least-once keeps a message and drop-head has switched that off.
			u.Do(plan.DeleteExchange{Name: "t.delivery"})
			u.send(1, 1)
			u.Settled(u.queue(0))
			u.MustApply(u.given)
			if n := u.Depth(u.queue(0)); n != 0 {
				u.Vhost.T.Errorf("%d messages are left in the queue", n)
			}
		}, short},
	}
}

type policyConsequence struct {
	definition rabbithole.PolicyDefinition
	happens    func(*underPolicy)
	unit       time.Duration
}

// sufferPolicy sends messages under a policy and looks at what becomes of them.
func sufferPolicy(t *testing.T, test policyConsequence, is ofQueues) {
	t.Parallel()
	v := harness.NewVhost(t)
	v.Policy("p", 0, test.definition)(".*")
	u := &underPolicy{Vhost: v, Protocol: harness.NewProtocol(t, v.Broker, nil),
		eitherForm: eitherForm{"t", 2, test.unit, is.inUnits, 2}}
	u.given = u.eitherForm.given().With(harness.Attributes{"vhost": v.Name, "queue_type": is.queueType})
	u.MustApply(u.given)
	u.collector = v.Collect("t.delivery", "#")
	test.happens(u)
}

// underPolicy is a cascade of two levels to whose queues a policy applies.
type underPolicy struct {
	*harness.Vhost
	*harness.Protocol
	eitherForm
	given     harness.Attributes
	collector *brokertest.Collector
	began     time.Time
}

// send sends messages to the entry and counts those that are refused.
func (u *underPolicy) send(units, n int) (refused int) {
	u.Vhost.T.Helper()
	return u.publishTo(u.entry(), harness.RoutingKey(u.Vhost.T, time.Duration(units)*u.unit, 2, u.unit, "here"), n)
}

func (u *underPolicy) publishTo(exchange, key string, n int) (refused int) {
	u.Vhost.T.Helper()
	u.began = time.Now()
	publisher := u.Publisher()
	for range n {
		err := publisher.Publish(u.Vhost.T.Context(), exchange, key, amqp.Publishing{DeliveryMode: amqp.Persistent,
			Body: []byte("x")})
		if errors.Is(err, brokertest.ErrNacked) {
			refused++
		} else if err != nil {
			u.Vhost.T.Fatal(err)
		}
	}
	return refused
}

// A policy shows with the first refresh after it was set, and no longer with the first one after it was removed.
// It does so for a user with the tag management alone, too.
func TestPolicyAtOnce(t *testing.T) {
	t.Parallel()
	for name, is := range queueForms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := harness.NewVhost(t)
			user := v.User("management", &everything)
			p := harness.NewProtocol(t, &user, nil)
			cascade := eitherForm{"t", 2, time.Second, is.inUnits, 2}
			p.MustApply(cascade.given().With(harness.Attributes{"vhost": v.Name, "queue_type": is.queueType}))
			ofSecond := fmt.Sprintf(" on queue %q: ", cascade.queue(0))
			says := func(want string) {
				t.Helper()
				text := harness.WarningText(p.Refresh(t.Context()))
				if want == "" && text != "" || !strings.Contains(text, want) {
					t.Errorf("the refresh does not say %q: %s", want, text)
				}
			}
			short := func(millis int) rabbithole.PolicyDefinition {
				return rabbithole.PolicyDefinition{"message-ttl": millis}
			}
			says("")
			v.Policy("short", 0, short(250))("^t")
			says(`policy "short"` + ofSecond + `messages leave it after 250 ms instead of 1 s`)
			v.Policy("short", 0, short(150))("^t")
			says(`policy "short"` + ofSecond + `messages leave it after 150 ms instead of 1 s`)
			v.Policy("long", 1, short(1<<35))(`\.(delay-|[12]s$)`)
			says(`policy "short" on queue "t.unroutable": messages in it are dropped after 150 ms`)
			v.Try(v.API.DeletePolicy(v.Name, "short"))
			v.Try(v.API.DeletePolicy(v.Name, "long"))
			says("")
			v.OperatorPolicy("theirs", short(350))("^t")
			says(`operator policy "theirs"` + ofSecond + `messages leave it after 350 ms instead of 1 s`)
			v.Try(v.API.DeleteOperatorPolicy(v.Name, "theirs"))
			says("")
			v.Policy("not these", 0, short(250))(`^(?!t\.)`)
			says("")
			v.Policy("these", 0, short(250))(`^(?!tasks)t`)
			says(`policy "these"` + ofSecond + `messages leave it after 250 ms instead of 1 s`)
			v.Try(v.API.DeletePolicy(v.Name, "these"))
			v.Policy("who knows", 0, short(450))(`^t++`)
			// RabbitMQ may say so at any moment: here it does not.
			quiet := p.With(harness.NewRewriter(t, &user, func(path string, object map[string]any) {
				if strings.Contains(path, "/api/queues/") {
					delete(object, "policy")
				}
			}), nil)
			harness.MustSay(t, "the refresh", harness.WarningText(quiet.Refresh(t.Context())),
				`policy "who knows"`+ofSecond+`only RabbitMQ can tell whether this applies to it, and `+
					`has not said so yet. If it does, messages leave it after 450 ms instead of 1 s`)
			v.Eventually("the queue says it", func() bool {
				return strings.Contains(harness.WarningText(p.Refresh(t.Context())),
					`policy "who knows" (as the queue says, `+
						`some seconds after a change)`+ofSecond+`messages leave it after 450 ms instead of 1 s`)
			})
		})
	}
}

// A gateway may not let anybody list policies. Then it is the queues that say what applies to them.
func TestPoliciesUnread(t *testing.T) {
	t.Parallel()
	for name, is := range map[string]struct {
		status  int
		inUnits bool
	}{"forbidden": {http.StatusForbidden, false}, "not found": {http.StatusNotFound, false},
		"forbidden, units": {http.StatusForbidden, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := harness.NewVhost(t)
			g := harness.NewGateway(t, v.Broker, nil, func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.Contains(r.URL.Path, "policies/") {
					return false
				}
				w.WriteHeader(is.status)
				return true
			})
			b := *v.Broker
			b.Endpoint = g.URL
			p := harness.NewProtocol(t, &b, nil)
			cascade := eitherForm{"t", 2, time.Second, is.inUnits, 2}
			p.MustApply(cascade.given().With(harness.Attributes{"vhost": v.Name}))
			v.OperatorPolicy("theirs", rabbithole.PolicyDefinition{"message-ttl": 250})("^t")
			v.Eventually("the refresh warns of the policy", func() bool {
				diagnostics := p.Refresh(t.Context())
				harness.NoErrors(t, diagnostics)
				return strings.Contains(harness.WarningText(diagnostics),
					fmt.Sprintf(`operator policy "theirs" (as the queue says, some seconds after a change) on `+
						"queue %q: messages leave it after 250 ms instead of 1 s", cascade.queue(0)))
			})
			p.MustApply(nil)
		})
	}
}

// A consumer on a delay queue takes messages away before their time.
func TestConsumerWarning(t *testing.T) {
	t.Parallel()
	for name, is := range queueForms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := harness.NewVhost(t)
			p := harness.NewProtocol(t, v.Broker, nil)
			cascade := eitherForm{"t", 2, time.Second, is.inUnits, 2}
			p.MustApply(cascade.given().With(harness.Attributes{"vhost": v.Name, "queue_type": is.queueType}))
			if text := harness.WarningText(p.Refresh(t.Context())); text != "" {
				t.Errorf("nothing is to be said: %s", text)
			}
			v.Consume(cascade.queue(1))
			v.Consume("t.unroutable") // where it is as it should be
			v.Eventually("the consumer is warned of", func() bool {
				text := harness.WarningText(p.Refresh(t.Context()))
				if strings.Contains(text, `queue "t.unroutable"`) {
					t.Errorf("a consumer of parked messages is none to warn of: %s", text)
				}
				return strings.Contains(text, fmt.Sprintf("1 consumer(s) on queue %q: messages in it are taken before "+
					"their delay is over", cascade.queue(1)))
			})
		})
	}
}

// A delivery exchange that somebody else declares should have an alternate exchange.
func TestAlternateExchangeWarning(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	p := harness.NewProtocol(t, v.Broker, nil)
	given := harness.Attributes{"vhost": v.Name, "name": "t", "levels": 2, "create_delivery_exchange": false,
		"delivery_exchange": "events"}
	v.DeclareExchange("events", "topic")
	p.MustApply(given)
	const warning = `no alternate exchange on exchange "events"`
	if text := harness.WarningText(p.Refresh(t.Context())); !strings.Contains(text, warning) {
		t.Errorf("got %q", text)
	}
	v.Policy("alternate", 0, rabbithole.PolicyDefinition{"alternate-exchange": "t.unroutable"})("^events$")
	if text := harness.WarningText(p.Refresh(t.Context())); text != "" {
		t.Errorf("the policy is not taken into account: %s", text)
	}
	with := topology.Exchange{Name: "events", Type: "topic", Durable: true,
		Arguments: topology.Arguments{"alternate-exchange": "t.unroutable"}}
	v.Do(plan.DeleteExchange{Name: "events"}, plan.DeclareExchange{Exchange: with})
	p.MustApply(given)
	if text := harness.WarningText(p.Refresh(t.Context())); text != "" {
		t.Errorf("nothing is to be said: %s", text)
	}
}

// takesOperatorPolicy is false for overflow on 3.10, which only knows it in other policies.
func takesOperatorPolicy(v *harness.Vhost, definition rabbithole.PolicyDefinition) bool {
	v.T.Helper()
	_, overflow := definition["overflow"]
	return !overflow || !strings.HasPrefix(v.Broker.Version, "3.10.")
}

package acceptance

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// A message is never early. The bound on its lateness is generous because the machine that runs the tests may be busy;
// the log gives the lateness itself.
const mostLateness = 5 * time.Second

// brokerTime is the present time in the whole milliseconds in which quorum queues count a TTL (system_time in
// rabbit_fifo, 3.10 to 4.3). A message that comes in the middle of one is due at its beginning.
func brokerTime() time.Time { return time.Now().Truncate(time.Millisecond) }

// Messages with different delays arrive when they are due, whatever the order in which they are sent,
// and what cannot be delivered is kept.
func TestAccMessages(t *testing.T) {
	const unit = 100 * time.Millisecond
	for name, is := range map[string]struct {
		base, levels int
		further      string
	}{
		"quorum":                 {2, 5, ``},
		"classic":                {2, 5, `queue_type = "classic"`},
		"quorum, classic chain":  {2, 5, "lookahead = 1\n  strict_keys = false"},
		"classic, classic chain": {2, 5, "queue_type = \"classic\"\n  lookahead = 1\n  strict_keys = false"},
		"quorum, bounded":        {2, 5, `max_length = 100`},
		"quorum, base 10":        {10, 3, ``},
		"classic, base 10, classic chain": {10, 3, "queue_type = \"classic\"\n  lookahead = 1\n  strict_keys = " +
			"false"},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVhost(t)
			resource.ParallelTest(t, resource.TestCase{
				ProtoV6ProviderFactories: factories,
				Steps: []resource.TestStep{{
					Config: on(v.broker, `
resource "rabbitmqdelay_cascade" "t" {
  vhost      = %q
  name       = "t"
  base       = %d
  levels     = %d
  resolution = "%s"
  %s
}
`, v.name, is.base, is.levels, unit, is.further),
					Check: func(*terraform.State) error {
						c := cascadeUnderTest{v, delay.Scale{Base: is.base, Levels: is.levels, Resolution: unit},
							fmt.Sprintf("t.delay-%02d", is.levels-1), "t.delivery"}
						c.deliversOnTime()
						c.keepsTheOrderOfDueTimes()
						c.parksTheUnroutable("t.unroutable", !strings.Contains(is.further, "strict_keys = false"))
						return nil
					},
				}},
			})
		})
	}
}

// In seconds, as most cascades are.
func TestAccMessagesInSeconds(t *testing.T) {
	v := newVhost(t)
	resource.ParallelTest(t, resource.TestCase{
		ProtoV6ProviderFactories: factories,
		Steps: []resource.TestStep{{
			Config: on(v.broker, `
resource "rabbitmqdelay_cascade" "t" {
  vhost     = %q
  name      = "t"
  max_delay = "13s"
}
`, v.name),
			Check: func(*terraform.State) error {
				cascadeUnderTest{v, binary(4, time.Second), "t.delay-03", "t.delivery"}.deliversOnTime()
				return nil
			},
		}},
	})
}

type cascadeUnderTest struct {
	*vhost
	delay.Scale
	entry, delivery string
}

func (c cascadeUnderTest) send(units int, address string) (sent time.Time) {
	c.Helper()
	sent = brokerTime()
	c.publish(c.entry, keyOf(c, c.Scale, time.Duration(units)*c.Resolution, address), fmt.Sprint(units))
	return sent
}

// deliversOnTime sends to an address with and one without dots: neither is late or early, and neither
// gets the other's messages.
func (c cascadeUnderTest) deliversOnTime() {
	c.Helper()
	delays := []int{0, 1, 5, 10, 13}
	addresses := []string{"orders", "orders.eu.created"}
	sent := map[string]time.Time{}
	collectors := map[string]*brokertest.Collector{}
	for _, address := range addresses {
		collectors[address] = c.collect(c.delivery, destination(c.Levels, address))
		for _, delay := range slices.Backward(delays) {
			sent[fmt.Sprint(address, delay)] = c.send(delay, address)
		}
	}
	for _, address := range addresses {
		arrived := map[string]int{}
		for _, a := range c.arrived(collectors[address], len(delays)) {
			arrived[string(a.Body)]++
			i, err := strconv.Atoi(string(a.Body))
			if err != nil {
				c.Fatal(err)
			}
			asked, took := time.Duration(i)*c.Resolution, a.At.Sub(sent[address+string(a.Body)])
			if took < asked || took > asked+mostLateness {
				c.Errorf("%s: a message with a delay of %s took %s", address, asked, took)
			}
			c.Logf("%s: asked %s, took %s", address, asked, took.Round(time.Millisecond))
		}
		for _, delay := range delays {
			if n := arrived[strconv.Itoa(delay)]; n != 1 {
				c.Errorf("%s: the message of %d units arrived %d times", address, delay, n)
			}
		}
	}
}

// keepsTheOrderOfDueTimes is what per-message expiration in one queue gets wrong.
func (c cascadeUnderTest) keepsTheOrderOfDueTimes() {
	c.Helper()
	collector := c.collect(c.delivery, destination(c.Levels, "order"))
	for _, delay := range []int{30, 20, 10} {
		c.send(delay, "order")
	}
	var order []string
	for _, a := range c.arrived(collector, 3) {
		order = append(order, string(a.Body))
	}
	if want := []string{"10", "20", "30"}; !slices.Equal(order, want) {
		c.Errorf("30, 20 and 10 arrive in the order %v", order)
	}
}

// parksTheUnroutable sends messages that no binding takes. They are without a digit, with another digit, with too few
// digits, without a destination, or for a destination that nobody has bound. A lax entry takes some of these for
// delays, so that there they are left out.
func (c cascadeUnderTest) parksTheUnroutable(parking string, strict bool) {
	c.Helper()
	digits := strings.Repeat("0.", c.Levels)
	keys := []string{"", "orders", "g." + digits + "orders", "x.0.0", "A." + digits + "orders", digits + "nobody",
		digits[2:] + "1.nobody"}
	for _, wrong := range []string{"a", fmt.Sprint(c.Base), "00"} { // by the next exchange that looks at it
		keys = append(keys, digits[2:]+wrong+".orders", "1."+digits[4:]+wrong+".orders")
	}
	if strict {
		keys = append(keys, "1.orders", "1", "0.0.orders", strings.TrimSuffix(digits, "."),
			"0.1"+digits[3:len(digits)-1])
	}
	for _, key := range keys {
		c.publish(c.entry, key, key)
	}
	c.eventually(fmt.Sprintf("%d messages are parked", len(keys)), func() bool { return c.depth(parking) == len(keys) })
	var parked []string
	for _, a := range c.arrived(c.consume(parking), len(keys)) {
		parked = append(parked, string(a.Body))
	}
	slices.Sort(keys)
	slices.Sort(parked)
	if !slices.Equal(parked, keys) {
		c.Errorf("parked are %q, want %q", parked, keys)
	}
}

// An existing delivery exchange stays its owner's. It has to be there and to be a topic exchange, and it is as it was
// when the cascade is gone.
func TestAccExistingDeliveryExchange(t *testing.T) {
	v := newVhost(t)
	const levels, unit = 3, 100 * time.Millisecond
	configuration := on(v.broker, `
resource "rabbitmqdelay_cascade" "t" {
  vhost                    = %q
  name                     = "t"
  levels                   = %d
  resolution               = "%s"
  delivery_exchange        = "events"
  create_delivery_exchange = false
}
`, v.name, levels, unit)
	resource.ParallelTest(t, resource.TestCase{
		ProtoV6ProviderFactories: factories,
		CheckDestroy: func(*terraform.State) error {
			own := topology.New()
			own.Exchanges["events"] = topology.Exchange{Name: "events", Type: "topic", Durable: true}
			own.Queues["mine"] = topology.Queue{Name: "mine", Durable: true,
				Arguments: topology.Arguments{"x-queue-type": "classic"}}
			for _, key := range []string{destination(levels, "mine"), "#.mine.too"} {
				own.Bindings.Add(topology.Binding{Source: "events", RoutingKey: key, DestinationType: topology.ToQueue,
					Destination: "mine"})
			}
			v.mustHold(own)
			return nil
		},
		Steps: []resource.TestStep{
			{Config: configuration, ExpectError: saying(`The delivery exchange "events" in vhost "` + v.name +
				`" does not exist`)},
			{
				PreConfig: func() { v.declareExchange("events", "direct") },
				Config:    configuration,
				ExpectError: saying(`The delivery exchange "events" in vhost "` + v.name + `" is of type "direct". ` +
					`It has to be a topic exchange`),
			},
			{
				PreConfig: func() {
					v.try(v.api.DeleteExchange(v.name, "events"))
					v.declareExchange("events", "topic")
					v.declareQueue("mine", map[string]any{"x-queue-type": "classic"})
					v.bind("events", destination(levels, "mine"), "queue", "mine")
					v.bind("events", "#.mine.too", "queue", "mine")
				},
				Config: configuration,
				Check: func(s *terraform.State) error {
					sent := cascadeUnderTest{v, binary(levels, unit), "t.delay-02", "events"}.send(6, "mine")
					if took := v.arrived(v.consume("mine"), 1)[0].At.Sub(sent); took < 6*unit {
						t.Errorf("a message with a delay of %s took %s", 6*unit, took)
					}
					return resource.TestCheckNoResourceAttr("rabbitmqdelay_cascade.t", "exchanges.events.type")(s)
				},
			},
		},
	})
}

// Two messages of one stream, one behind a missing destination, do not hold up each other: what cannot
// be delivered leaves its delay queue.
func TestAccMissingDestinationDoesNotBlock(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	const levels, unit = 3, 50 * time.Millisecond
	p := newProtocol(t, v.broker, nil)
	p.mustApply(attributes{"vhost": v.name, "name": "t", "levels": levels, "resolution": unit.String()})
	c := cascadeUnderTest{v, binary(levels, unit), "t.delay-02", "t.delivery"}
	collector := v.collect("t.delivery", destination(levels, "here"))
	publisher := v.publisher()
	const each = 50
	for i := range each {
		for _, address := range []string{"nowhere", "here"} {
			key := routingKey(t, time.Duration(1+i%7)*unit, levels, unit, address)
			if err := publisher.Publish(t.Context(), c.entry, key, amqp.Publishing{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := len(v.arrived(collector, each)); n != each {
		t.Errorf("%d messages for one destination arrived, want %d", n, each)
	}
	v.eventually("all messages for nobody are parked", func() bool { return v.depth("t.unroutable") == each })
	v.arrived(v.consume("t.unroutable"), each)
	v.settled("t.delay-00", "t.delay-01", "t.delay-02", "t.unroutable")
	p.mustApply(nil)
}

// settled waits until nothing waits in the queues any more.
func (v *vhost) settled(queues ...string) {
	v.Helper()
	for _, queue := range queues {
		v.eventually(fmt.Sprintf("queue %q is empty", queue), func() bool { return v.depth(queue) == 0 })
	}
}

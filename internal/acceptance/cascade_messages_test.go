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

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// A message is never early. The bound on its lateness is generous because the machine that runs the tests may be busy;
// the log gives the lateness itself.
const mostLateness = 5 * time.Second

// Messages with different delays arrive when they are due, whatever the order in which they are sent,
// and what cannot be delivered is kept.
func TestAccMessages(t *testing.T) {
	t.Parallel()
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
			v := harness.NewVhost(t)
			resource.ParallelTest(t, resource.TestCase{
				ProtoV6ProviderFactories: harness.Providers,
				Steps: []resource.TestStep{{
					Config: harness.WithProvider(v.Broker, `
resource "rabbitmqdelay_cascade" "t" {
  vhost      = %q
  name       = "t"
  base       = %d
  levels     = %d
  resolution = "%s"
  %s
}
`, v.Name, is.base, is.levels, unit, is.further),
					Check: func(*terraform.State) error {
						c := cascadeUnderTest{v, delay.Uniform{Base: is.base, Levels: is.levels, Resolution: unit},
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
	v := harness.NewVhost(t)
	resource.ParallelTest(t, resource.TestCase{
		ProtoV6ProviderFactories: harness.Providers,
		Steps: []resource.TestStep{{
			Config: harness.WithProvider(v.Broker, `
resource "rabbitmqdelay_cascade" "t" {
  vhost     = %q
  name      = "t"
  base      = 2
  max_delay = "13s"
}
`, v.Name),
			Check: func(*terraform.State) error {
				cascadeUnderTest{v, harness.BinaryScale(4, time.Second), "t.delay-03", "t.delivery"}.deliversOnTime()
				return nil
			},
		}},
	})
}

type cascadeUnderTest struct {
	*harness.Vhost
	delay.Uniform
	entry, delivery string
}

func (c cascadeUnderTest) send(units int, address string) (sent time.Time) {
	c.T.Helper()
	sent = harness.BrokerTime()
	c.Publish(c.entry, harness.KeyOf(c.T, c.Scale(), time.Duration(units)*c.Resolution, address), fmt.Sprint(units))
	return sent
}

// deliversOnTime sends to an address with and one without dots: neither is late or early, and neither
// gets the other's messages.
func (c cascadeUnderTest) deliversOnTime() {
	c.T.Helper()
	delays := []int{0, 1, 5, 10, 13}
	addresses := []string{"orders", "orders.eu.created"}
	sent, confirmed := map[string]time.Time{}, map[string]time.Time{}
	collectors := map[string]*brokertest.Collector{}
	for _, address := range addresses {
		collectors[address] = c.Collect(c.delivery, harness.DestinationKey(c.Levels, address))
		for _, delay := range slices.Backward(delays) {
			id := fmt.Sprint(address, delay)
			sent[id] = c.send(delay, address)
			confirmed[id] = time.Now()
		}
	}
	for _, address := range addresses {
		arrived := map[string]int{}
		for _, a := range c.Arrived(collectors[address], len(delays)) {
			arrived[string(a.Body)]++
			i, err := strconv.Atoi(string(a.Body))
			if err != nil {
				c.T.Fatal(err)
			}
			asked, id := time.Duration(i)*c.Resolution, address+string(a.Body)
			took := a.At.Sub(sent[id])
			// A slow publisher is no lateness: the message is in its queue when it is confirmed.
			if took < harness.Least(asked) || a.At.Sub(confirmed[id]) > asked+mostLateness {
				c.T.Errorf("%s: a message with a delay of %s took %s", address, asked, took)
			}
			c.T.Logf("%s: asked %s, took %s", address, asked, took.Round(time.Millisecond))
		}
		for _, delay := range delays {
			if n := arrived[strconv.Itoa(delay)]; n != 1 {
				c.T.Errorf("%s: the message of %d units arrived %d times", address, delay, n)
			}
		}
	}
}

// keepsTheOrderOfDueTimes is what per-message expiration in one queue gets wrong every time. A busy machine does so at
// times: it holds up a publisher or a message for longer than the second between two due times. So there are tries.
func (c cascadeUnderTest) keepsTheOrderOfDueTimes() {
	c.T.Helper()
	collector := c.Collect(c.delivery, harness.DestinationKey(c.Levels, "order"))
	sent, want := []int{30, 20, 10}, []string{"10", "20", "30"}
	var order []string
	for try := range 5 {
		for _, delay := range sent {
			c.send(delay, "order")
		}
		order = nil
		for _, a := range c.Arrived(collector, (try+1)*len(sent))[try*len(sent):] {
			order = append(order, string(a.Body))
		}
		if slices.Equal(order, want) {
			return
		}
		c.T.Logf("try %d: 30, 20 and 10 arrive in the order %v", try+1, order)
	}
	c.T.Errorf("30, 20 and 10 never arrive in the order of their due times, at last in the order %v", order)
}

// parksTheUnroutable sends messages that no binding takes. They are without a digit, with another digit, with too few
// digits, without a destination, or for a destination that nobody has bound. A lax entry takes some of these for
// delays, so that there they are left out.
func (c cascadeUnderTest) parksTheUnroutable(parking string, strict bool) {
	c.T.Helper()
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
		c.Publish(c.entry, key, key)
	}
	c.Eventually(fmt.Sprintf("%d messages are parked", len(keys)), func() bool { return c.Depth(parking) == len(keys) })
	var parked []string
	for _, a := range c.Arrived(c.Consume(parking), len(keys)) {
		parked = append(parked, string(a.Body))
	}
	slices.Sort(keys)
	slices.Sort(parked)
	if !slices.Equal(parked, keys) {
		c.T.Errorf("parked are %q, want %q", parked, keys)
	}
}

// An existing delivery exchange stays its owner's. It has to be there and to be a topic exchange, and it is as it was
// when the cascade is gone.
func TestAccExistingDeliveryExchange(t *testing.T) {
	v := harness.NewVhost(t)
	const levels, unit = 3, 100 * time.Millisecond
	configuration := harness.WithProvider(v.Broker, `
resource "rabbitmqdelay_cascade" "t" {
  vhost                    = %q
  name                     = "t"
  levels                   = %d
  resolution               = "%s"
  delivery_exchange        = "events"
  create_delivery_exchange = false
}
`, v.Name, levels, unit)
	resource.ParallelTest(t, resource.TestCase{
		ProtoV6ProviderFactories: harness.Providers,
		CheckDestroy: func(*terraform.State) error {
			own := topology.New()
			own.Exchanges["events"] = topology.Exchange{Name: "events", Type: "topic", Durable: true}
			own.Queues["mine"] = topology.Queue{Name: "mine", Durable: true,
				Arguments: topology.Arguments{"x-queue-type": "classic"}}
			for _, key := range []string{harness.DestinationKey(levels, "mine"), "#.mine.too"} {
				own.Bindings.Add(topology.Binding{Source: "events", RoutingKey: key, DestinationType: topology.ToQueue,
					Destination: "mine"})
			}
			v.MustHold(own)
			return nil
		},
		Steps: []resource.TestStep{
			{Config: configuration, ExpectError: harness.Saying(`The delivery exchange "events" in vhost "` + v.Name +
				`" does not exist`)},
			{
				PreConfig: func() { v.DeclareExchange("events", "direct") },
				Config:    configuration,
				ExpectError: harness.Saying(`The delivery exchange "events" in vhost "` + v.Name +
					`" is of type "direct". ` +
					`The delivery exchange has to be a topic exchange`),
			},
			{
				PreConfig: func() {
					v.Try(v.API.DeleteExchange(v.Name, "events"))
					v.DeclareExchange("events", "topic")
					v.DeclareQueue("mine", map[string]any{"x-queue-type": "classic"})
					v.Bind("events", harness.DestinationKey(levels, "mine"), "queue", "mine")
					v.Bind("events", "#.mine.too", "queue", "mine")
				},
				Config: configuration,
				Check: func(s *terraform.State) error {
					sent := cascadeUnderTest{v, harness.BinaryScale(levels, unit), "t.delay-02", "events"}.send(6,
						"mine")
					if took := v.Arrived(v.Consume("mine"), 1)[0].At.Sub(sent); took < harness.Least(6*unit) {
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
	v := harness.NewVhost(t)
	const levels, unit = 3, 50 * time.Millisecond
	p := harness.NewProtocol(t, v.Broker, nil)
	p.MustApply(harness.Attributes{"vhost": v.Name, "name": "t", "levels": levels, "resolution": unit.String()})
	c := cascadeUnderTest{v, harness.BinaryScale(levels, unit), "t.delay-02", "t.delivery"}
	collector := v.Collect("t.delivery", harness.DestinationKey(levels, "here"))
	publisher := v.Publisher()
	const each = 50
	for i := range each {
		for _, address := range []string{"nowhere", "here"} {
			key := harness.RoutingKey(t, time.Duration(1+i%7)*unit, levels, unit, address)
			if err := publisher.Publish(t.Context(), c.entry, key, amqp.Publishing{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := len(v.Arrived(collector, each)); n != each {
		t.Errorf("%d messages for one destination arrived, want %d", n, each)
	}
	v.Eventually("all messages for nobody are parked", func() bool { return v.Depth("t.unroutable") == each })
	v.Arrived(v.Consume("t.unroutable"), each)
	v.Settled("t.delay-00", "t.delay-01", "t.delay-02", "t.unroutable")
	p.MustApply(nil)
}

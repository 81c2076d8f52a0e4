package delay

import (
	"cmp"
	"maps"
	"math"
	"regexp"
	"strings"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// around has the properties that cascades and ladders have in common: the objects around their delay queues, and the
// common arguments of these queues.
type around struct {
	vhost, name, delivery string
	createsDelivery       bool
	queueType             QueueType
	arguments             topology.Arguments
	parks                 bool
	// byPolicy has exchanges keep their arguments: a policy says where to park.
	byPolicy bool
	// instead says of arguments why they are not among the further ones.
	instead map[string]string
	QuorumOptions
}

func (c Cascade) around() around {
	preset := presets[c.Preset]
	return around{vhost: c.Vhost, name: cmp.Or(c.Name, c.before()+preset.name), delivery: c.DeliveryExchange,
		createsDelivery: c.CreateDeliveryExchange, queueType: c.QueueType, arguments: c.QueueArguments,
		parks: c.ParkUnroutable, byPolicy: c.Preset != "", instead: ofCascades, QuorumOptions: c.QuorumOptions}
}

// What the default names add to the name of a cascade or a ladder.
const (
	defaultDelivery = ".delivery"
	parkingSuffix   = ".unroutable"
)

// parking is the name of the alternate exchange, of its queue, and of the policy, where one names the exchange.
func (a around) parking() string { return a.name + parkingSuffix }

// addAround adds the common objects: the delivery exchange, and the alternate exchange with its queue. That queue keeps
// a message that no binding takes until somebody looks at it.
func (a around) addAround(t *topology.Topology) {
	if a.delivery != "" {
		t.Delivery, t.DeliveryType = a.delivery, "topic"
	}
	if a.createsDelivery && a.delivery != "" {
		t.Exchanges[a.delivery] = a.topicExchange(a.delivery)
	}
	if !a.parks {
		return
	}
	name := a.parking()
	t.Exchanges[name] = ParkingExchange(name)
	arguments := topology.Arguments{"x-queue-type": string(a.queueType)}
	if a.queueType == Quorum {
		// RabbitMQ 4.0 drops a message of a quorum queue that is looked at (got and requeued) for
		// the 21st time. -1 means no limit there, but drops at the first look on 3.10.
		arguments["x-delivery-limit"] = int64(math.MaxInt32)
		for _, each := range a.given() {
			if each.holdsForParked {
				arguments[each.argument] = each.value
			}
		}
	}
	t.Queues[name] = topology.Queue{Name: name, Durable: true, Arguments: arguments}
	// A fanout exchange ignores the key; "#" says in a plan what that means.
	t.Bindings.Add(topology.Binding{Source: name, RoutingKey: "#", DestinationType: topology.ToQueue,
		Destination: name})
}

// ParkingExchange is an alternate exchange of the name, as it is declared.
func ParkingExchange(name string) topology.Exchange {
	return topology.Exchange{Name: name, Type: "fanout", Durable: true}
}

// ParkingFor is the name of the cascade or ladder whose alternate exchange would have this name. Not ok is the name of
// something else.
func ParkingFor(exchange string) (name string, ok bool) {
	name, ok = strings.CutSuffix(exchange, parkingSuffix)
	return name, ok && name != ""
}

// topicExchange is what every exchange is, but for the alternate exchange.
func (a around) topicExchange(name string) topology.Exchange {
	e := topology.Exchange{Name: name, Type: "topic", Durable: true}
	if a.parks && !a.byPolicy {
		e.Arguments = topology.Arguments{"alternate-exchange": a.parking()}
	}
	return e
}

// parkingPriority is above the default of 0, which policies for everything mostly have.
const parkingPriority = 10

// policy makes the alternate exchange that of the exchanges, whose arguments stay as they are.
func (a around) policy(exchanges []string) topology.Policy {
	return topology.Policy{
		Name: a.parking(), Pattern: patternOf(exchanges), ApplyTo: "exchanges", Priority: parkingPriority,
		Definition: topology.Arguments{"alternate-exchange": a.parking()},
	}
}

// patternOf is a regular expression for exactly these names, with what they have in common written once.
func patternOf(names []string) string {
	common := plaintext.CommonPrefix(names)
	rests := plaintext.Join(names, "|", func(name string) string {
		return regexp.QuoteMeta(strings.TrimPrefix(name, common))
	})
	return "^" + regexp.QuoteMeta(common) + "(" + rests + ")$"
}

// delayArguments are those of a queue in which messages wait so long, and then go to the exchange.
func (a around) delayArguments(ttl time.Duration, deadLetterExchange string) topology.Arguments {
	arguments := topology.Arguments{
		"x-queue-type":           string(a.queueType),
		"x-message-ttl":          ttl.Milliseconds(),
		"x-dead-letter-exchange": deadLetterExchange,
	}
	maps.Copy(arguments, a.arguments)
	for _, each := range a.given() {
		arguments[each.argument] = each.value
	}
	return arguments
}

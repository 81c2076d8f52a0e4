package cascade

import (
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// parts is what a cascade and a ladder are made of in the same way: what stands around their delay queues, and
// what these queues have in common.
type parts struct {
	vhost, name, delivery string
	createsDelivery       bool
	queueType             QueueType
	maxLength             int64
	parks                 bool
}

func (c Config) parts() parts {
	return parts{c.Vhost, c.Name, c.DeliveryExchange, c.CreateDeliveryExchange, c.QueueType, c.MaxLength, c.ParkUnroutable}
}

// What the default names add to the name of a cascade or a ladder.
const (
	defaultDelivery = ".delivery"
	parkingSuffix   = ".unroutable"
)

// reservedPrefix begins the names that only the broker itself may declare.
const reservedPrefix = "amq."

// parking is the name of the alternate exchange and of its queue.
func (p parts) parking() string { return p.name + parkingSuffix }

// addAround adds what is not specific: the delivery exchange, and the alternate exchange with its queue, where
// a message that no binding takes is kept until somebody looks at it.
func (p parts) addAround(t *topology.Topology) {
	t.Delivery, t.DeliveryType = p.delivery, "topic"
	if p.createsDelivery {
		t.Exchanges[p.delivery] = p.topicExchange(p.delivery)
	}
	if !p.parks {
		return
	}
	name := p.parking()
	t.Exchanges[name] = parkingExchange(name)
	arguments := topology.Arguments{"x-queue-type": string(p.queueType)}
	if p.queueType == Quorum {
		// RabbitMQ 4.0 drops a message of a quorum queue that is looked at (got and requeued) for
		// the 20th time. -1 means no limit there, but drops at the first look on 3.10.
		arguments["x-delivery-limit"] = int64(math.MaxInt32)
	}
	t.Queues[name] = topology.Queue{Name: name, Durable: true, Arguments: arguments}
	// A fanout exchange ignores the key; "#" says in a plan what that means.
	t.Bindings.Add(topology.Binding{Source: name, RoutingKey: "#", DestinationType: topology.ToQueue, Destination: name})
}

func parkingExchange(name string) topology.Exchange {
	return topology.Exchange{Name: name, Type: "fanout", Durable: true}
}

// topicExchange is what every exchange is, but for the alternate exchange.
func (p parts) topicExchange(name string) topology.Exchange {
	e := topology.Exchange{Name: name, Type: "topic", Durable: true}
	if p.parks {
		e.Arguments = topology.Arguments{"alternate-exchange": p.parking()}
	}
	return e
}

// delayArguments are those of a queue in which messages wait so long, and then go to the exchange.
func (p parts) delayArguments(ttl time.Duration, deadLetterExchange string) topology.Arguments {
	arguments := topology.Arguments{
		"x-queue-type":           string(p.queueType),
		"x-message-ttl":          ttl.Milliseconds(),
		"x-dead-letter-exchange": deadLetterExchange,
	}
	if p.queueType == Quorum {
		// Together these make RabbitMQ keep a message until the next queue has confirmed it
		// (3.10); without either it falls back to at-most-once without a word.
		arguments["x-dead-letter-strategy"] = "at-least-once"
		arguments["x-overflow"] = "reject-publish"
	}
	if p.maxLength > 0 {
		arguments["x-max-length"] = p.maxLength
	}
	return arguments
}

// check checks everything but the names.
func (p parts) check(errs *Errors) {
	if hidesFromURLs(p.vhost) {
		errs.add("vhost", "is %q, which the management API cannot reach", p.vhost)
	}
	if p.queueType != Quorum && p.queueType != Classic {
		errs.add("queue_type", "is %q; it can be %q or %q", p.queueType, Quorum, Classic)
	}
	if p.maxLength < 0 {
		errs.add("max_length", "is %d; it has to be 1 or more", p.maxLength)
	}
	if p.maxLength > 0 && p.queueType == Classic {
		errs.add("max_length", "is given for classic queues; a full classic queue loses what is dead-lettered into it, so this needs queue_type = %q", Quorum)
	}
}

// object is a name that the broker gets to see, and the attribute that it comes from.
type object struct{ attribute, kind, name string }

// objectsAround are the names of what addAround adds. The attribute is that of the delivery exchange.
func (p parts) objectsAround(attribute string) []object {
	var objects []object
	if p.delivery != "" {
		objects = append(objects, object{attribute, "exchange", p.delivery})
	}
	if p.parks && p.name != "" {
		objects = append(objects, object{"name", "exchange", p.parking()}, object{"name", "queue", p.parking()})
	}
	return objects
}

// checkNames checks every name, each on the attribute that gives it.
func (p parts) checkNames(errs *Errors, objects []object) {
	seen := map[object]string{}
	for _, o := range objects {
		key := object{kind: o.kind, name: o.name}
		if first, ok := seen[key]; ok {
			if o.attribute == "name" {
				o.attribute = first // the other name may have been given on purpose
			}
			errs.add(o.attribute, "gives the name %q to a second %s; all names have to differ", o.name, o.kind)
			continue
		}
		seen[key] = o.attribute
		p.checkName(errs, o)
	}
}

func (p parts) checkName(errs *Errors, o object) {
	switch {
	case !checkReference(errs, o):
	case strings.HasPrefix(o.name, reservedPrefix) && p.declares(o):
		errs.add(o.attribute, "gives the %s name %q; names that begin with %q are reserved by RabbitMQ", o.kind, o.name, reservedPrefix)
	case o.kind == "queue" && p.queueType == Quorum && p.internalBytes(o.name) > MaxKeyBytes:
		errs.add(o.attribute, "gives the quorum queue name %q; with the vhost it has %d bytes inside RabbitMQ, which cannot add a replica to a queue with more than %d; use a shorter name",
			o.name, p.internalBytes(o.name), MaxKeyBytes)
	}
}

// checkReference checks the name of an object that may be anybody's.
func checkReference(errs *Errors, o object) (ok bool) {
	switch {
	case hidesFromURLs(o.name):
		errs.add(o.attribute, "gives the %s name %q, which the management API cannot reach; use another name", o.kind, o.name)
	case !utf8.ValidString(o.name):
		errs.add(o.attribute, "gives the %s name %q, which is not valid UTF-8", o.kind, o.name)
	case len(o.name) > MaxKeyBytes:
		errs.add(o.attribute, "gives the %s name %q of %d bytes; RabbitMQ allows %d", o.kind, o.name, len(o.name), MaxKeyBytes)
	case strings.ContainsFunc(o.name, unicode.IsControl):
		errs.add(o.attribute, "gives the %s name %q with a control character; RabbitMQ drops some of them and the object would have another name", o.kind, o.name)
	default:
		return true
	}
	return false
}

// hidesFromURLs tells whether a segment of a URL's path would get lost: RabbitMQ's web server (Cowboy)
// takes these out of a path, percent-encoded too (3.10 to 4.3).
func hidesFromURLs(name string) bool { return name == "." || name == ".." }

// declares tells what is declared from a delivery exchange that others provide, which may be one of the
// broker's own.
func (p parts) declares(o object) bool {
	return p.createsDelivery || o.kind != "exchange" || o.name != p.delivery
}

// internalBytes is the length of the name that RabbitMQ gives to a quorum queue's replicas
// (rabbit_queue_type_util:qname_to_internal_name/1). A queue with a longer one can be declared,
// on 3.10 to 4.3, but add_members in rabbit_quorum_queue fails on it.
func (p parts) internalBytes(queue string) int {
	vhost := p.vhost
	if vhost == "/" {
		vhost = "%2F"
	}
	return len(vhost) + len("_") + len(queue)
}

// origin is the attribute to blame for a name: the name of the whole unless its own attribute is given.
func origin(attribute, given string) string {
	if given == "" {
		return "name"
	}
	return attribute
}

// otherwise is what has to be given where there is no name.
type otherwise struct {
	attribute string
	missing   bool
}

// checkMissing reports the names that can neither be taken from their attribute nor derived.
func (p parts) checkMissing(errs *Errors, ways ...otherwise) {
	if p.name != "" {
		return
	}
	var missing []string
	for _, each := range append(ways, otherwise{"delivery_exchange", p.delivery == ""}, otherwise{"park_unroutable = false", p.parks}) {
		if each.missing {
			missing = append(missing, each.attribute)
		}
	}
	if len(missing) > 0 {
		errs.add("name", "is missing; give it, or else %s", strings.Join(missing, ", "))
	}
}

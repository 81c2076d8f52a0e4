package delay

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// object is a name that the broker gets to see, and the attribute that it comes from.
type object struct{ attribute, kind, name string }

// otherwise is what has to be given where there is no name.
type otherwise struct {
	attribute string
	missing   bool
}

// checkMissing reports the names that can neither be taken from their attribute nor derived.
func (p shared) checkMissing(errs *Errors, ways ...otherwise) {
	if p.name != "" {
		return
	}
	var missing []string
	for _, each := range append(ways, otherwise{"park_unroutable = false", p.parks}) {
		if each.missing {
			missing = append(missing, each.attribute)
		}
	}
	if len(missing) > 0 {
		errs.add("name", "is missing; give it, or else %s", strings.Join(missing, " and "))
	}
}

// origin is the attribute to blame for a name: the name of the whole unless its own attribute is given.
func origin(attribute, given string) string {
	if given == "" {
		return "name"
	}
	return attribute
}

// objectsAround are the names of what addAround adds. The attribute is that of the delivery exchange.
func (p shared) objectsAround(attribute string) []object {
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
func (p shared) checkNames(errs *Errors, objects []object) {
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

// IsDefaultExchange tells whether a name is that of the default exchange, which takes no bindings. The management API
// calls it amq.default, and AMQP gives it an empty name.
func IsDefaultExchange(name string) bool { return name == "" || name == "amq.default" }

// ReservedPrefix begins the names that only the broker itself may declare.
const ReservedPrefix = "amq."

func (p shared) checkName(errs *Errors, o object) {
	switch {
	case !checkReference(errs, o):
	case strings.HasPrefix(o.name, ReservedPrefix) && p.declares(o):
		errs.add(o.attribute, "gives the %s name %q; RabbitMQ reserves names that begin with %q", o.kind, o.name,
			ReservedPrefix)
	case o.kind == "queue" && p.queueType == Quorum && p.internalBytes(o.name) > MaxKeyBytes:
		errs.add(o.attribute, "gives the quorum queue name %q. With the vhost it has %d bytes inside RabbitMQ, which "+
			"cannot add a replica to a queue with more than %d. Use a shorter name",
			o.name, p.internalBytes(o.name), MaxKeyBytes)
	}
}

// checkReference checks the name of an object that may be anybody's.
func checkReference(errs *Errors, o object) (ok bool) {
	switch {
	case hidesFromURLs(o.name):
		errs.add(o.attribute, "gives the %s name %q, which the management API cannot reach; use another name", o.kind,
			o.name)
	case !utf8.ValidString(o.name):
		errs.add(o.attribute, "gives the %s name %q, which is not valid UTF-8", o.kind, o.name)
	case len(o.name) > MaxKeyBytes:
		errs.add(o.attribute, "gives the %s name %q of %d bytes; RabbitMQ allows %d", o.kind, o.name, len(o.name),
			MaxKeyBytes)
	case strings.ContainsFunc(o.name, unicode.IsControl):
		errs.add(o.attribute, "gives the %s name %q with a control character. RabbitMQ drops some of them, and the "+
			"object would have another name. Use a name without", o.kind, o.name)
	default:
		return true
	}
	return false
}

// hidesFromURLs tells whether a segment of a URL's path would get lost. RabbitMQ's web server (Cowboy) takes these out
// of a path, percent-encoded too (3.10 to 4.3).
func hidesFromURLs(name string) bool { return name == "." || name == ".." }

// declares tells a declared object from a delivery exchange that others provide, which may be one of the broker's own.
func (p shared) declares(o object) bool {
	return p.createsDelivery || o.kind != "exchange" || o.name != p.delivery
}

// internalBytes is the length of the name that RabbitMQ gives to a quorum queue's replicas
// (rabbit_queue_type_util:qname_to_internal_name/1). A queue with a longer one can be declared,
// on 3.10 to 4.3, but add_members in rabbit_quorum_queue fails on it.
func (p shared) internalBytes(queue string) int {
	vhost := p.vhost
	if vhost == "/" {
		vhost = "%2F"
	}
	return len(vhost) + len("_") + len(queue)
}

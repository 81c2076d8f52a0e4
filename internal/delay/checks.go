package delay

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// check checks everything but the names.
func (p shared) check(errs *Errors) {
	checkVhost(errs, p.vhost)
	if p.queueType != Quorum && p.queueType != Classic {
		errs.add("queue_type", "is %q; it can be %q or %q", p.queueType, Quorum, Classic)
	}
	p.QuorumOptions.check(p.queueType, errs)
	p.checkArguments(errs)
}

// checkArguments checks the further arguments.
func (p shared) checkArguments(errs *Errors) {
	wrong := maps.Clone(p.instead)
	for _, each := range append(p.QuorumOptions.given(), p.optionsWithin().given()...) {
		wrong[each.argument] = giveInstead(each.attribute)
	}
	for _, name := range slices.Sorted(maps.Keys(p.arguments)) {
		if why := cmp.Or(wrong[name], wrongArgument(p.queueType, name, p.arguments[name])); why != "" {
			errs.add("queue_arguments", "has %q%s", name, why)
		}
	}
}

// optionsWithin are the quorum options that stand among the further arguments.
func (p shared) optionsWithin() QuorumOptions {
	arguments := maps.Clone(p.arguments)
	arguments["x-queue-type"] = string(p.queueType)
	return QuorumOptionsOf(topology.Queue{Arguments: arguments})
}

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

// objectsAround are the names of what addAround adds, and the attributes that the delivery exchange and the others are
// named by.
func (p shared) objectsAround(delivery, name string) []object {
	var objects []object
	if p.delivery != "" {
		objects = append(objects, object{delivery, "exchange", p.delivery})
	}
	if p.parks && p.name != "" {
		objects = append(objects, object{name, "exchange", p.parking()}, object{name, "queue", p.parking()})
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

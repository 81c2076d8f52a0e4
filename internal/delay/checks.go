package delay

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// check checks everything but the names.
func (a around) check(errs *Errors) {
	checkVhost(errs, a.vhost)
	if a.queueType != Quorum && a.queueType != Classic {
		errs.add("queue_type", "is %q; it can be %q or %q", a.queueType, Quorum, Classic)
	}
	a.QuorumOptions.check(a.queueType, errs)
	a.checkArguments(errs)
}

// checkArguments checks the further arguments.
func (a around) checkArguments(errs *Errors) {
	wrong := maps.Clone(a.instead)
	for _, each := range append(a.QuorumOptions.given(), a.optionsWithin().given()...) {
		wrong[each.argument] = giveInstead(each.attribute)
	}
	for _, name := range slices.Sorted(maps.Keys(a.arguments)) {
		if why := cmp.Or(wrong[name], wrongArgument(a.queueType, name, a.arguments[name])); why != "" {
			errs.add("queue_arguments", "has %q%s", name, why)
		}
	}
}

// optionsWithin are the quorum options that stand among the further arguments.
func (a around) optionsWithin() QuorumOptions {
	arguments := maps.Clone(a.arguments)
	arguments["x-queue-type"] = string(a.queueType)
	return QuorumOptionsOf(topology.Queue{Arguments: arguments})
}

// otherwise is what has to be given where there is no name.
type otherwise struct {
	attribute string
	missing   bool
}

// checkMissing reports the names that can neither be taken from their attribute nor derived.
func (a around) checkMissing(errs *Errors, ways ...otherwise) {
	if a.name != "" {
		return
	}
	var missing []string
	for _, each := range append(ways, otherwise{"park_unroutable = false", a.parks}) {
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
func (a around) objectsAround(delivery, name string) []object {
	var objects []object
	if a.delivery != "" {
		objects = append(objects, object{delivery, "exchange", a.delivery})
	}
	if a.parks && a.name != "" {
		objects = append(objects, object{name, "exchange", a.parking()}, object{name, "queue", a.parking()})
	}
	return objects
}

// checkNames checks every name, each on the attribute that gives it.
func (a around) checkNames(errs *Errors, objects []object) {
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
		a.checkName(errs, o)
	}
}

func (a around) checkName(errs *Errors, o object) {
	switch {
	case !checkReference(errs, o):
	case strings.HasPrefix(o.name, ReservedPrefix) && a.declares(o):
		errs.add(o.attribute, "gives the %s name %q; RabbitMQ reserves names that begin with %q", o.kind, o.name,
			ReservedPrefix)
	case o.kind == "queue" && a.queueType == Quorum && a.internalBytes(o.name) > MaxKeyBytes:
		errs.add(o.attribute, "gives the quorum queue name %q. With the vhost it has %d bytes inside RabbitMQ, which "+
			"cannot add a replica to a queue with more than %d. Use a shorter name",
			o.name, a.internalBytes(o.name), MaxKeyBytes)
	}
}

// declares tells a declared object from a delivery exchange that others provide, which may be one of the broker's own.
func (a around) declares(o object) bool {
	return a.createsDelivery || o.kind != "exchange" || o.name != a.delivery
}

// internalBytes is the length of the name that RabbitMQ gives to a quorum queue's replicas
// (rabbit_queue_type_util:qname_to_internal_name/1). A queue with a longer one can be declared,
// on 3.10 to 4.3, but add_members in rabbit_quorum_queue fails on it.
func (a around) internalBytes(queue string) int {
	vhost := a.vhost
	if vhost == "/" {
		vhost = "%2F"
	}
	return len(vhost) + len("_") + len(queue)
}

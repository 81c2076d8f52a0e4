package health

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Damage is something in which a broker is not as the topology says. The next apply repairs it.
type Damage struct {
	Finding
	// Change ends a sentence that begins with the object, such as "is gone".
	Change string
	// Repair is a sentence: what the next apply does. It calls the object "it".
	Repair string
	// Redeclares says that the repair gives an exchange or queue other properties than somebody has declared.
	Redeclares bool
}

// Damages lists how a broker's objects deviate from the topology. Each cause is there once. A missing exchange or queue
// has taken its bindings with it, and one that was declared anew has lost all of them.
func Damages(desired, actual topology.Topology, status map[string]QueueStatus) []Damage {
	d := damages{Differences: topology.Diff(desired, actual), desired: desired, actual: actual, status: status,
		ways: ways{desired, actual, map[string][]string{}}, told: topology.Bindings{}}
	d.missingObjects()
	d.deliveryOfOthers()
	d.changedObjects()
	d.missingBindings()
	d.foreignBindings()
	d.policies()
	return d.found
}

// Key tells damages of one topology apart.
func (d Damage) Key() string { return d.Object + " " + d.Change }

// Keys are those of all damages.
func Keys(damages []Damage) []string { return plaintext.Texts(damages, Damage.Key) }

// Sentences name each change, its effect on messages, and what the next apply does about it: one text for each object.
func Sentences(damages []Damage) []string {
	return sentences(damages, func(d Damage) string { return d.Repair })
}

// Found are likewise for an apply, which repairs them itself.
func Found(damages []Damage) []string { return sentences(damages, func(Damage) string { return "" }) }

func sentences(damages []Damage, repair func(Damage) string) []string {
	var objects []string
	of := map[string][]Damage{}
	for _, d := range damages {
		if of[d.Object] == nil {
			objects = append(objects, d.Object)
		}
		of[d.Object] = append(of[d.Object], d)
	}
	sentences := make([]string, len(objects))
	for i, object := range objects {
		var changes, effects []string
		for _, d := range of[object] {
			changes = appendNew(changes, d.Change)
			if d.Severity != Harmless {
				effects = appendNew(effects, d.Effect)
			}
			if d.Change == lostAll { // nothing else of it matters
				effects = []string{d.Effect}
			}
		}
		if len(effects) == 0 {
			effects = []string{of[object][0].Effect}
		}
		text := fmt.Sprintf("The %s %s. ", object, plaintext.List(changes, " and "))
		for _, effect := range effects {
			text += strings.ToUpper(effect[:1]) + effect[1:] + ". "
		}
		text = strings.TrimSpace(text + repair(of[object][0]))
		sentences[i] = plainName.ReplaceAllString(text, "$1 $2")
	}
	return sentences
}

// plainName is an object with a name that can be read without quotes.
var plainName = regexp.MustCompile(`(?i)\b(exchange|queue|policy) "([\w.:-]+)"`)

func appendNew(texts []string, text string) []string {
	if slices.Contains(texts, text) {
		return texts
	}
	return append(texts, text)
}

// damages are those of a topology in the making.
type damages struct {
	topology.Differences
	desired, actual topology.Topology
	status          map[string]QueueStatus
	ways            ways
	// told are the missing bindings of which something else is the cause.
	told  topology.Bindings
	found []Damage
}

func (d *damages) add(object, cause, change string, e effect, repair string) {
	d.found = append(d.found, Damage{Finding{e.severity, object, cause, e.text}, change, repair, false})
}

func (d *damages) missing(object, text, repair string) {
	d.add(object, "missing", "is gone", effect{Error, text}, repair)
}

func (d *damages) differs(object string, in topology.Difference, e effect, repair string) {
	d.add(object, in.String(), changed(in), e, repair)
}

func (d *damages) missingObjects() {
	const declaresAgain = "The next apply declares it again."
	for _, name := range d.MissingExchanges {
		repair := declaresAgain
		if name == d.desired.Delivery {
			repair += " Applications that had bound something to it have to do so again."
		}
		d.missing(topology.ExchangeObject(name), d.ways.effectOfMissingExchange(name), repair)
		d.tell(d.ways.from(name), d.ways.into(topology.ToExchange, name))
	}
	for _, name := range d.MissingQueues {
		d.missing(topology.QueueObject(name), d.ways.effectOfMissingQueue(name), declaresAgain)
		d.tell(d.ways.into(topology.ToQueue, name))
	}
}

// deliveryOfOthers is the delivery exchange, where no apply declares it.
func (d *damages) deliveryOfOthers() {
	name, want, have := d.desired.Delivery, d.desired.DeliveryType, d.actual.DeliveryType
	switch object := topology.ExchangeObject(name); {
	case d.desired.Has(name) || name == "":
	case have == "":
		d.missing(object, d.ways.effectOfMissingExchange(name),
			"Its owner has to declare it again: until then, an apply is refused.")
		d.tell(d.ways.into(topology.ToExchange, name))
	case want != "" && have != want:
		d.differs(object, topology.Difference{Property: "type", Desired: want, Actual: have},
			d.ways.changedType(name, have), fmt.Sprintf("An apply is refused until it is a %s exchange.", want))
	}
}

func (d *damages) changedObjects() {
	for _, name := range d.WrongExchanges {
		want, have := d.desired.Exchanges[name], d.actual.Exchanges[name]
		for _, different := range want.Differences(have) {
			d.differs(topology.ExchangeObject(name), different, d.ways.changedExchange(have, different.Property),
				d.recreates(want, have))
			d.found[len(d.found)-1].Redeclares = true
		}
	}
	for _, name := range d.WrongQueues {
		want, have := d.desired.Queues[name], d.actual.Queues[name]
		repair := "The next apply recreates it, if it is empty."
		if n := d.status[name].Messages; n != nil && *n > 0 {
			repair = fmt.Sprintf("The next apply is refused while messages wait in it, %d by the last count.", *n)
		}
		for _, different := range want.Differences(have) {
			d.differs(topology.QueueObject(name), different, changedQueue(want, have, different.Property), repair)
			d.found[len(d.found)-1].Redeclares = true
		}
	}
}

// recreates says how an exchange gets its properties back.
func (d *damages) recreates(want, have topology.Exchange) string {
	mayLose := func(q topology.Queue) bool { return q.DeadLetterExchange() == want.Name && !q.AtLeastOnce() }
	switch {
	case want.Name == d.desired.Delivery:
		return "The next apply recreates it, if nothing is bound to it."
	case have.Type == want.Type && slices.ContainsFunc(slices.Collect(maps.Values(d.actual.Queues)), mayLose):
		return "The next apply recreates it, if the queues are empty that hand on to it."
	}
	return "The next apply recreates it."
}

// lostAll is said of an object that was declared anew.
const lostAll = "has lost all its bindings"

func (d *damages) missingBindings() {
	if len(d.MissingBindings) == 0 {
		return // which spares the search
	}
	d.otherKeys()
	d.lostBindings()
	for _, b := range d.MissingBindings {
		if !d.told.Has(b) {
			messages := "messages with such a key "
			if b.Source == d.ways.parking() {
				messages = wouldBeParked
			}
			d.missing(bindingObject(b), messages+alternatives(d.ways.unrouted(b.Source)), makesAgain)
		}
	}
}

// otherKeys are missing bindings in whose place another one leads to the same object.
func (d *damages) otherKeys() {
	for _, b := range d.MissingBindings {
		if other, has := d.inPlaceOf(b); has {
			text := fmt.Sprintf("another binding leads there, and takes messages with keys like %q", other.RoutingKey)
			d.add(bindingObject(b), "missing", "is gone", effect{Warning, text}, makesAgain)
			d.told.Add(b)
		}
	}
}

// inPlaceOf is a foreign binding with the same ends.
func (d *damages) inPlaceOf(b topology.Binding) (other topology.Binding, has bool) {
	for _, other := range d.ForeignBindings {
		if other.Source == b.Source && other.LeadsTo(b.DestinationType, b.Destination) {
			return other, true
		}
	}
	return other, false
}

// lostBindings are those of objects that were declared anew.
func (d *damages) lostBindings() {
	lost := func(object, text string, bindings []topology.Binding) {
		d.add(object, lostAll, lostAll, effect{Error, text}, "The next apply binds it again.")
		d.tell(bindings)
	}
	exchanges := slices.Sorted(maps.Keys(d.actual.Exchanges))
	for _, name := range exchanges {
		if from := d.ways.from(name); d.haveGone(from) {
			lost(topology.ExchangeObject(name), "messages that get to it "+alternatives(d.ways.unrouted(name)), from)
			if into := d.ways.into(topology.ToExchange, name); d.haveGone(into) {
				d.tell(into)
			}
		}
	}
	lead := func(kind topology.DestinationType, name, object string) {
		if into := d.ways.into(kind, name); d.haveGone(into) {
			lost(object, "messages that need it "+alternatives(d.ways.unroutedBefore(kind, name)), into)
		}
	}
	for _, name := range exchanges {
		lead(topology.ToExchange, name, topology.ExchangeObject(name))
	}
	for _, name := range slices.Sorted(maps.Keys(d.actual.Queues)) {
		lead(topology.ToQueue, name, topology.QueueObject(name))
	}
}

const makesAgain = "The next apply makes it again."

func bindingObject(b topology.Binding) string { return "binding of " + b.Describe() }

// tell notes that the bindings need no damage of their own.
func (d *damages) tell(bindings ...[]topology.Binding) {
	for _, b := range slices.Concat(bindings...) {
		d.told.Add(b)
	}
}

// haveGone tells whether several bindings are all missing, for no reason that is known.
func (d *damages) haveGone(bindings []topology.Binding) bool {
	for _, b := range bindings {
		if _, has := d.inPlaceOf(b); has {
			return false
		}
	}
	bindings = slices.DeleteFunc(bindings, d.told.Has)
	return len(bindings) > 1 && !slices.ContainsFunc(bindings, d.actual.Bindings.Has)
}

func (d *damages) foreignBindings() {
	for _, b := range d.ForeignBindings {
		d.add(bindingObject(b), "another application's, not one of its own", "was added", d.ways.foreign(b),
			"The next apply removes it.")
	}
}

// policies are those that say where to park.
func (d *damages) policies() {
	unparked := "messages that no binding takes " + alternatives(d.ways.undelivered(d.ways.parking()))
	for _, name := range d.MissingPolicies {
		d.missing(topology.PolicyObject(name), unparked, "The next apply sets it again.")
	}
	for _, name := range d.WrongPolicies {
		want, have := d.desired.Policies[name], d.actual.Policies[name]
		for _, different := range want.Differences(have) {
			text := unparked
			switch {
			case different.Property == "priority" && have.Priority > want.Priority:
				text = "another policy for the same exchanges may not apply"
			case different.Property == "priority":
				text = "another policy for the same exchanges may apply in its place"
			case different.Property == "pattern":
				text = "where it no longer applies, " + unparked
			}
			d.differs(topology.PolicyObject(name), different, effect{Error, text}, "The next apply sets it as it was.")
		}
	}
}

// changed continues a sentence that begins with the object.
func changed(d topology.Difference) string {
	name := d.Property
	switch name {
	case "type":
		return fmt.Sprintf("is of type %s, not %s", d.Actual, d.Desired)
	case "durable", "auto_delete", "exclusive", "internal":
		not := ""
		if d.Actual != "true" {
			not = "not "
		}
		return fmt.Sprintf("is %s%s", not, strings.ReplaceAll(name, "_", "-"))
	case ttlArgument:
		name, d.Actual = "a TTL", shownTTL(d.Actual)
		d.Desired = strings.TrimPrefix(shownTTL(d.Desired), "of ")
	}
	switch topology.Absent {
	case d.Actual:
		return "has no " + strings.TrimPrefix(name, "a ")
	case d.Desired:
		return fmt.Sprintf("has %s %s", name, d.Actual)
	}
	return fmt.Sprintf("has %s %s, not %s", name, d.Actual, d.Desired)
}

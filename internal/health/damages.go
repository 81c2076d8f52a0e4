package health

import (
	"cmp"
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
	d := damages{Differences: topology.Diff(desired, actual), ways: ways{desired, actual, map[string][]string{}},
		status: status, told: topology.Bindings{}}
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
	ways
	status map[string]QueueStatus
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
		d.missing(topology.ExchangeObject(name), d.effectOfMissingExchange(name), repair)
		d.tell(d.from(name), d.into(topology.ToExchange, name))
	}
	for _, name := range d.MissingQueues {
		d.missing(topology.QueueObject(name), d.effectOfMissingQueue(name), declaresAgain)
		d.tell(d.into(topology.ToQueue, name))
	}
}

// deliveryOfOthers is the delivery exchange, where no apply declares it.
func (d *damages) deliveryOfOthers() {
	name, want, have := d.desired.Delivery, d.desired.DeliveryType, d.actual.DeliveryType
	switch object := topology.ExchangeObject(name); {
	case d.desired.Has(name) || name == "":
	case have == "":
		d.missing(object, d.effectOfMissingExchange(name),
			"Its owner has to declare it again: until then, an apply is refused.")
		d.tell(d.into(topology.ToExchange, name))
	case want != "" && have != want:
		d.differs(object, topology.Difference{Property: "type", Desired: want, Actual: have},
			d.changedType(name, have), fmt.Sprintf("An apply is refused until it is a %s exchange.", want))
	}
}

func (d *damages) changedObjects() {
	for _, name := range d.WrongExchanges {
		want, have := d.desired.Exchanges[name], d.actual.Exchanges[name]
		for _, different := range want.Differences(have) {
			d.differs(topology.ExchangeObject(name), different, d.changedExchange(have, different.Property),
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
			if b.Source == d.parking() {
				messages = wouldBeParked
			}
			d.missing(bindingObject(b), messages+alternatives(d.unrouted(b.Source)), makesAgain)
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
		if from := d.from(name); d.haveGone(from) {
			lost(topology.ExchangeObject(name), "messages that get to it "+alternatives(d.unrouted(name)), from)
			if into := d.into(topology.ToExchange, name); d.haveGone(into) {
				d.tell(into)
			}
		}
	}
	lead := func(kind topology.DestinationType, name, object string) {
		if into := d.into(kind, name); d.haveGone(into) {
			lost(object, "messages that need it "+alternatives(d.unroutedBefore(kind, name)), into)
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

// from are the desired bindings of an exchange.
func (d *damages) from(exchange string) []topology.Binding {
	return d.desired.Bindings.Where(func(b topology.Binding) bool { return b.Source == exchange })
}

// into are the desired bindings that lead to something.
func (w ways) into(kind topology.DestinationType, name string) []topology.Binding {
	return w.desired.Bindings.Where(func(b topology.Binding) bool { return b.LeadsTo(kind, name) })
}

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
		d.add(bindingObject(b), "another application's, not one of its own", "was added", d.foreign(b),
			"The next apply removes it.")
	}
}

// policies are those that say where to park.
func (d *damages) policies() {
	unparked := "messages that no binding takes " + alternatives(d.undelivered(d.parking()))
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

// ways is what becomes of messages on their way through a topology, as it is.
type ways struct {
	desired, actual topology.Topology
	// known are the answers of undelivered.
	known map[string][]string
}

// parking is the exchange that gets messages that no binding matches, empty if the topology has none.
func (w ways) parking() string {
	if name := w.desired.Parking(); w.desired.Has(name) {
		return name
	}
	return ""
}

// What becomes of messages, as the end of a sentence that begins with them.
const (
	areParked = "are parked"
	areLost   = "are lost"
	areKept   = "stay in the quorum queue before it"

	wouldBeParked = "messages that would be parked "
)

// alternatives has these ends as one, in a fixed order.
func alternatives(fates []string) string {
	order := []string{areParked, areLost, areKept}
	fates = slices.Clone(fates)
	slices.SortStableFunc(fates, func(x, y string) int {
		return cmp.Compare(slices.Index(order, x), slices.Index(order, y))
	})
	text := plaintext.List(slices.Compact(fates), " or ")
	if slices.Contains(fates, areKept) {
		text += ". RabbitMQ tries again every three minutes"
	}
	return text
}

// unrouted is what becomes of messages that no binding of an exchange takes.
func (w ways) unrouted(exchange string) []string {
	if !w.actual.Has(exchange) && exchange != w.desired.Delivery {
		return nil // they do not get there
	}
	if alternate := w.actual.AlternateOf(exchange); alternate != "" && alternate != w.parking() {
		return []string{fmt.Sprintf("go to exchange %q", alternate)}
	} else if alternate != "" && w.parks() {
		return []string{areParked}
	}
	return w.undelivered(exchange)
}

// parks tells whether the alternate exchange leads to a queue.
func (w ways) parks() bool {
	for b := range w.actual.Bindings {
		if b.Source == w.parking() && w.actual.Has(b.Source) && b.LeadsInto(w.actual.Queues) {
			return true
		}
	}
	return false
}

// undelivered is what becomes of messages for an exchange that cannot hand them on, nor has an alternate one.
func (w ways) undelivered(exchange string) []string {
	if fates, isKnown := w.known[exchange]; isKnown {
		return fates
	}
	var fates []string
	visited := map[string]bool{}
	var visit func(string)
	visit = func(name string) {
		if visited[name] {
			return
		}
		visited[name] = true
		if name == w.desired.Entry {
			fates = append(fates, areLost)
		}
		fates = append(fates, w.handedOn(name)...)
		for _, b := range w.into(topology.ToExchange, name) {
			visit(b.Source)
		}
		for source := range w.desired.Exchanges {
			if w.desired.AlternateOf(source) == name {
				visit(source)
			}
		}
	}
	visit(exchange)
	slices.Sort(fates)
	w.known[exchange] = slices.Compact(fates)
	return w.known[exchange]
}

// handedOn is what becomes of messages that queues cannot hand on to an exchange.
func (w ways) handedOn(exchange string) []string {
	var fates []string
	for name, q := range w.desired.Queues {
		if q.DeadLetterExchange() != exchange {
			continue
		}
		if have, exists := w.actual.Queues[name]; exists {
			q = have
		}
		if q.AtLeastOnce() {
			fates = append(fates, areKept)
		} else {
			fates = append(fates, areLost)
		}
	}
	return fates
}

// unroutedBefore is what becomes of messages that bindings should lead to something.
func (w ways) unroutedBefore(kind topology.DestinationType, name string) []string {
	var fates []string
	for _, b := range w.into(kind, name) {
		fates = append(fates, w.unrouted(b.Source)...)
	}
	return fates
}

// effectOfMissingExchange is what a missing exchange does.
func (w ways) effectOfMissingExchange(name string) string {
	switch name {
	case w.desired.Entry:
		return "publishers get an error"
	case w.parking():
		return wouldBeParked + alternatives(w.undelivered(name))
	}
	return "messages that need it " + alternatives(append(w.unroutedBefore(topology.ToExchange, name),
		w.handedOn(name)...))
}

// effectOfMissingQueue is what a missing queue does.
func (w ways) effectOfMissingQueue(name string) string {
	messages, waited := ". Messages that need it ", "waited"
	if !w.desired.Queues[name].Delays() {
		messages, waited = ". Messages that would be parked ", "were parked"
	}
	lost := fmt.Sprintf("any messages that %s in it are lost", waited)
	if fate := alternatives(w.unroutedBefore(topology.ToQueue, name)); fate != "" {
		return lost + messages + fate
	}
	return lost
}

// changedExchange is what an exchange does that has another value of the property.
func (w ways) changedExchange(have topology.Exchange, property string) effect {
	switch {
	case property == "type":
		return w.changedType(have.Name, have.Type)
	case property == "durable":
		return effect{Error, "the exchange goes when RabbitMQ restarts"}
	case property == "auto_delete":
		return effect{Error, "the exchange goes with the last binding from it"}
	case property == "alternate-exchange":
		text := "messages that no binding of it takes " + alternatives(w.unrouted(have.Name))
		if w.desired.Exchanges[have.Name].AlternateExchange() == "" {
			text += ". After the next apply, RabbitMQ drops them"
		}
		return effect{Error, text}
	case property != "internal":
		return effect{Warning, otherwise}
	case !have.Internal:
		return effect{Warning, "publishers can get into the middle of the way"}
	case have.Name == w.desired.Entry:
		return effect{Error, "publishers get an error"}
	}
	return effect{Harmless, "publishers cannot use it, and need not"}
}

// changedType is what an exchange of another type does to messages.
func (w ways) changedType(name, have string) effect {
	parks := name == w.parking()
	switch {
	case have == "direct" && parks:
		return effect{Error, wouldBeParked + alternatives(w.undelivered(name))}
	case parks && (have == "topic" || have == "headers"):
		return effect{Harmless, parkedAllTheSame}
	case have == "direct" && !w.desired.Shared:
		return effect{Error, "no key matches a binding of it, and messages that get to it " +
			alternatives(w.unrouted(name))}
	case have == "fanout", have == "headers":
		return effect{Error, "messages go the way of all its bindings. The messages arrive several times, early and " +
			"late"}
	}
	return effect{Error, otherwise}
}

const parkedAllTheSame = "messages are parked all the same"

// foreign is what a binding of others does.
func (w ways) foreign(b topology.Binding) effect {
	intoQueue := b.LeadsInto(w.desired.Queues)
	delays := intoQueue && w.desired.Queues[b.Destination].Delays()
	parked := intoQueue && !delays || b.LeadsTo(topology.ToExchange, w.parking())
	same := b
	same.Arguments = ""
	switch {
	case w.actual.Bindings.Has(same) && w.desired.Bindings.Has(same):
		return effect{Harmless, "messages take the same way as without it"}
	case b.IsMark():
		return effect{Harmless, "a create that was killed has left it, and it does nothing"}
	case parked && b.Source == w.parking():
		return effect{Harmless, parkedAllTheSame}
	case parked:
		return effect{Warning, "copies of messages with such a key are parked"}
	case b.Source == w.parking():
		return effect{Error, "parked messages also get into " + b.DestinationObject()}
	case delays:
		return effect{Error, "messages with such a key wait there, too, and can arrive twice, early or late"}
	case w.desired.Takes(b) || b.LeadsTo(topology.ToExchange, w.desired.Delivery):
		return effect{Error, "messages with such a key go there, too, and can arrive twice or early"}
	}
	return effect{Error, b.DestinationObject() + " gets copies of messages with such a key before their time"}
}

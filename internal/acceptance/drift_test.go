package acceptance

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan/plantest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/sampling"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// TestDriftMatrix damages every object of a cascade in every way, and several at once. A model of the broker gives the
// rest of it. The state has to show exactly that, and the plan exactly the cascade, so that the difference is the
// damage and nothing else. One apply has to repair it, and the objects of others have to be as the damage left them.
func TestDriftMatrix(t *testing.T) {
	t.Parallel()
	var cases, detected, repaired atomic.Int64
	t.Run("shapes", func(t *testing.T) {
		for _, shape := range driftShapes {
			desired := harness.Expand(t, shape.config)
			matrix := driftMatrix(desired)
			cases.Add(int64(len(matrix)))
			t.Run(shape.name, func(t *testing.T) {
				t.Parallel()
				matrix := sampling.Of(t, "damages", matrix)
				var shards sync.WaitGroup
				for shard := range min(driftShards, len(matrix)) {
					d := newDrift(t, shape, desired)
					// Most of the time of a repair is spent waiting for figures of the broker.
					shards.Go(func() {
						for i := shard; i < len(matrix); i += driftShards {
							t.Run(matrix[i].name, func(t *testing.T) { d.try(t, matrix[i], &detected, &repaired) })
						}
					})
				}
				shards.Wait()
			})
		}
	})
	t.Logf("%d cases, %d detected, %d repaired", cases.Load(), detected.Load(), repaired.Load())
	if !narrowed() {
		figure(t, "drift_cases", int(cases.Load()))
	}
	if !narrowed() && sampling.Whole() {
		figure(t, "drift_detected", int(detected.Load()))
		figure(t, "drift_repaired", int(repaired.Load()))
	}
}

// driftShards is the number of cascades among which the cases of a shape are divided.
const driftShards = 4

type driftShape struct {
	name   string
	config delay.Config
	given  harness.Attributes
}

var driftShapes = []driftShape{
	uniformDrift(delay.Quorum, 2, 3, 3),
	uniformDrift(delay.Quorum, 2, 3, 1),
	uniformDrift(delay.Classic, 2, 2, 2),
	uniformDrift(delay.Classic, 3, 2, 1),
	uniformDrift(delay.Quorum, 10, 1, 1),
	newDriftShape("quorum, units", delay.Config{QueueType: delay.Quorum, Units: []time.Duration{time.Hour,
		20 * time.Minute}, MaxDelay: time.Hour},
		harness.Attributes{"units": harness.TextList("1h", "20m"), "max_delay": "1h"}),
}

// unitLevels are the levels of the delay queues in the shape with units.
var unitLevels = map[string]int64{"tasks.20m": 0, "tasks.40m": 0, "tasks.1h": 1}

func uniformDrift(queueType delay.QueueType, base, levels, lookahead int) driftShape {
	return newDriftShape(fmt.Sprintf("%s, base %d, %d levels, lookahead %d", queueType, base, levels, lookahead),
		delay.Config{QueueType: queueType, Base: base, Levels: levels, Lookahead: lookahead},
		harness.Attributes{"base": base, "levels": levels, "lookahead": lookahead})
}

func newDriftShape(name string, c delay.Config, given harness.Attributes) driftShape {
	c.Name, c.CreateDeliveryExchange, c.StrictKeys, c.ParkUnroutable = "tasks", true, true, true
	return driftShape{name, c, given.With(harness.Attributes{"name": c.Name, "queue_type": string(c.QueueType)})}
}

// damage is something that happens to a cascade without the provider.
type damage struct {
	name  string
	steps []plan.Step
}

// driftMatrix lists the ways to damage each object, and combinations of them.
func driftMatrix(desired topology.Topology) []damage {
	var all []damage
	for _, name := range slices.Sorted(maps.Keys(desired.Exchanges)) {
		all = append(all, exchangeDamages(desired, desired.Exchanges[name])...)
	}
	for _, name := range slices.Sorted(maps.Keys(desired.Queues)) {
		all = append(all, queueDamages(desired, desired.Queues[name])...)
	}
	for _, b := range desired.Bindings.Sorted() {
		all = append(all, bindingDamages(b)...)
	}
	for _, name := range slices.Sorted(maps.Keys(desired.Exchanges)) {
		if desired.Owns(name) {
			all = append(all, foreignBindings(desired, name)...)
		}
	}
	return append(all, combinations(desired, all)...)
}

func exchangeDamages(desired topology.Topology, e topology.Exchange) []damage {
	object := fmt.Sprintf("exchange %s ", e.Name)
	all := []damage{{object + "deleted", []plan.Step{plan.DeleteExchange{Name: e.Name}}}}
	recreate := func(how string, change func(*topology.Exchange)) {
		wrong := e
		wrong.Arguments = maps.Clone(e.Arguments)
		if wrong.Arguments == nil {
			wrong.Arguments = topology.Arguments{}
		}
		change(&wrong)
		bare := []plan.Step{plan.DeleteExchange{Name: e.Name}, plan.DeclareExchange{Exchange: wrong}}
		all = append(all, damage{object + how, bare})
		if e.Name == desired.Delivery {
			return // with the applications' bindings it cannot be repaired, see TestWrongDeliveryExchangeInUse
		}
		all = append(all, damage{object + how + " and bound again",
			append(slices.Clone(bare), bindAll(desired, topology.ToExchange, e.Name)...)})
	}
	for _, other := range []string{"topic", "fanout", "direct", "headers"} {
		if other != e.Type {
			recreate("as "+other, func(x *topology.Exchange) { x.Type = other })
		}
	}
	recreate("transient", func(x *topology.Exchange) { x.Durable = false })
	recreate("auto-delete", func(x *topology.Exchange) { x.AutoDelete = true })
	internal := "internal"
	if e.Internal {
		internal = "open to publishers"
	}
	recreate(internal, func(x *topology.Exchange) { x.Internal = !x.Internal })
	for _, key := range slices.Sorted(maps.Keys(e.Arguments)) {
		recreate("without "+key, func(x *topology.Exchange) { delete(x.Arguments, key) })
		recreate("with another "+key, func(x *topology.Exchange) { x.Arguments[key] = "amq.fanout" })
	}
	recreate("with an argument more", func(x *topology.Exchange) { x.Arguments["x-note"] = "5" })
	recreate("with an argument of numbers", func(x *topology.Exchange) { x.Arguments["x-note"] = int64(134217728000) })
	return all
}

func queueDamages(desired topology.Topology, q topology.Queue) []damage {
	object := fmt.Sprintf("queue %s ", q.Name)
	remove := plan.DeleteQueue{Queue: q}
	all := []damage{{object + "deleted", []plan.Step{remove}}}
	recreate := func(how string, change func(*topology.Queue)) {
		wrong := q
		wrong.Arguments = maps.Clone(q.Arguments)
		change(&wrong)
		bare := []plan.Step{remove, plan.DeclareQueue{Queue: wrong}}
		all = append(all, damage{object + how, bare},
			damage{object + how + " and bound again", append(slices.Clone(bare), bindAll(desired, topology.ToQueue,
				q.Name)...)})
	}
	argument := func(how, key string, value any) {
		recreate(how, func(w *topology.Queue) { w.Arguments[key] = value })
	}
	ttl, delays := q.Arguments["x-message-ttl"].(int64)
	if delays {
		argument("with a longer TTL", "x-message-ttl", ttl*2)
		argument("with a shorter TTL", "x-message-ttl", ttl/2)
		argument("with a TTL of 0", "x-message-ttl", int64(0))
		argument("with another dead-letter-exchange", "x-dead-letter-exchange", othersGateway)
		argument("with a dead-letter-routing-key", "x-dead-letter-routing-key", "lost")
	} else {
		argument("with a TTL", "x-message-ttl", int64(60_000))
	}
	for _, key := range slices.Sorted(maps.Keys(q.Arguments)) {
		if key != "x-queue-type" {
			recreate("without "+key, func(w *topology.Queue) { delete(w.Arguments, key) })
		}
	}
	argument("with x-max-length", "x-max-length", int64(10))
	argument("with x-max-length-bytes", "x-max-length-bytes", int64(math.MaxInt32))
	argument("with x-expires", "x-expires", int64(3_600_000))
	argument("with x-single-active-consumer", "x-single-active-consumer", true)
	if q.Type() == "quorum" {
		argument("with another overflow", "x-overflow", "drop-head")
		argument("with another delivery limit", "x-delivery-limit", int64(7))
		recreate("classic", func(w *topology.Queue) { w.Arguments = classicArguments(q) })
		recreate("classic and transient", func(w *topology.Queue) {
			w.Arguments, w.Durable = classicArguments(q),
				false
		})
	} else {
		recreate("quorum", func(w *topology.Queue) { w.Arguments["x-queue-type"] = "quorum" })
		recreate("transient", func(w *topology.Queue) { w.Durable = false })
		recreate("auto-delete", func(w *topology.Queue) { w.AutoDelete = true })
		argument("with priorities", "x-max-priority", int64(3))
		argument("with an overflow", "x-overflow", "reject-publish")
	}
	recreate("stream", func(w *topology.Queue) { w.Arguments = topology.Arguments{"x-queue-type": "stream"} })
	return all
}

// classicArguments are those that a classic queue accepts.
func classicArguments(q topology.Queue) topology.Arguments {
	arguments := topology.Arguments{"x-queue-type": "classic"}
	for _, key := range []string{"x-message-ttl", "x-dead-letter-exchange"} {
		if value, ok := q.Arguments[key]; ok {
			arguments[key] = value
		}
	}
	return arguments
}

// bindAll are the bindings from and to the object, those of others included.
func bindAll(desired topology.Topology, kind topology.DestinationType, name string) []plan.Step {
	var steps []plan.Step
	for _, b := range slices.Concat(desired.Bindings.Sorted(), othersBindings(desired)) {
		if kind == topology.ToExchange && b.Source == name || b.DestinationType == kind && b.Destination == name {
			steps = append(steps, plan.Bind{Binding: b})
		}
	}
	return steps
}

func bindingDamages(b topology.Binding) []damage {
	object := fmt.Sprintf("binding %s: %s ", b.Source, b.Line())
	otherKey, withArguments := b, b
	otherKey.RoutingKey += ".other"
	withArguments.Arguments = topology.Arguments{"x-note": int64(1)}.JSON()
	return []damage{
		{object + "deleted", []plan.Step{plan.Unbind{Binding: b}}},
		{object + "with another key", []plan.Step{plan.Unbind{Binding: b}, plan.Bind{Binding: otherKey}}},
		{object + "with arguments", []plan.Step{plan.Unbind{Binding: b},
			plan.Bind{Binding: withArguments}}},
		{object + "twice, with arguments", []plan.Step{plan.Bind{Binding: withArguments}}},
	}
}

func foreignBindings(desired topology.Topology, source string) []damage {
	var all []damage
	add := func(kind topology.DestinationType, destination, key, arguments string) {
		b := topology.Binding{Source: source, RoutingKey: key, DestinationType: kind, Destination: destination,
			Arguments: arguments}
		all = append(all, damage{fmt.Sprintf("foreign %s: %s", source, b.Line()),
			[]plan.Step{plan.Bind{Binding: b}}})
	}
	for _, name := range slices.Sorted(maps.Keys(desired.Queues)) {
		add(topology.ToQueue, name, "foreign.#", "")
	}
	for _, name := range slices.Sorted(maps.Keys(desired.Exchanges)) {
		add(topology.ToExchange, name, "foreign", "")
	}
	add(topology.ToQueue, othersQueue, "#", "")
	add(topology.ToQueue, othersQueue, "", "")
	add(topology.ToQueue, othersQueue, `~a/b?c=%2F&d é"+`, "")
	add(topology.ToQueue, othersQueue, "#", `{"x-match":"any","x-number":134217728000}`)
	add(topology.ToExchange, othersExchange, "*.1.#", "")
	add(topology.ToExchange, othersExchange, "*.1.#", `{"x-note":"5"}`)
	return all
}

const randomCombinations = 40

// combinations are random ones with a fixed seed, and all objects of a kind at once.
func combinations(desired topology.Topology, single []damage) []damage {
	var all []damage
	seed := rand.NewPCG(uint64(len(desired.Queues)), uint64(len(desired.Bindings)))
	random := rand.New(seed)
	for n := range randomCombinations {
		combined := damage{}
		var names []string
		model := plantest.NewBroker(withOthers(desired))
		for wanted := 2 + random.IntN(6); len(names) < wanted; {
			one := single[random.IntN(len(single))]
			// What another damage has made impossible is left out.
			try := plantest.NewBroker(model.Topology)
			if steps(try, one.steps) == nil {
				model, names = try, append(names, one.name)
				combined.steps = append(combined.steps, one.steps...)
			}
		}
		combined.name = fmt.Sprintf("combination %d: %s", n, strings.Join(names, ", "))
		all = append(all, combined)
	}
	var noQueues, noExchanges, noBindings []plan.Step
	for _, name := range slices.Sorted(maps.Keys(desired.Queues)) {
		noQueues = append(noQueues, plan.DeleteQueue{Queue: desired.Queues[name]})
	}
	for _, name := range slices.Sorted(maps.Keys(desired.Exchanges)) {
		noExchanges = append(noExchanges, plan.DeleteExchange{Name: name})
	}
	for _, b := range desired.Bindings.Sorted() {
		noBindings = append(noBindings, plan.Unbind{Binding: b})
	}
	return append(all, damage{"no queues", noQueues}, damage{"no exchanges", noExchanges},
		damage{"no bindings", noBindings},
		damage{"nothing left", append(slices.Clone(noQueues), noExchanges...)})
}

// steps does them on the model, as somebody does by hand, until one is impossible.
func steps(model *plantest.Broker, all []plan.Step) error {
	for _, step := range all {
		if err := model.Step(step); err != nil {
			return err
		}
	}
	return nil
}

// What belongs to others: an application's queue and exchange behind the delivery exchange, and an
// exchange that leads into the cascade.
const (
	othersQueue    = "application"
	othersExchange = "application.events"
	othersGateway  = "gateway"
)

func withOthers(desired topology.Topology) topology.Topology {
	t := topology.New()
	maps.Copy(t.Exchanges, desired.Exchanges)
	maps.Copy(t.Queues, desired.Queues)
	maps.Copy(t.Bindings, desired.Bindings)
	t.Queues[othersQueue] = topology.Queue{Name: othersQueue, Durable: true,
		Arguments: topology.Arguments{"x-queue-type": "classic"}}
	for _, name := range []string{othersExchange, othersGateway} {
		t.Exchanges[name] = topology.Exchange{Name: name, Type: "topic", Durable: true}
	}
	for _, b := range othersBindings(desired) {
		t.Bindings.Add(b)
	}
	return t
}

func othersBindings(desired topology.Topology) []topology.Binding {
	return []topology.Binding{
		{Source: desired.Delivery, RoutingKey: "#.application", DestinationType: topology.ToQueue,
			Destination: othersQueue},
		{Source: desired.Delivery, RoutingKey: "#.application", DestinationType: topology.ToQueue,
			Destination: othersQueue, Arguments: `{"x-note":1}`},
		{Source: desired.Delivery, RoutingKey: "#.events", DestinationType: topology.ToExchange,
			Destination: othersExchange},
		{Source: othersGateway, RoutingKey: "#", DestinationType: topology.ToExchange, Destination: desired.Entry},
		{Source: othersGateway, RoutingKey: "quick", DestinationType: topology.ToQueue,
			Destination: harness.DelayQueueName(desired, 0)},
	}
}

// drift is one cascade on a broker, to be damaged.
type drift struct {
	desired topology.Topology
	given   harness.Attributes
	*harness.Vhost
	*harness.Protocol
	// broken is set while the cascade is not what a case begins with.
	broken bool
}

func newDrift(t *testing.T, shape driftShape, desired topology.Topology) *drift {
	v := harness.NewVhost(t)
	d := &drift{
		desired:  desired,
		given:    shape.given.With(harness.Attributes{"vhost": v.Name}),
		Vhost:    v,
		Protocol: harness.NewProtocol(t, v.Broker, nil),
	}
	d.MustApply(d.given)
	d.reset()
	return d
}

// reset brings the vhost to where each case begins.
func (d *drift) reset() {
	d.Vhost.T.Helper()
	all := withOthers(d.desired)
	have := d.Objects()
	for name := range have.Exchanges {
		d.Do(plan.DeleteExchange{Name: name})
	}
	for _, q := range have.Queues {
		d.Do(plan.DeleteQueue{Queue: q})
	}
	d.Do(plan.Repair(all, topology.New()).Steps()...)
	d.MustHold(all)
}

// mustBeEmpty waits until no stream says that it holds a message: a new one may say so at first (4.3.6).
func (d *drift) mustBeEmpty(t topology.Topology) {
	d.Vhost.T.Helper()
	for _, q := range t.Queues {
		if q.Type() == "stream" {
			d.Eventually("the stream is empty", func() bool {
				var shown struct{ Messages int }
				d.Get(&shown, "queues", d.Name, q.Name)
				return shown.Messages == 0
			})
		}
	}
}

func (d *drift) try(t *testing.T, damage damage, detected, repaired *atomic.Int64) {
	d.Vhost.T, d.Vhost.T = t, t
	model := plantest.NewBroker(withOthers(d.desired))
	if err := steps(model, damage.steps); err != nil {
		t.Fatal(err)
	}
	if d.broken {
		d.reset()
	}
	d.broken = true
	d.Do(damage.steps...)
	d.MustHold(model.Topology)
	d.mustBeEmpty(model.Topology)
	if t.Failed() {
		t.Fatal("the damage is not what it was meant to be")
	}

	harness.NoErrors(t, d.Refresh(t.Context()))
	todo := d.Plan(t.Context(), d.given)
	harness.NoErrors(t, todo.Diagnostics)
	if d.showsExactly(t, todo, model.Topology) {
		detected.Add(1)
	}

	diagnostics := d.Apply(t.Context(), todo)
	harness.NoErrors(t, diagnostics)
	if said := harness.WarningText(diagnostics); strings.Contains(said, unplannedSummary) {
		t.Errorf("the apply says of what its plan knew: %s", said)
	}
	want := withOthers(d.desired)
	maps.DeleteFunc(want.Bindings, func(b topology.Binding, _ struct{}) bool {
		return !d.desired.Owns(b.Source) && !model.Bindings.Has(b) // the damage took it along
	})
	d.MustExport(want)
	if d.MustBeSettled(d.given); !t.Failed() {
		repaired.Add(1)
		d.restoreOthers(model.Topology)
		d.broken = false
	}
}

// showsExactly tells whether the plan leads from what the broker has to the cascade.
func (d *drift) showsExactly(t *testing.T, todo harness.PlannedChange, broker topology.Topology) bool {
	damaged := map[string]any{}
	if !d.State.IsNull() {
		damaged = elements(t, d.State)
	}
	wanted := elements(t, todo.State)
	ok := true
	check := func(what string, have, want map[string]any) {
		for _, name := range differing(have, want) {
			ok = false
			t.Errorf("%s shows %s as %v, not %v", what, name, have[name], want[name])
		}
	}
	check("the state", damaged, elementsOf(broker, d.desired))
	if expected := elementsOf(d.desired, d.desired); todo.State.IsFullyKnown() {
		check("the plan", wanted, expected)
	} else {
		t.Errorf("the plan holds unknown values: %s", todo.State)
	}
	if todo.Replace || len(differing(damaged, wanted)) == 0 {
		t.Errorf("the plan replaces (%t) or shows nothing", todo.Replace)
		ok = false
	}
	return ok
}

func (d *drift) restoreOthers(left topology.Topology) {
	d.Vhost.T.Helper()
	for _, b := range othersBindings(d.desired) {
		if !left.Bindings.Has(b) {
			d.Do(plan.Bind{Binding: b})
		}
	}
}

// elements are the elements of the maps of exchanges and queues, and each binding by itself. Values that are null
// because they are usual are written out.
func elements(t testing.TB, state tftypes.Value) map[string]any {
	t.Helper()
	values := harness.PlainMap(t, state)
	all := map[string]any{}
	for name, value := range harness.AsMap(t, values["exchanges"]) {
		usual := map[string]any{"durable": true, "auto_delete": false, "internal": false}
		all["exchanges "+name] = writtenOut(harness.AsMap(t, value), usual)
	}
	for name, value := range harness.AsMap(t, values["queues"]) {
		usual := map[string]any{"type": values["queue_type"], "durable": true, "auto_delete": false, "exclusive": false}
		queue := harness.AsMap(t, value)
		if queue["level"] != nil {
			usual["arguments"] = values["queue_arguments"]
		}
		queue = writtenOut(queue, usual)
		if arguments := harness.AsMap(t, queue["arguments"]); len(arguments) == 0 {
			queue["arguments"] = nil
		}
		all["queues "+name] = queue
	}
	for source, value := range harness.AsMap(t, values["bindings"]) {
		for key, leadsTo := range harness.AsMap(t, value) {
			all[bindingLine(source, key, leadsTo)] = true
		}
	}
	return all
}

func writtenOut(values, usual map[string]any) map[string]any {
	values = maps.Clone(values)
	for attribute, value := range usual {
		if values[attribute] == nil {
			values[attribute] = value
		}
	}
	return values
}

// bindingLine is a binding as bindings show it: with all words of the key.
func bindingLine(source, key string, leadsTo any) string {
	if leadsTo == "foreign" {
		return fmt.Sprintf("bindings %s: %s", source, key)
	}
	var words []string
	for _, word := range strings.Split(key, ".") {
		word, times, several := strings.Cut(word, "×")
		n := 1
		if several {
			n, _ = strconv.Atoi(times)
		}
		words = append(words, slices.Repeat([]string{word}, n)...)
	}
	return fmt.Sprintf("bindings %s: %s -> %s", source, strings.Join(words, "."), leadsTo)
}

// elementsOf is how the topology has to be shown, of which it shows a part.
func elementsOf(t, part topology.Topology) map[string]any {
	all := map[string]any{}
	for name := range part.Exchanges {
		if e, ok := t.Exchanges[name]; ok {
			all["exchanges "+name] = map[string]any{
				"type": e.Type, "durable": e.Durable, "auto_delete": e.AutoDelete, "internal": e.Internal,
				"alternate_exchange": e.Arguments["alternate-exchange"], "arguments": further(e.Arguments,
					"alternate-exchange"),
			}
		}
	}
	for name := range part.Queues {
		if q, ok := t.Queues[name]; ok {
			queueType, typed := q.Arguments["x-queue-type"]
			if !typed {
				queueType = "classic"
			}
			all["queues "+name] = map[string]any{
				"level": levelOf(name), "type": queueType, "message_ttl": q.Arguments["x-message-ttl"],
				"dead_letter_exchange": q.Arguments["x-dead-letter-exchange"],
				"durable":              q.Durable, "auto_delete": q.AutoDelete, "exclusive": q.Exclusive,
				"arguments": further(q.Arguments, "x-queue-type", "x-message-ttl", "x-dead-letter-exchange"),
			}
		}
	}
	for b := range t.Bindings {
		if part.Owns(b.Source) {
			line := fmt.Sprintf("bindings %s: %s -> %s %s", b.Source, b.RoutingKey, b.DestinationType, b.Destination)
			if b.Arguments != "" {
				line += " " + b.Arguments
			}
			all[line] = true
		}
	}
	return all
}

// levelOf is the level of a delay queue, which its name tells.
func levelOf(queue string) any {
	if unit, delays := unitLevels[queue]; delays {
		return unit
	}
	_, numbers, delays := strings.Cut(queue, "-")
	if !delays {
		return nil
	}
	number, _, _ := strings.Cut(numbers, "-") // the level, and in a base over 2 the digit
	level, _ := strconv.ParseInt(number, 10, 64)
	return level
}

// further are the arguments that have no attribute of their own, as text.
func further(arguments topology.Arguments, own ...string) any {
	texts := map[string]any{}
	for key, value := range arguments {
		if !slices.Contains(own, key) {
			texts[key] = fmt.Sprint(value)
			if value == "5" { // a text that would read as a number
				texts[key] = `"5"`
			}
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return texts
}

func differing(x, y map[string]any) []string {
	var names []string
	for name := range x {
		if !reflect.DeepEqual(x[name], y[name]) {
			names = append(names, name)
		}
	}
	for name := range y {
		if _, ok := x[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// narrowed tells whether -run selects some tests only: then counts say nothing.
func narrowed() bool { return strings.Contains(flag.Lookup("test.run").Value.String(), "/") }

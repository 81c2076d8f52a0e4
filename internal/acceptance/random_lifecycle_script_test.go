package acceptance

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// script is a list of steps, each of them some moves and an apply.
type script []step

type step struct {
	Moves []move
	Apply schedule
}

// move is what happens between two applies.
type move struct {
	What           string
	Address, Other string
	Block          resourceBlock
	Option         option
	N              int
}

// option is an attribute that a block of some kinds may have. NAME in it is the name of the resource.
type option struct {
	kinds, name string
	value       any
}

var options = []option{
	{"cascade ladder", "park_unroutable", false},
	{"cascade ladder", "queue_type", "classic"},
	{"cascade ladder", "max_length", 100},
	{"cascade ladder", "queue_arguments", harness.Arguments(map[string]any{"x-max-length-bytes": 1_000_000_000})},
	{"cascade ladder", "delivery_exchange", "shared"},
	{"cascade ladder", "delivery_exchange", "NAME.end"},
	{"cascade ladder", "create_delivery_exchange", false},
	{"cascade ladder", "queue_leader_locator", "balanced"},
	{"cascade ladder", "quorum_initial_group_size", 1},
	{"cascade ladder", "adopt", true},
	{"cascade ladder destination", "force_destroy", true},
	{"cascade ladder destination", "drain_timeout", "2s"},
	{"cascade", "levels", 1}, {"cascade", "levels", 3}, {"cascade", "levels", 4},
	{"cascade", "resolution", "20ms"}, {"cascade", "resolution", "100ms"},
	{"cascade", "lookahead", 1},
	{"cascade", "strict_keys", false},
	{"cascade", "internal_levels", true},
	{"cascade", "exchange_name", "NAME.x%d"}, {"cascade", "queue_name", "NAME.q%d"},
	{"cascade", "base", 3}, {"cascade", "base", 10},
	{"ladder", "delays", []string{"50ms"}}, {"ladder", "delays", []string{"100ms", "200ms", "1h", "2h"}},
	{"ladder", "queue_name", "NAME.q-%s"},
	{"ladder", "binding_keys", 1}, {"ladder", "binding_keys", 2}, // see ownKeys
	{"ladder", "dead_letter_routing_key", "late.x"},
	{"destination", "match", "suffix"},
	{"destination", "address", "y"},
	{"destination", "queue", receivers[1]},
}

func (d resourceBlock) with(o option) resourceBlock {
	if !strings.Contains(o.kinds, d.kind) || d.given["preset"] != nil && o.name != "adopt" {
		return d
	}
	d.given = d.given.With(harness.Attributes{o.name: o.value})
	if text, ok := o.value.(string); ok {
		d.given[o.name] = strings.ReplaceAll(text, "NAME", fmt.Sprint(d.given["name"]))
	}
	if first, ok := o.value.(int); ok && o.name == "binding_keys" {
		d.keys = first
	}
	if delays, ok := d.given["delays"].([]string); ok && d.keys > 0 {
		d.given["binding_keys"] = ownKeys(delays, d.keys)
	}
	switch o.name {
	case "create_delivery_exchange":
		d.given["delivery_exchange"] = events
	case "delivery_exchange":
		delete(d.given, "create_delivery_exchange")
	case "base":
		delete(d.given, "queue_name") // which has another verb then
	case "queue_name":
		delete(d.given, "base")
	}
	if d.given["queue_type"] == "classic" {
		for _, name := range []string{"max_length", "queue_leader_locator", "quorum_initial_group_size"} {
			delete(d.given, name)
		}
	}
	return d
}

// ownKeys gives each delay a key of its own, in an order that begins with another one for each number.
func ownKeys(delays []string, first int) map[string]tftypes.Value {
	keys := map[string]string{}
	for i, label := range delays {
		keys[label] = fmt.Sprintf("k%d.#", (i+first)%len(delays))
	}
	return stringMap(keys)
}

var (
	adopts    = option{"cascade ladder", "adopt", true}
	addresses = []string{"a", "b", "c"}
)

// style is what resources have in common in a script.
type style string

const (
	inNothing style = "nothing"
	inNames   style = "names"  // which several addresses may have, and blocks pass between them
	inStates  style = "states" // of which a second one has what the first one has
)

func anyScript() *rapid.Generator[script] {
	return rapid.Custom(func(t *rapid.T) script {
		common := rapid.SampledFrom([]style{inNothing, inNames, inStates}).Draw(t, "common")
		s := script{{}}
		for _, address := range addresses {
			s[0].Moves = append(s[0].Moves, move{What: "have", Address: address, Block: anyBlock(t, address, common)})
		}
		s = append(s, rapid.SliceOfN(anyStep(common), 4, 10).Draw(t, "steps")...)
		return slices.DeleteFunc(s, func(s step) bool { return len(s.Moves) == 0 })
	})
}

// inOrder is how moves are sorted. Messages are sent while all is as it should be. What happens comes before the
// configuration changes.
var inOrder = []string{"damage", "take", secondAlters, secondRemoves, secondApplies, secondAdopts, secondImports,
	secondTakes, secondGives, "moved", "send"}

func anyMove(common style) *rapid.Generator[move] {
	// Those that come first are drawn more often.
	kinds := []string{"again", "have", "alter", "alter", "alter", "send", "send", "send", "take", "damage",
		"remove"}
	switch common {
	case inNames:
		kinds = append(kinds, "rename", "swap", "copy", "moved")
	case inStates:
		kinds = slices.Concat([]string{secondAdopts, secondAlters, secondImports, secondTakes, secondGives,
			"moved", secondApplies}, kinds, []string{secondRemoves, secondRemoves})
	}
	return rapid.Custom(func(t *rapid.T) move {
		m := move{What: rapid.SampledFrom(kinds).Draw(t, "what"),
			Address: rapid.SampledFrom(addresses).Draw(t, "address")}
		switch m.What {
		case "have":
			m.Block = anyBlock(t, m.Address, common)
		case "alter", secondAlters:
			m.Option = rapid.SampledFrom(options).Draw(t, "option")
		case "rename", "swap", "copy", "moved":
			m.Other, m.N = rapid.SampledFrom(addresses).Draw(t, "other"), rapid.IntRange(0, 3).Draw(t, "adopting")
		case "send", "damage":
			m.N = rapid.IntRange(0, 99).Draw(t, "n")
		}
		return m
	})
}

func anyStep(common style) *rapid.Generator[step] {
	anyMove := anyMove(common)
	return rapid.Custom(func(t *rapid.T) step {
		s := step{Moves: rapid.SliceOfN(anyMove, 0, 4).Draw(t, "moves")}
		slices.SortStableFunc(s.Moves, func(x, y move) int {
			return cmp.Compare(slices.Index(inOrder, y.What), slices.Index(inOrder, x.What))
		})
		s.Apply.Order = rapid.IntRange(0, 9).Draw(t, "order")
		address := rapid.SampledFrom(addresses).Draw(t, "address")
		switch rapid.IntRange(0, 20).Draw(t, "how") {
		case 9, 10:
			s.Apply.Parallel = true
		case 11:
			s.Apply.Target = address
		case 12:
			s.Apply.Replace = address
		case 13:
			s.Apply.NoRefresh = true
		case 14:
			s.Apply.Fails = rapid.IntRange(1, 12).Draw(t, "fails")
		case 15:
			s.Apply.Before = address
		case 16, 17:
			s.Apply.Replace, s.Apply.Behind = address, address
		case 18:
			s.Apply.Destroy, s.Apply.NoRefresh = true, rapid.Bool().Draw(t, "noRefresh")
		case 19, 20:
			between := anyMove.Filter(move.isOutside).Draw(t, "between")
			s.Apply.Between = &between
		}
		return s
	})
}

// isOutside tells whether a move needs no plan.
func (m move) isOutside() bool {
	return slices.Contains([]string{"damage", "take", secondAdopts, secondAlters, secondRemoves}, m.What)
}

func anyBlock(t *rapid.T, address string, common style) resourceBlock {
	collide := common == inNames
	names := []string{address + "1", address + "2"}
	if collide {
		names = []string{"m", "n", "o"}
	}
	d := resourceBlock{kind: rapid.SampledFrom([]string{"cascade", "cascade", "ladder", "destination"}).Draw(t, "kind")}
	switch d.kind {
	case "cascade":
		d.given = harness.Attributes{"name": rapid.SampledFrom(names).Draw(t, "name"), "levels": 2,
			"resolution": "50ms"}
	case "ladder":
		d.given = harness.Attributes{"name": rapid.SampledFrom(names).Draw(t, "name"),
			"delays": []string{"100ms", "1h"}}
	case "destination":
		d.given = harness.Attributes{"address": "x", "queue": receivers[0]}
		d.of = rapid.SampledFrom(slices.DeleteFunc(slices.Clone(addresses),
			func(other string) bool { return other == address })).Draw(t, "of")
		d.byName = rapid.Bool().Draw(t, "byName")
	}
	preset := rapid.IntRange(0, 19).Draw(t, "preset") - 18
	if preset >= 0 && d.kind == "cascade" && (collide || address == "a") {
		d.given = harness.Attributes{"preset": []string{"nservicebus", "celery_classic"}[preset]}
	} else if rapid.Bool().Draw(t, "classic") { // quorum queues may take ten seconds to prove that they are empty
		d = d.with(option{"cascade ladder", "queue_type", "classic"})
	}
	if createFirst := rapid.IntRange(0, 9).Draw(t, "createFirst"); d.kind != "destination" && createFirst > 7 {
		if d.createFirst = true; createFirst == 9 {
			d = d.with(adopts)
		}
	}
	for _, o := range rapid.SliceOfN(rapid.SampledFrom(options), 0, 4).Draw(t, "options") {
		d = d.with(o)
	}
	return d
}

func (d resourceBlock) String() string {
	text := d.kind
	for _, name := range slices.Sorted(maps.Keys(d.given)) {
		text += fmt.Sprintf(" %s=%v", name, d.given[name])
	}
	if d.of != "" {
		text += " of=" + d.of
	}
	if d.byName {
		text += ", by name"
	}
	if d.createFirst {
		text += " create_before_destroy"
	}
	return text
}

func (c configuration) String() string {
	var lines []string
	for _, address := range slices.Sorted(maps.Keys(c)) {
		lines = append(lines, fmt.Sprintf("%s = {%s}", address, c[address]))
	}
	return strings.Join(lines, ", ")
}

// effective leaves out destinations of nothing.
func (c configuration) effective() configuration {
	c = maps.Clone(c)
	maps.DeleteFunc(c, func(_ string, d resourceBlock) bool {
		return d.of != "" && (c[d.of].kind == "" || c[d.of].kind == "destination")
	})
	return c
}

// referring has references in place of names.
func (c configuration) referring() configuration {
	c = maps.Clone(c)
	for address, d := range c {
		d.byName = false
		c[address] = d
	}
	return c
}

// move makes a move, as far as there is anything to make it with.
func (l *lifecycle) move(m move) {
	before := l.wanted.String()
	was, exists := l.wanted[m.Address]
	adopting := func(d resourceBlock, n int) resourceBlock {
		if n%2 == 1 {
			return d.with(adopts)
		}
		return d
	}
	switch m.What {
	case "have":
		l.wanted[m.Address] = m.Block
	case "alter":
		if exists {
			l.wanted[m.Address] = was.with(m.Option)
		}
	case "remove":
		delete(l.wanted, m.Address)
	case "rename", "copy":
		if exists && m.Other != m.Address {
			l.wanted[m.Other] = adopting(was, m.N)
		}
		if exists && m.Other != m.Address && m.What == "rename" {
			delete(l.wanted, m.Address)
		}
	case "swap":
		if other, both := l.wanted[m.Other]; exists && both {
			l.wanted[m.Address], l.wanted[m.Other] = adopting(other, m.N), adopting(was, m.N/2)
		}
	case "moved":
		l.moved(m.Address, m.Other)
	case "send":
		l.send(m)
	case "damage":
		l.damage(m.N)
	case "take":
		l.takeFrom(".unroutable")
	default:
		l.moveSecond(m)
	}
	if l.wanted.String() != before {
		l.Logf("  %s %s: %s", m.What, m.Address, l.wanted)
	}
}

// from are the addresses, with this one as the first.
func from(address string) []string {
	at := slices.Index(addresses, address)
	return slices.Concat(addresses[at:], addresses[:at])
}

// moved gives another address to what the state has, and to what refers to that.
func (l *lifecycle) moved(from, to string) {
	was, exists := l.wanted[from]
	_, occupied := l.wanted[to]
	if !exists || occupied || was.of == to || l.holds(to) {
		return
	}
	old := l.wanted.key(from)
	delete(l.wanted, from)
	l.wanted[to] = was
	for address, d := range l.wanted {
		if d.of == from {
			d.of = to
			l.wanted[address] = d
		}
	}
	for key, h := range maps.Clone(l.state) {
		for i, need := range h.needs {
			if need == old {
				h.needs[i] = l.wanted.key(to)
			}
		}
		if current(key) == old {
			delete(l.state, key)
			l.state[l.wanted.key(to)+strings.TrimPrefix(key, old)] = h
		}
	}
	l.met("moved")
}

// message is one that the broker has confirmed.
type message struct {
	entry, delivery string
	delay           time.Duration
	at              time.Time
	excused         bool           // is not followed any more
	found           map[string]int // by queue
}

// waits tells a message whose delay does not end within a script.
func (m *message) waits() bool { return m.delay >= time.Minute }

// send sends three messages to the first entry from the address on, if somebody receives them, or they are parked.
func (l *lifecycle) send(m move) {
	for _, address := range from(m.Address) {
		h, isHeld := l.state[l.wanted.key(address)]
		if !l.settled() || !isHeld || l.wanted[address].kind == "destination" {
			continue
		}
		values := harness.PlainMap(l, h.State)
		var words []string
		if values["park_unroutable"] == true && values["create_delivery_exchange"] == true {
			words = append(words, "z")
		}
		for _, d := range l.wanted {
			if d.of == address && (values["dead_letter_routing_key"] == nil || d.given["address"] == "x") {
				words = append(words, fmt.Sprint(d.given["address"]))
			}
		}
		slices.Sort(words)
		for n := m.N; len(words) > 0 && n < m.N+3; n++ {
			l.sendOne(address, values, words[n%len(words)], n)
		}
		return
	}
}

func (l *lifecycle) sendOne(address string, values map[string]any, word string, n int) {
	sent := &message{entry: fmt.Sprint(values["entry_exchange"]), delivery: fmt.Sprint(values["delivery_exchange"]),
		found: map[string]int{}}
	var key string
	if labels, isLadder := l.wanted[address].given["delays"].([]string); isLadder {
		label := labels[n%len(labels)]
		sent.delay, _ = time.ParseDuration(label)
		key = label + "." + word
		if keys, has := l.wanted[address].given["binding_keys"].(map[string]tftypes.Value); has {
			var own string
			if err := keys[label].As(&own); err != nil {
				l.Fatal(err)
			}
			key = strings.TrimSuffix(own, "#") + word
		}
	} else {
		s := scaleOf(l, harness.AsMap(l, values["publisher"]))
		sent.delay = min(time.Duration(n%5)*s.Resolution(), s.Longest)
		if n%5 == 4 && s.Longest > 5*time.Minute {
			sent.delay = s.Longest // what ends neither soon nor late says little
		}
		key = harness.KeyOf(l, s, sent.delay, word)
	}
	id := fmt.Sprint(len(l.messages))
	sent.at = harness.BrokerTime()
	l.Logf("  message %s to %s with key %s", id, sent.entry, key)
	l.Publish(sent.entry, key, id)
	l.messages[id] = sent
	l.met("messages")
}

// scaleOf is what publishers are told.
func scaleOf(t testing.TB, publisher map[string]any) delay.Scale {
	t.Helper()
	given, _ := publisher["units_ms"].([]any)
	units := make([]int64, len(given))
	for i := range given {
		units[i], _ = given[i].(int64)
	}
	longest, _ := publisher["max_delay_ms"].(int64)
	s, err := delay.PublisherScale(units, longest)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// damage does what Terraform does not know of.
func (l *lifecycle) damage(n int) {
	there := l.Objects()
	delete(there.Exchanges, events)
	for _, queue := range receivers {
		delete(there.Queues, queue)
	}
	queues, exchanges := slices.Sorted(maps.Keys(there.Queues)), slices.Sorted(maps.Keys(there.Exchanges))
	bindings := there.Bindings.Sorted()
	if len(queues)*len(exchanges)*len(bindings) == 0 {
		return
	}
	queue, foreign := there.Queues[queues[n%len(queues)]], bindings[n%len(bindings)]
	wrong := topology.Queue{Name: queue.Name, Durable: true, Arguments: topology.Arguments{"x-message-ttl": int64(9)}}
	damages := [][]plan.Step{
		{plan.DeleteExchange{Name: exchanges[n%len(exchanges)]}},
		{plan.Unbind{Binding: foreign}},
		{plan.DeleteQueue{Queue: queue}},
		{plan.DeleteQueue{Queue: queue}, plan.DeclareQueue{Queue: wrong}},
	}
	if !slices.Contains(receivers, foreign.Destination) { // another binding of a destination would be nobody's
		foreign.RoutingKey += ".foreign"
		damages = append(damages, []plan.Step{plan.Bind{Binding: foreign}})
	}
	steps := damages[n/7%len(damages)]
	l.Do(steps...)
	l.inPlace, l.damaged = nil, true
	l.Logf("  damage: %v", steps)
	_, takesMessages := steps[0].(plan.DeleteQueue)
	l.excuse("damaged", func(m *message) bool { return takesMessages || !m.waits() })
}

// excuse lets go of messages that are on their way.
func (l *lifecycle) excuse(why string, which func(*message) bool) {
	l.look()
	for id, m := range l.messages {
		if len(m.found) == 0 && !m.excused && which(m) {
			m.excused = true
			l.met("messages that were not followed to the end")
			l.Logf("  message %s is not followed any more: %s", id, why)
		}
	}
}

// excuseForced excuses messages that force_destroy allows to lose.
func (l *lifecycle) excuseForced(p *walk) {
	for key, c := range p.changes {
		if c.prior.IsNull() || c.isNothing() {
			continue
		}
		had := harness.PlainMap(l, c.prior)
		if had["force_destroy"] == true || c.wanted != nil && c.wanted.given["force_destroy"] == true {
			entry, isDestination := had["entry_exchange"], strings.HasPrefix(key, "destination.")
			l.excuse("force_destroy of "+key, func(m *message) bool {
				return entry == m.entry || isDestination && had["delivery_exchange"] == m.delivery
			})
		}
	}
}

// mayHoldMessages tells whether something may hold messages that were excused.
func (l *lifecycle) mayHoldMessages() bool {
	l.look()
	return slices.ContainsFunc(slices.Collect(maps.Values(l.messages)),
		func(m *message) bool { return m.excused && len(m.found) == 0 })
}

// look notes what has arrived, and that nothing was early.
func (l *lifecycle) look() {
	for queue, collector := range l.arriving {
		count := map[string]int{}
		for _, a := range collector.Arrivals() {
			id := string(a.Body)
			m := l.messages[id]
			count[id]++
			m.found[queue] = count[id]
			if early := m.at.Add(harness.Least(m.delay)).Sub(a.At); early > 0 && !m.excused {
				l.Errorf("message %s is early by %s", id, early)
			}
		}
	}
}

// takeFrom takes messages from all queues with this end of their names.
func (l *lifecycle) takeFrom(suffix string) {
	for queue := range l.Objects().Queues {
		if strings.HasSuffix(queue, suffix) && !slices.Contains(receivers, queue) {
			for _, id := range l.takeAll(queue) {
				l.messages[id].found[queue]++
				l.Logf("  message %s is in queue %s", id, queue)
			}
		}
	}
}

// account finds each message once: it has arrived, or is parked, or it waits, if its delay is a long one.
func (l *lifecycle) account() {
	overdue := l.missing(".unroutable", func(m *message) bool { return !m.waits() })
	if lost := l.missing("", func(*message) bool { return true }); len(lost) > 0 {
		l.Errorf("messages %v are gone", lost)
	} else if len(overdue) > 0 {
		l.Errorf("messages %v should have arrived", overdue)
	}
	for id, m := range l.messages {
		received, elsewhere := 0, 0
		for queue, n := range m.found {
			if slices.Contains(receivers, queue) {
				received = max(received, n)
			} else {
				elsewhere += n
			}
		}
		if !m.excused && received+elsewhere > 1 {
			l.Errorf("message %s is there twice: %v", id, m.found)
		}
	}
}

// missing takes messages from all queues with this end of their names, until all have been found of which something
// holds, or it is late. It returns the rest.
func (l *lifecycle) missing(suffix string, holds func(*message) bool) (ids []string) {
	for deadline := time.Now().Add(harness.Patience); ; time.Sleep(100 * time.Millisecond) {
		l.takeFrom(suffix)
		l.look()
		ids = nil
		for id, m := range l.messages {
			if !m.excused && len(m.found) == 0 && holds(m) {
				ids = append(ids, id)
			}
		}
		if len(ids) == 0 || time.Now().After(deadline) {
			return ids
		}
	}
}

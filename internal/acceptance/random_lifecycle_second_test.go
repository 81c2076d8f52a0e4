package acceptance

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// A second state has cascades and ladders of the first one. What it does is applied at once.
const (
	secondAdopts  = "a second state adopts"  // and owns it alone
	secondImports = "a second state imports" // both own it
	secondTakes   = "a second state imports, and the first one forgets"
	secondGives   = "the first state imports, and the second one forgets"
	secondAlters  = "the second state alters in place"
	secondRemoves = "the second state destroys"
	secondApplies = "the second state applies once more"
)

// moveSecond makes a move of the second state, for the first address from that of the move on where it can be made.
func (l *lifecycle) moveSecond(m move) {
	for _, m.Address = range from(m.Address) {
		if l.moveSecondAt(m) {
			return
		}
	}
}

// moveSecondAt tells whether there was anything to make a move with.
func (l *lifecycle) moveSecondAt(m move) (made bool) {
	if m.What == secondAdopts || m.What == secondImports || m.What == secondTakes {
		return l.giveToSecond(m)
	}
	theirs, has := l.theirs[m.Address]
	if !has {
		return false
	}
	switch m.What {
	case secondGives:
		return l.takeFromSecond(m.Address)
	case secondAlters:
		return l.alterSecond(m.Address, theirs.with(m.Option))
	case secondRemoves:
		delete(l.theirs, m.Address)
		l.noteDeliveries(l.claims(&walk{}), "")
		if refusal := l.applySecond(m.What); refusal != "" {
			l.theirs[m.Address] = theirs
		}
		l.inPlace, l.damaged = nil, true
	case secondApplies:
		l.applySecond(m.What)
		l.inPlace = nil
	}
	return true
}

// giveToSecond has the second state adopt or import what the first one has. Nothing changes then.
func (l *lifecycle) giveToSecond(m move) (made bool) {
	block, isThere := l.inPlace[m.Address]
	key := l.inPlace.key(m.Address)
	first := l.state[key]
	if _, has := l.theirs[m.Address]; has || !isThere || first == nil || block.kind == "destination" {
		return false
	}
	if l.has(l.second, first) {
		return false
	}
	before := contents(l.Objects())
	h := l.second.new(key)
	if m.What == secondAdopts {
		block = block.with(adopts)
	} else {
		id := harness.ImportID(l.Vhost.Name, entryOf(l, first))
		if text := harness.ErrorText(h.ImportState(l.Context(), id)); text != "" {
			l.Fatalf("the import of what another state has: %s", text)
		}
		l.second.state[key] = h
	}
	l.theirs[m.Address] = block
	if refusal := l.applySecond(m.What); refusal != "" {
		l.Fatalf("%s: %s", m.What, refusal)
	}
	if lines := differences(before, contents(l.Objects())); len(lines) > 0 {
		l.Fatalf("%s, and that changes: %v", m.What, lines)
	}
	if m.What == secondTakes {
		delete(l.state, key)
		delete(l.wanted, m.Address)
		l.inPlace = nil
	}
	return true
}

// takeFromSecond has the first state import what the second one has, which forgets it.
func (l *lifecycle) takeFromSecond(address string) (made bool) {
	key := l.theirs.key(address)
	theirs := l.second.state[key]
	if _, occupied := l.wanted[address]; occupied || l.holds(address) || theirs == nil || l.has(l.walker, theirs) {
		return false
	}
	h := l.new(key)
	if text := harness.ErrorText(h.ImportState(l.Context(), harness.ImportID(l.Vhost.Name,
		entryOf(l, theirs)))); text != "" {
		if l.damaged {
			return false
		}
		l.Fatalf("the import of what the second state has: %s", text)
	}
	l.state[key], l.wanted[address] = h, l.theirs[address]
	delete(l.second.state, key)
	delete(l.theirs, address)
	l.inPlace = nil
	l.met(secondGives)
	return true
}

// alterSecond alters a block of the second state, unless that replaces it: other entries may be in the way of the first
// state.
func (l *lifecycle) alterSecond(address string, block resourceBlock) (made bool) {
	before := l.theirs[address]
	l.theirs[address] = block
	p, refusal := l.second.plan(l.theirs, schedule{})
	if c := p.changes[l.theirs.key(address)]; refusal == "" && c != nil && !c.Replace {
		refusal = l.applySecond(fmt.Sprintf("%s: %s", secondAlters, block))
		l.inPlace, l.damaged = nil, true
		if made = true; refusal == "" {
			return made
		}
	}
	l.theirs[address] = before
	return made
}

// applySecond applies the configuration of the second state.
func (l *lifecycle) applySecond(what string) (refusal string) {
	p, refusal := l.second.plan(l.theirs, schedule{})
	if refusal == "" {
		l.excuseForced(p)
		refusal = l.second.apply(p, schedule{})
	}
	if refusal == "" {
		refusal = "success"
		defer func() { refusal = "" }()
	}
	what, _, _ = strings.Cut(what, ":")
	l.met(what)
	l.Logf("  %s: %s: %s", what, l.theirs, strings.Join(strings.Fields(refusal), " "))
	return refusal
}

// has tells whether a state has something with the entry of an object.
func (l *lifecycle) has(state *walker, object *held) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(state.state)),
		func(h *held) bool { return entryOf(l, h) == entryOf(l, object) })
}

// entryOf is the entry exchange of an object of the state, empty for a destination.
func entryOf(l *lifecycle, h *held) string {
	return fmt.Sprint(harness.PlainMap(l, h.State)["entry_exchange"])
}

// firstMayDestroy tells of what both states have whether an apply of the first one may change or destroy it. It may if
// it owns it too, or nobody does.
func (l *lifecycle) firstMayDestroy() map[string]bool {
	may := map[string]bool{}
	marks := l.Objects().Owners
	for address := range l.theirs {
		theirs := l.second.state[l.theirs.key(address)]
		for _, h := range l.state {
			if theirs == nil || entryOf(l, h) != entryOf(l, theirs) {
				continue
			}
			onIt := marks.Where(func(b topology.Binding) bool { return b.Source == entryOf(l, h) })
			isOwn := func(b topology.Binding) bool { return b.Owner() == ownerOf(h.Protocol) }
			may[address] = may[address] || len(onIt) == 0 || slices.ContainsFunc(onIt, isOwn)
		}
	}
	return may
}

// mustLeave checks that a success of the first state has updated nothing that only the second one owns.
func (l *lifecycle) mustLeave(p *walk, mayDestroy map[string]bool) {
	for key, c := range p.changes {
		if c.prior.IsNull() || c.isNothing() || c.wanted == nil || c.Replace || c.wanted.given["adopt"] == true {
			continue
		}
		for address, may := range mayDestroy {
			theirs := l.second.state[l.theirs.key(address)]
			if entry := harness.PlainMap(l, c.prior)["entry_exchange"]; !may && entry == entryOf(l, theirs) {
				l.Errorf("the update of %s has success, and the second state owns it", key)
			}
		}
	}
}

// both is the configuration of the first state with all of the second one's that it has not. What the first one has
// destroyed for both is forgotten.
func (l *lifecycle) both(wanted configuration, mayDestroy map[string]bool) configuration {
	all := maps.Clone(wanted)
	for address, block := range maps.Clone(l.theirs) {
		key := l.theirs.key(address)
		theirs := l.second.state[key]
		switch {
		case theirs != nil && l.has(l.walker, theirs):
		case theirs == nil || mayDestroy[address]:
			delete(l.theirs, address)
			delete(l.second.state, key)
		default:
			all["second "+address] = block
		}
	}
	return all
}

// endSecond destroys what the second state has.
func (l *lifecycle) endSecond() {
	l.theirs = configuration{}
	l.noteDeliveries(l.claims(&walk{}), "")
	refusal := ""
	for range 3 {
		if refusal = l.applySecond("the second state destroys all"); refusal == "" {
			break
		}
	}
	if refusal != "" && !l.mayHoldMessages() && !strings.Contains(refusal, "Delivery exchange would be left standing") {
		l.Fatalf("the second state cannot destroy what it has: %s", refusal)
	}
}

func (l *lifecycle) claimsOfSecond() (claims []claim) {
	for key, h := range l.second.state {
		claims = append(claims, l.claim("second "+key, h.State))
	}
	return claims
}

// secondGoesOn applies the configuration of the second state again. It tells whether all is as both states want it.
func (l *lifecycle) secondGoesOn(wanted configuration) bool {
	return len(l.theirs) == 0 || l.applySecond(secondApplies) == "" && !l.isContested(wanted)
}

// isContested tells whether both states have an entry, and want something else of it. It is as the last one had it.
func (l *lifecycle) isContested(wanted configuration) bool {
	for address, theirs := range l.theirs {
		second := l.second.state[l.theirs.key(address)]
		for other, ours := range wanted {
			first := l.state[wanted.key(other)]
			if second != nil && first != nil && entryOf(l, first) == entryOf(l, second) &&
				ours.with(adopts).String() != theirs.with(adopts).String() {
				return true
			}
		}
	}
	return false
}

// sharedWithSecond ends a script: what goes first takes along what another entry has too.
const sharedWithSecond = "as documented: objects have two owners under different entries"

// sharesWithSecond tells whether the first state has, or wants, objects of the second one under another entry.
func (l *lifecycle) sharesWithSecond(claims []claim) bool {
	for _, theirs := range l.claimsOfSecond() {
		for _, one := range claims {
			inBoth := func(object string) bool { return slices.Contains(theirs.objects, object) }
			if one.entry != theirs.entry && slices.ContainsFunc(one.objects, inBoth) {
				return true
			}
		}
	}
	return false
}

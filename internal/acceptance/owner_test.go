package acceptance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// ownedKind is what has an owner's mark, with a change in place and the key of a message for "there".
type ownedKind struct {
	typeName           string
	given, change      harness.Attributes
	entry, key, parked string
}

var ownedKinds = map[string]ownedKind{
	"cascade": {harness.CascadeType, harness.Attributes{"name": "t", "levels": 2, "resolution": "1ms"},
		harness.Attributes{"lookahead": 1}, "t.delay-01", "0.1.there", "t.unroutable"},
	"ladder": {harness.LadderType, harness.Attributes{"name": "t", "delays": harness.TextList("1ms", "2ms")},
		harness.Attributes{"force_destroy": true}, "t.entry", "1ms.there", "t.unroutable"},
	"preset": {harness.CascadeType, harness.Attributes{"preset": "celery"},
		harness.Attributes{"force_destroy": true}, "celery_delayed_27", strings.Repeat("0.", 28) + "there", ""},
}

// eachOwnedKind runs a test with one of each kind, which is there already.
func eachOwnedKind(t *testing.T, test func(t *testing.T, v *harness.Vhost, is ownedKind, p *harness.Protocol,
	given harness.Attributes)) {
	t.Parallel()
	for name, is := range ownedKinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := harness.NewVhost(t)
			p := harness.NewProtocolOf(t, is.typeName, v.Broker, nil)
			given := is.given.With(harness.Attributes{"vhost": v.Name})
			p.MustApply(given)
			test(t, v, is, p, given)
		})
	}
}

// An owner's mark is on the entry, and nowhere else to be seen. If it is missing, that is no drift.
func TestOwnersMark(t *testing.T) {
	eachOwnedKind(t, func(t *testing.T, v *harness.Vhost, is ownedKind, p *harness.Protocol,
		given harness.Attributes) {
		p.MustBeSettled(given)
		owners := v.Objects().Owners
		marks := owners.Sorted()
		if len(marks) != 1 || marks[0].Source != is.entry || marks[0].Owner() == "" {
			t.Fatalf("the owner's marks are %v", marks)
		}
		if text := p.State.String(); strings.Contains(text, "x-owner") || strings.Contains(text, marks[0].Owner()) {
			t.Errorf("the state shows the mark: %s", text)
		}
		v.Do(plan.Unbind{Binding: marks[0]})
		if text := harness.WarningText(p.Refresh(t.Context())); text != "" {
			t.Errorf("a mark that is missing is drift: %s", text)
		}
		p.MustBeSettled(given)
		p.MustApply(given.With(is.change))
		if again := v.Objects().Owners; !maps.Equal(again, owners) {
			t.Errorf("the next write leaves the marks %v, not %v", again, marks)
		}
		p.MustApply(nil)
		v.MustHold(topology.New())
	})
}

// No message goes the way of an owner's mark, or another way because of it. Of a message without a binding, RabbitMQ
// asks the alternate exchange only if nothing matches, and a mark would.
func TestOwnersMarkRoutesNothing(t *testing.T) {
	eachOwnedKind(t, func(t *testing.T, v *harness.Vhost, is ownedKind, p *harness.Protocol,
		_ harness.Attributes) {
		arrivals := v.Collect(fmt.Sprint(harness.PlainMap(t, p.State)["delivery_exchange"]), "#.there")
		for range 20 {
			v.Publish(is.entry, is.key, "once")
		}
		v.Arrived(arrivals, 20)
		if is.parked != "" {
			fromEntry := func(b topology.Binding) bool { return b.Source == is.entry }
			for _, b := range v.Objects().Bindings.Where(fromEntry) {
				v.Do(plan.Unbind{Binding: b})
			}
			v.Publish(is.entry, is.key, "parked")
			v.Eventually("the message is parked", func() bool { return v.Depth(is.parked) == 1 })
		}
		if all := v.Arrived(arrivals, 20); len(all) != 20 {
			t.Errorf("%d messages have arrived", len(all))
		}
	})
}

// Another state takes over. From then on, the first one does nothing but say so.
func TestOtherOwner(t *testing.T) {
	eachOwnedKind(t, func(t *testing.T, v *harness.Vhost, is ownedKind, first *harness.Protocol,
		given harness.Attributes) {
		second := harness.NewProtocolOf(t, is.typeName, v.Broker, nil)
		adopting := given.With(harness.Attributes{"adopt": true})
		before := v.Objects()
		planned := second.Plan(t.Context(), adopting)
		harness.MustSay(t, "the plan", harness.WarningText(planned.Diagnostics), "The plan takes over the ", is.entry)
		harness.NoErrors(t, second.Apply(t.Context(), planned))
		second.MustBeSettled(adopting)
		v.MustHold(before)
		owners := v.Objects().Owners
		if len(owners) != 1 || maps.Equal(owners, before.Owners) {
			t.Fatalf("after the takeover, the marks are %v", owners)
		}

		const says = "Another resource owns the "
		harness.MustSay(t, "the refresh", harness.WarningText(first.Refresh(t.Context())), says, is.entry, v.Name)
		first.MustBeSettled(given)
		harness.MustSay(t, "the update", harness.ErrorText(first.Apply(t.Context(),
			first.Plan(t.Context(), given.With(is.change)))), says, "adopt = true", "state rm")
		diagnostics := first.Apply(t.Context(), first.Plan(t.Context(), nil))
		harness.NoErrors(t, diagnostics)
		harness.MustSay(t, "the destroy", harness.WarningText(diagnostics), says, "left everything")
		v.MustHold(before)
		second.MustBeSettled(adopting)

		// The first one takes it back, and it is the second one's turn to leave it.
		first.MustApply(adopting)
		harness.MustSay(t, "the refresh", harness.WarningText(second.Refresh(t.Context())), says,
			"a change by this one takes it back")
		second.MustApply(nil)
		v.MustHold(before)
		first.MustBeSettled(adopting)
		first.MustApply(nil)
		v.MustHold(topology.New())
	})
}

// A state file that is copied, and an import, have the same mark. Both own it.
func TestSameOwnerTwice(t *testing.T) {
	eachOwnedKind(t, func(t *testing.T, v *harness.Vhost, is ownedKind, first *harness.Protocol,
		given harness.Attributes) {
		imported := harness.NewProtocolOf(t, is.typeName, v.Broker, nil)
		copied := first.With(v.Broker, nil)
		diagnostics := imported.ImportState(t.Context(), harness.ImportID(v.Name, is.entry))
		harness.NoErrors(t, diagnostics)
		if text := harness.WarningText(diagnostics); strings.Contains(text, "owner") {
			t.Errorf("the import warns: %s", text)
		}
		for _, p := range []*harness.Protocol{first, copied, imported} {
			p.MustApply(given.With(is.change))
			p.MustApply(given)
			if text := harness.WarningText(p.Refresh(t.Context())); text != "" {
				t.Errorf("the refresh warns: %s", text)
			}
		}
		imported.MustApply(nil)
		v.MustHold(topology.New())
	})
}

// Terraform loses the private state if the provider's process ends in the middle of an apply. The cascade is its own
// all the same, with a refresh and without.
func TestLostPrivateState(t *testing.T) {
	eachOwnedKind(t, func(t *testing.T, v *harness.Vhost, is ownedKind, p *harness.Protocol,
		given harness.Attributes) {
		owners := v.Objects().Owners
		p.Private = nil
		p.MustApply(given.With(is.change))
		p.Private = nil
		harness.NoErrors(t, p.Apply(t.Context(), p.Plan(t.Context(), given)))
		if now := v.Objects().Owners; !maps.Equal(now, owners) {
			t.Errorf("the marks are %v, not %v", now, owners)
		}
		p.Private = nil
		harness.NoErrors(t, p.Apply(t.Context(), p.Plan(t.Context(), nil)))
		v.MustHold(topology.New())
	})
}

// A cascade that was imported without a mark gets one by the next write. Another state then has nothing that it owns.
func TestImportWithoutMark(t *testing.T) {
	t.Parallel()
	is := ownedKinds["cascade"]
	v := harness.NewVhost(t)
	first := harness.NewProtocol(t, v.Broker, nil)
	given := is.given.With(harness.Attributes{"vhost": v.Name})
	first.MustApply(given)
	v.Do(plan.Unbind{Binding: v.Objects().Owners.Sorted()[0]})
	a, b := harness.NewProtocol(t, v.Broker, nil), harness.NewProtocol(t, v.Broker, nil)
	for _, p := range []*harness.Protocol{a, b} {
		harness.NoErrors(t, p.ImportState(t.Context(), harness.ImportID(v.Name, is.entry)))
		p.MustBeSettled(given)
	}
	if marks := v.Objects().Owners; len(marks) > 0 {
		t.Errorf("imports set the marks %v", marks)
	}
	a.MustApply(given.With(is.change))
	if marks := v.Objects().Owners; len(marks) != 1 {
		t.Errorf("after a change, the marks are %v", marks)
	}
	const says = "Another resource owns the "
	harness.MustSay(t, "the refresh", harness.WarningText(b.Refresh(t.Context())), says)
	harness.NoErrors(t, b.Apply(t.Context(), b.Plan(t.Context(), nil)))
	a.MustBeSettled(given.With(is.change))
	a.MustApply(nil)
	v.MustHold(topology.New())
}

// Restored definitions bring an old mark back: its own one among several is enough.
func TestSeveralOwners(t *testing.T) {
	t.Parallel()
	is := ownedKinds["cascade"]
	v := harness.NewVhost(t)
	p := harness.NewProtocol(t, v.Broker, nil)
	given := is.given.With(harness.Attributes{"vhost": v.Name})
	p.MustApply(given)
	there := v.Objects()
	other := topology.Topology{Entry: is.entry, Exchanges: there.Exchanges}.WithOwner("somebody").Owners.Sorted()[0]
	restore := func() { v.Do(plan.Bind{Binding: other}) }
	restore()
	const says = "Several resources own the cascade"
	harness.MustSay(t, "the refresh", harness.WarningText(p.Refresh(t.Context())), says, "2 owner's marks")
	p.MustBeSettled(given)
	diagnostics := p.Apply(t.Context(), p.Plan(t.Context(), given.With(is.change)))
	harness.NoErrors(t, diagnostics)
	harness.MustSay(t, "the update", harness.WarningText(diagnostics), says)
	if marks := v.Objects().Owners; len(marks) != 2 {
		t.Errorf("after an update, the marks are %v", marks)
	}
	p.MustApply(given.With(harness.Attributes{"adopt": true}))
	if marks := v.Objects().Owners; !slices.Equal(marks.Sorted(), there.Owners.Sorted()) {
		t.Errorf("after an update with adopt, the marks are %v", marks)
	}

	restore()
	p.MustApply(given.With(harness.Attributes{"queue_type": "classic"}))
	if marks := v.Objects().Owners; !marks.Has(there.Owners.Sorted()[0]) {
		t.Errorf("after a rebuild, the marks are %v", marks)
	}
	restore()
	diagnostics = p.Apply(t.Context(), p.Plan(t.Context(), nil))
	harness.NoErrors(t, diagnostics)
	harness.MustSay(t, "the destroy", harness.WarningText(diagnostics), says)
	v.MustHold(topology.New())
}

// Another state takes over while the first one waits with something closed. The first one goes no further, also if
// messages are left when the wait is over. All messages arrive.
func TestTakenOverWhileItWaits(t *testing.T) {
	t.Parallel()
	// The waits have room for the takeover on a busy machine.
	ladder := harness.Attributes{"name": "t", "delays": harness.TextList("1ms", "20s")}
	cascade := harness.Attributes{"name": "t", "levels": 2, "resolution": "10s"}
	for name, is := range map[string]struct {
		typeName    string
		given, then harness.Attributes
		entry, key  string
		says        string
	}{
		"destroy of a cascade": {harness.CascadeType, cascade, nil, "t.delay-01", "1.0.there", ""},
		"destroy of a ladder":  {harness.LadderType, ladder, nil, "t.entry", "20s.there", ""},
		"rebuild": {harness.CascadeType, cascade, harness.Attributes{"queue_name": "q%d"}, "t.delay-01", "1.0.there",
			"went no further"},
		"a delay that goes": {harness.LadderType, ladder, harness.Attributes{"delays": harness.TextList("1ms")},
			"t.entry", "20s.there", "went no further"},
	} {
		for _, drain := range []string{"1m", "12s"} {
			t.Run(name+", waiting for "+drain, func(t *testing.T) {
				t.Parallel()
				v := harness.NewVhost(t)
				first := harness.NewProtocolOf(t, is.typeName, v.Broker, nil)
				second := harness.NewProtocolOf(t, is.typeName, v.Broker, nil)
				given := is.given.With(harness.Attributes{"vhost": v.Name, "drain_timeout": drain})
				first.MustApply(given)
				arrivals := v.Collect("t.delivery", "#.there")
				before := v.Objects()
				v.Publish(is.entry, is.key, "once")

				var then harness.Attributes
				if is.then != nil {
					then = given.With(is.then)
				}
				planned := first.Plan(t.Context(), then)
				ended := make(chan []*tfprotov6.Diagnostic, 1)
				go func() { ended <- first.Apply(t.Context(), planned) }()
				v.Eventually("the first one has closed something", func() bool {
					return len(v.Objects().Bindings) < len(before.Bindings)
				})
				second.MustApply(given.With(harness.Attributes{"adopt": true}))
				diagnostics := <-ended
				harness.MustSay(t, "the first one", harness.WarningText(diagnostics)+harness.ErrorText(diagnostics),
					"Another resource owns the ", is.says)
				if failed := len(harness.ErrorText(diagnostics)) > 0; failed != (is.then != nil) {
					t.Errorf("it ended with: %s", harness.ErrorText(diagnostics))
				}
				v.MustHold(before)
				second.MustBeSettled(given.With(harness.Attributes{"adopt": true}))
				if owners := v.Objects().Owners; len(owners) != 1 || maps.Equal(owners, before.Owners) {
					t.Errorf("the marks are %v", owners)
				}
				v.Arrived(arrivals, 1)
			})
		}
	}
}

// What the entry of another owner leads to is not adopted: the owner's mark there would stay.
func TestAdoptedBesidesAnotherEntry(t *testing.T) {
	t.Parallel()
	for name, is := range map[string]struct {
		typeName     string
		first, other harness.Attributes
		entry        string
	}{
		"ladders": {harness.LadderType,
			harness.Attributes{"name": "a", "delays": harness.TextList("1ms", "1h"), "queue_name": "shared-%s"},
			harness.Attributes{"name": "b"}, "a.entry"},
		"cascades": {harness.CascadeType, harness.Attributes{"name": "a", "levels": 3, "queue_name": "shared-%d",
			"exchange_name": "a-%d", "delivery_exchange": "events", "create_delivery_exchange": true},
			harness.Attributes{"exchange_name": "b-%d"}, "a-2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := harness.NewVhost(t)
			first := harness.NewProtocolOf(t, is.typeName, v.Broker, nil)
			other := harness.NewProtocolOf(t, is.typeName, v.Broker, nil)
			given := is.first.With(harness.Attributes{"vhost": v.Name, "delivery_exchange": "events",
				"create_delivery_exchange": true})
			first.MustApply(given)
			before := v.Objects()
			given = given.With(is.other).With(harness.Attributes{"adopt": true})
			planned := other.Plan(t.Context(), given)
			harness.MustSay(t, "the create", harness.ErrorText(other.Apply(t.Context(), planned)),
				"Objects belong to another entry", is.entry, `queue "shared-`)
			v.MustHold(before)

			// A replacement that adopts would destroy, and could not create.
			own := harness.Attributes{"vhost": v.Name, "name": "own", "delays": harness.TextList("1ms")}
			if is.typeName == harness.CascadeType {
				own = harness.Attributes{"vhost": v.Name, "name": "own", "levels": 1}
			}
			replaced := harness.NewProtocolOf(t, is.typeName, v.Broker, nil)
			replaced.MustApply(own)
			harness.MustSay(t, "the replacement",
				harness.ErrorText(replaced.Plan(t.Context(), given).Diagnostics), "Objects belong to another entry",
				"Nothing was destroyed")
			replaced.MustApply(nil)
			first.MustBeSettled(is.first.With(harness.Attributes{"vhost": v.Name, "delivery_exchange": "events",
				"create_delivery_exchange": true}))
		})
	}
}

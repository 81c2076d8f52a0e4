package plan

import (
	"fmt"
	"strings"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Others are bindings of others that a change takes away with its own objects, sorted.
type Others struct {
	// Lost are those that it does not make again.
	Lost []topology.Binding
	// Again are those that a Rebuild makes again. Messages that they would take meanwhile are unroutable.
	Again []topology.Binding
}

func (o Others) Error() string {
	return fmt.Sprintf("%d bindings of other applications would go, and %d for a time", len(o.Lost), len(o.Again))
}

// IsNone tells whether there are none.
func (o Others) IsNone() bool { return len(o.Lost)+len(o.Again) == 0 }

// Away is the part of a topology that a change takes away, if only for a time. After is empty for a destroy.
func Away(before, after topology.Topology, rebuilds bool) topology.Topology {
	switch {
	case after.IsEmpty():
		return before
	case rebuilds:
		return partToRebuild(before, after)
	}
	return before.Extras(after)
}

// OthersOf are those of the bindings that are others', and go with the part that is away.
func OthersOf(before, after, away topology.Topology, there topology.Bindings) (others Others) {
	for _, b := range there.Sorted() {
		leaves := b.Source == before.Entry && away.IsWhole()
		switch {
		case before.OwnsBinding(b) || after.OwnsBinding(b) || !away.Takes(b) && !leaves:
		case after.Takes(b) || after.Owns(b.Source):
			others.Again = append(others.Again, b)
		default:
			others.Lost = append(others.Lost, b)
		}
	}
	return others
}

// MisreadError is for bindings of others that would take other messages, because the entry gets another type.
type MisreadError struct {
	Bindings      []topology.Binding
	Before, After string
}

func (e *MisreadError) Error() string {
	return fmt.Sprintf("%d bindings of other applications would take other messages", len(e.Bindings))
}

// CheckMeaning refuses another type of the entry, with a *MisreadError, where others have bound something to it by a
// key with a word "*" or "#". A topic exchange takes these words as patterns, and a direct exchange as they are.
func CheckMeaning(before, after topology.Topology, there topology.Bindings) error {
	e := &MisreadError{Before: before.Exchanges[before.Entry].Type, After: after.Exchanges[after.Entry].Type}
	if after.IsEmpty() || e.Before == e.After {
		return nil
	}
	for _, b := range OthersOf(before, after, before, there).Again {
		if b.Source == after.Entry && topology.ParseTopicKey(b.RoutingKey).IsPattern() {
			e.Bindings = append(e.Bindings, b)
		}
	}
	if len(e.Bindings) == 0 {
		return nil
	}
	return e
}

// BoundError is for bindings of others that came and went while a rebuild waited for empty queues.
type BoundError struct{ Made, Removed []topology.Binding }

// Compare fails with a *BoundError, unless the bindings of others that are there are those that the plan knows.
func (s VerifyBound) Compare(there topology.Bindings) error {
	counts := func(b topology.Binding) bool {
		leadsIn := s.Of.Takes(b) && !b.LeadsTo(topology.ToExchange, s.Of.Delivery)
		return !s.Of.OwnsBinding(b) && (leadsIn || s.Delivery && touches(b, s.Of.Delivery))
	}
	e := &BoundError{
		Made:    there.Where(func(b topology.Binding) bool { return counts(b) && !s.Of.Bindings.Has(b) }),
		Removed: s.Of.Bindings.Where(func(b topology.Binding) bool { return counts(b) && !there.Has(b) }),
	}
	if len(e.Made)+len(e.Removed) == 0 {
		return nil
	}
	return e
}

func (e *BoundError) Error() string {
	text := func(what string) func(topology.Binding) string {
		return func(b topology.Binding) string { return what + " from " + b.Plain().Describe() }
	}
	changes := append(plaintext.Texts(e.Made, text("made")), plaintext.Texts(e.Removed, text("removed"))...)
	return "bindings have changed while queues ran empty: " + strings.Join(changes, ", ")
}

// Summary is the error in a few words.
func (e *BoundError) Summary() string { return "Bindings have changed meanwhile" }

// Detail is the error with all that is known.
func (e *BoundError) Detail() string { return "The " + e.Error() + "." }

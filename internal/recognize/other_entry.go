package recognize

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// OtherEntryError says that an exchange is not the entry that was asked for, and which entry was
// recognized in its place.
type OtherEntryError struct {
	Kind, Entry string
	reason      error
}

func (e *OtherEntryError) Error() string {
	return fmt.Sprintf("%s; the entry of the %s there is exchange %q", e.reason, e.Kind, e.Entry)
}

// What an exchange can be the entry of.
const (
	KindCascade = "cascade"
	KindLadder  = "ladder"
)

// otherEntry adds to the reason why the exchange is no entry of the kind what it belongs to, where that can be found.
func (o *objects) otherEntry(kind, name string, reason error) error {
	if kind == KindCascade {
		if _, err := o.ladder(name); err == nil {
			return &OtherEntryError{KindLadder, name, reason}
		}
	}
	if entry := cmp.Or(o.entryBehind(name), o.entryNear(name)); entry != "" {
		return &OtherEntryError{KindCascade, entry, reason}
	}
	if e := o.exchange(name); kind == KindCascade && e.Name != "" && e.Type != string(delay.Topic) {
		return notThis(reason.Error() + seeGuide + "a cascade beside it")
	}
	return reason
}

// entryBehind is the entry of the cascade to which a fanout or headers exchange hands messages on, or a topic exchange
// with no key but "#". It is empty if there is none. A level of a wrong type is none of these: its end can have
// thousands of bindings.
func (o *objects) entryBehind(name string) string {
	e := o.exchange(name)
	chooses := func(b topology.Binding) bool { return e.Type == string(delay.Direct) || b.RoutingKey != "#" }
	if e.Name == "" || CanBeEntry(e) && slices.ContainsFunc(o.bindings(name), chooses) {
		return ""
	}
	for _, b := range o.bindings(name) {
		if _, isHop := delay.ParseHop(b.RoutingKey); isHop || b.DestinationType != topology.ToExchange {
			continue
		}
		if _, err := o.cascade(b.Destination); err == nil {
			return b.Destination
		}
	}
	return ""
}

// entryNear is the entry of the cascade that an exchange is a level of or, if it shows nothing, would be by its name.
// It is empty if there is none.
func (o *objects) entryNear(name string) string {
	if hops, _ := o.hops(name); len(hops) > 0 {
		return o.entryAbove(name)
	}
	for _, like := range unitLayouts(name) {
		for level := like.Levels - 2; level >= 0; level-- {
			if entry := o.entryAbove(like.Exchange(level)); entry != "" {
				return entry
			}
		}
	}
	for level := delay.MaxLevels - 1; level > 0; level-- {
		formats := exchangeFormats(name, level)
		for lower := level - 1; lower >= 0; lower-- {
			for _, format := range formats {
				if entry := o.entryAbove(format.Name(lower)); entry != "" {
					return entry
				}
			}
		}
	}
	return ""
}

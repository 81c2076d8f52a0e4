package recognize

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Onward follows messages behind exchanges. It asks for each object once.
type Onward struct{ objects *objects }

// NewOnward reads by a Lookup.
func NewOnward(ctx context.Context, look Lookup) *Onward { return &Onward{newObjects(ctx, look, "")} }

// Way is what becomes of messages behind an exchange. It is empty if a queue takes some of them.
type Way struct {
	// Ends are the exchanges where they get no further.
	Ends []End
	// Unknown is an exchange on their way that nobody can follow, and Why says so. Then there are no Ends.
	Unknown, Why string
}

// End is an exchange where messages get no further. Keys are those that it has bindings for, sorted.
type End struct {
	Exchange string
	Keys     []string
}

// mostKeys is how many keys are named.
const mostKeys = 5

// String is what the exchange does instead, in words.
func (e End) String() string {
	if len(e.Keys) == 0 {
		return topology.ExchangeObject(e.Exchange) + " has no binding"
	}
	keys := plaintext.Texts(e.Keys[:min(len(e.Keys), mostKeys)], strconv.Quote)
	if more := len(e.Keys) - mostKeys; more > 0 {
		keys = append(keys, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("%s is bound for %s", topology.ExchangeObject(e.Exchange), strings.Join(keys, ", "))
}

// mostExchanges is how many exchanges are followed.
const mostExchanges = 50

// Follow follows messages with such keys from an exchange, up to a queue that takes one of them. A binding may take a
// part of the keys: that they get no further is said only where no key does.
func (o *Onward) Follow(exchange string, keys topology.TopicKey) (Way, error) {
	var way Way
	reached := []string{exchange}
	for i := 0; i < len(reached); i++ { // it grows
		arrives, next, why := o.next(reached[i], keys)
		switch {
		case arrives:
			return Way{}, o.objects.failure
		case i == mostExchanges:
			return Way{Unknown: exchange, Why: "it leads to too many exchanges"}, o.objects.failure
		case why != "":
			way.Unknown, way.Why = reached[i], why
		case len(next) == 0:
			way.Ends = append(way.Ends, o.end(reached[i]))
		}
		for _, name := range next {
			if !slices.Contains(reached, name) {
				reached = append(reached, name)
			}
		}
	}
	switch {
	case way.Unknown != "":
		way.Ends = nil
	case len(way.Ends) == 0: // they go in circles
		way.Ends = []End{o.end(exchange)}
	}
	return way, o.objects.failure
}

// next tells whether an exchange leads messages with such keys into a queue, and else to which exchanges. Why says that
// nobody can tell.
func (o *Onward) next(exchange string, keys topology.TopicKey) (arrives bool, exchanges []string, why string) {
	e := o.objects.exchange(exchange)
	takesAll := false
	for _, b := range o.objects.bindings(exchange) {
		pattern := topology.ParseTopicKey(b.RoutingKey)
		switch {
		case e.Type == "topic" && !pattern.Meets(keys), e.Type == "direct" && !keys.Matches(pattern):
			continue
		case e.Type != "topic" && e.Type != "direct" && e.Type != "fanout":
			return false, nil, "it is of type " + e.Type
		case b.DestinationType == topology.ToQueue:
			return true, nil, ""
		}
		takesAll = takesAll || e.Type == "fanout" || pattern.Matches(keys) && !slices.Contains(keys, "#")
		exchanges = append(exchanges, b.Destination)
	}
	if takesAll || e.Name == "" {
		return false, exchanges, ""
	}
	policies := o.objects.policies()
	if policies == nil && e.AlternateExchange() == "" {
		return false, exchanges, "the policies cannot be read, and one may name an alternate exchange"
	}
	return false, append(exchanges, policies.Alternates(e)...), ""
}

// end is an exchange where messages get no further.
func (o *Onward) end(exchange string) End {
	end := End{Exchange: exchange}
	for _, b := range o.objects.bindings(exchange) {
		end.Keys = append(end.Keys, b.RoutingKey)
	}
	slices.Sort(end.Keys)
	end.Keys = slices.Compact(end.Keys)
	return end
}

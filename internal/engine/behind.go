package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/drain"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/health"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/policy"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Observation is a topology as it is, with what changes the fate of its messages there and behind it.
type Observation struct {
	*rabbit.State
	Findings []health.Finding
	// Delivers are the bindings of the delivery exchange.
	Delivers []topology.Binding
	// Overdue are the messages that queues keep after their time.
	Overdue map[string]drain.OverdueMessages
}

// Observe reads a topology, and looks behind its delivery exchange. It makes one request for the bindings there, and
// one for each queue that they lead to. For each exchange on the way from there it makes two. See [drain.Overdue] for
// queues with overdue messages.
func Observe(ctx context.Context, vhost *rabbit.Vhost, wanted topology.Topology) (o Observation, err error) {
	if o.State, err = vhost.ReadExisting(ctx, wanted); err != nil {
		return o, err
	}
	o.Findings = Findings(vhost.Name(), wanted, o.State)
	if o.Overdue, err = drain.Overdue(ctx, vhost, o.State); err != nil {
		return o, err
	}
	var behind []health.Finding
	if wanted.Delivery == "" {
		behind, err = receiver(ctx, vhost, wanted, o.State)
	} else if o.DeliveryExists {
		if o.Delivers, _, err = vhost.BindingsThere(ctx, wanted.Delivery); err == nil {
			behind, err = o.behind(ctx, vhost, wanted)
		}
	}
	if err != nil {
		return o, err
	}
	o.Findings = slices.Concat(o.Findings, behind, o.overdue(wanted, behind))
	return o, nil
}

// overdue are the findings of queues that keep messages after their time.
func (o Observation) overdue(wanted topology.Topology, behind []health.Finding) (found []health.Finding) {
	for _, name := range slices.Sorted(maps.Keys(o.Overdue)) {
		kept := o.Overdue[name]
		found = append(found, health.Overdue(name, kept.Messages, kept.Since, o.why(o.Queues[name], wanted, behind)))
	}
	return found
}

// why says what may keep overdue messages in a queue.
func (o Observation) why(q topology.Queue, wanted topology.Topology, behind []health.Finding) string {
	cause := func(f health.Finding) string { return f.Object + ": " + f.Cause }
	next := q.DeadLetterExchange()
	delivery := topology.ExchangeObject(wanted.Delivery)
	switch {
	case next != wanted.Delivery && !o.Has(next):
		return topology.ExchangeObject(next) + " is missing"
	case wanted.Delivery != "" && !o.DeliveryExists:
		return delivery + " is missing"
	case len(behind) > mostCauses:
		return plaintext.Join(behind[:mostCauses], "; ", cause) + "; and more of these findings"
	case len(behind) > 0:
		return plaintext.Join(behind, "; ", cause)
	case wanted.Delivery != "" && o.DeliveryAlternate == "":
		return delivery + " may have no binding for their address, and it has no alternate exchange"
	}
	return "the cause may be gone by now"
}

// mostCauses is how many causes a finding of overdue messages names.
const mostCauses = 3

// mostBehind is how many queues, and how many bindings to exchanges, are looked at behind a delivery exchange.
const mostBehind = 100

// behind are the findings behind the delivery exchange.
func (o Observation) behind(
	ctx context.Context, vhost *rabbit.Vhost, wanted topology.Topology,
) ([]health.Finding, error) {
	queues, exchanges := map[string]bool{}, []topology.Binding{}
	delivers := topology.NewBindings(o.Delivers...)
	for _, b := range delivers.Sorted() {
		if b.DestinationType == topology.ToQueue && len(queues) < mostBehind {
			queues[b.Destination] = true
		} else if b.DestinationType == topology.ToExchange && len(exchanges) < mostBehind {
			exchanges = append(exchanges, b)
		}
	}
	receivers, err := vhost.Receivers(ctx, slices.Sorted(maps.Keys(queues)), o.AllPolicies)
	if err != nil {
		return nil, err
	}
	found := health.Receivers(receivers.Queues, receivers.Status)
	onward := recognize.NewOnward(ctx, knownVhost{vhost, o.AllPolicies.Users, delivers})
	follow := func(object string, keys topology.TopicKey) {
		if err == nil {
			var way recognize.Way
			way, err = onward.Follow(wanted.Delivery, keys)
			found = append(found, nowhere(object, way)...)
		}
	}
	if key := fixedKey(wanted); key != "" {
		follow(topology.ExchangeObject(wanted.Delivery), topology.ParseTopicKey(key))
		return found, err
	}
	for _, b := range exchanges {
		follow(topology.BindingObject(b), keysThrough(b))
	}
	return found, err
}

// receiver are the findings of the queue to which the default exchange takes all messages.
func receiver(
	ctx context.Context, vhost *rabbit.Vhost, wanted topology.Topology, state *rabbit.State,
) ([]health.Finding, error) {
	name := fixedKey(wanted)
	there, err := vhost.Receivers(ctx, []string{name}, state.AllPolicies)
	if err != nil {
		return nil, err
	}
	if _, exists := there.Queues[name]; exists {
		return health.Receivers(there.Queues, there.Status), nil
	}
	return []health.Finding{health.NoReceiver(name)}, nil
}

// fixedKey is the key with which all messages leave, empty if they keep their own.
func fixedKey(t topology.Topology) string {
	for _, q := range t.Queues {
		if key := q.Arguments.Text("x-dead-letter-routing-key"); key != "" {
			return key
		}
	}
	return ""
}

// keysThrough are the keys of the messages that a binding of a delivery exchange takes.
func keysThrough(b topology.Binding) topology.TopicKey {
	if d, ok := delay.ParseDestinationKey(b.RoutingKey); ok {
		return d.Keys()
	}
	return topology.ParseTopicKey(b.RoutingKey)
}

// nowhere is the finding of a binding or exchange whose messages get to no queue.
func nowhere(object string, way recognize.Way) []health.Finding {
	if len(way.Ends) == 0 {
		return nil
	}
	return []health.Finding{health.Nowhere(object, plaintext.Join(way.Ends, ", and ", recognize.End.String))}
}

// knownVhost is a vhost of which something is known already, or supposed.
type knownVhost struct {
	Reader
	policies policy.Policies
	// delivers are bindings of one exchange, all that it has.
	delivers topology.Bindings
}

func (k knownVhost) Policies(context.Context) (policy.Policies, error) { return k.policies, nil }

func (k knownVhost) BindingsFrom(ctx context.Context, exchange string) ([]topology.Binding, error) {
	if known := k.delivers.Where(func(b topology.Binding) bool { return b.Source == exchange }); len(known) > 0 {
		return known, nil
	}
	return k.Reader.BindingsFrom(ctx, exchange)
}

// LookBeyond says what would keep the messages of a destination from arriving, as things are. The destination need not
// be there yet. Bound are the bindings of its delivery exchange. Behind a queue or exchange that does not exist there
// is nothing to say.
func LookBeyond(
	ctx context.Context, vhost Reader, b topology.Binding, bound []topology.Binding,
) (problems []Problem, err error) {
	policies, err := vhost.DeclaredPolicies(ctx)
	if err != nil {
		return nil, err
	}
	note := func(found []health.Finding) {
		if len(found) > 0 {
			problems = append(problems, Problem{Other, &BehindError{b, found}})
		}
	}
	if b.DestinationType == topology.ToQueue {
		there, err := vhost.Receivers(ctx, []string{b.Destination}, policies)
		if err != nil {
			return nil, err
		}
		if limit := health.Refuses(there.Queues[b.Destination], there.Status[b.Destination]); limit != "" {
			problems = append(problems, Problem{Other, &LimitError{b.Destination, limit}})
		}
		note(health.Receivers(there.Queues, there.Status))
		return problems, nil
	}
	if _, exists, err := vhost.Exchange(ctx, b.Destination); err != nil || !exists {
		return nil, err
	}
	bindings := topology.NewBindings(append(bound, b)...)
	way, err := recognize.NewOnward(ctx, knownVhost{vhost, policies.Users, bindings}).Follow(b.Source, keysThrough(b))
	note(nowhere(topology.BindingObject(b), way))
	if way.Unknown != "" {
		why := fmt.Sprintf("%s: %s", topology.ExchangeObject(way.Unknown), way.Why)
		problems = append(problems, Problem{Other, &NotFollowedError{why}})
	}
	return problems, err
}

// LimitError is for a queue that is a destination, and what makes it refuse messages.
type LimitError struct{ Queue, Limit string }

func (e *LimitError) Error() string { return fmt.Sprintf("queue %q is limited: %s", e.Queue, e.Limit) }

// BehindError is for a destination whose messages do not arrive, as things are.
type BehindError struct {
	Binding  topology.Binding
	Findings []health.Finding
}

func (e *BehindError) Error() string { return e.Binding.Describe() + ": messages do not arrive" }

// NotFollowedError is for a destination of which nobody can tell whether a queue gets its messages.
type NotFollowedError struct{ Why string }

func (e *NotFollowedError) Error() string { return e.Why }

package rabbit

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Permissions are what a user may do in a vhost. A name has to match the expression, and nil is for one that Go cannot
// read.
type Permissions struct {
	User                   string
	Configure, Write, Read *regexp.Regexp
}

// Permissions are those of the provider's user, nil if nobody tells. RabbitMQ tells administrators alone (3.10.8,
// 4.3.6), and it has no list for a user whom something else than its own database lets in. An administrator can look
// into a vhost without any permission there. That is an error.
func (v *Vhost) Permissions(ctx context.Context) (*Permissions, error) {
	if !slices.Contains(v.tags(ctx), "administrator") {
		return nil, nil
	}
	all, err := v.client.management(v.client.http.Call(ctx)).ListPermissionsOf(v.client.username)
	if err != nil {
		return nil, nil //nolint:nilerr // nobody tells
	}
	for _, in := range all {
		if in.Vhost == v.name {
			return &Permissions{v.client.username, expression(in.Configure), expression(in.Write),
				expression(in.Read)}, nil
		}
	}
	return nil, &Error{Forbidden, v.looking(), fmt.Sprintf("user %q has no permissions there", v.client.username),
		vhostHint}
}

// Lacking are the permissions, in words, that the user has not and that it takes to declare a topology. RabbitMQ checks
// topic permissions besides these.
func (has Permissions) Lacking(t topology.Topology) []string {
	lacks := map[string]bool{}
	need := func(permission string, allowed *regexp.Regexp, kind topology.DestinationType, name string) {
		if allowed != nil && !allowed.MatchString(name) {
			lacks[fmt.Sprintf("%s on %s %q", permission, kind, name)] = true
		}
	}
	declare := func(kind topology.DestinationType, name, next string) {
		need("configure", has.Configure, kind, name)
		if next != "" {
			need("read", has.Read, kind, name)
			need("write", has.Write, topology.ToExchange, next)
		}
	}
	for name, e := range t.Exchanges {
		declare(topology.ToExchange, name, e.AlternateExchange())
	}
	for name, q := range t.Queues {
		declare(topology.ToQueue, name, nextOf(q))
	}
	if t.Entry != "" { // the owner's mark is a binding to itself
		need("read", has.Read, topology.ToExchange, t.Entry)
		need("write", has.Write, topology.ToExchange, t.Entry)
	}
	for b := range t.Bindings {
		need("read", has.Read, topology.ToExchange, b.Source)
		need("write", has.Write, b.DestinationType, b.Destination)
	}
	return slices.Sorted(maps.Keys(lacks))
}

// expression reads one that RabbitMQ has. An empty one matches no name.
func expression(text string) *regexp.Regexp {
	if text == "" {
		text = "^$"
	}
	read, _ := regexp.Compile(text) // Erlang knows more than Go
	return read
}

// tags are those of the user, none if nobody tells. A client asks until it is told.
func (v *Vhost) tags(ctx context.Context) []string {
	if known := v.client.tags.Load(); known != nil {
		return *known
	}
	var who struct {
		// Tags are a text before 3.9.
		Tags loose[[]string] `json:"tags"`
	}
	if err := v.get(ctx, &who, "", "whoami"); err != nil {
		return nil
	}
	v.client.tags.Store(&who.Tags.value)
	return who.Tags.value
}

// nextOf is the exchange that takes the expired messages, by the name that permissions have for it.
func nextOf(q topology.Queue) string {
	if q.DeadLetterQueue() != "" {
		return "amq.default"
	}
	return q.DeadLetterExchange()
}

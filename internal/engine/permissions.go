package engine

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// previewPermissions says which permissions it takes to make all of a topology that the user has not. RabbitMQ tells
// administrators alone. Others learn it when they write.
func previewPermissions(ctx context.Context, vhost *rabbit.Vhost, t topology.Topology) (refusal, err error) {
	has, err := vhost.Permissions(ctx)
	if err != nil || has == nil {
		return nil, err
	}
	if lacks := lacking(*has, t); len(lacks) > 0 {
		return &PermissionsError{has.User, lacks}, nil
	}
	return nil, nil
}

// lacking are the permissions that are missing, in words. RabbitMQ checks topic permissions besides these.
func lacking(has rabbit.Permissions, t topology.Topology) []string {
	lacks := map[string]bool{}
	need := func(permission string, has *regexp.Regexp, kind topology.DestinationType, name string) {
		if has != nil && !has.MatchString(name) {
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
		declare(topology.ToQueue, name, q.DeadLetterExchange())
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

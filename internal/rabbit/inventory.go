package rabbit

import (
	"context"
	"fmt"
	"maps"
	"slices"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	"golang.org/x/sync/errgroup"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/policy"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Inventory reads all objects of the vhost, to find out which cascades and ladders they make. Where no exchange is
// worth it, it leaves out queues and bindings. It makes one request for the exchanges. If any of them is worth it, it
// makes one each for all queues, all bindings and all policies, however many there are.
func (v *Vhost) Inventory(ctx context.Context, worth func(topology.Exchange) bool) (topology.Topology, error) {
	v = &Vhost{client: v.client, name: v.name, isListed: true}
	there := topology.New()
	var err error
	there.Exchanges, err = v.Exchanges(ctx)
	if err != nil || !slices.ContainsFunc(slices.Collect(maps.Values(there.Exchanges)), worth) {
		return there, err
	}
	var queues []queueInfo
	var bindings []rabbithole.BindingInfo
	group, together := errgroup.WithContext(ctx)
	group.Go(func() error {
		return v.list(together, &queues, "queues", "name,durable,auto_delete,exclusive,arguments")
	})
	var policies policy.Policies
	group.Go(func() (err error) {
		policies, err = v.Policies(together)
		return err
	})
	group.Go(func() error {
		return v.list(together, &bindings, "bindings", "source,routing_key,destination,destination_type,arguments")
	})
	if err := group.Wait(); err != nil {
		return there, err
	}
	for _, q := range queues {
		there.Queues[q.Name] = q.queue()
	}
	for _, p := range policies {
		there.Policies[p.Name] = p.Policy
	}
	others, _ := apart(bindings)
	for _, b := range others {
		if b.Source != "" { // which all queues are bound to
			there.Bindings.Add(b)
		}
	}
	return there, nil
}

// list reads all objects of a kind. RabbitMQ counts no messages for it, which would take longer than all the rest.
func (v *Vhost) list(ctx context.Context, result any, kind, columns string) error {
	if err := v.get(ctx, result, "?disable_stats=true&columns="+columns, kind, v.name); err != nil {
		return v.client.failed(fmt.Sprintf("list the %s of vhost %q", kind, v.name), err)
	}
	return nil
}

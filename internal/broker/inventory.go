package broker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	"golang.org/x/sync/errgroup"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/policy"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Vhosts are the names of the vhosts that the user is told of, sorted. A user with the tag monitoring is told of all of
// them, those included that the user may not look into.
func (c *Client) Vhosts(ctx context.Context) ([]string, error) {
	call := c.newCall(c.logging(ctx))
	call.patient = true // for a broker that is starting
	var vhosts []struct{ Name string }
	_, err := c.request(call, http.MethodGet, "vhosts?columns=name", nil, &vhosts)
	if isNotFound(err) || err == nil && vhosts == nil {
		err = &notManagement{"/api/vhosts", errors.Join(errors.New("it is no list of vhosts"), err)}
	}
	if err != nil {
		return nil, c.failed("list the vhosts", err)
	}
	names := make([]string, len(vhosts))
	for i, v := range vhosts {
		names[i] = v.Name
	}
	slices.Sort(names)
	return names, nil
}

// Inventory reads all objects of the vhost, to find out which cascades and ladders they make. Where no exchange is
// worth it, it leaves out queues and bindings. It makes one request for the exchanges. If any of them is worth it, it
// makes one each for all queues, all bindings and all policies, however many there are.
func (c *Client) Inventory(
	ctx context.Context, vhost string, worth func(topology.Exchange) bool,
) (topology.Topology, error) {
	ctx = c.logging(ctx)
	return repeat(ctx, c, func() (topology.Topology, error) { return c.everything(ctx, vhost, worth) },
		func(err error) bool { return errors.Is(err, errStarting) })
}

func (c *Client) everything(
	ctx context.Context, vhost string, worth func(topology.Exchange) bool,
) (topology.Topology, error) {
	there := topology.New()
	exchanges, err := c.exchanges(ctx, vhost)
	if err != nil {
		return there, err
	}
	goOn := false
	for _, e := range exchanges {
		there.Exchanges[e.Name] = e.exchange()
		goOn = goOn || worth(there.Exchanges[e.Name])
	}
	if !goOn {
		return there, nil
	}
	var queues []queueInfo
	var bindings []rabbithole.BindingInfo
	group, together := errgroup.WithContext(ctx)
	group.Go(func() error { return c.list(together, &queues, "queues", vhost, inventoryQueueColumns) })
	var policies policy.Policies
	group.Go(func() (err error) {
		policies, err = c.policyList(together, vhost, "policies")
		return err
	})
	group.Go(func() error { return c.list(together, &bindings, "bindings", vhost, inventoryBindingColumns) })
	if err := group.Wait(); err != nil {
		return there, err
	}
	for _, q := range queues {
		there.Queues[q.Name] = q.queue()
	}
	for _, p := range policies {
		there.Policies[p.Name] = p.Policy
	}
	for _, b := range bindings {
		if b.Source != "" { // which all queues are bound to
			there.Bindings.Add(binding(b))
		}
	}
	return there, nil
}

const (
	inventoryQueueColumns   = "name,durable,auto_delete,exclusive,arguments"
	inventoryBindingColumns = "source,routing_key,destination,destination_type,arguments"
)

// list reads all objects of a kind. RabbitMQ counts no messages for it, which would take longer than all the rest.
func (c *Client) list(ctx context.Context, result any, kind, vhost, columns string) error {
	err := c.get(ctx, result, "?disable_stats=true&columns="+columns, kind, vhost)
	if isNotFound(err) {
		if gone := c.confirm(ctx, vhost); gone != nil {
			return gone
		}
	}
	if err != nil {
		return c.failed(fmt.Sprintf("list the %s of vhost %q", kind, vhost), err)
	}
	return nil
}

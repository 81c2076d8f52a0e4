package broker

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	"golang.org/x/sync/errgroup"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/health"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/policy"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// State is what a broker has of a topology.
type State struct {
	topology.Topology
	// Status is by the queue's name.
	Status map[string]health.QueueStatus
	// DeliveryExists and DeliveryExchange tell of the delivery exchange, owned or not.
	DeliveryExists   bool
	DeliveryExchange topology.Exchange
	// DeliveryPolicy is the policy of a delivery exchange. DeliveryAlternate is the exchange that takes what no binding
	// there takes, by argument or by policy. It is empty, too, if the policies cannot be read.
	DeliveryPolicy, DeliveryAlternate string
	// AllPolicies are those of the vhost.
	AllPolicies policy.Declared
}

// Read finds out which objects of the topology the broker has, and nothing else. It reads exchanges, queues and
// policies as they are, and all bindings of the exchanges that the topology owns. It makes one request for all
// exchanges, and one for each queue and each owned exchange that exists. It makes two for all policies. Other objects
// of the vhost cost nothing. The list of exchanges shows that the vhost is there to answer.
func (c *Client) Read(ctx context.Context, vhost string, want topology.Topology) (*State, error) {
	ctx = c.logging(ctx)
	return again(ctx, c, func() (*State, error) { return c.read(ctx, vhost, want, false) })
}

// ReadExisting is a Read of objects that are probably there. It asks for bindings before it has seen which exchanges
// exist. If a queue is missing, it asks once more whether the broker still answers. With a Read in its place, a create
// and a destroy of 28 levels take 1.5 times as long.
func (c *Client) ReadExisting(ctx context.Context, vhost string, want topology.Topology) (*State, error) {
	ctx = c.logging(ctx)
	return again(ctx, c, func() (*State, error) { return c.read(ctx, vhost, want, true) })
}

func (c *Client) read(ctx context.Context, vhost string, want topology.Topology, likely bool) (*State, error) {
	state := &State{Topology: topology.New(), Status: map[string]health.QueueStatus{}}
	state.Entry, state.Delivery = want.Entry, want.Delivery
	early, stop := context.WithCancel(ctx)
	defer stop()
	r := &reading{Client: c, vhost: vhost, State: state, sources: map[string]bool{}}
	r.Group, r.together = errgroup.WithContext(early)
	owned := slices.DeleteFunc(slices.Sorted(maps.Keys(want.Exchanges)),
		func(name string) bool { return !want.Owns(name) })
	if likely {
		r.bindingsOf(owned)
	}
	r.queues(slices.Sorted(maps.Keys(want.Queues)))
	r.policies()
	// What keeps these from being read concerns all: so that is the error, whatever else fails.
	if err := c.readExchanges(ctx, vhost, want, state); err != nil {
		stop()
		_ = r.Wait()
		return nil, err
	}
	if likely {
		if err := r.Wait(); err != nil {
			return nil, err
		}
		r.Group, r.together = errgroup.WithContext(early)
	}
	r.bindingsOf(slices.DeleteFunc(owned, func(name string) bool { return !state.Has(name) || r.sources[name] }))
	if err := r.Wait(); err != nil {
		return nil, err
	}
	maps.DeleteFunc(state.Bindings, func(b topology.Binding, _ struct{}) bool { // of what went away meanwhile
		return !state.Has(b.Source)
	})
	state.apply()
	if err := state.pick(want, vhost); err != nil {
		return nil, err
	}
	if likely && len(state.Queues) < len(want.Queues) {
		return state, c.confirmMissing(ctx, vhost, want, state)
	}
	return state, nil
}

// reading is a state that is being read, by many requests at the same time.
type reading struct {
	*Client
	vhost string
	*errgroup.Group
	together context.Context
	mutex    sync.Mutex
	*State
	sources map[string]bool // the exchanges whose bindings were found
}

func (r *reading) bindingsOf(exchanges []string) {
	for _, exchange := range exchanges {
		r.Go(func() error {
			bindings, err := r.bindingsFrom(r.together, r.vhost, exchange)
			r.mutex.Lock()
			defer r.mutex.Unlock()
			for _, b := range bindings {
				r.Bindings.Add(b)
				r.sources[exchange] = true
			}
			return err
		})
	}
}

func (r *reading) queues(names []string) {
	for _, name := range names {
		r.Go(func() error {
			q, exists, err := r.queue(r.together, r.vhost, name)
			if err != nil || !exists {
				return err
			}
			r.mutex.Lock()
			defer r.mutex.Unlock()
			r.Queues[name], r.Status[name] = q.queue(), q.status()
			return nil
		})
	}
}

func (r *reading) policies() {
	r.Go(func() (err error) {
		r.AllPolicies, err = r.Client.policies(r.together, r.vhost)
		return err
	})
}

// pick takes from all policies those that are wanted, which has to be possible.
func (s *State) pick(want topology.Topology, vhost string) error {
	if len(want.Policies) > 0 && s.AllPolicies.Users == nil {
		return &Error{Forbidden, fmt.Sprintf("list the policies of vhost %q", vhost), "they cannot be read",
			"a user with the tag management can read /api/policies; a gateway before it has to pass it on"}
	}
	for name := range want.Policies {
		if p := s.AllPolicies.Users.Named(name); p.Name != "" {
			s.Policies[name] = p.Policy
		}
	}
	return nil
}

// apply finds out what the policies do to the queues and to a delivery exchange.
func (s *State) apply() {
	for name, status := range s.Status {
		status.Applied = s.AllPolicies.Applied(s.Queues[name], status.Applied)
		s.Status[name] = status
	}
	s.DeliveryAlternate = cmp.Or(s.DeliveryExchange.AlternateExchange(),
		s.AllPolicies.Users.Named(s.DeliveryPolicy).Definition.Text("alternate-exchange"))
}

// confirmMissing makes sure that the queues are missing which were not found. They are asked for once more, because the
// broker may have started just before it was asked for the vhost.
func (c *Client) confirmMissing(ctx context.Context, vhost string, want topology.Topology, state *State) error {
	if err := c.confirm(ctx, vhost); err != nil {
		return err
	}
	missing := slices.DeleteFunc(slices.Sorted(maps.Keys(want.Queues)), func(name string) bool {
		_, found := state.Queues[name]
		return found
	})
	_, err := each(ctx, missing, func(ctx context.Context, name string) (bool, error) {
		_, exists, err := c.queue(ctx, vhost, name)
		if err == nil && exists {
			err = errStarting
		}
		return exists, err
	})
	return err
}

// each asks for all at the same time, and begins with them in their order.
func each[Q, A any](ctx context.Context, all []Q, ask func(context.Context, Q) (A, error)) ([]A, error) {
	answers := make([]A, len(all))
	group, ctx := errgroup.WithContext(ctx)
	for i, one := range all {
		group.Go(func() (err error) {
			answers[i], err = ask(ctx, one)
			return err
		})
	}
	return answers, group.Wait()
}

func (c *Client) readExchanges(ctx context.Context, vhost string, want topology.Topology, state *State) error {
	exchanges, err := c.exchanges(ctx, vhost)
	if err != nil {
		return err
	}
	for _, e := range exchanges {
		if _, wanted := want.Exchanges[e.Name]; wanted {
			state.Exchanges[e.Name] = e.exchange()
		}
		if e.Name == want.Delivery && e.Name != "" {
			state.DeliveryExists, state.DeliveryExchange = true, e.exchange()
			state.DeliveryType = e.Type
			state.DeliveryPolicy = e.Policy.value
		}
	}
	return nil
}

// exchanges are all exchanges of the vhost.
func (c *Client) exchanges(ctx context.Context, vhost string) ([]exchangeInfo, error) {
	var exchanges []exchangeInfo
	err := c.orOnceMore(ctx, vhost, func() error {
		return c.get(ctx, &exchanges, exchangeQuery, "exchanges", vhost)
	})
	if err == nil && !slices.ContainsFunc(exchanges, func(e exchangeInfo) bool { return e.Name == everywhere }) {
		if err := c.confirm(ctx, vhost); err != nil { // it is being deleted
			return nil, err
		}
		err = &notManagement{"a list of exchanges", fmt.Errorf("%s is not in it", everywhere)}
	}
	if isNotFound(err) {
		err = &notManagement{"a list of exchanges", fmt.Errorf("it is not found, although the vhost is there: %w", err)}
	}
	if err != nil {
		return nil, c.failed(fmt.Sprintf("list the exchanges of vhost %q", vhost), err)
	}
	return exchanges, nil
}

// Inbound are the bindings that lead to the exchanges and queues, but for those of the default
// exchange.
func (c *Client) Inbound(ctx context.Context, vhost string, exchanges, queues []string) (topology.Bindings, error) {
	ctx = c.logging(ctx)
	return again(ctx, c, func() (topology.Bindings, error) { return c.inbound(ctx, vhost, exchanges, queues) })
}

func (c *Client) inbound(ctx context.Context, vhost string, exchanges, queues []string) (topology.Bindings, error) {
	type destination struct {
		kind topology.DestinationType
		name string
	}
	var destinations []destination
	for _, name := range exchanges {
		destinations = append(destinations, destination{topology.ToExchange, name})
	}
	for _, name := range queues {
		destinations = append(destinations, destination{topology.ToQueue, name})
	}
	found, err := each(ctx, destinations, func(ctx context.Context, d destination) ([]topology.Binding, error) {
		return c.bindingsInto(ctx, vhost, d.kind, d.name)
	})
	if err != nil {
		return nil, err
	}
	result := topology.Bindings{}
	for _, b := range slices.Concat(found...) {
		if b.Source != "" {
			result.Add(b)
		}
	}
	return result, nil
}

func (c *Client) bindingsInto(
	ctx context.Context, vhost string, kind topology.DestinationType, name string,
) ([]topology.Binding, error) {
	return c.bindings(ctx, vhost, fmt.Sprintf("read the bindings to %s %q in vhost %q", kind, name, vhost), name,
		func(b topology.Binding) string { return b.Destination },
		func(m *rabbithole.Client) ([]rabbithole.BindingInfo, error) {
			if kind == topology.ToQueue {
				return m.ListQueueBindings(vhost, name)
			}
			return m.ListExchangeBindingsWithDestination(vhost, name)
		})
}

func (c *Client) exchange(ctx context.Context, vhost, name string) (e exchangeInfo, exists bool, err error) {
	err = c.get(ctx, &e, exchangeQuery, "exchanges", vhost, name)
	exists, err = c.answered(topology.ToExchange, vhost, name, e.Name, err)
	return e, exists, err
}

func (c *Client) queue(ctx context.Context, vhost, name string) (q queueInfo, exists bool, err error) {
	return c.queueBy(ctx, queueQuery, vhost, name)
}

func (c *Client) queueBy(ctx context.Context, query, vhost, name string) (q queueInfo, exists bool, err error) {
	err = c.get(ctx, &q, query, "queues", vhost, name)
	exists, err = c.answered(topology.ToQueue, vhost, name, q.Name, err)
	return q, exists, err
}

// answered tells whether the exchange or queue exists that was asked for, and makes sure that the answer is about it.
func (c *Client) answered(kind topology.DestinationType, vhost, asked, answered string, err error) (bool, error) {
	if isNotFound(err) {
		return false, nil
	}
	if err == nil {
		err = about(asked, answered)
	}
	if err != nil {
		return false, c.failed(fmt.Sprintf("read %s %q in vhost %q", kind, asked, vhost), err)
	}
	return true, nil
}

// Queue is a queue and what RabbitMQ says of it, and whether it exists. It takes two requests more than Lookup does,
// for the policies.
func (c *Client) Queue(
	ctx context.Context, vhost, name string,
) (queue topology.Queue, status health.QueueStatus, exists bool, err error) {
	ctx = c.logging(ctx)
	q, exists, err := c.Lookup(vhost).queue(ctx, name)
	if err != nil || !exists {
		return topology.Queue{}, status, false, err
	}
	declared, err := c.policies(ctx, vhost)
	queue, status = q.queue(), q.status()
	status.Applied = declared.Applied(queue, status.Applied)
	return queue, status, true, err
}

// about makes sure that an answer is about the object in the question.
func about(asked, answered string) error {
	if asked == answered {
		return nil
	}
	return &notManagement{fmt.Sprintf("the request for %q", asked), fmt.Errorf("it is about %q", answered)}
}

// bindingsFrom are the bindings of an exchange, none if it does not exist.
func (c *Client) bindingsFrom(ctx context.Context, vhost, exchange string) ([]topology.Binding, error) {
	return c.bindings(ctx, vhost, fmt.Sprintf("read the bindings of exchange %q in vhost %q", exchange, vhost),
		exchange, func(b topology.Binding) string { return b.Source },
		func(m *rabbithole.Client) ([]rabbithole.BindingInfo, error) {
			return m.ListExchangeBindingsWithSource(vhost, exchange)
		})
}

// orOnceMore asks once more for a missing object, if the vhost is there: the broker may have started meanwhile.
func (c *Client) orOnceMore(ctx context.Context, vhost string, ask func() error) error {
	err := ask()
	if isNotFound(err) {
		if err = c.confirm(ctx, vhost); err == nil {
			err = ask()
		}
	}
	return err
}

// bindings are those of one object, at one of its ends, and none if the object does not exist.
func (c *Client) bindings(
	ctx context.Context, vhost, op, object string, end func(topology.Binding) string,
	list func(*rabbithole.Client) ([]rabbithole.BindingInfo, error),
) ([]topology.Binding, error) {
	var found []rabbithole.BindingInfo
	err := c.orOnceMore(ctx, vhost, func() (err error) {
		found, err = listed(list(c.management(c.newCall(ctx))))
		return err
	})
	bindings := make([]topology.Binding, len(found))
	for i, b := range found {
		bindings[i] = binding(b)
		if err == nil {
			err = about(object, end(bindings[i]))
		}
	}
	if err != nil && !isNotFound(err) {
		return nil, c.failed(op, err)
	}
	return bindings, nil
}

// Lookup reads single objects of one vhost.
type Lookup struct {
	client *Client
	vhost  string
}

// Lookup reads single objects of the vhost.
func (c *Client) Lookup(vhost string) *Lookup { return &Lookup{client: c, vhost: vhost} }

// Exchange is an exchange, and whether it exists.
func (l *Lookup) Exchange(ctx context.Context, name string) (topology.Exchange, bool, error) {
	e, exists, err := find(ctx, l, name, l.client.exchange)
	return e.exchange(), exists, err
}

// Queue is a queue, and whether it exists.
func (l *Lookup) Queue(ctx context.Context, name string) (topology.Queue, bool, error) {
	q, exists, err := l.queue(ctx, name)
	return q.queue(), exists, err
}

func (l *Lookup) queue(ctx context.Context, name string) (queueInfo, bool, error) {
	return find(ctx, l, name, l.client.queue)
}

// BindingsFrom are the bindings whose source is the exchange.
func (l *Lookup) BindingsFrom(ctx context.Context, exchange string) ([]topology.Binding, error) {
	ctx = l.client.logging(ctx)
	return again(ctx, l.client, func() ([]topology.Binding, error) {
		bindings, err := l.client.bindingsFrom(ctx, l.vhost, exchange)
		if err == nil && len(bindings) == 0 {
			err = l.client.confirm(ctx, l.vhost)
		}
		return bindings, err
	})
}

// Policies are those of users, none if they cannot be read.
func (l *Lookup) Policies(ctx context.Context) ([]topology.Policy, error) {
	ctx = l.client.logging(ctx)
	list, err := again(ctx, l.client, func() (policy.Policies, error) {
		return l.client.policyList(ctx, l.vhost, "policies")
	})
	return list.Plain(), err
}

// find reads an object. One that does not exist is confirmed to be missing.
func find[T any](
	ctx context.Context, l *Lookup, name string, read func(context.Context, string, string) (T, bool, error),
) (info T, exists bool, err error) {
	ctx = l.client.logging(ctx)
	info, err = again(ctx, l.client, func() (found T, err error) {
		if found, exists, err = read(ctx, l.vhost, name); err == nil && !exists {
			err = l.client.confirm(ctx, l.vhost)
		}
		return found, err
	})
	return info, exists && err == nil, err
}

package rabbit

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	"golang.org/x/sync/errgroup"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/health"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/policy"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit/transport"
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
// of the vhost cost nothing. The list of exchanges comes first, and shows that the vhost is there to answer.
func (v *Vhost) Read(ctx context.Context, want topology.Topology) (*State, error) {
	r := v.reading(ctx, want)
	if err := v.readExchanges(ctx, want, r.state); err != nil {
		return nil, err
	}
	r.queue = v.queueThere
	r.queues(slices.Sorted(maps.Keys(want.Queues)))
	r.policies()
	r.bindingsOf(slices.DeleteFunc(want.Owned(want.Exchanges), func(name string) bool { return !r.state.Has(name) }))
	return r.result(want)
}

// ReadExisting is a Read of objects that are probably there. It asks for all at the same time, and once more for those
// that are missing. With a Read in its place, a create and a destroy of 28 levels take 1.5 times as long.
func (v *Vhost) ReadExisting(ctx context.Context, want topology.Topology) (*State, error) {
	early, stop := context.WithCancel(ctx)
	defer stop()
	r := v.reading(early, want)
	r.bindingsOf(want.Owned(want.Exchanges))
	r.queues(slices.Sorted(maps.Keys(want.Queues)))
	r.policies()
	// What keeps these from being read concerns all: so that is the error, whatever else fails.
	if err := v.readExchanges(ctx, want, r.state); err != nil {
		stop()
		_ = r.group.Wait()
		return nil, err
	}
	if err := r.group.Wait(); err != nil {
		return nil, err
	}
	// The bindings of an exchange that is there may have been missing before.
	r.group, r.together = errgroup.WithContext(early)
	sources := map[string]bool{}
	for b := range r.state.Bindings {
		sources[b.Source] = true
	}
	r.bindingsOf(slices.DeleteFunc(want.Owned(want.Exchanges),
		func(name string) bool { return !r.state.Has(name) || sources[name] }))
	return r.result(want)
}

// reading is a state that is being read, by many requests at the same time.
type reading struct {
	vhost    *Vhost
	group    *errgroup.Group
	together context.Context
	// queue reads one queue.
	queue func(ctx context.Context, name string) (q queueInfo, exists bool, err error)

	mutex sync.Mutex
	state *State
}

func (v *Vhost) reading(ctx context.Context, want topology.Topology) *reading {
	r := &reading{vhost: v, queue: v.queue,
		state: &State{Topology: topology.New(), Status: map[string]health.QueueStatus{}}}
	r.state.Entry, r.state.Delivery = want.Entry, want.Delivery
	r.group, r.together = errgroup.WithContext(ctx)
	return r
}

func (r *reading) bindingsOf(exchanges []string) {
	for _, exchange := range exchanges {
		r.group.Go(func() error {
			bindings, marks, err := r.vhost.BindingsThere(r.together, exchange)
			r.mutex.Lock()
			defer r.mutex.Unlock()
			maps.Copy(r.state.Bindings, topology.NewBindings(bindings...))
			if exchange == r.state.Entry {
				r.state.Owners = topology.NewBindings(marks...)
			}
			return err
		})
	}
}

func (r *reading) queues(names []string) {
	for _, name := range names {
		r.group.Go(func() error {
			q, exists, err := r.queue(r.together, name)
			if err != nil || !exists {
				return err
			}
			r.mutex.Lock()
			defer r.mutex.Unlock()
			r.state.Queues[name], r.state.Status[name] = q.queue(), q.status()
			return nil
		})
	}
}

func (r *reading) policies() {
	r.group.Go(func() (err error) {
		r.state.AllPolicies, err = r.vhost.DeclaredPolicies(r.together)
		return err
	})
}

// result waits for all answers.
func (r *reading) result(want topology.Topology) (*State, error) {
	if err := r.group.Wait(); err != nil {
		return nil, err
	}
	r.state.Unbind(func(b topology.Binding) bool { return !r.state.Has(b.Source) }) // of what went away meanwhile
	r.state.apply()
	if err := r.state.pick(want, r.vhost.name); err != nil {
		return nil, err
	}
	return r.state, nil
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

func (v *Vhost) readExchanges(ctx context.Context, want topology.Topology, state *State) error {
	exchanges, err := v.exchanges(ctx)
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

// Exchanges are all exchanges of the vhost, by their names.
func (v *Vhost) Exchanges(ctx context.Context) (map[string]topology.Exchange, error) {
	list, err := v.exchanges(ctx)
	exchanges := map[string]topology.Exchange{}
	for _, e := range list {
		exchanges[e.Name] = e.exchange()
	}
	return exchanges, err
}

// exchanges are all exchanges of the vhost.
func (v *Vhost) exchanges(ctx context.Context) ([]exchangeInfo, error) {
	var exchanges []exchangeInfo
	err := v.get(ctx, &exchanges, exchangeQuery, "exchanges", v.name)
	if err == nil && !slices.ContainsFunc(exchanges, func(e exchangeInfo) bool { return e.Name == everywhere }) {
		if _, err := v.Confirm(ctx); err != nil { // it is being deleted
			return nil, err
		}
		err = transport.Unlike("a list of exchanges", fmt.Errorf("%s is not in it", everywhere))
	}
	if transport.IsNotFound(err) {
		err = transport.Unlike("a list of exchanges",
			fmt.Errorf("it is not found, although the vhost is there: %w", err))
	}
	if err != nil {
		return nil, v.client.failed(fmt.Sprintf("list the exchanges of vhost %q", v.name), err)
	}
	return exchanges, nil
}

// Inbound are the bindings that lead to the exchanges and queues, but for those of the default
// exchange.
func (v *Vhost) Inbound(ctx context.Context, exchanges, queues []string) (topology.Bindings, error) {
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
	found, err := AskAll(ctx, destinations, func(ctx context.Context, d destination) ([]topology.Binding, error) {
		op := fmt.Sprintf("read the bindings to %s %q in vhost %q", d.kind, d.name, v.name)
		into, _, err := v.bindings(ctx, op, d.name, func(b topology.Binding) string { return b.Destination },
			func(m *rabbithole.Client) ([]rabbithole.BindingInfo, error) {
				if d.kind == topology.ToQueue {
					return m.ListQueueBindings(v.name, d.name)
				}
				return m.ListExchangeBindingsWithDestination(v.name, d.name)
			})
		return into, err
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

func (v *Vhost) queue(ctx context.Context, name string) (queueInfo, bool, error) {
	return v.queueBy(ctx, queueQuery, name)
}

func (v *Vhost) queueBy(ctx context.Context, query, name string) (q queueInfo, exists bool, err error) {
	err = v.get(ctx, &q, query, "queues", v.name, name)
	exists, err = v.answered(topology.ToQueue, name, q.Name, err)
	return q, exists, err
}

// queueThere is queue where the vhost has just been there.
func (v *Vhost) queueThere(ctx context.Context, name string) (q queueInfo, exists bool, err error) {
	err = v.askThere(ctx, func(call *transport.Call) error {
		_, err := call.Do(http.MethodGet, transport.Path("queues", v.name, name)+queueQuery, nil, &q)
		return err
	})
	exists, err = v.answered(topology.ToQueue, name, q.Name, err)
	return q, exists, err
}

// answered tells whether the exchange or queue exists that was asked for, and makes sure that the answer is about it.
func (v *Vhost) answered(kind topology.DestinationType, asked, answered string, err error) (bool, error) {
	if transport.IsNotFound(err) {
		return false, nil
	}
	if err == nil {
		err = about(asked, answered)
	}
	if err != nil {
		return false, v.client.failed(fmt.Sprintf("read %s %q in vhost %q", kind, asked, v.name), err)
	}
	return true, nil
}

// QueueStatus is a queue and what RabbitMQ says of it, and whether it exists. It takes two requests more than Queue,
// for the policies.
func (v *Vhost) QueueStatus(
	ctx context.Context, name string,
) (queue topology.Queue, status health.QueueStatus, exists bool, err error) {
	q, exists, err := v.queue(ctx, name)
	if err != nil || !exists {
		return topology.Queue{}, status, false, err
	}
	declared, err := v.DeclaredPolicies(ctx)
	queue, status = q.queue(), q.status()
	status.Applied = declared.Applied(queue, status.Applied)
	return queue, status, true, err
}

// Receivers are queues that take messages, and what RabbitMQ says of them, as it is now. Policies are those of the
// vhost.
func (v *Vhost) Receivers(ctx context.Context, names []string, policies policy.Declared) (*State, error) {
	r := v.reading(ctx, topology.New())
	r.queue = v.receiver
	r.state.AllPolicies = policies
	r.queues(names)
	err := r.group.Wait()
	r.state.apply()
	return r.state, err
}

// receiver is a queue as it is now. RabbitMQ 3.10 does not say how much it holds, but with the statistics.
func (v *Vhost) receiver(ctx context.Context, name string) (queueInfo, bool, error) {
	q, exists, err := v.queueBy(ctx, receiverQuery, name)
	if exists && q.Messages.value == nil {
		return v.queue(ctx, name)
	}
	return q, exists, err
}

// Receiver is a queue, as far as that says whether it takes messages, and whether somebody serves it.
func (v *Vhost) Receiver(ctx context.Context, name string) (queue topology.Queue, isServed bool, err error) {
	q, exists, err := v.queueBy(ctx, receiverQuery, name)
	isServed = exists && slices.Contains([]string{"classic", "quorum", "stream"}, q.Type.value) && q.status().IsServed()
	return q.queue(), isServed, err
}

// BindingsThere are the bindings of an exchange and, apart from these, the owner's marks on it. There are none if it
// does not exist. The vhost has just been there.
func (v *Vhost) BindingsThere(ctx context.Context, exchange string) (bindings, marks []topology.Binding, err error) {
	return v.bindings(ctx, fmt.Sprintf("read the bindings of exchange %q in vhost %q", exchange, v.name),
		exchange, func(b topology.Binding) string { return b.Source },
		func(m *rabbithole.Client) ([]rabbithole.BindingInfo, error) {
			return m.ListExchangeBindingsWithSource(v.name, exchange)
		})
}

// bindings are those of one object, at one of its ends, and none if the object does not exist. Owner's marks are apart.
func (v *Vhost) bindings(ctx context.Context, op, object string, end func(topology.Binding) string,
	list func(*rabbithole.Client) ([]rabbithole.BindingInfo, error),
) (bindings, marks []topology.Binding, err error) {
	var found []rabbithole.BindingInfo
	err = v.ask(ctx, func(call *transport.Call) (err error) {
		found, err = listed(list(v.client.management(call)))
		return err
	})
	bindings, marks = apart(found)
	for _, b := range slices.Concat(bindings, marks) {
		if err == nil {
			err = about(object, end(b))
		}
	}
	if err != nil && !transport.IsNotFound(err) {
		return nil, nil, v.client.failed(op, err)
	}
	return bindings, marks, nil
}

// Exchange is an exchange, and whether it exists.
func (v *Vhost) Exchange(ctx context.Context, name string) (topology.Exchange, bool, error) {
	var e exchangeInfo
	err := v.get(ctx, &e, exchangeQuery, "exchanges", v.name, name)
	exists, err := v.answered(topology.ToExchange, name, e.Name, err)
	return e.exchange(), exists, err
}

// Queue is a queue, and whether it exists.
func (v *Vhost) Queue(ctx context.Context, name string) (topology.Queue, bool, error) {
	q, exists, err := v.queue(ctx, name)
	return q.queue(), exists, err
}

// HasDestination tells whether the queue or exchange exists that a binding leads to.
func (v *Vhost) HasDestination(ctx context.Context, b topology.Binding) (exists bool, err error) {
	if b.DestinationType == topology.ToQueue {
		_, exists, err = v.Queue(ctx, b.Destination)
	} else {
		_, exists, err = v.Exchange(ctx, b.Destination)
	}
	return exists, err
}

// BindingsFrom are the bindings whose source is the exchange.
func (v *Vhost) BindingsFrom(ctx context.Context, exchange string) ([]topology.Binding, error) {
	bindings, _, err := v.BindingsThere(ctx, exchange)
	if err != nil || len(bindings) > 0 {
		return bindings, err
	}
	starts, err := v.Confirm(ctx)
	if err == nil && starts {
		bindings, _, err = v.BindingsThere(ctx, exchange)
	}
	return bindings, err
}

// Owners are the owner's marks on an entry, none if it does not exist.
func (v *Vhost) Owners(ctx context.Context, entry string) ([]topology.Binding, error) {
	_, marks, err := v.BindingsThere(ctx, entry)
	return marks, err
}

// Policies are those of users, nil if they cannot be read.
func (v *Vhost) Policies(ctx context.Context) (policy.Policies, error) {
	return v.policies(ctx, "policies")
}

// VerifyAlone fails if an exchange has other bindings than this one.
func (v *Vhost) VerifyAlone(ctx context.Context, op string, b topology.Binding) error {
	bindings, err := v.BindingsFrom(ctx, b.Source)
	switch {
	case err != nil:
		return err
	case len(bindings) == 0:
		return &Error{NotFound, v.inVhost(op), "another application has removed it just now", ""}
	case len(bindings) > 1 || bindings[0] != b:
		return v.exists(op)
	}
	return nil
}

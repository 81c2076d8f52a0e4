package drain

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/policy"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// readSurroundings reads what decides how the queues have to be counted. Overdue are those that may keep a message
// after its time.
func readSurroundings(
	ctx context.Context, vhost *rabbit.Vhost, queues []topology.Queue,
) (s Surroundings, overdue map[string]bool, err error) {
	s, err = exchangesAndPolicies(ctx, vhost, queues)
	for err == nil {
		var unknown Unknown
		if overdue, unknown = s.MayKeepOverdue(queues); len(unknown.Exchanges)+len(unknown.Receivers) == 0 {
			break
		}
		err = s.read(ctx, vhost, unknown)
	}
	return s, overdue, err
}

// exchangesAndPolicies leaves out the exchanges where no queue waits for another one to confirm what it dead-letters.
func exchangesAndPolicies(ctx context.Context, vhost *rabbit.Vhost, queues []topology.Queue) (Surroundings, error) {
	s := Surroundings{Exchanges: map[string]topology.Exchange{}, Bindings: map[string][]topology.Binding{},
		Receivers: map[string]Receiver{}}
	group, ctx := errgroup.WithContext(ctx)
	if slices.ContainsFunc(queues, isQuorum) {
		group.Go(func() (err error) {
			s.Exchanges, err = vhost.Exchanges(ctx)
			return err
		})
	}
	group.Go(func() error {
		declared, err := vhost.DeclaredPolicies(ctx)
		s.Policies = slices.Concat(declared.Users, declared.Operators)
		if !declared.AreRead() {
			s.Policies = policy.Unreadable
		}
		return err
	})
	return s, group.Wait()
}

// read adds the unknown bindings and receivers.
func (s Surroundings) read(ctx context.Context, vhost *rabbit.Vhost, unknown Unknown) error {
	bindings, err := rabbit.AskAll(ctx, unknown.Exchanges, vhost.BindingsFrom)
	if err != nil {
		return err
	}
	for i, name := range unknown.Exchanges {
		s.Bindings[name] = bindings[i]
	}
	receivers, err := rabbit.AskAll(ctx, unknown.Receivers, func(ctx context.Context, name string) (Receiver, error) {
		queue, isServed, err := vhost.Receiver(ctx, name)
		return Receiver{Queue: queue, IsServed: isServed}, err
	})
	for i, name := range unknown.Receivers {
		s.Receivers[name] = receivers[i]
	}
	return err
}

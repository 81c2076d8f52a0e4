package broker

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/emptiness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/policy"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// surroundings reads what decides how the queues have to be counted. Overdue are those that may keep a message after
// its time.
func (v *vhostAPI) surroundings(
	ctx context.Context, queues []topology.Queue,
) (s emptiness.Surroundings, overdue map[string]bool, err error) {
	s, err = v.exchangesAndPolicies(ctx, queues)
	for err == nil {
		var unknown emptiness.Unknown
		if overdue, unknown = s.MayKeepOverdue(queues); len(unknown.Exchanges)+len(unknown.Receivers) == 0 {
			break
		}
		err = v.readUnknown(ctx, s, unknown)
	}
	return s, overdue, err
}

// exchangesAndPolicies leaves out the exchanges where no queue waits for another one to confirm what it dead-letters.
func (v *vhostAPI) exchangesAndPolicies(
	ctx context.Context, queues []topology.Queue,
) (emptiness.Surroundings, error) {
	s := emptiness.Surroundings{
		Exchanges: map[string]topology.Exchange{}, Bindings: map[string][]topology.Binding{},
		Receivers: map[string]emptiness.Receiver{},
	}
	group, ctx := errgroup.WithContext(ctx)
	if slices.ContainsFunc(queues, isQuorum) {
		group.Go(func() error {
			list, err := v.exchanges(ctx, v.vhost)
			for _, e := range list {
				s.Exchanges[e.Name] = e.exchange()
			}
			return err
		})
	}
	group.Go(func() error {
		declared, err := v.policies(ctx, v.vhost)
		s.Policies = slices.Concat(declared.Users, declared.Operators)
		if !declared.AreRead() {
			s.Policies = policy.Unreadable
		}
		return err
	})
	return s, group.Wait()
}

func isQuorum(q topology.Queue) bool { return q.Type() == "quorum" }

func (v *vhostAPI) readUnknown(ctx context.Context, s emptiness.Surroundings, unknown emptiness.Unknown) error {
	bindings, err := each(ctx, unknown.Exchanges, func(ctx context.Context, name string) ([]topology.Binding, error) {
		return v.bindingsFrom(ctx, v.vhost, name)
	})
	if err != nil {
		return err
	}
	for i, name := range unknown.Exchanges {
		s.Bindings[name] = bindings[i]
	}
	receivers, err := each(ctx, unknown.Receivers, v.receiver)
	for i, name := range unknown.Receivers {
		s.Receivers[name] = receivers[i]
	}
	return err
}

// receiver reads what says whether a queue takes messages.
func (v *vhostAPI) receiver(ctx context.Context, name string) (emptiness.Receiver, error) {
	q, exists, err := v.queueBy(ctx, receiverQuery, v.vhost, name)
	// "live" is what 3.10 calls "running".
	isServed := exists && slices.Contains([]string{"classic", "quorum", "stream"}, q.Type.value) &&
		slices.Contains([]string{"running", "live", "idle", "flow"}, q.State.value) &&
		(len(q.Members.value) == 0 || 2*len(q.Online.value) > len(q.Members.value))
	return emptiness.Receiver{Queue: q.queue(), IsServed: isServed}, err
}

// receiverQuery leaves out the statistics, which are old and of a new queue missing.
const receiverQuery = "?disable_stats=true&columns=name,type,arguments,state,members,online"

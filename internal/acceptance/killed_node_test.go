package acceptance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// TestKilledNode kills the broker's node right after each apply that declares quorum queues, with a signal that nothing
// can catch. The messages that it has confirmed until then are there when it is back. They wait long enough to be on
// their way when the node is killed.
func TestKilledNode(t *testing.T) {
	t.Parallel()
	// A message that is due while the node starts may find no way, and is offered again after that time.
	b := brokertest.Own(t, brokertest.WithSetting("dead_letter_worker_publisher_confirm_timeout", 10_000))
	v := harness.NewVhostNamed(t, b, "killed")
	v.DeclareExchange("end", "topic")
	v.DeclareQueue("receiver", nil)
	v.Bind("end", "#", "queue", "receiver")
	with := func(further harness.Attributes) harness.Attributes {
		return harness.Attributes{"vhost": v.Name, "delivery_exchange": "end",
			"create_delivery_exchange": false}.With(further)
	}
	waiting := func() (tfprotov6.ProviderServer, error) { return provider.NewServer("test"), nil } // as users have it
	cascade := harness.NewServerFrom(t, harness.CascadeType, waiting).On(b, nil)
	inSteps := func(of string) {
		cascade.MustApply(with(harness.Attributes{"name": "t", "levels": 3, "resolution": of}))
	}
	ladder := harness.NewServerFrom(t, harness.LadderType, waiting).On(b, nil)
	ofDelays := func(delays ...string) {
		ladder.MustApply(with(harness.Attributes{"name": "l", "delays": harness.TextList(delays...)}))
	}
	const unroutable = "unroutable"
	for _, is := range []struct {
		what        string
		apply       func()
		name, entry string
		keys        []string // of the messages
	}{
		{"create", func() { inSteps("3s") }, "t", "t.delay-02", []string{"1.0.0.a", "0.1.0.a", "0.0.1.a", unroutable}},
		{"repair", func() {
			v.Do(plan.DeleteQueue{Queue: topology.Queue{Name: "t.delay-01"}})
			inSteps("3s")
		}, "t", "t.delay-02", []string{"0.1.0.a"}},
		{"repair beside deletions", func() {
			v.Do(plan.DeleteQueue{Queue: topology.Queue{Name: "t.delay-01"}})
			defer deletesQueues(v)()
			inSteps("3s")
		}, "t", "t.delay-02", []string{"0.1.0.a"}},
		{"rebuild", func() { inSteps("2s") }, "t", "t.delay-02", []string{"1.0.0.a", "0.1.0.a", "0.0.1.a"}},
		{"create of a ladder", func() { ofDelays("4s", "8s") }, "l", "l.entry", []string{"4s.a", "8s.a", unroutable}},
		{"further delay", func() { ofDelays("4s", "6s", "8s") }, "l", "l.entry", []string{"6s.a"}},
	} {
		is.apply()
		const messages = 20
		parked := 0
		for i := range messages {
			key := is.keys[i%len(is.keys)]
			if v.Publish(is.entry, key, fmt.Sprintf("%s: %d to %s", is.what, i, key)); key == unroutable {
				parked++
			}
		}
		if err := b.Crash(t.Context()); err != nil {
			t.Fatal(err)
		}
		v = harness.OpenVhost(t, b, v.Name)
		found := map[string]bool{}
		for _, a := range slices.Concat(come(v, "receiver", messages-parked), come(v, is.name+".unroutable", parked)) {
			if strings.HasPrefix(string(a.Body), is.what+":") {
				found[string(a.Body)] = true
			}
		}
		if len(found) != messages {
			there, err := b.CLI(t.Context(), "rabbitmqctl", "list_queues", "-p", v.Name,
				"name", "state", "messages_ready", "messages_unacknowledged")
			t.Errorf("%s: after a kill, %d of %d confirmed messages come: %q; %v\n%s", is.what, len(found), messages,
				slices.Sorted(maps.Keys(found)), err, there)
		}
	}
}

// deletesQueues deletes quorum queues, one after the other, until the test stops it. RabbitMQ then takes its longest
// time to have a new one on disk.
func deletesQueues(v *harness.Vhost) (stop func()) {
	v.T.Helper()
	names := make([]string, 80)
	for i := range names {
		names[i] = fmt.Sprintf("other-%d", i)
		v.DeclareQueue(names[i], map[string]any{"x-queue-type": "quorum"})
	}
	stopped, done := make(chan bool), make(chan error, 1)
	channel, err := v.Conn.Channel()
	if err != nil {
		v.T.Fatal(err)
	}
	go func() {
		for _, name := range names {
			select {
			case <-stopped:
				done <- nil
				return
			case <-time.After(200 * time.Millisecond):
			}
			if _, err := channel.QueueDelete(name, false, false, false); err != nil {
				done <- err
				return
			}
		}
		done <- errors.New("there is nothing left to delete")
	}()
	return func() {
		close(stopped)
		if err := <-done; err != nil {
			v.T.Error(err)
		}
	}
}

// come takes the messages of a queue until there are so many, or none comes for long.
func come(v *harness.Vhost, queue string, n int) []brokertest.Arrival {
	v.T.Helper()
	conn, err := v.Broker.Dial(v.Name)
	if err != nil {
		v.T.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	c, err := brokertest.Collect(conn, queue)
	if err != nil {
		v.T.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(v.T.Context(), harness.Patience)
	defer cancel()
	arrivals, _ := c.Wait(ctx, n) // the caller counts
	return arrivals
}

package acceptance

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/errgroup"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider"
)

// TestClusterNewQueues kills all three nodes at once, right after the apply of the default cascade with balanced
// leaders. Whatever was confirmed until then arrives once they are back, so each member of each queue was on disk.
func TestClusterNewQueues(t *testing.T) {
	cluster := startCluster(t, brokertest.ClusterImages(t)[0])
	b := cluster.Members[0].Broker
	v := &harness.Vhost{T: t, Broker: b, Name: "/", API: harness.Management(t, b)}
	v.DeclareExchange("end", "topic")
	v.DeclareQueue("receiver", map[string]any{"x-queue-type": "quorum"})
	v.Bind("end", "#", "queue", "receiver")
	// As users have it: with the wait before the entry opens.
	waiting := func() (tfprotov6.ProviderServer, error) { return provider.NewServer("test"), nil }
	began := time.Now()
	harness.NewServerFrom(t, harness.CascadeType, waiting).On(b, nil).MustApply(harness.Attributes{"name": "t",
		"delivery_exchange": "end", "create_delivery_exchange": false, "queue_leader_locator": "balanced"})
	t.Logf("the cascade was applied in %s", time.Since(began).Round(time.Millisecond))

	connection, err := b.Dial("/")
	if err != nil {
		t.Fatal(err)
	}
	publisher, err := brokertest.NewPublisher(connection)
	if err != nil {
		t.Fatal(err)
	}
	const messages = 60
	for i := range messages { // to as many queues
		key := fmt.Sprintf("0.0.0.%d.a", 30+i)
		if i >= 30 {
			key = fmt.Sprintf("0.0.1.%d.a", i-30)
		}
		if err := publisher.Publish(t.Context(), "t.d.h.m.s", key,
			amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(key)}); err != nil {
			t.Fatal(err)
		}
	}
	leaders, err := cluster.Leaders(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, kill := range cluster.Members {
		if n, all := leaders[kill.Name], 173; n < all/3-2 || n > all/3+2 { // with two queues beside the delay queues
			t.Errorf("%s leads %d of %d queues", kill.Name, n, all)
		}
	}

	killAll(t, cluster)
	if connection, err = b.Dial("/"); err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	arrivals, err := brokertest.Collect(connection, "receiver")
	if err != nil {
		t.Fatal(err)
	}
	// A message that is due while a node starts may be offered again after three minutes.
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	found := map[string]bool{}
	for n := 1; len(found) < messages; n++ {
		got, err := arrivals.Wait(ctx, n)
		if err != nil {
			t.Fatalf("%d of %d confirmed messages have arrived: %v", len(found), messages, err)
		}
		found[string(got[n-1].Body)] = true
	}
}

// killAll kills all nodes, and starts them again.
func killAll(t *testing.T, cluster *brokertest.Cluster) {
	t.Helper()
	var all errgroup.Group
	for _, m := range cluster.Members {
		all.Go(m.Kill)
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, m := range cluster.Members {
		all.Go(func() error { return m.Start(t.Context(), m.Image) })
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := cluster.WaitWhole(t.Context()); err != nil {
		t.Fatal(err)
	}
}

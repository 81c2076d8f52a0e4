package brokertest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/moby/moby/client"
	amqp "github.com/rabbitmq/amqp091-go"
)

// TestCluster kills a member, cuts one off, and looks for remains at the end.
func TestCluster(t *testing.T) {
	image := ClusterImages(t)[0]
	c, err := StartCluster(t.Context(), os.Stderr, image, 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop() }) // checked below, if the test comes so far
	label := c.label
	const vhost = "/"
	channel := openChannel(t, c.Members[1].Broker, vhost)
	queue, err := channel.QueueDeclare("q", true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
	if err != nil {
		t.Fatal(err)
	}
	send := func(m *Member) error {
		conn, err := m.Dial(vhost)
		if err != nil {
			return err
		}
		defer conn.Close()
		publisher, err := NewPublisher(conn)
		if err != nil {
			return err
		}
		return publisher.Publish(soon(t), "", queue.Name, amqp.Publishing{DeliveryMode: amqp.Persistent})
	}
	sent := func(m *Member) {
		t.Helper()
		if err := poll(soon(t), nil, func() error { return send(m) }); err != nil {
			t.Error(err)
		}
	}

	killed := c.Members[1]
	if err := killed.Kill(); err != nil {
		t.Fatal(err)
	}
	if c.Running() == killed {
		t.Error("it runs")
	}
	sent(c.Members[0])
	if err := errors.Join(killed.Start(t.Context(), image), c.WaitWhole(t.Context())); err != nil {
		t.Fatal(err)
	}
	sent(killed)

	cut := c.Members[2]
	if err := cut.Cut(t.Context()); err != nil {
		t.Fatal(err)
	}
	whole, cancel := context.WithTimeout(t.Context(), 1)
	defer cancel()
	if c.WaitWhole(whole) == nil {
		t.Error("a cluster that is cut is whole")
	}
	sent(c.Members[0])
	if err := errors.Join(cut.Heal(t.Context()), c.WaitWhole(t.Context())); err != nil {
		t.Fatal(err)
	}
	sent(cut)

	if err := errors.Join(cut.Shutdown(t.Context()), cut.Start(t.Context(), image),
		c.WaitWhole(t.Context())); err != nil {
		t.Fatal(err)
	}
	if leads, err := c.Leaders(t.Context()); err != nil || len(leads) != 1 {
		t.Errorf("leaders of one queue: %v, %v", leads, err)
	}
	collector, err := Collect(dial(t, cut.Broker, vhost), queue.Name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := collector.Wait(soon(t), 4); err != nil {
		t.Error(err)
	}

	mustStop(t, c, label)
}

// mustStop stops the cluster twice and looks for its remains.
func mustStop(t *testing.T, c *Cluster, label string) {
	t.Helper()
	if labelled(label) == nil {
		t.Error("nothing to look for after Stop")
	}
	for range 2 {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
		if left := labelled(label); left != nil {
			t.Errorf("after Stop: %v", left)
		}
	}
}

// TestClusterKilled kills a process that holds a cluster.
func TestClusterKilled(t *testing.T) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "BROKERTEST_HOLD=cluster", "BROKERTEST_IMAGE="+ClusterImages(t)[0])
	child.Stderr = os.Stderr
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var label string
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &label)
	}
	if err == nil && labelled(label) == nil {
		err = errors.New("nothing to look for once it is killed")
	}
	if err := errors.Join(err, child.Process.Kill()); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	if err := poll(soon(t), nil, func() error { return labelled(label) }); err != nil {
		t.Error(err)
	}
}

// labelled is an error that names the remains of a cluster.
func labelled(label string) error {
	ctx := context.Background()
	docker, err := dockerDaemon(ctx)
	if err != nil {
		return err
	}
	defer docker.Close()
	filters := client.Filters{}.Add("label", label)
	containers, err := docker.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filters})
	if err != nil {
		return err
	}
	volumes, err := docker.VolumeList(ctx, client.VolumeListOptions{Filters: filters})
	if err != nil {
		return err
	}
	networks, err := docker.NetworkList(ctx, client.NetworkListOptions{Filters: filters})
	if err != nil {
		return err
	}
	if c, v, n := len(containers.Items), len(volumes.Items), len(networks.Items); c+v+n > 0 {
		return fmt.Errorf("%d containers, %d volumes and %d networks are there", c, v, n)
	}
	return nil
}

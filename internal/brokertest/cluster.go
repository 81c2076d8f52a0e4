package brokertest

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"golang.org/x/sync/errgroup"
)

// A Cluster is RabbitMQ nodes in containers, one each, that form one broker. They talk to each other over a network of
// their own, so that it can be cut while clients stay connected. Each keeps its data in a volume, so that it can be
// killed, come back, and come back with another image.
type Cluster struct {
	Members []*Member

	docker  *testcontainers.DockerClient
	label   string // of all that belongs to the cluster
	network string
	cookie  string
	guard   *watchdog
}

// A Member is one node of a cluster. All members publish the same two ports, each on a loopback address of its own:
// 127.0.0.2, 127.0.0.3 … Its Broker can be used while it runs.
type Member struct {
	*Broker
	Name  string // "rabbit@rabbit-1"
	Image string

	cluster  *Cluster
	hostname string
	ports    ports
	opts     options
}

// clusterLabel marks containers, networks and volumes with the cluster that they belong to.
const clusterLabel = "rabbitmqdelay.brokertest.cluster"

// StartCluster starts a cluster of so many members from an image that is there or can be pulled. It needs a Docker
// daemon on a Linux machine, where all of 127.0.0.0/8 is loopback. A TestMain has called [Main], or a main [Guard].
func StartCluster(
	ctx context.Context, log io.Writer, image string, members int, opts ...Option,
) (_ *Cluster, err error) {
	if !guarded {
		return nil, errors.New("start a cluster: nothing has called brokertest.Main or brokertest.Guard")
	}
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	c := &Cluster{label: fmt.Sprintf("%s=%s", clusterLabel, strings.ToLower(rand.Text())), cookie: rand.Text()}
	if c.docker, err = dockerDaemon(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("start a cluster of %s: %w", image, errors.Join(err, c.Stop()))
		}
	}()
	if _, err := imageCommand(ctx, c.docker, log, image); err != nil {
		return nil, err
	}
	if c.guard, err = startGuard(c.label); err != nil {
		return nil, err
	}
	name := "brokertest-" + c.cookie
	created, err := c.docker.NetworkCreate(ctx, name, client.NetworkCreateOptions{Internal: true, Labels: c.labels()})
	if err != nil {
		return nil, err
	}
	c.network = created.ID

	addresses := make([]string, members)
	conf := []string{"cluster_formation.peer_discovery_backend = classic_config", "cluster_partition_handling = " +
		"pause_minority", "net_ticktime = 10"}
	for i := range addresses {
		addresses[i] = fmt.Sprintf("127.0.0.%d", i+2)
		conf = append(conf, fmt.Sprintf("cluster_formation.classic_config.nodes.%d = rabbit@rabbit-%d", i+1, i+1))
	}
	o.config = append(conf, o.config...)
	p, err := freePorts(addresses...)
	if err != nil {
		return nil, err
	}
	var together errgroup.Group
	for i, address := range addresses {
		hostname := fmt.Sprintf("rabbit-%d", i+1)
		m := &Member{Name: "rabbit@" + hostname, cluster: c, hostname: hostname, ports: p, opts: o}
		m.ports.address, m.opts.member = address, m
		c.Members = append(c.Members, m)
		if _, err := c.docker.VolumeCreate(ctx, client.VolumeCreateOptions{Name: m.volume(),
			Labels: c.labels()}); err != nil {
			return nil, err
		}
		together.Go(func() error { return m.Start(ctx, image) })
	}
	if err = together.Wait(); err == nil {
		err = c.WaitWhole(ctx)
	}
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(log, "broker: cluster of %d × RabbitMQ %s at %s\n", members, c.Members[0].Version,
		c.Members[0].Endpoint)
	return c, nil
}

func (c *Cluster) labels() map[string]string {
	name, value, _ := strings.Cut(c.label, "=")
	return map[string]string{name: value}
}

// Stop ends the cluster and removes all that belongs to it. A second call does nothing.
func (c *Cluster) Stop() error {
	if c.docker == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	err := sweep(ctx, c.docker, c.label)
	if c.guard != nil {
		err = errors.Join(err, c.guard.dismiss(err == nil))
	}
	err = errors.Join(err, c.docker.Close())
	c.docker = nil
	return err
}

// WaitWhole waits until every member sees all the others, and every quorum queue has all of its members online.
func (c *Cluster) WaitWhole(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	return poll(ctx, nil, func() error {
		for _, m := range c.Members {
			if err := m.seesAll(ctx); err != nil {
				return err
			}
		}
		return c.Members[0].seesWholeQueues(ctx)
	})
}

// seesAll is an error unless the member sees every member of its cluster.
func (m *Member) seesAll(ctx context.Context) error {
	var nodes []struct {
		Name    string
		Running bool
	}
	if err := m.api(ctx, http.MethodGet, "/api/nodes?columns=name,running", nil, &nodes); err != nil {
		return err
	}
	for _, n := range nodes {
		if !n.Running {
			return fmt.Errorf("%s does not see %s", m.Name, n.Name)
		}
	}
	if len(nodes) != len(m.cluster.Members) {
		return fmt.Errorf("%s sees %d nodes", m.Name, len(nodes))
	}
	return nil
}

// seesWholeQueues is an error unless every quorum queue has all of its members online.
func (m *Member) seesWholeQueues(ctx context.Context) error {
	var queues []struct {
		Name, Leader    string
		Members, Online []string
	}
	err := m.api(ctx, http.MethodGet, "/api/queues?columns=name,leader,members,online", nil, &queues)
	if err != nil {
		return err
	}
	for _, q := range queues {
		if len(q.Online) < len(q.Members) || len(q.Members) > 0 && !slices.Contains(q.Online, q.Leader) {
			return fmt.Errorf("queue %q has the members %v, the leader %q and online are %v", q.Name, q.Members,
				q.Leader, q.Online)
		}
	}
	return nil
}

// Leaders counts the quorum queues that each member leads now. The statistics would have an older leader.
func (c *Cluster) Leaders(ctx context.Context) (map[string]int, error) {
	var queues []struct{ Leader string }
	err := c.Running().api(ctx, http.MethodGet, "/api/queues?disable_stats=true&columns=leader", nil, &queues)
	leads := map[string]int{}
	for _, q := range queues {
		if q.Leader != "" {
			leads[q.Leader]++
		}
	}
	return leads, err
}

// Address is the loopback address that only this member has.
func (m *Member) Address() string { return m.ports.address }

// Running is the first member that runs, or nil.
func (c *Cluster) Running() *Member {
	for _, m := range c.Members {
		if m.Broker != nil {
			return m
		}
	}
	return nil
}

// Start starts a member that does not run, with the data that it has.
func (m *Member) Start(ctx context.Context, image string) error {
	docker, err := dockerDaemon(ctx)
	if err != nil {
		return err
	}
	command, err := imageCommand(ctx, docker, io.Discard, image)
	if err == nil {
		m.Broker, err = runContainer(ctx, docker, image, command, m.ports, m.opts)
	}
	if err != nil {
		return fmt.Errorf("start member %s with %s: %w", m.Name, image, err)
	}
	m.Image = image
	return nil
}

// Kill ends the member as a power failure would.
func (m *Member) Kill() error {
	err := m.Broker.Stop()
	m.Broker = nil
	return err
}

// Shutdown ends the member in an orderly way.
func (m *Member) Shutdown(ctx context.Context) error {
	id, err := m.container(ctx)
	if err != nil {
		return err
	}
	patience := 60
	if _, err := m.cluster.docker.ContainerStop(ctx, id, client.ContainerStopOptions{Timeout: &patience}); err != nil &&
		!errdefs.IsNotFound(err) {
		return fmt.Errorf("shut down member %s: %w", m.Name, err)
	}
	return m.Kill()
}

// Cut takes the member out of the network of the cluster. Clients still reach it.
func (m *Member) Cut(ctx context.Context) error {
	id, err := m.container(ctx)
	if err == nil {
		_, err = m.cluster.docker.NetworkDisconnect(ctx, m.cluster.network,
			client.NetworkDisconnectOptions{Container: id, Force: true})
	}
	return err
}

// Heal takes back a Cut.
func (m *Member) Heal(ctx context.Context) error {
	id, err := m.container(ctx)
	if err != nil {
		return err
	}
	return m.connect(ctx, id)
}

func (m *Member) connect(ctx context.Context, container string) error {
	_, err := m.cluster.docker.NetworkConnect(ctx, m.cluster.network, client.NetworkConnectOptions{
		Container: container, EndpointConfig: &network.EndpointSettings{Aliases: []string{m.hostname}},
	})
	return err
}

// container is the member's container.
func (m *Member) container(ctx context.Context) (string, error) {
	list, err := m.cluster.docker.ContainerList(ctx, client.ContainerListOptions{
		Filters: client.Filters{}.Add("label", m.cluster.label, memberLabel+"="+m.hostname),
	})
	if err == nil && len(list.Items) != 1 {
		err = fmt.Errorf("member %s has %d containers", m.Name, len(list.Items))
	}
	if err != nil {
		return "", err
	}
	return list.Items[0].ID, nil
}

const memberLabel = clusterLabel + ".member"

func (m *Member) volume() string { return "brokertest-" + m.cluster.cookie + "-" + m.hostname }

// adjust makes of a broker's container that of the member, and returns what the server's Erlang has to know.
func (m *Member) adjust(request *testcontainers.ContainerRequest) (erl string) {
	request.Labels = m.cluster.labels()
	request.Labels[memberLabel] = m.hostname
	cookie := "-setcookie " + m.cluster.cookie
	request.Env["RABBITMQ_CTL_ERL_ARGS"] = cookie
	config, host := request.ConfigModifier, request.HostConfigModifier
	request.ConfigModifier = func(c *container.Config) {
		config(c)
		c.Hostname = m.hostname
	}
	request.HostConfigModifier = func(c *container.HostConfig) {
		host(c)
		c.Binds = []string{m.volume() + ":/var/lib/rabbitmq"}
	}
	return cookie
}

// sweep removes containers, then volumes and networks with the label.
func sweep(ctx context.Context, docker *testcontainers.DockerClient, label string) error {
	labelled := client.Filters{}.Add("label", label)
	return poll(ctx, nil, func() error {
		if err := removeContainers(ctx, docker, labelled); err != nil {
			return err
		}
		if err := removeVolumes(ctx, docker, labelled); err != nil {
			return err
		}
		return removeNetworks(ctx, docker, labelled)
	})
}

func removeContainers(ctx context.Context, docker *testcontainers.DockerClient, labelled client.Filters) error {
	containers, err := docker.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: labelled})
	if err != nil {
		return err
	}
	for _, c := range containers.Items {
		_, err = docker.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		// The daemon's own removal may be the first.
		if err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) {
			return err
		}
	}
	return nil
}

func removeVolumes(ctx context.Context, docker *testcontainers.DockerClient, labelled client.Filters) error {
	volumes, err := docker.VolumeList(ctx, client.VolumeListOptions{Filters: labelled})
	if err != nil {
		return err
	}
	for _, v := range volumes.Items {
		if _, err := docker.VolumeRemove(ctx, v.Name, client.VolumeRemoveOptions{}); err != nil &&
			!errdefs.IsNotFound(err) {
			return err
		}
	}
	return nil
}

func removeNetworks(ctx context.Context, docker *testcontainers.DockerClient, labelled client.Filters) error {
	networks, err := docker.NetworkList(ctx, client.NetworkListOptions{Filters: labelled})
	if err != nil {
		return err
	}
	for _, n := range networks.Items {
		if _, err := docker.NetworkRemove(ctx, n.ID, client.NetworkRemoveOptions{}); err != nil &&
			!errdefs.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// The daemon removes the containers of a process that was killed, see holdScript, but neither volumes nor networks.
// So the test binary runs once more, as a watchdog that does nothing else.
const guardVariable = "BROKERTEST_GUARD"

var guarded bool

func startGuard(label string) (*watchdog, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), guardVariable+"="+label)
	// In its own group it outlives a ^C in the terminal.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	return &watchdog{cmd, pipe}, cmd.Start()
}

// guard is that watchdog.
func guard(label string) {
	if line, _ := bufio.NewReader(os.Stdin).ReadString('\n'); line != "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	docker, err := dockerDaemon(ctx)
	if err == nil {
		err = sweep(ctx, docker, label)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

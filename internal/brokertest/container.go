package brokertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	tcexec "github.com/testcontainers/testcontainers-go/exec"
	tclog "github.com/testcontainers/testcontainers-go/log"
)

// startContainer starts a broker from an image that is there or can be pulled. Another process may take
// one of the ports between their choice and their use: then others are chosen.
func startContainer(ctx context.Context, m machine, log io.Writer, image string, o options) (*Broker, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute) // most of it for a pull
	defer cancel()
	docker, err := m.docker(ctx)
	if err != nil {
		return nil, err
	}
	for range 3 {
		var b *Broker
		if b, err = tryContainer(ctx, docker, log, image, o); err == nil {
			return b, nil
		}
		if !strings.Contains(err.Error(), "port is already allocated") && !strings.Contains(err.Error(),
			"address already in use") {
			break
		}
	}
	return nil, fmt.Errorf("start a container of %s: %w", image, errors.Join(err, docker.Close()))
}

// dockerDaemon returns a client of a Docker daemon that answers.
func dockerDaemon(ctx context.Context) (_ *testcontainers.DockerClient, err error) {
	// Testcontainers panics where it finds no daemon.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("no Docker daemon: %v", r)
		}
	}()
	quiet()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second) // a daemon that is not there refuses at once
	defer cancel()
	docker, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err == nil {
		_, err = docker.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true})
	}
	if err != nil {
		return nil, fmt.Errorf("no Docker daemon answers: %w", err)
	}
	if !isHere(docker.DaemonHost()) {
		return nil, fmt.Errorf("the loopback ports of the Docker daemon %s cannot be reached from here",
			docker.DaemonHost())
	}
	return docker, nil
}

// isHere reports whether a daemon runs on this machine, as far as its address tells.
func isHere(daemon string) bool {
	u, err := url.Parse(daemon)
	if err != nil || u.Hostname() == "" || u.Hostname() == "localhost" {
		return err == nil
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return err == nil && ip.IsLoopback()
}

// quiet switches Ryuk off, the container that ends Testcontainers' others: its image is one more to pull,
// and holdScript does its work.
var quiet = sync.OnceFunc(func() {
	os.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true")
	tclog.SetDefault(tclog.NewNoopLogger())
})

func tryContainer(
	ctx context.Context, docker *testcontainers.DockerClient, log io.Writer, image string, o options,
) (*Broker, error) {
	command, err := imageCommand(ctx, docker, log, image)
	if err != nil {
		return nil, err
	}
	p, err := freePorts(loopback)
	if err != nil {
		return nil, err
	}
	return runContainer(ctx, docker, image, command, p, o)
}

// runContainer runs a broker with the image's command.
func runContainer(
	ctx context.Context, docker *testcontainers.DockerClient, image string, command []string, p ports, o options,
) (*Broker, error) {
	const dir = "/etc/rabbitmq"
	conf := o.conf(dir)
	published := publishing{"5672/tcp": p.amqp, "15672/tcp": p.management}
	if o.tls != nil {
		conf = append(conf, "listeners.ssl.default = 5671", "management.tcp.port = 15672",
			"management.ssl.port = 15671")
		published["5671/tcp"], published["15671/tcp"] = p.amqpTLS, p.managementTLS
	}
	if o.metrics {
		published["15692/tcp"] = p.metrics
	}
	files := []testcontainers.ContainerFile{
		{ContainerFilePath: dir + "/conf.d/90-brokertest.conf", FileMode: 0o644,
			Reader: strings.NewReader(strings.Join(conf, "\n") + "\n")},
	}
	for name, content := range o.files() {
		files = append(files, testcontainers.ContainerFile{ContainerFilePath: dir + "/" + name, FileMode: 0o644,
			Reader: bytes.NewReader(content)})
	}

	request := testcontainers.ContainerRequest{
		Image:      image,
		Files:      files,
		Entrypoint: []string{"/bin/sh", "-c", holdScript, "sh"},
		Cmd:        command,
		Env:        map[string]string{},
		// Without it all ports of the image would be published, and to the network.
		ExposedPorts: slices.Collect(maps.Keys(published)),
		ConfigModifier: func(c *container.Config) {
			c.OpenStdin = true
			c.StdinOnce = true
		},
		HostConfigModifier: func(c *container.HostConfig) {
			c.AutoRemove = true
			if o.inMemory {
				c.Tmpfs = map[string]string{inMemoryDir: "mode=1777"}
			}
			c.PortBindings = published.on(p.address)
			const period = 10_000 // µs; in the usual 100,000 a container would pause for long
			c.CPUPeriod, c.CPUQuota = period, int64(o.cores*period)
		},
	}
	if o.inMemory {
		request.Env["RABBITMQ_MNESIA_BASE"] = inMemoryDir
	}
	erl := o.settings
	if o.member != nil {
		erl = append(slices.Clone(erl), o.member.adjust(&request))
	}
	if len(erl) > 0 {
		request.Env["RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS"] = strings.Join(erl, " ")
	}
	created, err := testcontainers.GenericContainer(ctx,
		testcontainers.GenericContainerRequest{ContainerRequest: request})
	c := &runningContainer{docker: docker}
	if created != nil {
		c.created, c.id = created, created.GetContainerID()
	}
	b := owned("container "+image, c, p, o)
	if err == nil && o.member != nil {
		err = o.member.connect(ctx, c.id)
	}
	if err == nil {
		err = c.hold(ctx)
	}
	if err == nil {
		err = created.Start(ctx)
	}
	if err == nil {
		ready, cancel := context.WithTimeout(ctx, 5*time.Minute)
		defer cancel()
		err = b.waitReady(ready, c.ended)
	}
	if err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return b, nil
}

// holdScript runs an image's own command for as long as somebody holds the container's standard input. It ends when
// this process does, by whatever signal, and the daemon removes it then. With the file there, the command runs again
// when it has ended. The daemon's own restart of a container that it removes at its end fails now and then (Docker 28).
// Erlang allocates for as many files as it may open, and some daemons allow 2^30.
const (
	againFile  = "/tmp/again"
	holdScript = `
[ "$(ulimit -n)" -le 65536 ] 2>/dev/null || ulimit -n 65536
exec 3<&0 </dev/null
{ cat <&3 >/dev/null; rm -f ` + againFile + `; while kill -TERM 1; do sleep 1; done; } 2>/dev/null &
exec 3<&-
trap 'kill -TERM "$server" 2>/dev/null' TERM
while true; do
	"$@" &
	server=$!
	status=0
	while kill -0 "$server" 2>/dev/null; do
		wait "$server"
		status=$?
	done
	[ -e ` + againFile + ` ] || exit "$status"
	rm ` + againFile + `
done
`
)

// inMemoryDir is in no image: in the directory of an image, only root could write.
const inMemoryDir = "/brokertest"

// publishing has ports of a container, each with the port of the host that it gets; a restart does not change them.
type publishing map[string]int

func (published publishing) on(address string) network.PortMap {
	bindings := network.PortMap{}
	for inside, outside := range published {
		bindings[network.MustParsePort(inside)] = []network.PortBinding{
			{HostIP: netip.MustParseAddr(address), HostPort: strconv.Itoa(outside)},
		}
	}
	return bindings
}

// imageCommand returns what an image runs, and pulls the image if it is not there.
func imageCommand(
	ctx context.Context, docker *testcontainers.DockerClient, log io.Writer, image string,
) ([]string, error) {
	inspected, err := docker.ImageInspect(ctx, image)
	if errdefs.IsNotFound(err) {
		if err := pull(ctx, docker, log, image); err != nil {
			return nil, fmt.Errorf("pull %s: %w", image, err)
		}
		inspected, err = docker.ImageInspect(ctx, image)
	}
	if err != nil {
		return nil, err
	}
	if inspected.Config == nil {
		return nil, fmt.Errorf("image %s has no configuration", image)
	}
	return append(inspected.Config.Entrypoint, inspected.Config.Cmd...), nil
}

// pull gives up when it hears nothing for pullSilence. A registry that cannot be reached must not keep anyone from the
// next way to a broker. A slow one must not be cut off.
func pull(ctx context.Context, docker *testcontainers.DockerClient, log io.Writer, image string) error {
	fmt.Fprintf(log, "broker: pulling %s\n", image)
	silent := errors.New("the registry does not answer")
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(pullSilence, func() { cancel(silent) })
	defer silence.Stop()

	var opts client.ImagePullOptions
	if _, auth, err := testcontainers.DockerImageAuth(ctx, image); err == nil {
		if opts.RegistryAuth, err = authconfig.Encode(auth); err != nil {
			return err
		}
	}
	progress, err := docker.ImagePull(ctx, image, opts)
	if err == nil {
		defer progress.Close()
		for message, failed := range progress.JSONMessages(ctx) {
			silence.Reset(pullSilence)
			if failed != nil {
				err = failed
			} else if message.Error != nil {
				err = message.Error
			}
		}
	}
	if cause := context.Cause(ctx); errors.Is(cause, silent) {
		return silent
	}
	return err
}

const pullSilence = 10 * time.Second

type runningContainer struct {
	docker  *testcontainers.DockerClient
	created testcontainers.Container
	id      string

	mu      sync.Mutex
	stopped bool
	stdin   client.HijackedResponse
	ended   chan struct{} // closed when the container is
}

// hold attaches to the container's standard input, and waits for its end.
func (c *runningContainer) hold(ctx context.Context) error {
	attached, err := c.docker.ContainerAttach(ctx, c.id, client.ContainerAttachOptions{Stream: true, Stdin: true})
	if err != nil {
		return fmt.Errorf("attach to container %.12s: %w", c.id, err)
	}
	ended := make(chan struct{})
	exit := c.docker.ContainerWait(context.WithoutCancel(ctx), c.id,
		client.ContainerWaitOptions{Condition: container.WaitConditionNextExit})
	go func() {
		defer close(ended)
		select {
		case <-exit.Result:
		case <-exit.Error: //nolint:errcheck // the container is gone, or cannot be asked
		}
	}()
	c.stdin, c.ended = attached.HijackedResponse, ended
	return nil
}

func (c *runningContainer) stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped || c.id == "" {
		return nil
	}
	c.stopped = true
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	_, err := c.docker.ContainerRemove(ctx, c.id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if c.stdin.Conn != nil {
		c.stdin.Close()
	}
	// The daemon's own removal may be the first.
	if err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) {
		return err
	}
	err = poll(ctx, nil, func() error {
		_, err := c.docker.ContainerInspect(ctx, c.id, client.ContainerInspectOptions{})
		if err == nil {
			return fmt.Errorf("container %.12s is still there", c.id)
		}
		if errdefs.IsNotFound(err) {
			return nil
		}
		return err
	})
	return errors.Join(err, c.docker.Close())
}

func (c *runningContainer) restart() error { return c.again("kill -TERM 1") }

// crash does not need the tools of procps, which images may lack.
func (c *runningContainer) crash() error {
	return c.again(`for p in /proc/[0-9]*; do
	if [ "$(cat $p/comm 2>/dev/null)" = beam.smp ]; then kill -KILL "${p#/proc/}"; fi
done`)
}

// again has the node started again when the script has ended it.
func (c *runningContainer) again(end string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return errors.New("it is stopped")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if _, err := c.command(ctx, "sh", "-c", "touch "+againFile+" && "+end); err != nil {
		return err
	}
	return poll(ctx, c.ended, func() error {
		_, err := c.command(ctx, "test", "!", "-e", againFile)
		return err
	})
}

func (c *runningContainer) command(ctx context.Context, tool string, args ...string) ([]byte, error) {
	status, output, err := c.created.Exec(ctx, append([]string{tool}, args...), tcexec.Multiplexed())
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(output)
	if err == nil && status != 0 {
		err = fmt.Errorf("exit status %d", status)
	}
	return text, err
}

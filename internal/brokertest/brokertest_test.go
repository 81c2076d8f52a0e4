package brokertest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/testcontainers/testcontainers-go"
)

func TestMain(m *testing.M) {
	if os.Getenv("BROKERTEST_HOLD") != "" {
		hold()
	}
	Main(m)
}

// TestLife is the life of a broker of either kind that Start can start.
func TestLife(t *testing.T) {
	eachKind(t, func(t *testing.T, kind Option) {
		b := startOne(t, kind)
		t.Log(b)
		if b.Version == "" || strings.Contains(b.String(), b.Password) {
			t.Errorf("printed as %q", b)
		}
		reachableOnlyByLoopback(t, b)

		t.Run("tools", func(t *testing.T) { useTools(t, b) })
		t.Run("restart", func(t *testing.T) { keepsObjects(t, b, b.Restart) })
		t.Run("crash", func(t *testing.T) { keepsObjects(t, b, b.Crash) })

		remains := remainsOf(b)
		if remains.left() == nil {
			t.Error("nothing to look for after Stop")
		}
		for range 2 {
			if err := b.Stop(); err != nil {
				t.Error(err)
			}
			if left := remains.left(); left != nil {
				t.Errorf("after Stop: %v", left)
			}
		}
		if b.Restart(t.Context()) == nil || b.Crash(t.Context()) == nil {
			t.Error("a stopped broker restarts")
		}
	})
}

func useTools(t *testing.T, b *Broker) {
	out, err := b.CLI(t.Context(), "rabbitmqctl", "--quiet", "list_users")
	if err != nil || !strings.Contains(string(out), "guest") {
		t.Errorf("list_users: %q, %v", out, err)
	}
	if _, err := b.CLI(t.Context(), "rabbitmqctl", "authenticate_user", "nobody", "x"); err == nil ||
		!strings.Contains(err.Error(), "authenticate user") {
		t.Errorf("a tool that fails: %v", err)
	}
}

// keepsObjects makes sure that durable objects survive a restart or a crash, and connections do not.
func keepsObjects(t *testing.T, b *Broker, do func(context.Context) error) {
	vhost := Vhost(t, b)
	publishDurably(t, b, vhost, "kept")
	before := dial(t, b, vhost)
	if err := do(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !before.IsClosed() {
		t.Error("a connection has survived")
	}
	collector, err := Collect(dial(t, b, vhost), "kept")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := collector.Wait(soon(t), 1); err != nil {
		t.Error(err)
	}
}

func TestBrokersSideBySide(t *testing.T) {
	eachKind(t, func(t *testing.T, kind Option) {
		a, b := startOne(t, kind), startOne(t, kind)
		publishDurably(t, a, "/", "only in a")
		if _, err := openChannel(t, b, "/").QueueDeclarePassive("only in a", true, false, false, false,
			nil); err == nil {
			t.Error("the second broker has the first one's queue")
		}
		if err := a.Stop(); err != nil {
			t.Fatal(err)
		}
		if _, err := b.overview(t.Context()); err != nil {
			t.Errorf("with the first broker stopped: %v", err)
		}
	})
}

func TestMetrics(t *testing.T) {
	eachKind(t, func(t *testing.T, kind Option) {
		b := startOne(t, kind, WithMetrics())
		response, err := http.Get(b.MetricsEndpoint + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Errorf("metrics: %s", response.Status)
		}
	})
}

func TestTLSAndPathPrefix(t *testing.T) {
	eachKind(t, func(t *testing.T, kind Option) {
		server, config := certificates(t)
		b := startOne(t, kind, WithTLS(server), WithPathPrefix("/mgmt"), WithConfig("heartbeat = 17"))

		if !strings.HasSuffix(b.Endpoint, "/mgmt") || !strings.HasSuffix(b.TLSEndpoint, "/mgmt") {
			t.Errorf("endpoints %s and %s", b.Endpoint, b.TLSEndpoint)
		}
		conn, err := amqp.DialTLS(b.TLSAMQPURI, config)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if conn.Config.Heartbeat != 10*time.Second { // the client's own default is the smaller one
			t.Errorf("heartbeat %v", conn.Config.Heartbeat)
		}
		if plain, err := amqp.DialConfig(b.AMQPURI, amqp.Config{Heartbeat: time.Minute}); err != nil {
			t.Error(err)
		} else {
			if plain.Config.Heartbeat != 17*time.Second {
				t.Errorf("WithConfig: heartbeat %v", plain.Config.Heartbeat)
			}
			plain.Close()
		}

		https := http.Client{Transport: &http.Transport{TLSClientConfig: config}}
		defer https.CloseIdleConnections()
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, b.TLSEndpoint+"/api/overview", nil)
		request.SetBasicAuth(b.Username, b.Password)
		response, err := https.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Errorf("over TLS: %s", response.Status)
		}

		without := config.Clone()
		without.Certificates = nil
		if conn, err := amqp.DialTLS(b.TLSAMQPURI, without); err == nil {
			conn.Close()
			t.Error("a client without a certificate gets in")
		}
	})
}

// TestKilled kills a process that holds a broker, in the way that leaves it nothing to say.
func TestKilled(t *testing.T) {
	eachKind(t, func(t *testing.T, kind Option) {
		var o options
		kind(&o)
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), "BROKERTEST_HOLD=yes", "BROKERTEST_IMAGE="+o.image, "BROKERTEST_SERVER="+
			o.server)
		child.Stderr = os.Stderr
		stdout, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		var r remains
		line, err := bufio.NewReader(stdout).ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, &r)
		}
		if err == nil && r.left() == nil {
			err = errors.New("nothing to look for once it is killed")
		}
		if err := errors.Join(err, child.Process.Kill()); err != nil {
			t.Fatal(err)
		}
		_ = child.Wait()
		if err := poll(soon(t), nil, r.left); err != nil {
			t.Error(err)
		}
	})
}

// hold is the child of TestKilled and TestClusterKilled.
func hold() {
	kindOfHost := os.Getenv("BROKERTEST_HOLD")
	os.Unsetenv("BROKERTEST_HOLD") // it is not for the children
	if kindOfHost == "cluster" {
		guarded = true
		c, err := StartCluster(context.Background(), os.Stderr, os.Getenv("BROKERTEST_IMAGE"), 3)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		_ = json.NewEncoder(os.Stdout).Encode(c.label)
		time.Sleep(time.Hour)
	}
	kind := WithImage(os.Getenv("BROKERTEST_IMAGE"))
	if server := os.Getenv("BROKERTEST_SERVER"); server != "" {
		kind = WithServer(server)
	}
	b, err := Start(context.Background(), os.Stderr, kind)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = json.NewEncoder(os.Stdout).Encode(remainsOf(b))
	time.Sleep(time.Hour)
}

func TestNoBroker(t *testing.T) {
	_, err := start(t.Context(), poorMachine(t), io.Discard)
	var none *NoBrokerError
	if !errors.As(err, &none) {
		t.Fatalf("%T: %v", err, err)
	}
	for _, way := range []string{
		"RABBITMQ_ENDPOINT: not set",
		"a container of rabbitmq:4-management: no daemon here",
		"an installed rabbitmq-server: not found",
		"installing the package rabbitmq-server: only done on Debian and Ubuntu",
	} {
		if !strings.Contains(err.Error(), way) {
			t.Errorf("%q is not in: %v", way, err)
		}
	}
}

func TestNoBrokerToConfigure(t *testing.T) {
	m := poorMachine(t)
	m.getenv = environment{"RABBITMQ_ENDPOINT": "http://127.0.0.1:1"}.get
	_, err := start(t.Context(), m, io.Discard, WithPathPrefix("/mgmt"))
	if err == nil || !strings.Contains(err.Error(), "a broker that it can configure") {
		t.Error(err)
	}
}

func TestInstallation(t *testing.T) {
	const debian, fedora = "ID=debian\n", "ID=fedora\n"
	const apt = "#!/bin/sh\n" +
		`test -x "$POLICY" || exit 9` + "\n" +
		`case "$*" in *install*) mkdir -p "$SERVER_DIR" && touch "$SERVER_DIR/rabbitmq-server" ;; esac` + "\n"
	for name, c := range map[string]struct {
		release, apt string
		euid         int
		fails        string
	}{
		"Debian as root": {release: debian, apt: apt},
		"a derivative":   {release: "ID=pop\nID_LIKE=\"ubuntu debian\"\n", apt: apt},
		"not as root":    {release: debian, apt: apt, euid: 1000, fails: "only done as root"},
		"another system": {release: fedora, apt: apt, fails: "only done on Debian and Ubuntu"},
		"apt-get has no luck": {release: debian, apt: "#!/bin/sh\necho E: no mirror; exit 100\n",
			fails: "E: no mirror"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			m := poorMachine(t)
			m.euid = c.euid
			m.osRelease = filepath.Join(dir, "os-release")
			m.policyFile = filepath.Join(dir, "policy-rc.d")
			m.serverDirs = []string{filepath.Join(dir, "bin")}
			m.lookPath = func(command string) (string, error) {
				if command == "apt-get" {
					return filepath.Join(dir, command), nil
				}
				return "", exec.ErrNotFound
			}
			t.Setenv("POLICY", m.policyFile)
			t.Setenv("SERVER_DIR", m.serverDirs[0])
			write(t, m.osRelease, c.release)
			write(t, filepath.Join(dir, "apt-get"), c.apt)

			script, err := m.installServer(t.Context(), io.Discard)
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("error %v, want %q", err, c.fails)
				}
			} else if err != nil || script != filepath.Join(dir, "bin", "rabbitmq-server") {
				t.Errorf("%q, %v", script, err)
			}
			if _, err := os.Stat(m.policyFile); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the policy against services is still there: %v", err)
			}
		})
	}
}

// TestExisting leads to a broker by environment variables, as a child process of a test is led.
func TestExisting(t *testing.T) {
	b := Shared(t)
	env := environment{}
	for _, variable := range b.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		env[name] = value
	}
	m := poorMachine(t)
	m.getenv = env.get

	for _, uri := range []string{b.AMQPURI, ""} {
		env["RABBITMQ_AMQP_URI"] = uri
		found, err := start(t.Context(), m, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if found.Version != b.Version {
			t.Errorf("version %q, want %q", found.Version, b.Version)
		}
		if uri != "" || strings.HasPrefix(b.Source, "private node") {
			// A container's listener has the port inside, which need not be the one outside.
			dial(t, found, "/")
		}
		if err := found.Restart(t.Context()); !errors.Is(err, ErrUnsupported) {
			t.Errorf("restart: %v", err)
		}
		if _, err := found.CLI(t.Context(), "rabbitmqctl", "stop"); !errors.Is(err, ErrUnsupported) {
			t.Errorf("CLI: %v", err)
		}
		if err := found.Stop(); err != nil {
			t.Error(err)
		}
	}
	if _, err := b.overview(t.Context()); err != nil {
		t.Errorf("Stop stopped a broker that was there before: %v", err)
	}

	env["RABBITMQ_PASSWORD"] = "a wrong one"
	if _, err := start(t.Context(), m, io.Discard); err == nil || !strings.Contains(err.Error(), "401") ||
		strings.Contains(err.Error(), "wrong") {
		t.Errorf("with a wrong password: %v", err)
	}
}

func TestEndpointWithCredentials(t *testing.T) {
	m := poorMachine(t)
	m.getenv = environment{"RABBITMQ_ENDPOINT": "http://me:secret@127.0.0.1:15672"}.get
	if _, err := start(t.Context(), m, io.Discard); err == nil || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}

func TestVhost(t *testing.T) {
	b := Shared(t)
	var name string
	t.Run("one / of many", func(t *testing.T) {
		name = Vhost(t, b)
		if !strings.HasPrefix(name, "TestVhost-one-of-many-") {
			t.Errorf("vhost %q", name)
		}
		if other := Vhost(t, b); other == name {
			t.Errorf("twice %q", name)
		}
		dial(t, b, name)
	})
	var refused *statusError
	err := b.api(t.Context(), http.MethodGet, "/api/vhosts/"+name, nil, nil)
	if !errors.As(err, &refused) || refused.status != http.StatusNotFound {
		t.Errorf("after the test: %v", err)
	}
}

func TestMessages(t *testing.T) {
	b := Shared(t)
	vhost := Vhost(t, b)
	conn := dial(t, b, vhost)
	publisher, err := NewPublisher(conn)
	if err != nil {
		t.Fatal(err)
	}
	collector, err := CollectFrom(conn, "amq.topic", "blue.#", "red.#")
	if err != nil {
		t.Fatal(err)
	}

	for _, key := range []string{"blue.1", "red.2"} {
		if err := publisher.Publish(soon(t), "amq.topic", key, amqp.Publishing{Body: []byte(key)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := publisher.Publish(soon(t), "amq.topic", "green.3", amqp.Publishing{}); !errors.Is(err, ErrReturned) {
		t.Errorf("without a binding: %v", err)
	}
	before := time.Now()
	arrivals, err := collector.Wait(soon(t), 2)
	if err != nil {
		t.Fatal(err)
	}
	for i, key := range []string{"blue.1", "red.2"} {
		if a := arrivals[i]; string(a.Body) != key || a.At.IsZero() || a.At.After(before.Add(10*time.Second)) {
			t.Errorf("arrival %d: %q at %v", i, a.Body, a.At)
		}
	}

	full, err := openChannel(t, b, vhost).QueueDeclare("full", true, false, false, false,
		amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"})
	if err != nil {
		t.Fatal(err)
	}
	if err := publisher.Publish(soon(t), "", full.Name, amqp.Publishing{}); err != nil {
		t.Fatal(err)
	}
	if err := publisher.Publish(soon(t), "", full.Name, amqp.Publishing{}); !errors.Is(err, ErrNacked) {
		t.Errorf("to a full queue: %v", err)
	}
	if err := publisher.Publish(soon(t), "none", "key", amqp.Publishing{}); err == nil {
		t.Error("to an exchange that does not exist: no error")
	}

	conn.Close()
	if arrivals, err := collector.Wait(soon(t), 3); err == nil || len(arrivals) != 2 {
		t.Errorf("waiting for a third message: %d arrivals, %v", len(arrivals), err)
	}
}

func TestIsHere(t *testing.T) {
	for daemon, here := range map[string]bool{
		"unix:///var/run/docker.sock":    true,
		"npipe:////./pipe/docker_engine": true,
		"tcp://127.0.0.1:2375":           true,
		"tcp://[::1]:2375":               true,
		"tcp://localhost:2375":           true,
		"tcp://docker:2375":              false,
		"tcp://192.0.2.1:2376":           false,
	} {
		if isHere(daemon) != here {
			t.Errorf("%s: %t", daemon, !here)
		}
	}
}

// TestContainerEnds has a broker that ends while it starts.
func TestContainerEnds(t *testing.T) {
	docker, err := dockerDaemon(t.Context())
	if err != nil {
		t.Skip(err)
	}
	defer docker.Close()
	image := orElse(os.Getenv("RABBITMQ_IMAGE"), "rabbitmq:4-management")
	if _, err := imageCommand(t.Context(), docker, os.Stderr, image); err != nil {
		t.Skip(err)
	}
	began := time.Now()
	_, err = Start(t.Context(), io.Discard, WithImage(image), WithConfig("listeners.tcp.default = nowhere"))
	if err == nil || !strings.Contains(err.Error(), "ended while it started") {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
}

// TestPullFails has an image that no registry of this machine can have.
func TestPullFails(t *testing.T) {
	if _, err := dockerDaemon(t.Context()); err != nil {
		t.Skip(err)
	}
	const image = "127.0.0.1:1/rabbitmq:none"
	begin := time.Now()
	_, err := Start(t.Context(), io.Discard, WithImage(image))
	if err == nil || !strings.Contains(err.Error(), image) {
		t.Errorf("error %v", err)
	}
	if took := time.Since(begin); took > pullSilence+10*time.Second {
		t.Errorf("after %v", took)
	}
}

// eachKind runs a test with a private node and with containers of all images that are there.
func eachKind(t *testing.T, test func(t *testing.T, kind Option)) {
	t.Run("private node", func(t *testing.T) {
		m := thisMachine()
		server, err := m.installedServer()
		if err != nil {
			server, err = m.installServer(t.Context(), os.Stderr)
		}
		if err != nil {
			t.Skipf("rabbitmq-server is not installed and cannot be: %v", err)
		}
		test(t, WithServer(server))
	})
	t.Run("container", func(t *testing.T) {
		docker, err := dockerDaemon(t.Context())
		if err != nil {
			t.Skip(err)
		}
		defer docker.Close()
		image := orElse(os.Getenv("RABBITMQ_IMAGE"), "rabbitmq:4-management")
		if _, err := imageCommand(t.Context(), docker, os.Stderr, image); err != nil {
			t.Skip(err)
		}
		test(t, WithImage(image))
	})
}

func startOne(t *testing.T, opts ...Option) *Broker {
	t.Helper()
	b, err := Start(t.Context(), os.Stderr, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// remains are what a broker could leave behind.
type remains struct {
	Ports     []string
	Dir       string
	Group     int
	Container string
}

func remainsOf(b *Broker) remains {
	var r remains
	for _, s := range []string{b.Endpoint, b.AMQPURI} {
		u, _ := url.Parse(s)
		r.Ports = append(r.Ports, u.Host)
	}
	switch h := b.host.(type) {
	case *node:
		for _, port := range []int{h.ports.distribution, h.ports.epmd} {
			r.Ports = append(r.Ports, fmt.Sprintf("127.0.0.1:%d", port))
		}
		r.Dir, r.Group = h.dir, h.leader.Process.Pid
	case *runningContainer:
		r.Container = h.id
	}
	return r
}

// left is an error that names the remains.
func (r remains) left() error {
	var errs []error
	for _, port := range r.Ports {
		if conn, err := net.Dial("tcp", port); err == nil {
			conn.Close()
			errs = append(errs, fmt.Errorf("%s is open", port))
		}
	}
	if r.Dir != "" {
		if _, err := os.Stat(r.Dir); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("%s is there", r.Dir))
		}
	}
	if r.Group != 0 {
		if alive := livingIn(r.Group); alive != "" {
			errs = append(errs, fmt.Errorf("process group %d lives:\n%s", r.Group, alive))
		}
	}
	if r.Container != "" {
		docker, err := testcontainers.NewDockerClientWithOpts(context.Background())
		if err == nil {
			_, err = docker.ContainerInspect(context.Background(), r.Container, client.ContainerInspectOptions{})
		}
		if !errdefs.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("container %.12s is there", r.Container))
		}
	}
	return errors.Join(errs...)
}

// livingIn lists the processes of a group that are no zombies.
func livingIn(group int) string {
	if errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) {
		return ""
	}
	out, err := exec.Command("ps", "-A", "-o", "pgid=,stat=,pid=,args=").Output()
	if err != nil {
		return err.Error()
	}
	var living bytes.Buffer
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if fields[0] == fmt.Sprint(group) && !strings.HasPrefix(fields[1], "Z") {
			living.WriteString(line)
		}
	}
	return living.String()
}

func reachableOnlyByLoopback(t *testing.T, b *Broker) {
	t.Helper()
	if c, ok := b.host.(*runningContainer); ok {
		publishedByLoopback(t, c)
		return
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		network, ok := a.(*net.IPNet)
		if !ok || network.IP.IsLoopback() || network.IP.To4() == nil {
			continue
		}
		for _, hostport := range remainsOf(b).Ports {
			_, port, _ := net.SplitHostPort(hostport)
			outside := net.JoinHostPort(network.IP.String(), port)
			if conn, err := net.DialTimeout("tcp", outside, time.Second); err == nil {
				conn.Close()
				t.Errorf("%s is open to the network", outside)
			}
		}
	}
}

func publishedByLoopback(t *testing.T, c *runningContainer) {
	t.Helper()
	inspected, err := c.created.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for inside, bindings := range inspected.NetworkSettings.Ports {
		for _, published := range bindings {
			if !published.HostIP.IsLoopback() {
				t.Errorf("port %s is published on %s", inside, published.HostIP)
			}
		}
	}
}

func publishDurably(t *testing.T, b *Broker, vhost, queue string) {
	t.Helper()
	if _, err := openChannel(t, b, vhost).QueueDeclare(queue, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	publisher, err := NewPublisher(dial(t, b, vhost))
	if err != nil {
		t.Fatal(err)
	}
	if err := publisher.Publish(soon(t), "", queue, amqp.Publishing{DeliveryMode: amqp.Persistent}); err != nil {
		t.Fatal(err)
	}
}

func openChannel(t *testing.T, b *Broker, vhost string) *amqp.Channel {
	t.Helper()
	channel, err := dial(t, b, vhost).Channel()
	if err != nil {
		t.Fatal(err)
	}
	return channel
}

func dial(t *testing.T, b *Broker, vhost string) *amqp.Connection {
	t.Helper()
	conn, err := b.Dial(vhost)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// poorMachine has no way to a broker.
func poorMachine(t *testing.T) machine {
	empty := t.TempDir()
	return machine{
		getenv:   environment{}.get,
		lookPath: func(string) (string, error) { return "", exec.ErrNotFound },
		docker: func(context.Context) (*testcontainers.DockerClient, error) {
			return nil, errors.New("no daemon here")
		},
		serverDirs: []string{empty},
		osRelease:  filepath.Join(empty, "os-release"),
		policyFile: filepath.Join(empty, "policy-rc.d"),
	}
}

type environment map[string]string

func (e environment) get(name string) string { return e[name] }

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
}

// certificates returns what a broker on 127.0.0.1 needs to show and a client's configuration for it, from
// one authority.
func certificates(t *testing.T) (TLS, *tls.Config) {
	t.Helper()
	template := func(serial int64, name string) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(serial),
			Subject:      pkix.Name{CommonName: name},
			NotBefore:    time.Now().Add(-time.Hour),
			NotAfter:     time.Now().Add(time.Hour),
			KeyUsage:     x509.KeyUsageDigitalSignature,
		}
	}
	sign := func(c, by *x509.Certificate, byKey *ecdsa.PrivateKey) (cert, key []byte, private *ecdsa.PrivateKey) {
		private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if byKey == nil {
			byKey = private
		}
		der, err := x509.CreateCertificate(rand.Reader, c, by, &private.PublicKey, byKey)
		if err != nil {
			t.Fatal(err)
		}
		keyDER, err := x509.MarshalPKCS8PrivateKey(private)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
			pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), private
	}

	authority := template(1, "test authority")
	authority.IsCA = true
	authority.BasicConstraintsValid = true
	authority.KeyUsage |= x509.KeyUsageCertSign
	ca, _, caKey := sign(authority, authority, nil)

	server := template(2, "broker")
	server.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	serverCert, serverKey, _ := sign(server, authority, caKey)

	user := template(3, "client")
	user.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	userCert, userKey, _ := sign(user, authority, caKey)
	pair, err := tls.X509KeyPair(userCert, userKey)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return TLS{CA: ca, Cert: serverCert, Key: serverKey, RequireClientCert: true},
		&tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}}
}

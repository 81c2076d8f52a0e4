package brokertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// startNode starts a private node with a rabbitmq-server script. Another process may take one of the
// ports between their choice and their use: then the node fails at once and is started with others.
func startNode(ctx context.Context, script string, o options) (*Broker, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	var err error
	for range 3 {
		var b *Broker
		if b, err = tryNode(ctx, script, o); err == nil {
			return b, nil
		}
		if !strings.Contains(err.Error(), "eaddrinuse") {
			break
		}
	}
	return nil, fmt.Errorf("start a private node with %s: %w", script, err)
}

func tryNode(ctx context.Context, script string, o options) (*Broker, error) {
	p, err := freePorts(loopback)
	if err != nil {
		return nil, err
	}
	n, err := newNode(script, p, o)
	if err != nil {
		return nil, err
	}
	b := owned("private node of "+script, n, p, o)
	if err = n.run(); err == nil {
		err = b.waitReady(ctx, n.ended)
	}
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, n.output())
		return nil, errors.Join(err, n.stop())
	}
	return b, nil
}

// A node is a private RabbitMQ node. It has an epmd and a server in a process group of their own, with all of their
// files in one directory. It has its own epmd so that it neither clashes with another node of the machine nor leaves an
// epmd behind.
type node struct {
	script string
	dir    string
	env    []string
	ports  ports

	mu       sync.Mutex
	stopped  bool
	leader   *exec.Cmd
	ended    chan struct{} // closed when leader has ended
	watchdog *watchdog
}

func newNode(script string, p ports, o options) (_ *node, err error) {
	dir, err := os.MkdirTemp("", "brokertest-node-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(dir)
		}
	}()
	n := &node{script: script, dir: dir, ports: p}

	// The tools listen for the node's answer: on loopback too.
	const onLoopback = "-kernel inet_dist_use_interface {127,0,0,1}"
	path := func(name string) string { return filepath.Join(dir, name) }
	n.env = []string{
		"PATH=" + os.Getenv("PATH"),
		"LANG=C.UTF-8",
		"HOME=" + dir, // of the Erlang cookie
		"ERL_EPMD_ADDRESS=127.0.0.1",
		"ERL_EPMD_PORT=" + strconv.Itoa(p.epmd),
		"RABBITMQ_NODENAME=brokertest@localhost",
		"RABBITMQ_DIST_PORT=" + strconv.Itoa(p.distribution),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=" + strings.Join(append([]string{onLoopback}, o.settings...), " "),
		"RABBITMQ_CTL_ERL_ARGS=" + onLoopback,
		"RABBITMQ_CONF_ENV_FILE=" + path("rabbitmq-env.conf"),
		"RABBITMQ_CONFIG_FILE=" + path("rabbitmq.conf"),
		"RABBITMQ_CONFIG_FILES=" + path("conf.d/*.conf"),
		"RABBITMQ_ADVANCED_CONFIG_FILE=" + path("advanced.config"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + path("enabled_plugins"),
		"RABBITMQ_GENERATED_CONFIG_DIR=" + path("config"),
		"RABBITMQ_SCHEMA_DIR=" + path("schema"),
		"RABBITMQ_MNESIA_BASE=" + path("data"),
		"RABBITMQ_PID_FILE=" + path("pid"),
		"RABBITMQ_LOG_BASE=" + path("log"),
		"RABBITMQ_LOGS=-",
	}

	conf := []string{
		fmt.Sprintf("listeners.tcp.loopback = 127.0.0.1:%d", p.amqp),
		"management.tcp.ip = 127.0.0.1",
		fmt.Sprintf("management.tcp.port = %d", p.management),
	}
	if o.tls != nil {
		conf = append(conf,
			fmt.Sprintf("listeners.ssl.loopback = 127.0.0.1:%d", p.amqpTLS),
			"management.ssl.ip = 127.0.0.1",
			fmt.Sprintf("management.ssl.port = %d", p.managementTLS))
	}
	if o.metrics {
		conf = append(conf, "prometheus.tcp.ip = 127.0.0.1", fmt.Sprintf("prometheus.tcp.port = %d", p.metrics))
	}
	files := map[string][]byte{
		"rabbitmq-env.conf": nil,
		"enabled_plugins":   []byte("[rabbitmq_management].\n"),
		"advanced.config":   []byte("[].\n"),
		"rabbitmq.conf":     []byte(strings.Join(append(conf, o.conf(dir)...), "\n") + "\n"),
	}
	for name, content := range o.files() {
		files[name] = content
	}
	for name, content := range files {
		if err := os.WriteFile(path(name), content, 0o600); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// leadGroup waits for the word to go, so that the watchdog is there before anything runs. Erlang starts an
// epmd as a daemon, in a session of its own, unless one answers: hence the wait.
const leadGroup = `
read -r go || exit 1
exec </dev/null
epmd -address 127.0.0.1 -port "$ERL_EPMD_PORT" &
tries=0
until epmd -port "$ERL_EPMD_PORT" -names >/dev/null 2>&1; do
	tries=$((tries + 1))
	[ $tries -lt 100 ] || { echo "epmd does not answer"; exit 1; }
	sleep 0.1
done
exec "$1"
`

// run starts the node's process group.
func (n *node) run() error {
	if _, err := exec.LookPath("epmd"); err != nil {
		return err // of Erlang: without it the server would not start either
	}
	log, err := os.OpenFile(filepath.Join(n.dir, "node.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	leader := exec.Command("/bin/sh", "-c", leadGroup, "sh", n.script)
	leader.Dir = n.dir
	leader.Env = n.env
	leader.Stdout = log
	leader.Stderr = log
	leader.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	goAhead, err := leader.StdinPipe()
	if err != nil {
		return err
	}
	if err := leader.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_ = leader.Wait() // how it ended is in its log
		close(ended)
	}()
	n.leader, n.ended = leader, ended

	if n.watchdog, err = startWatchdog(leader.Process.Pid, n.dir); err != nil {
		return err
	}
	_, err = io.WriteString(goAhead, "go\n")
	return errors.Join(err, goAhead.Close())
}

func (n *node) stop() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stopped {
		return nil
	}
	n.stopped = true
	err := n.kill()
	if err == nil {
		err = os.RemoveAll(n.dir)
	}
	if n.watchdog != nil {
		err = errors.Join(err, n.watchdog.dismiss(err == nil))
	}
	return err
}

func (n *node) restart() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stopped {
		return errors.New("it is stopped")
	}
	// The script stops its node in an orderly way on SIGTERM.
	if err := n.leader.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-n.ended:
	case <-time.After(3 * time.Minute):
		return errors.New("it does not stop")
	}
	return n.again()
}

func (n *node) crash() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stopped {
		return errors.New("it is stopped")
	}
	return n.again()
}

// again kills the node, if it has not ended, and starts it.
func (n *node) again() error {
	if err := n.kill(); err != nil {
		return err
	}
	if err := n.watchdog.dismiss(true); err != nil {
		return err
	}
	return n.run()
}

// kill ends the rest of the process group. A killed process holds no port any more. As a zombie it may stay for good,
// in a container whose first process does not reap.
func (n *node) kill() error {
	if n.leader == nil {
		return nil
	}
	group := n.leader.Process.Pid
	if err := syscall.Kill(-group, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("end process group %d: %w", group, err)
	}
	<-n.ended
	for deadline := time.Now().Add(10 * time.Second); !n.ports.areFree(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("process group %d does not end", group)
		}
	}
	return nil
}

func (n *node) command(ctx context.Context, tool string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(filepath.Dir(n.script), tool), args...)
	cmd.Dir = n.dir
	cmd.Env = n.env
	return cmd.CombinedOutput()
}

// output returns the end of what the node printed.
func (n *node) output() string {
	text, err := os.ReadFile(filepath.Join(n.dir, "node.log"))
	if err != nil {
		return err.Error()
	}
	return lastLines(text, 40)
}

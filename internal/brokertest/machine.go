package brokertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/testcontainers/testcontainers-go"
)

// machine is what Start asks of the machine that it runs on; tests make poorer ones.
type machine struct {
	getenv   func(string) string
	lookPath func(string) (string, error)
	docker   func(context.Context) (*testcontainers.DockerClient, error)
	euid     int
	// serverDirs are the places of packages' rabbitmq-server beside PATH. They come first: the one in PATH
	// may be a wrapper that becomes the user rabbitmq, which owns nothing of a private node.
	serverDirs []string
	osRelease  string
	policyFile string
}

func thisMachine() machine {
	return machine{
		getenv:     os.Getenv,
		lookPath:   exec.LookPath,
		docker:     dockerDaemon,
		euid:       os.Geteuid(),
		serverDirs: []string{"/usr/lib/rabbitmq/bin"},
		osRelease:  "/etc/os-release",
		policyFile: "/usr/sbin/policy-rc.d",
	}
}

// installedServer returns the rabbitmq-server script of this machine.
func (m machine) installedServer() (string, error) {
	for _, dir := range m.serverDirs {
		if script := filepath.Join(dir, "rabbitmq-server"); isFile(script) {
			return script, nil
		}
	}
	if script, err := m.lookPath("rabbitmq-server"); err == nil {
		return script, nil
	}
	return "", fmt.Errorf("not found in %s or PATH", strings.Join(m.serverDirs, ", "))
}

// installServer installs the package rabbitmq-server without starting its service, on Debian and Ubuntu as
// root, and returns its script.
func (m machine) installServer(ctx context.Context, log io.Writer) (string, error) {
	release, err := os.ReadFile(m.osRelease)
	if err != nil || !isDebian(string(release)) {
		return "", errors.New("only done on Debian and Ubuntu")
	}
	if m.euid != 0 {
		return "", errors.New("only done as root")
	}
	apt, err := m.lookPath("apt-get")
	if err != nil {
		return "", err
	}

	// go test runs packages side by side, and apt-get update does not wait for another one.
	lock, err := os.OpenFile(filepath.Join(os.TempDir(), "brokertest-apt.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if script, err := m.installedServer(); err == nil {
		return script, nil
	}

	fmt.Fprintln(log, "broker: installing the package rabbitmq-server")
	forbidden, err := m.forbidServices()
	if err != nil {
		return "", err
	}
	defer forbidden()
	for _, args := range [][]string{
		{"update"},
		{"install", "--yes", "--no-install-recommends", "rabbitmq-server"},
	} {
		cmd := exec.CommandContext(ctx, apt, append([]string{"-q", "-o", "DPkg::Lock::Timeout=300"}, args...)...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("apt-get %s: %w\n%s", strings.Join(args, " "), err, lastLines(out, 15))
		}
	}
	return m.installedServer()
}

// isDebian reads os-release(5).
func isDebian(release string) bool {
	for line := range strings.Lines(release) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if name != "ID" && name != "ID_LIKE" {
			continue
		}
		for _, id := range strings.Fields(strings.Trim(value, `"'`)) {
			if id == "debian" || id == "ubuntu" {
				return true
			}
		}
	}
	return false
}

// forbidServices keeps package scripts from starting services, the way that invoke-rc.d(8) provides. A
// machine that has such a policy keeps its own.
func (m machine) forbidServices() (allow func(), err error) {
	f, err := os.OpenFile(m.policyFile, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if errors.Is(err, os.ErrExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	allow = func() { os.Remove(m.policyFile) }
	_, err = f.WriteString("#!/bin/sh\nexit 101\n")
	if err = errors.Join(err, f.Close()); err != nil {
		allow()
		return nil, err
	}
	return allow, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func lastLines(text []byte, n int) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

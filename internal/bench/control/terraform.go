package control

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// A terraform is Terraform with a mirror on disk that has this checkout's provider, and another one if given.
type terraform struct {
	binary, directory, config string
}

// hosts are the default registries of Terraform and OpenTofu.
var hosts = []string{"registry.terraform.io", "registry.opentofu.org"}

// newTerraform builds the provider. Other is the executable file of the provider cyrilgdn/rabbitmq, or empty.
func newTerraform(ctx context.Context, other string) (*terraform, error) {
	binary := os.Getenv("TF_ACC_TERRAFORM_PATH")
	if binary == "" {
		return nil, errors.New("TF_ACC_TERRAFORM_PATH is not set; run this with make bench")
	}
	directory, err := os.MkdirTemp("", "rabbitmqdelay-bench-")
	if err != nil {
		return nil, err
	}
	t := &terraform{binary: binary, directory: directory, config: filepath.Join(directory, "terraformrc")}
	mirror := filepath.Join(directory, "mirror")
	platform := runtime.GOOS + "_" + runtime.GOARCH
	built := filepath.Join(directory, "terraform-provider-rabbitmqdelay")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", built, ".").CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("build the provider: %w\n%s", err, out), t.close())
	}
	executables := map[string]string{"rabbitmqdelay/rabbitmqdelay": built}
	if other != "" {
		executables["cyrilgdn/rabbitmq"] = other
	}
	for _, host := range hosts {
		for address, executable := range executables {
			target := filepath.Join(mirror, host, filepath.FromSlash(address), "0.0.1", platform)
			name := "terraform-provider-" + path.Base(address) + "_v0.0.1"
			if err := errors.Join(os.MkdirAll(target, 0o755),
				os.Symlink(executable, filepath.Join(target, name))); err != nil {
				return nil, errors.Join(err, t.close())
			}
		}
	}
	text := fmt.Sprintf("disable_checkpoint = true\nprovider_installation {\n  filesystem_mirror {\n    path = "+
		"%q\n  }\n}\n", mirror)
	if err := os.WriteFile(t.config, []byte(text), 0o600); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

func (t *terraform) close() error { return os.RemoveAll(t.directory) }

// A workspace is an initialized configuration.
type workspace struct {
	*terraform
	directory string
	environ   []string
}

func (t *terraform) workspace(ctx context.Context, configuration string, environ []string) (*workspace, error) {
	directory, err := os.MkdirTemp(t.directory, "work-")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(directory, "main.tf"), []byte(configuration), 0o600); err != nil {
		return nil, err
	}
	w := &workspace{terraform: t, directory: directory}
	w.environ = append(os.Environ(), "TF_CLI_CONFIG_FILE="+t.config, "TF_IN_AUTOMATION=1", "CHECKPOINT_DISABLE=1")
	w.environ = append(w.environ, environ...)
	_, err = w.run(ctx, "init")
	return w, err
}

// run returns how long a command took and the peak memory of a provider that it started, in bytes; 0 where that
// cannot be seen.
func (w *workspace) run(ctx context.Context, args ...string) (r ran, err error) {
	command := exec.CommandContext(ctx, w.binary, append([]string{"-chdir=" + w.directory}, args...)...)
	command.Env = w.environ
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	started := time.Now()
	if err := command.Start(); err != nil {
		return r, err
	}
	var ended atomic.Bool
	peak := make(chan float64)
	go func() { peak <- peakOfChildren(command.Process.Pid, &ended) }()
	err = command.Wait()
	r.time = time.Since(started)
	r.cpu = command.ProcessState.UserTime() + command.ProcessState.SystemTime()
	ended.Store(true)
	r.memory = <-peak
	if err != nil {
		return r, fmt.Errorf("%s %s: %w\n%s", filepath.Base(w.binary), strings.Join(args, " "), err, output.String())
	}
	return r, nil
}

type ran struct {
	time   time.Duration
	cpu    time.Duration // of Terraform and its providers
	memory float64       // peak resident memory of a provider, in bytes
}

// peakOfChildren watches, on Linux, the high-water marks of a process's providers until it has ended.
func peakOfChildren(pid int, ended *atomic.Bool) (peak float64) {
	for !ended.Load() {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
		for _, task := range tasks {
			children, _ := os.ReadFile(task)
			for _, child := range strings.Fields(string(children)) {
				peak = max(peak, highWater(child))
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	return peak
}

// highWater is VmHWM of a provider's process, see proc_pid_status(5).
func highWater(pid string) float64 {
	status, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil || !strings.HasPrefix(string(status), "Name:\tterraform-provi") {
		return 0
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	fields := strings.Fields(after)
	if len(fields) == 0 {
		return 0
	}
	kilobytes, err := strconv.ParseFloat(fields[0], 64)
	if err != nil {
		return 0
	}
	return 1024 * kilobytes
}

package docstest

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
)

// Build is the program of an example.
func Build(t *testing.T, example string) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), example)
	RunIn(t, filepath.Join(Examples, example), nil, "", "go", "build", "-o", program, ".")
	return program
}

// Run runs a program until it is stopped, by a kill.
func Run(t *testing.T, v *harness.Vhost, program ...string) (stop func()) {
	t.Helper()
	c := exec.CommandContext(t.Context(), program[0], program[1:]...)
	c.Env = append(os.Environ(), v.Environ()...)
	c.Stdout, c.Stderr = t.Output(), t.Output()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	stop = func() {
		_ = c.Process.Kill() // it may have ended
		_ = c.Wait()         // by the kill
	}
	t.Cleanup(stop)
	return stop
}

// RunIn runs a command that has to succeed and returns its output.
func RunIn(t testing.TB, directory string, environment []string, input string, command ...string) string {
	t.Helper()
	out, stderr, err := TryIn(t, directory, environment, input, command...)
	if err != nil {
		t.Fatalf("%q: %v\n%s%s", command, err, out, stderr)
	}
	return out
}

// TryIn runs a command that may fail.
func TryIn(
	t testing.TB, directory string, environment []string, input string, command ...string,
) (stdout, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	c.Dir, c.Env, c.Stdin = directory, append(os.Environ(), environment...), strings.NewReader(input)
	var out, log bytes.Buffer
	c.Stdout, c.Stderr = &out, &log
	err = c.Run()
	return out.String(), log.String(), err
}

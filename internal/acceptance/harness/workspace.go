package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// RequiredProviders is what terraform-plugin-testing leaves out of the configuration of an import.
const RequiredProviders = `
terraform {
  required_providers {
    rabbitmqdelay = {
      source = "rabbitmqdelay/rabbitmqdelay"
    }
  }
}
`

// Workspace is a directory with a configuration and a state, in which a test runs Terraform as a user does.
type Workspace struct {
	*Vhost
	CommandLine *CommandLine
}

// NewWorkspace makes a workspace for a vhost.
func NewWorkspace(t *testing.T, v *Vhost) *Workspace {
	t.Helper()
	if os.Getenv("TF_ACC") == "" {
		t.Skip("runs Terraform: set TF_ACC")
	}
	w := &Workspace{v, NewCommandLine(t, "", "", nil)}
	w.CommandLine.Environ = slices.DeleteFunc(
		w.CommandLine.Environ,
		func(variable string) bool { return strings.HasPrefix(variable, "TF_LOG") },
	)
	return w
}

// Configure writes the configuration: a provider for the broker, and the given blocks. VHOST stands for the test's
// vhost.
func (w *Workspace) Configure(configuration string) {
	w.T.Helper()
	w.Write(
		RequiredProviders + WithProvider(w.Broker, "%s", strings.ReplaceAll(configuration, "VHOST",
			fmt.Sprintf("vhost = %q", w.Name))),
	)
}

// Write writes the configuration as it is.
func (w *Workspace) Write(text string) {
	w.T.Helper()
	if err := os.WriteFile(filepath.Join(w.CommandLine.Directory, "main.tf"), []byte(text), 0o600); err != nil {
		w.T.Fatal(err)
	}
}

// Apply applies the configuration. The output is on one line, without the frames that Terraform draws.
func (w *Workspace) Apply(arguments ...string) (output string, err error) {
	text, err := w.CommandLine.Run(append([]string{"apply", "-auto-approve"}, arguments...)...)
	return OneLine(text), err
}

// MustApply applies a configuration, and returns what Terraform says.
func (w *Workspace) MustApply(configuration string, arguments ...string) (output string) {
	w.T.Helper()
	w.Configure(configuration)
	output, err := w.Apply(arguments...)
	if err != nil {
		w.T.Fatal(output)
	}
	return output
}

// MustRefuse applies what cannot be, and checks that the error says why.
func (w *Workspace) MustRefuse(configuration string, says ...string) {
	w.T.Helper()
	w.Configure(configuration)
	output, err := w.Apply()
	if err == nil {
		w.T.Fatalf("the apply succeeds: %s", output)
	}
	MustSay(w.T, "the error", output, says...)
}

// MustBeSettled checks that a plan finds nothing to do.
func (w *Workspace) MustBeSettled() {
	w.T.Helper()
	if output, err := w.CommandLine.Run("plan", "-detailed-exitcode"); err != nil {
		w.T.Errorf("the plan is not empty: %v %s", err, output)
	}
}

package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-version"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"
)

// Must runs a command that has to succeed.
func (tf *CommandLine) Must(arguments ...string) string {
	tf.T.Helper()
	output, err := tf.Run(arguments...)
	if err != nil {
		tf.T.Fatalf("%s: %v\n%s", arguments, err, output)
	}
	return output
}

// Needs skips the test with an older Terraform.
func (tf *CommandLine) Needs(minimum string) {
	tf.T.Helper()
	var using struct {
		Version string `json:"terraform_version"`
	}
	out, err := tf.Run("version", "-json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &using)
	}
	if err != nil {
		tf.T.Fatalf("%v\n%s", err, out)
	}
	if version.Must(version.NewVersion(using.Version)).Core().LessThan(version.Must(version.NewVersion(minimum))) {
		tf.T.Skipf("Terraform CLI version %s is below minimum version %s", using.Version, minimum)
	}
}

// CommandLine has the provider configured for the broker.
func (v *Vhost) CommandLine() *CommandLine {
	v.T.Helper()
	tf := NewCommandLine(v.T, "", "", map[string]string{"vhost": v.Name})
	tf.Environ = slices.DeleteFunc(tf.Environ, func(variable string) bool {
		return strings.HasPrefix(variable, "TF_LOG")
	})
	tf.Environ = append(tf.Environ, v.Broker.Environ()...)
	return tf
}

// MustRun runs a command that has to succeed, and returns what it prints.
func (tf *CommandLine) MustRun(arguments ...string) string {
	tf.T.Helper()
	command := tf.Command(arguments...)
	var messages strings.Builder
	command.Stderr = &messages
	out, err := command.Output()
	if err != nil {
		tf.T.Fatalf("%s: %v\n%s\n%s", command, err, messages.String(), out)
	}
	return string(out)
}

// OneLine undoes the line breaks and frames that Terraform puts into errors.
func OneLine(output string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(output, "│", " ")), " ")
}

// CommandLine is a working directory with a configuration, whose provider is this test binary.
type CommandLine struct {
	T         testing.TB
	Directory string
	Provider  string // the file that Terraform starts
	Environ   []string
	Output    strings.Builder
}

// ServeMode is the variable that makes the test binary a provider, see TestMain.
const ServeMode = "RABBITMQDELAY_TEST_SERVE"

// NewCommandLine writes a configuration and its variables into a directory.
func NewCommandLine(t testing.TB, mode, configuration string, variables map[string]string) *CommandLine {
	t.Helper()
	tf := &CommandLine{T: t, Directory: t.TempDir()}
	plugins := t.TempDir()
	tf.Provider = filepath.Join(plugins, "terraform-provider-rabbitmqdelay")
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, tf.Provider)
	}
	rc := filepath.Join(plugins, "terraformrc")
	if err == nil {
		err = os.WriteFile(rc, fmt.Appendf(nil, "provider_installation {\n  dev_overrides {\n    "+
			"\"rabbitmqdelay/rabbitmqdelay\" = %q\n  }\n  direct {}\n}\n", plugins), 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(tf.Directory, "main.tf"), []byte(configuration), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if mode == "" {
		mode = "serve"
	}
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "TF_") && !strings.HasPrefix(variable, "RABBITMQ_") {
			tf.Environ = append(tf.Environ, variable)
		}
	}
	tf.Environ = append(tf.Environ, "TF_CLI_CONFIG_FILE="+rc, "CHECKPOINT_DISABLE=1", ServeMode+"="+mode,
		"TF_LOG_PATH="+filepath.Join(tf.Directory, "log"))
	for _, log := range []string{"", "_CORE", "_PROVIDER", "_SDK", "_SDK_PROTO", "_SDK_FRAMEWORK",
		"_PROVIDER_RABBITMQDELAY"} {
		tf.Environ = append(tf.Environ, "TF_LOG"+log+"=TRACE")
	}
	for name, value := range variables {
		tf.Environ = append(tf.Environ, "TF_VAR_"+name+"="+value)
	}
	return tf
}

// Run runs a command, and returns all that it prints.
func (tf *CommandLine) Run(arguments ...string) (output string, err error) {
	text, err := tf.Command(arguments...).CombinedOutput()
	tf.Output.Write(text)
	return string(text), err
}

// Command is a command that can be run.
func (tf *CommandLine) Command(arguments ...string) *exec.Cmd {
	binary := os.Getenv("TF_ACC_TERRAFORM_PATH")
	if binary == "" {
		binary = "terraform"
	}
	if !slices.Contains(arguments, "-no-color") { // which has to come before the name of a file
		arguments = append(arguments, "-no-color")
	}
	command := exec.CommandContext(tf.T.Context(), binary, arguments...)
	command.Dir, command.Env = tf.Directory, tf.Environ
	return command
}

// Log is what Terraform and the provider have logged.
func (tf *CommandLine) Log() string {
	tf.T.Helper()
	text, err := os.ReadFile(filepath.Join(tf.Directory, "log"))
	if err != nil {
		tf.T.Fatal(err)
	}
	return string(text)
}

// ServePlugin is the test binary in the part of the provider.
func ServePlugin(mode string) {
	server, err := NewProvider()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	serve := func() tfprotov6.ProviderServer {
		if mode == "panic" {
			return faultyServer{server}
		}
		return server
	}
	if err := tf6server.Serve("registry.terraform.io/rabbitmqdelay/rabbitmqdelay", serve); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// faultyServer panics in the middle of an apply.
type faultyServer struct{ tfprotov6.ProviderServer }

func (s faultyServer) ApplyResourceChange(
	ctx context.Context, request *tfprotov6.ApplyResourceChangeRequest,
) (*tfprotov6.ApplyResourceChangeResponse, error) {
	if _, err := s.ProviderServer.ApplyResourceChange(ctx, request); err != nil {
		return nil, err
	}
	panic("a fault in the provider")
}

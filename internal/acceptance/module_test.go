package acceptance

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-version"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// moduleExample is a module with tests for terraform test.
const moduleExample = "module"

// TestAccModule runs the tests of the example, with the mocked and with the real provider.
func TestAccModule(t *testing.T) {
	if os.Getenv("TF_ACC") == "" {
		t.Skip("runs Terraform: set TF_ACC")
	}
	t.Parallel()
	v := newVhost(t)
	tf := newCommandLine(t, "", readExample(t, moduleExample, "main.tf"), map[string]string{"vhost": v.name})
	tf.environ = slices.DeleteFunc(tf.environ, func(variable string) bool {
		return strings.HasPrefix(variable, "TF_LOG")
	})
	tf.environ = append(tf.environ, v.broker.Environ()...)

	tf.needs("1.8.0") // provider functions; mocked providers came with 1.7, in OpenTofu with 1.8

	tests := filepath.Join(moduleExample, "tests")
	if err := os.Mkdir(filepath.Join(tf.directory, "tests"), 0o700); err != nil {
		t.Fatal(err)
	}
	files := exampleFiles(t)[tests]
	for _, file := range files {
		writeExample(t, filepath.Join(tf.directory, "tests"), file, readExample(t, tests, file))
	}
	out, err := tf.run("test")
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, file := range files {
		if passed := "tests/" + file + "... pass"; !strings.Contains(out, passed) {
			t.Errorf("the output does not say %q:\n%s", passed, out)
		}
	}
	v.mustHold(topology.New())
}

// needs skips the test with an older Terraform.
func (tf *commandLine) needs(minimum string) {
	tf.t.Helper()
	var using struct {
		Version string `json:"terraform_version"`
	}
	out, err := tf.run("version", "-json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &using)
	}
	if err != nil {
		tf.t.Fatalf("%v\n%s", err, out)
	}
	if version.Must(version.NewVersion(using.Version)).Core().LessThan(version.Must(version.NewVersion(minimum))) {
		tf.t.Skipf("Terraform CLI version %s is below minimum version %s", using.Version, minimum)
	}
}

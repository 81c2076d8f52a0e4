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

// teamExample receives from the cascade of the module, with a state of its own.
const teamExample = "team"

// TestAccTeam applies the module, and a team beside it that knows nothing but where the module's state is. Messages
// arrive, also after the cascade has more levels.
func TestAccTeam(t *testing.T) {
	if os.Getenv("TF_ACC") == "" {
		t.Skip("runs Terraform: set TF_ACC")
	}
	t.Parallel()
	v := newVhost(t)
	v.declareQueue("billing", map[string]any{"x-queue-type": "quorum"})
	arrivals := v.consume("billing")
	module := newCommandLine(t, "", readExample(t, moduleExample, "main.tf"), map[string]string{"vhost": v.name,
		"name": "shop"})
	module.needs("1.8.0") // provider functions
	team := newCommandLine(t, "", readExample(t, teamExample, "main.tf"), map[string]string{
		"delays_state": filepath.Join(module.directory, "terraform.tfstate")})
	module.environ = append(module.environ, v.broker.Environ()...)
	team.environ = append(team.environ, v.broker.Environ()...)
	must := func(tf *commandLine, arguments ...string) string {
		t.Helper()
		out, err := tf.run(arguments...)
		if err != nil {
			t.Fatalf("%s: %v\n%s", arguments, err, out)
		}
		return out
	}
	for i, levels := range []string{"2", "3"} {
		must(module, "apply", "-auto-approve", "-no-color", "-var", "levels="+levels)
		must(team, "apply", "-auto-approve", "-no-color")
		var publisher struct {
			EntryExchange string `json:"entry_exchange"`
			Levels        int
		}
		if err := json.Unmarshal([]byte(must(team, "output", "-raw", "publisher")), &publisher); err != nil {
			t.Fatal(err)
		}
		key := strings.Repeat("0.", publisher.Levels-1) + "1.billing"
		v.publish(publisher.EntryExchange, key, levels)
		if arrival := v.arrived(arrivals, i+1)[i]; string(arrival.Body) != levels {
			t.Errorf("%q arrived with %s levels", arrival.Body, levels)
		}
	}
	must(team, "destroy", "-auto-approve", "-no-color")
	must(module, "destroy", "-auto-approve", "-no-color")
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

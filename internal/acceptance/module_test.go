package acceptance

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/docstest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
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
	v := harness.NewVhost(t)
	tf := harness.NewCommandLine(t, "", docstest.ReadExample(t, moduleExample, "main.tf"),
		map[string]string{"vhost": v.Name})
	tf.Environ = slices.DeleteFunc(tf.Environ, func(variable string) bool {
		return strings.HasPrefix(variable, "TF_LOG")
	})
	tf.Environ = append(tf.Environ, v.Broker.Environ()...)

	tf.Needs("1.8.0") // provider functions; mocked providers came with 1.7, in OpenTofu with 1.8

	tests := filepath.Join(moduleExample, "tests")
	if err := os.Mkdir(filepath.Join(tf.Directory, "tests"), 0o700); err != nil {
		t.Fatal(err)
	}
	files := docstest.ExampleFiles(t)[tests]
	for _, file := range files {
		docstest.WriteExample(t, filepath.Join(tf.Directory, "tests"), file, docstest.ReadExample(t, tests, file))
	}
	out, err := tf.Run("test")
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, file := range files {
		if passed := "tests/" + file + "... pass"; !strings.Contains(out, passed) {
			t.Errorf("the output does not say %q:\n%s", passed, out)
		}
	}
	v.MustHold(topology.New())
}

// teamExample receives from the cascade of the module, with a state of its own.
const teamExample = "team"

// TestAccTeam applies the module, and a team beside it that knows nothing but where the module's state is. Messages
// arrive, in each form of key, also after the delays may be longer.
func TestAccTeam(t *testing.T) {
	if os.Getenv("TF_ACC") == "" {
		t.Skip("runs Terraform: set TF_ACC")
	}
	t.Parallel()
	const ofModule = "max_delay = var.max_delay"
	for form, is := range map[string]struct {
		scale   string
		longest []string
	}{
		"units":   {ofModule, []string{"9s", "1m"}},
		"decimal": {"levels = 3\n base = 10", []string{"9s"}},
		"binary":  {"levels = 5", []string{"9s"}},
	} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			example := docstest.ReadExample(t, moduleExample, "main.tf")
			if !strings.Contains(example, ofModule) {
				t.Fatalf("the module does not say %q", ofModule)
			}
			teamReceives(t, strings.Replace(example, ofModule, is.scale, 1), is.longest)
		})
	}
}

func teamReceives(t *testing.T, moduleConfig string, longest []string) {
	v := harness.NewVhost(t)
	v.DeclareQueue("billing", map[string]any{"x-queue-type": "quorum"})
	arrivals := v.Consume("billing")
	module := harness.NewCommandLine(t, "", moduleConfig, map[string]string{"vhost": v.Name, "name": "shop"})
	module.Needs("1.8.0") // provider functions
	team := harness.NewCommandLine(t, "", docstest.ReadExample(t, teamExample, "main.tf"), map[string]string{
		"delays_state": filepath.Join(module.Directory, "terraform.tfstate")})
	module.Environ = append(module.Environ, v.Broker.Environ()...)
	team.Environ = append(team.Environ, v.Broker.Environ()...)
	must := func(tf *harness.CommandLine, arguments ...string) string {
		t.Helper()
		out, err := tf.Run(arguments...)
		if err != nil {
			t.Fatalf("%s: %v\n%s", arguments, err, out)
		}
		return out
	}
	for i, maxDelay := range longest {
		must(module, "apply", "-auto-approve", "-no-color", "-var", "max_delay="+maxDelay)
		must(team, "apply", "-auto-approve", "-no-color")
		var publisher struct {
			EntryExchange string  `json:"entry_exchange"`
			UnitsMS       []int64 `json:"units_ms"`
		}
		if err := json.Unmarshal([]byte(must(team, "output", "-raw", "publisher")), &publisher); err != nil {
			t.Fatal(err)
		}
		key := strings.Repeat("0.", len(publisher.UnitsMS)-1) + "1.billing"
		v.Publish(publisher.EntryExchange, key, maxDelay)
		if arrival := v.Arrived(arrivals, i+1)[i]; string(arrival.Body) != maxDelay {
			t.Errorf("%q arrived with delays up to %s", arrival.Body, maxDelay)
		}
	}
	must(team, "destroy", "-auto-approve", "-no-color")
	must(module, "destroy", "-auto-approve", "-no-color")
}

package acceptance

import (
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/config"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/querycheck"
	"github.com/hashicorp/terraform-plugin-testing/tfversion"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/docstest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
)

// exampleImports is what the examples import, by address.
var exampleImports = map[string]harness.Attributes{
	"rabbitmqdelay_cascade.orders": {"name": "orders"},
	"rabbitmqdelay_destination.billing": {"delivery_exchange": "orders.delivery", "levels": 4, "address": "billing",
		"queue": "billing"},
	"rabbitmqdelay_ladder.retry": {"name": "retry", "delays": harness.TextList("5s", "10s", "30s", "1m", "5m", "10m",
		"30m", "1h")},
}

// examplePrograms have tests of their own: TestBridgeExample, TestCancelExample, TestCelery, TestRecurringExample,
// TestReplayProgram, TestRetryExample, TestWheelExample. TestAccMove has the program of its directory.
var examplePrograms = []string{"bridge/README.md", "bridge/definitions.json", "bridge/go.mod", "bridge/go.sum",
	"bridge/main.go", "cancel/cascade.go", "cancel/go.mod", "cancel/go.sum", "cancel/main.go", "cancel/store.go",
	"cancel/work.go", "celery/tasks.py", "recurring/recurring.py", "replay/replay.py", "retry/main.go",
	"retry/retry.py", "wheel/main.go"}

// resourceType is the type in an address.
func resourceType(address string) string {
	typeName, _, _ := strings.Cut(address, ".")
	return typeName
}

// Every file of the examples is planned as it stands there. A configuration is planned by itself. An import is planned
// together with the configuration beside it and with its objects on the broker.
func TestAccExamples(t *testing.T) {
	v := harness.NewVhost(t)
	b := asDefault(v)
	for _, assignment := range b.Environ() {
		name, value, _ := strings.Cut(assignment, "=")
		t.Setenv(name, value)
	}
	t.Setenv("TF_VAR_rabbitmq_password", "secret")
	t.Setenv("TF_VAR_rabbitmq_token", "secret")
	v.DeclareQueue("billing", nil)
	for _, address := range slices.Sorted(maps.Keys(exampleImports)) { // the cascade before its destination
		harness.NewProtocolOf(t, resourceType(address), b, nil).MustApply(exampleImports[address])
	}

	for directory, files := range docstest.ExampleFiles(t) {
		if !hasItsOwnTest(directory) {
			tryExamples(t, b, directory, files)
		}
	}
}

// hasItsOwnTest tells whether another test runs the examples of a directory. These are TestAccPublishing,
// TestAccChecks, TestAccPolicyTool, TestAccMonitoring, TestAccModule, TestAccTeam, TestAccQuickstart,
// TestAccDecommissioning, TestAccMove, TestAccFromAnApplication, and the one with another provider. TestExamplesIndex
// reads the index of all.
func hasItsOwnTest(directory string) bool {
	return slices.Contains([]string{".", checksExample, besideExample, policyExample, decommissioningExample,
		teamExample, moveExample, "quickstart"}, directory) ||
		strings.HasPrefix(directory, "publishing") || strings.HasPrefix(directory, monitoringExample) ||
		strings.HasPrefix(directory, moduleExample) || strings.HasPrefix(directory, fromApplicationExample)
}

// tryExamples plans the configuration of a directory, and each import and query beside it.
func tryExamples(t *testing.T, b *brokertest.Broker, directory string, files []string) {
	var configuration []string
	for _, file := range files {
		if filepath.Ext(file) == ".tf" && !strings.HasPrefix(file, "import") {
			configuration = append(configuration, file)
		}
	}
	if len(configuration) > 0 {
		t.Run(filepath.Join(directory, strings.Join(configuration, "+")), func(t *testing.T) {
			planExample(t, directory, configuration, plancheck.ExpectNonEmptyPlan(), exampleNeeds(directory)...)
		})
	}
	for _, file := range files {
		switch {
		case filepath.Ext(file) == ".tf" && strings.HasPrefix(file, "import"):
			t.Run(filepath.Join(directory, file), func(t *testing.T) {
				planImportExample(t, directory, configuration, file)
			})
		case file == "import.sh":
			t.Run(filepath.Join(directory, file), func(t *testing.T) { importByExample(t, b, directory, file) })
		case strings.HasSuffix(file, ".tfquery.hcl"):
			t.Run(filepath.Join(directory, file), func(t *testing.T) {
				queryExample(t, filepath.Base(directory), docstest.ReadExample(t, directory, file))
			})
		case slices.Contains(examplePrograms, filepath.Join(directory, file)):
		case filepath.Ext(file) != ".tf":
			t.Errorf("no test knows what to do with %s", filepath.Join(directory, file))
		}
	}
}

func exampleNeeds(directory string) []tfversion.TerraformVersionCheck {
	switch {
	case strings.HasPrefix(directory, "functions"):
		return functionsSince
	case strings.HasPrefix(directory, "actions"):
		return []tfversion.TerraformVersionCheck{tfversion.SkipBelow(tfversion.Version1_14_0)}
	}
	return nil
}

// planImportExample plans a file with an import block, together with the configuration beside it.
func planImportExample(t *testing.T, directory string, configuration []string, file string) {
	needs := tfversion.SkipBelow(tfversion.Version1_5_0)
	if strings.Contains(docstest.ReadExample(t, directory, file), "identity") {
		needs = tfversion.SkipBelow(tfversion.Version1_12_0)
	}
	to := regexp.MustCompile(`(?m)^  to = (\S+)$`).FindStringSubmatch(docstest.ReadExample(t, directory, file))
	if to == nil || exampleImports[to[1]] == nil {
		t.Fatalf("an import to nothing that is known: %q", to)
	}
	planExample(t, directory, append(slices.Clone(configuration), file), imports(to[1]), needs)
}

// importByExample imports what the command of the file does.
func importByExample(t *testing.T, b *brokertest.Broker, directory, file string) {
	command := regexp.MustCompile(`(?m)^terraform import (\S+) '?([^\s']+)'?$`).FindStringSubmatch(
		docstest.ReadExample(t, directory, file))
	if command == nil || exampleImports[command[1]] == nil {
		t.Fatalf("a command to import nothing that is known: %q", command)
	}
	p := harness.NewProtocolOf(t, resourceType(command[1]), b, nil)
	harness.NoErrors(t, p.ImportState(t.Context(), command[2]))
	p.MustBeSettled(exampleImports[command[1]])
}

// planExample plans files of one directory. Where they leave that to their reader, they get the block
// that names the provider, and a resource for it.
func planExample(
	t *testing.T, directory string, files []string, check plancheck.PlanCheck, needs ...tfversion.TerraformVersionCheck,
) {
	t.Helper()
	copied := t.TempDir()
	all := ""
	for _, file := range files {
		text := docstest.ReadExample(t, directory, file)
		all += text
		docstest.WriteExample(t, copied, file, text)
	}
	if !strings.Contains(all, "required_providers") {
		docstest.WriteExample(t, copied, "required_providers.tf", harness.RequiredProviders)
	}
	if !strings.Contains(all, "resource \"rabbitmqdelay_") {
		docstest.WriteExample(t, copied, "resource.tf", "resource \"rabbitmqdelay_cascade\" \"orders\" {\n  name = "+
			"\"orders\"\n}\n")
	}
	resource.Test(t, resource.TestCase{
		TerraformVersionChecks: needs,
		Steps: []resource.TestStep{{
			ProtoV6ProviderFactories: harness.Providers,
			ConfigDirectory:          config.StaticDirectory(copied),
			PlanOnly:                 true,
			ExpectNonEmptyPlan:       true,
			ConfigPlanChecks:         resource.ConfigPlanChecks{PostApplyPreRefresh: []plancheck.PlanCheck{check}},
		}},
	})
}

// exampleIdentities are those of exampleImports.
var exampleIdentities = map[string]map[string]knownvalue.Check{
	harness.CascadeType: {"vhost": knownvalue.StringExact("/"),
		"entry_exchange": knownvalue.StringExact("orders.d.h.m.s")},
	harness.LadderType: {"vhost": knownvalue.StringExact("/"),
		"entry_exchange": knownvalue.StringExact("retry.entry")},
	harness.DestinationType: {
		"vhost": knownvalue.StringExact("/"), "delivery_exchange": knownvalue.StringExact("orders.delivery"),
		"queue":    knownvalue.StringExact("billing"),
		"exchange": knownvalue.Null(), "routing_key": knownvalue.StringExact(harness.DestinationKey(4, "billing")),
	},
}

// queryExample finds what the examples are about.
func queryExample(t *testing.T, listed, list string) {
	t.Helper()
	resource.Test(t, resource.TestCase{
		TerraformVersionChecks:   []tfversion.TerraformVersionCheck{tfversion.SkipBelow(tfversion.Version1_14_0)},
		ProtoV6ProviderFactories: harness.Providers,
		Steps: []resource.TestStep{
			{Config: harness.RequiredProviders + "provider \"rabbitmqdelay\" {}\n"},
			{Query: true, Config: list, QueryResultChecks: []querycheck.QueryResultCheck{
				querycheck.ExpectIdentity(listed+".all", exampleIdentities[listed]),
			}},
		},
	})
}

// asDefault is the broker with the test's vhost in the place of "/", which the examples use.
func asDefault(v *harness.Vhost) *brokertest.Broker {
	v.T.Helper()
	b := *v.Broker
	own := url.PathEscape(v.Name)
	b.Endpoint = harness.NewGateway(v.T, v.Broker, nil, func(_ http.ResponseWriter, r *http.Request) bool {
		r.URL.RawPath = strings.Replace(r.URL.EscapedPath(), "/%2F", "/"+own, 1)
		r.URL.Path, _ = url.PathUnescape(r.URL.RawPath)
		return false
	}).URL
	return &b
}

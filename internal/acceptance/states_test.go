package acceptance

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/docstest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
)

// TestAccStatesOfReleases reads the state that each release has left, beside the objects that it has made. The plan is
// empty, and a destroy takes all away. UPDATE_STATES=0.1.0 records both, before that release is tagged.
func TestAccStatesOfReleases(t *testing.T) {
	if os.Getenv("TF_ACC") == "" {
		t.Skip("runs Terraform: set TF_ACC")
	}
	t.Parallel()
	const states = "testdata/states"
	releases, err := os.ReadDir(states)
	if err != nil || len(releases) == 0 {
		t.Fatalf("no states are recorded: %v", err)
	}
	for _, release := range releases {
		t.Run(release.Name(), func(t *testing.T) {
			t.Parallel()
			read := func(file string) string {
				t.Helper()
				return docstest.ReadPage(t, filepath.Join("internal/acceptance", states, release.Name(), file))
			}
			v := harness.NewVhost(t)
			const state, definitions, vhost = "terraform.tfstate", "definitions.json", "VHOST"
			if os.Getenv("UPDATE_STATES") == release.Name() {
				record := func(file, text string) {
					t.Helper()
					docstest.WriteExample(t, filepath.Join(states, release.Name()), file,
						strings.ReplaceAll(text, v.Name, vhost))
				}
				tf := v.CommandLine()
				docstest.WriteExample(t, tf.Directory, "main.tf", read("main.tf"))
				tf.MustRun("apply", "-input=false", "-auto-approve")
				text, err := os.ReadFile(filepath.Join(tf.Directory, state))
				if err != nil {
					t.Fatal(err)
				}
				record(state, string(text))
				record(definitions, string(v.Request(http.MethodGet, nil, "definitions", v.Name)))
				v = harness.NewVhost(t)
			}
			recorded := func(file string) string { return strings.ReplaceAll(read(file), vhost, v.Name) }
			v.Request(http.MethodPost, []byte(recorded(definitions)), "definitions", v.Name)
			tf := v.CommandLine()
			docstest.WriteExample(t, tf.Directory, "main.tf", read("main.tf"))
			docstest.WriteExample(t, tf.Directory, state, recorded(state))
			tf.MustRun("plan", "-input=false", "-detailed-exitcode")
			tf.MustRun("destroy", "-input=false", "-auto-approve")
			if left := v.Objects(); len(left.Exchanges)+len(left.Queues) > 0 {
				t.Errorf("the destroy leaves %d exchanges and %d queues", len(left.Exchanges), len(left.Queues))
			}
		})
	}
}

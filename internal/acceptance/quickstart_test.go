package acceptance

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/docstest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
)

// The README shows the quickstart as it stands in examples.
func TestReadmeShowsTheQuickstart(t *testing.T) {
	readme := docstest.ReadPage(t, "README.md")
	for _, name := range []string{"main.tf", "delayed.py"} {
		if text := docstest.ReadPage(t, filepath.Join("examples/quickstart", name)); !strings.Contains(readme, text) {
			t.Errorf("README.md does not show %s as it is", name)
		}
	}
}

// quickstartForms are what the resource of the quickstart may have beside its name: nothing, as it stands there, or
// another form.
var quickstartForms = map[string]string{"units": "", "base 2": "levels = 8", "base 10": "base = 10\n  levels = 8"}

// The quickstart does what the README says: apply, publish, receive. The program asks for no other form than the
// configuration has, so that it may have any.
func TestAccQuickstart(t *testing.T) {
	if os.Getenv("TF_ACC") == "" {
		t.Skip("runs Terraform: set TF_ACC")
	}
	t.Parallel()
	for form, attributes := range quickstartForms {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			newVhost := harness.NewVhost
			if attributes == "" {
				newVhost = harness.NewLargeVhost
			}
			v := newVhost(t)
			runQuickstart(t, v, quickstart(t, v, attributes))
		})
	}
}

// quickstart is the command line for the example in a vhost and a form, with the provider of this test.
func quickstart(t *testing.T, v *harness.Vhost, attributes string) *harness.CommandLine {
	t.Helper()
	configuration := docstest.ReadPage(t, "examples/quickstart/main.tf")
	vhost := "\n  vhost = " + strconv.Quote(v.Name) + "\n  "
	for block, further := range map[string]string{
		`resource "rabbitmqdelay_cascade" "orders" {`: vhost + attributes,
		`data "rabbitmqdelay_cascade" "orders" {`:     vhost,
	} {
		if !strings.Contains(configuration, block) {
			t.Fatalf("the quickstart has no %s", block)
		}
		configuration = strings.Replace(configuration, block, block+further, 1)
	}
	tf := harness.NewCommandLine(t, "", configuration, nil)
	tf.Environ = append(tf.Environ, v.Broker.Environ()...)
	return tf
}

// runQuickstart applies, publishes, receives and destroys.
func runQuickstart(t *testing.T, v *harness.Vhost, tf *harness.CommandLine) {
	t.Helper()
	python := languages["python"].interpreter(t, "import pika")
	tf.Must("apply", "-auto-approve", "-no-color")
	environ := append(v.Environ(), "PUBLISHER="+tf.Must("output", "-raw", "publisher"))
	out := docstest.RunIn(t, filepath.Join(docstest.Examples, "quickstart"), environ, "",
		append(python, "delayed.py")...)
	waited := regexp.MustCompile(`^invoice 17 arrived after ([0-9.]+) s\n$`).FindStringSubmatch(out)
	if waited == nil {
		t.Fatalf("the program said %q", out)
	}
	if seconds, err := strconv.ParseFloat(waited[1], 64); err != nil || seconds < 5 {
		t.Errorf("the message arrived after %s s", waited[1])
	}
	tf.Must("destroy", "-auto-approve", "-no-color")
}

// TestAccReleaseRunsTheQuickstart takes the provider from the archive of a release, as a registry would give it.
func TestAccReleaseRunsTheQuickstart(t *testing.T) {
	release := os.Getenv("RELEASE")
	if release == "" {
		t.Skip("takes minutes to build the archives: make check-snapshot")
	}
	t.Parallel()
	archives, err := filepath.Glob(filepath.Join(release, "*_"+runtime.GOOS+"_"+runtime.GOARCH+".zip"))
	if err != nil || len(archives) != 1 {
		t.Fatalf("archives for this platform in %s: %q, %v", release, archives, err)
	}
	v := harness.NewVhost(t)
	tf := quickstart(t, v, "")
	archive, err := os.ReadFile(archives[0])
	if err != nil {
		t.Fatal(err)
	}
	mirror := t.TempDir()
	for _, host := range []string{"registry.terraform.io", "registry.opentofu.org"} {
		packed := filepath.Join(mirror, host, "rabbitmqdelay", "rabbitmqdelay", filepath.Base(archives[0]))
		err := os.MkdirAll(filepath.Dir(packed), 0o700)
		if err == nil {
			err = os.WriteFile(packed, archive, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	rc := filepath.Join(mirror, "terraformrc")
	text := fmt.Sprintf("provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", mirror)
	if err := os.WriteFile(rc, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	tf.Environ = append(tf.Environ, "TF_CLI_CONFIG_FILE="+rc)
	if output, err := tf.Run("init", "-no-color"); err != nil {
		t.Fatalf("init: %v\n%s", err, output)
	}
	runQuickstart(t, v, tf)
}

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
)

// The README shows the quickstart as it stands in examples.
func TestReadmeShowsTheQuickstart(t *testing.T) {
	readme := readPage(t, "README.md")
	for _, name := range []string{"main.tf", "delayed.py"} {
		if text := readPage(t, filepath.Join("examples/quickstart", name)); !strings.Contains(readme, text) {
			t.Errorf("README.md does not show %s as it is", name)
		}
	}
}

// The quickstart does what the README says: apply, publish, receive.
func TestAccQuickstart(t *testing.T) {
	if os.Getenv("TF_ACC") == "" {
		t.Skip("runs Terraform: set TF_ACC")
	}
	t.Parallel()
	v := newVhost(t)
	runQuickstart(t, v, quickstart(t, v))
}

// quickstart is the command line for the example, with the provider of this test.
func quickstart(t *testing.T, v *vhost) *commandLine {
	t.Helper()
	configuration := readPage(t, "examples/quickstart/main.tf")
	tf := newCommandLine(t, "", strings.Replace(configuration, `"/"`, strconv.Quote(v.name), 1), nil)
	tf.environ = append(tf.environ, v.broker.Environ()...)
	return tf
}

// runQuickstart applies, publishes, receives and destroys.
func runQuickstart(t *testing.T, v *vhost, tf *commandLine) {
	t.Helper()
	python := languages["python"].interpreter(t, "import pika")
	must := func(arguments ...string) string {
		t.Helper()
		output, err := tf.run(arguments...)
		if err != nil {
			t.Fatalf("%s: %v\n%s", arguments, err, output)
		}
		return output
	}
	must("apply", "-auto-approve", "-no-color")
	environ := append(v.environ(), "PUBLISHER="+must("output", "-raw", "publisher"))
	out := runIn(t, filepath.Join(examples, "quickstart"), environ, "", append(python, "delayed.py")...)
	waited := regexp.MustCompile(`^invoice 17 arrived after ([0-9.]+) s\n$`).FindStringSubmatch(out)
	if waited == nil {
		t.Fatalf("the program said %q", out)
	}
	if seconds, err := strconv.ParseFloat(waited[1], 64); err != nil || seconds < 5 {
		t.Errorf("the message arrived after %s s", waited[1])
	}
	must("destroy", "-auto-approve", "-no-color")
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
	v := newVhost(t)
	tf := quickstart(t, v)
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
	tf.environ = append(tf.environ, "TF_CLI_CONFIG_FILE="+rc)
	if output, err := tf.run("init", "-no-color"); err != nil {
		t.Fatalf("init: %v\n%s", err, output)
	}
	runQuickstart(t, v, tf)
}

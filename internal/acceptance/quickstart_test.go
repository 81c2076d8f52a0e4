package acceptance

import (
	"os"
	"path/filepath"
	"regexp"
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
	python := languages["python"].interpreter(t, "import pika")
	v := newVhost(t)
	directory := filepath.Join(examples, "quickstart")
	configuration := readPage(t, "examples/quickstart/main.tf")
	tf := newCommandLine(t, "", strings.Replace(configuration, `"/"`, strconv.Quote(v.name), 1), nil)
	tf.environ = append(tf.environ, v.broker.Environ()...)
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
	out := runIn(t, directory, environ, "", append(python, "delayed.py")...)
	waited := regexp.MustCompile(`^invoice 17 arrived after ([0-9.]+) s\n$`).FindStringSubmatch(out)
	if waited == nil {
		t.Fatalf("the program said %q", out)
	}
	if seconds, err := strconv.ParseFloat(waited[1], 64); err != nil || seconds < 5 {
		t.Errorf("the message arrived after %s s", waited[1])
	}
	must("destroy", "-auto-approve", "-no-color")
}

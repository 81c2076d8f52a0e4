package acceptance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/docstest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
)

// Terraform saves planned outputs even when the apply is refused. An output of the resource then describes a cascade
// that was not built, until a refresh is applied. The output of the quickstart comes from the data source, and always
// describes the cascade that is there.
func TestAccRefusedApplyKeepsPublisher(t *testing.T) {
	if os.Getenv("TF_ACC") == "" {
		t.Skip("runs Terraform: set TF_ACC")
	}
	t.Parallel()
	v := harness.NewVhost(t)
	tf := quickstart(t, v, quickstartForms["base 10"])
	docstest.WriteExample(t, tf.Directory, "outputs.tf", `output "of_resource" {
  value = jsonencode(rabbitmqdelay_cascade.orders.publisher)
}
`)
	configuration, err := os.ReadFile(filepath.Join(tf.Directory, "main.tf"))
	if err != nil {
		t.Fatal(err)
	}
	outputs := func() (publisher, ofResource string) {
		t.Helper()
		return tf.Must("output", "-raw", "publisher"), tf.Must("output", "-raw", "of_resource")
	}
	tf.Must("apply", "-auto-approve", "-no-color")
	built, _ := outputs()
	v.Publish("orders.delay-07", "0.0.0.9.0.0.0.0.nobody", "")

	for _, change := range [][2]string{{"base = 10", "base = 2"}, {"levels = 8", "levels = 7"}} {
		t.Run(change[1], func(t *testing.T) {
			configure(tf, strings.Replace(string(configuration), change[0], change[1], 1))
			if output, err := tf.Run("apply", "-auto-approve", "-no-color"); err == nil ||
				!strings.Contains(output, "Cascade holds messages") {
				t.Fatalf("the apply with a message: %v\n%s", err, output)
			}
			publisher, ofResource := outputs()
			if publisher != built {
				t.Errorf("built is %s, and the output says %s", built, publisher)
			}
			if ofResource == built {
				t.Error("the output of the resource is right, too: the guides say that it is not")
			}
			tf.Must("apply", "-refresh-only", "-auto-approve", "-no-color")
			if publisher, ofResource = outputs(); publisher != built || ofResource != built {
				t.Errorf("built is %s, and after a refresh the outputs say %s and %s", built, publisher, ofResource)
			}
		})
	}

	v.Purge("orders.delay-04-9")
	tf.Must("apply", "-auto-approve", "-no-color") // levels = 7
	if publisher, ofResource := outputs(); publisher == built || publisher != ofResource {
		t.Errorf("the apply has built %s, and the output says %s", ofResource, publisher)
	}
	tf.Must("destroy", "-auto-approve", "-no-color")
}

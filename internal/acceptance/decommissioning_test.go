package acceptance

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// decommissioningExample counts the messages that are left in a cascade.
const decommissioningExample = "decommissioning"

// The steps of the guide to removing a cascade: it is refused while a message waits, says until when, and succeeds
// when all have arrived. A destroy that is refused because of parked messages has removed the destination.
func TestAccDecommissioning(t *testing.T) {
	if os.Getenv("TF_ACC") == "" {
		t.Skip("runs Terraform: set TF_ACC")
	}
	t.Parallel()
	v := newVhost(t)
	v.declareQueue("billing", nil)
	variables := map[string]string{"vhost": v.name}
	tf := newCommandLine(t, "", `
terraform {
  required_providers {
    rabbitmqdelay = { source = "rabbitmqdelay/rabbitmqdelay" }
  }
}

variable "vhost" {}

resource "rabbitmqdelay_cascade" "tasks" {
  vhost  = var.vhost
  name   = "tasks"
  levels = 8
}

resource "rabbitmqdelay_destination" "billing" {
  vhost             = var.vhost
  delivery_exchange = rabbitmqdelay_cascade.tasks.delivery_exchange
  levels            = rabbitmqdelay_cascade.tasks.levels
  address           = "billing"
  queue             = "billing"
}
`, variables)
	look := newCommandLine(t, "", readExample(t, decommissioningExample, "main.tf"), variables)
	tf.environ = append(tf.environ, v.broker.Environ()...)
	look.environ = append(look.environ, v.broker.Environ()...)
	must := func(tf *commandLine, arguments ...string) string {
		t.Helper()
		output, err := tf.run(arguments...)
		if err != nil {
			t.Fatalf("%s: %v\n%s", arguments, err, output)
		}
		return output
	}
	type remaining struct {
		Messages, Unroutable int
		Until                *time.Time
	}
	left := func() (r remaining) {
		t.Helper()
		must(look, "apply", "-auto-approve", "-no-color")
		if err := json.Unmarshal([]byte(must(look, "output", "-json", "left")), &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	must(tf, "apply", "-auto-approve", "-no-color")
	const delay = 64 * time.Second // so long that a slow machine sees it waiting
	published := time.Now()
	v.publish("tasks.delay-07", "0.1.0.0.0.0.0.0.billing", "")
	v.publish("tasks.delay-07", "malformed", "")
	v.eventually("the counts are up to date", func() bool {
		return v.counted("tasks.delay-06") == 1 && v.counted("tasks.unroutable") == 1 && v.hasStatistics()
	})
	longest := delay + 63*time.Second // in the lower levels
	if r := left(); r.Messages != 1 || r.Unroutable != 1 || r.Until == nil ||
		r.Until.Before(published.Add(longest).Truncate(time.Second)) || r.Until.After(time.Now().Add(longest)) {
		t.Errorf("left are %+v", r)
	}
	if output, err := tf.run("destroy", "-auto-approve", "-no-color"); err == nil ||
		!strings.Contains(output, "tasks.delay-06") {
		t.Fatalf("the destroy with a message: %v\n%s", err, output)
	}
	v.eventually("the message arrives", func() bool { return v.depth("billing") == 1 })
	v.eventually("nothing waits", func() bool { r := left(); return r.Messages == 0 && r.Until == nil })
	there := v.objects()
	if output, err := tf.run("destroy", "-auto-approve", "-no-color"); err == nil ||
		!strings.Contains(output, "tasks.unroutable") {
		t.Fatalf("the destroy with an unroutable message: %v\n%s", err, output)
	}
	withoutDestination := there.Clone()
	delete(withoutDestination.Bindings, topology.Binding{Source: "tasks.delivery", Destination: "billing",
		DestinationType: topology.ToQueue, RoutingKey: destination(8, "billing")})
	v.mustHold(withoutDestination)
	must(tf, "apply", "-auto-approve", "-no-color")
	v.mustHold(there)
	v.purge("tasks.unroutable")
	must(tf, "destroy", "-auto-approve", "-no-color")
	if v.depth("billing") != 1 {
		t.Error("the message is gone from the receiver's queue")
	}
}

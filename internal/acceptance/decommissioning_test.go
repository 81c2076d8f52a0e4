package acceptance

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/docstest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
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
	v := harness.NewVhost(t)
	v.DeclareQueue("billing", nil)
	variables := map[string]string{"vhost": v.Name}
	tf := harness.NewCommandLine(t, "", `
terraform {
  required_providers {
    rabbitmqdelay = { source = "rabbitmqdelay/rabbitmqdelay" }
  }
}

variable "vhost" {}

resource "rabbitmqdelay_cascade" "orders" {
  vhost     = var.vhost
  name      = "orders"
  max_delay = "1m"
}

resource "rabbitmqdelay_destination" "billing" {
  vhost             = var.vhost
  delivery_exchange = rabbitmqdelay_cascade.orders.delivery_exchange
  levels            = length(rabbitmqdelay_cascade.orders.units)
  address           = "billing"
  queue             = "billing"
}
`, variables)
	look := harness.NewCommandLine(t, "", docstest.ReadExample(t, decommissioningExample, "main.tf"), variables)
	tf.Environ = append(tf.Environ, v.Broker.Environ()...)
	look.Environ = append(look.Environ, v.Broker.Environ()...)
	must := func(tf *harness.CommandLine, arguments ...string) string {
		t.Helper()
		output, err := tf.Run(arguments...)
		if err != nil {
			t.Fatalf("%s: %v\n%s", arguments, err, output)
		}
		return output
	}
	type remaining struct {
		Messages, Unroutable int
		Next, Until          *time.Time
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
	const delay = time.Minute // so long that a slow machine sees it waiting
	published := time.Now()
	v.Publish("orders.d.h.m.s", "0.0.1.0.billing", "")
	v.Publish("orders.d.h.m.s", "malformed", "")
	v.Eventually("the counts are up to date", func() bool {
		return v.Counted("orders.1m") == 1 && v.Counted("orders.unroutable") == 1 && v.HasStatistics()
	})
	longest := delay + 59*time.Second // in the queues of seconds
	if r := left(); r.Messages != 1 || r.Unroutable != 1 || r.Until == nil ||
		r.Until.Before(published.Add(longest).Truncate(time.Second)) || r.Until.After(time.Now().Add(longest)) {
		t.Errorf("left are %+v", r)
	} else if r.Next == nil || !r.Next.Equal(*r.Until) {
		t.Errorf("the next one arrives by %v, and the last one by %v", r.Next, r.Until)
	}
	if output, err := tf.Run("destroy", "-auto-approve", "-no-color"); err == nil ||
		!strings.Contains(output, "orders.1m") {
		t.Fatalf("the destroy with a message: %v\n%s", err, output)
	}
	v.Eventually("the message arrives", func() bool { return v.Depth("billing") == 1 })
	v.Eventually("nothing waits", func() bool {
		r := left()
		return r.Messages == 0 && r.Next == nil && r.Until == nil
	})
	there := harness.WithoutMarks(v.Objects())
	if output, err := tf.Run("destroy", "-auto-approve", "-no-color"); err == nil ||
		!strings.Contains(output, "orders.unroutable") {
		t.Fatalf("the destroy with an unroutable message: %v\n%s", err, output)
	}
	withoutDestination := there.Clone()
	delete(withoutDestination.Bindings, topology.Binding{Source: "orders.delivery", Destination: "billing",
		DestinationType: topology.ToQueue, RoutingKey: harness.DestinationKey(4, "billing")})
	v.MustHold(withoutDestination)
	must(tf, "apply", "-auto-approve", "-no-color")
	v.Compare(there, harness.WithoutMarks(v.Objects()))
	v.Purge("orders.unroutable")
	must(tf, "destroy", "-auto-approve", "-no-color")
	if v.Depth("billing") != 1 {
		t.Error("the message is gone from the receiver's queue")
	}
}

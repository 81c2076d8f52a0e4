// Terraform-provider-rabbitmqdelay declares delay cascades on RabbitMQ.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"runtime/debug"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider"
)

// version is set by the release build.
var version = "dev"

func main() {
	debug := flag.Bool("debug", false, "run under a debugger, such as delve")
	flag.Parse()
	collectLess()
	err := providerserver.Serve(context.Background(), provider.New(version), providerserver.ServeOpts{
		Address: "registry.terraform.io/rabbitmqdelay/rabbitmqdelay",
		Debug:   *debug,
	})
	if err != nil {
		log.Fatal(err)
	}
}

// collectLess makes garbage collections rarer, unless GOGC is set. A provider lives for a second and its heap is small: by default
// a third of the processor time of a plan goes into collecting it again and again.
func collectLess() {
	const percent = 200
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

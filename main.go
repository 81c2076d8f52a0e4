// Terraform-provider-rabbitmqdelay declares delay cascades on RabbitMQ.
package main

import (
	"context"
	"flag"
	"log"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider"
)

// version is set by the release build.
var version = "dev"

func main() {
	debug := flag.Bool("debug", false, "run under a debugger, such as delve")
	flag.Parse()
	err := providerserver.Serve(context.Background(), provider.New(version), providerserver.ServeOpts{
		Address: "registry.terraform.io/rabbitmqdelay/rabbitmqdelay",
		Debug:   *debug,
	})
	if err != nil {
		log.Fatal(err)
	}
}

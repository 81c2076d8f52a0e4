// Terraform-provider-rabbitmqdelay declares delay cascades on RabbitMQ.
package main

import (
	"flag"
	"log"
	"os"
	"runtime/debug"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider"
)

// version is set by the release build.
var version = "dev"

func main() {
	debug := flag.Bool("debug", false, "run under a debugger, such as delve")
	flag.Parse()
	collectLess()
	if !*debug {
		keepQuiet()
	}
	server := provider.NewServer(version)
	var options []tf6server.ServeOpt
	if *debug {
		options = append(options, tf6server.WithManagedDebug())
	}
	err := tf6server.Serve("registry.terraform.io/rabbitmqdelay/rabbitmqdelay",
		func() tfprotov6.ProviderServer { return server }, options...)
	if err != nil {
		log.Fatal(err)
	}
}

// collectLess makes garbage collections rarer, unless GOGC is set. A provider lives for a second and its heap is small,
// so that by default it is collected again and again.
func collectLess() {
	const percent = 200
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

// keepQuiet switches the log off where nobody reads it. The SDK writes everything unless it is told not to, some
// thousand lines for the plan of a large cascade. Terraform parses all of them and then drops them unless one of these
// variables asks for them.
func keepQuiet() {
	if isRead("TF_LOG") || isRead("TF_LOG_PROVIDER") {
		return
	}
	for _, name := range []string{"TF_LOG_SDK", "TF_LOG_PROVIDER_RABBITMQDELAY"} {
		if os.Getenv(name) == "" {
			_ = os.Setenv(name, "OFF")
		}
	}
}

func isRead(variable string) bool {
	level := os.Getenv(variable)
	return level != "" && !strings.EqualFold(level, "off")
}

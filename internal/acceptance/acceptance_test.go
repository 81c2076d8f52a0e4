// Package acceptance tells what users do, and what can go wrong meanwhile, on a real broker. It goes through Terraform,
// or through its plugin protocol where every request counts. It knows of the provider what a user knows. Read
// the package harness first: the stories are told with it.
package acceptance

import (
	"os"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(harness.ServeMode); mode != "" {
		harness.ServePlugin(mode)
		return
	}
	brokertest.Main(m)
}

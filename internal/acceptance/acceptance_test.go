// Package acceptance tells what users do, and what can go wrong meanwhile, on a real broker. It goes through Terraform,
// or through its plugin protocol where every request counts. It knows of the provider what a user knows. Read
// protocol_test.go and vhost_test.go first: the stories are told with them.
package acceptance

import (
	"fmt"
	"os"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(serveMode); mode != "" {
		servePlugin(mode)
		return
	}
	brokertest.Main(m)
}

// factories serve the provider within the test's own process.
var factories = map[string]func() (tfprotov6.ProviderServer, error){
	"rabbitmqdelay": newProvider,
}

// newProvider is a provider that does not wait until new queues are durable: see TestKilledNode for one that does.
func newProvider() (tfprotov6.ProviderServer, error) {
	return provider.NewServer("test", provider.BindAtOnce), nil
}

// expectEmptyPlan checks that nothing is planned.
var expectEmptyPlan = resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}}

// on is a configuration with a provider block for the broker.
func on(b *brokertest.Broker, configuration string, args ...any) string {
	return fmt.Sprintf("provider \"rabbitmqdelay\" {\n  endpoint = %q\n  username = %q\n  password = %q\n  amqp_uri "+
		"= %q\n}\n\n",
		b.Endpoint, b.Username, b.Password, b.AMQPURI) + fmt.Sprintf(configuration, args...)
}

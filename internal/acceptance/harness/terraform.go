package harness

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider"
)

// Providers serve the provider within the test's own process.
var Providers = map[string]func() (tfprotov6.ProviderServer, error){
	"rabbitmqdelay": NewProvider,
}

// NewProvider is a provider that does not wait until new queues are durable: see TestKilledNode for one that does.
func NewProvider() (tfprotov6.ProviderServer, error) {
	return provider.NewServer("test", provider.BindAtOnce), nil
}

// ExpectEmptyPlan checks that nothing is planned.
var ExpectEmptyPlan = resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}}

// WithProvider is a configuration with a provider block for the broker.
func WithProvider(b *brokertest.Broker, configuration string, args ...any) string {
	return fmt.Sprintf("provider \"rabbitmqdelay\" {\n  endpoint = %q\n  username = %q\n  password = %q\n  amqp_uri "+
		"= %q\n}\n\n",
		b.Endpoint, b.Username, b.Password, b.AMQPURI) + fmt.Sprintf(configuration, args...)
}

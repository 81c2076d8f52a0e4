package provider

import (
	"fmt"
	"os"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
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
	"rabbitmqdelay": func() (tfprotov6.ProviderServer, error) { return NewServer("test") },
}

// on is a configuration with a provider block for the broker.
func on(b *brokertest.Broker, configuration string, args ...any) string {
	return fmt.Sprintf("provider \"rabbitmqdelay\" {\n  endpoint = %q\n  username = %q\n  password = %q\n  amqp_uri = %q\n}\n\n",
		b.Endpoint, b.Username, b.Password, b.AMQPURI) + fmt.Sprintf(configuration, args...)
}

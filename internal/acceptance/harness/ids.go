package harness

import (
	"net/url"
	"strings"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// ImportID is that of a cascade or a ladder.
func ImportID(vhost, entry string) string {
	return url.PathEscape(vhost) + "/" + url.PathEscape(entry)
}

// DestinationID is "<vhost>/<delivery exchange>/<queue or exchange>/<its name>/<routing key>".
func DestinationID(vhost string, b topology.Binding) string {
	parts := []string{vhost, b.Source, string(b.DestinationType), b.Destination, b.RoutingKey}
	for i, part := range parts {
		parts[i] = strings.ReplaceAll(url.PathEscape(part), "%2A", "*")
	}
	return strings.Join(parts, "/")
}

// BindingOf is the binding that the ID of a destination stands for.
func BindingOf(id string) (topology.Binding, error) {
	parts := strings.Split(id, "/")
	for i, part := range parts {
		text, err := url.PathUnescape(part)
		if err != nil {
			return topology.Binding{}, err
		}
		parts[i] = text
	}
	return topology.Binding{
		Source: parts[1], DestinationType: topology.DestinationType(parts[2]), Destination: parts[3],
		RoutingKey: parts[4],
	}, nil
}

// Variables are the environment variables that stand in for attributes.
var Variables = map[string]string{
	"endpoint": "RABBITMQ_ENDPOINT", "username": "RABBITMQ_USERNAME", "password": "RABBITMQ_PASSWORD",
	"amqp_uri": "RABBITMQ_AMQP_URI", "cacert_file": "RABBITMQ_CACERT", "clientcert_file": "RABBITMQ_CLIENTCERT",
	"clientkey_file": "RABBITMQ_CLIENTKEY", "insecure": "RABBITMQ_INSECURE", "proxy": "RABBITMQ_PROXY",
}

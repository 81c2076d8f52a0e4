package broker_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/broker"
)

func TestConfigErrors(t *testing.T) {
	const secret = "s3cret"
	for name, test := range map[string]struct {
		config    broker.Config
		attribute string
	}{
		"no endpoint":               {broker.Config{}, "endpoint"},
		"endpoint without scheme":   {broker.Config{Endpoint: "localhost:15672"}, "endpoint"},
		"endpoint of AMQP":          {broker.Config{Endpoint: "amqp://localhost"}, "endpoint"},
		"endpoint without host":     {broker.Config{Endpoint: "http:///api"}, "endpoint"},
		"endpoint with credentials": {broker.Config{Endpoint: "http://u:" + secret + "@localhost"}, "endpoint"},
		"endpoint with query":       {broker.Config{Endpoint: "http://localhost/?x=" + secret}, "endpoint"},
		"unreadable endpoint": {broker.Config{Endpoint: "http://u:" + secret + "@local host:x"},
			"endpoint"},
		"AMQP URI": {broker.Config{Endpoint: "http://h", AMQPURI: "http://u:" + secret + "@h"},
			"amqp_uri"},
		"unreadable AMQP URI": {broker.Config{Endpoint: "http://h", AMQPURI: "amqp://u:" + secret +
			"@h:port"}, "amqp_uri"},
		"proxy": {broker.Config{Endpoint: "http://h", Proxy: "u:" + secret + "@h:3128"},
			"proxy"},
		"empty certificate authority": {broker.Config{Endpoint: "https://h", CACertPEM: []byte{}}, "cacert_pem"},
		"unreadable authority": {broker.Config{Endpoint: "https://h", CACertPEM: []byte("hello")},
			"cacert_pem"},
		"certificate without key": {broker.Config{Endpoint: "https://h", ClientCertPEM: []byte("x")},
			"clientkey_file"},
		"key without certificate": {broker.Config{Endpoint: "https://h", ClientKeyPEM: []byte("x")},
			"clientcert_file"},
		"unreadable certificate": {broker.Config{Endpoint: "https://h", ClientCertPEM: []byte(secret),
			ClientKeyPEM: []byte(secret)}, "clientcert_file"},
		"name of a header": {broker.Config{Endpoint: "http://h",
			Headers: map[string]string{"a b": secret}}, "headers"},
		"value of a header": {broker.Config{Endpoint: "http://h", Headers: map[string]string{"a": secret +
			"\n"}}, "headers"},
		"negative request timeout": {broker.Config{Endpoint: "http://h", RequestTimeout: -1}, "request_timeout"},
		"negative limit of parallel work": {broker.Config{Endpoint: "http://h", MaxParallelRequests: -1},
			"max_parallel_requests"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := broker.New(test.config)
			var wrong *broker.ConfigError
			if !errors.As(err, &wrong) || wrong.Attribute != test.attribute {
				t.Fatalf("the error is %v, not one on %s", err, test.attribute)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error contains a secret: %v", err)
			}
		})
	}
}

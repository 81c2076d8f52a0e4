package rabbit_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
)

func TestConfigErrors(t *testing.T) {
	const secret = "s3cret"
	for name, test := range map[string]struct {
		config    rabbit.Config
		attribute string
	}{
		"no endpoint":               {rabbit.Config{}, "endpoint"},
		"endpoint without scheme":   {rabbit.Config{Endpoint: "localhost:15672"}, "endpoint"},
		"endpoint of AMQP":          {rabbit.Config{Endpoint: "amqp://localhost"}, "endpoint"},
		"endpoint without host":     {rabbit.Config{Endpoint: "http:///api"}, "endpoint"},
		"endpoint with credentials": {rabbit.Config{Endpoint: "http://u:" + secret + "@localhost"}, "endpoint"},
		"endpoint with query":       {rabbit.Config{Endpoint: "http://localhost/?x=" + secret}, "endpoint"},
		"unreadable endpoint": {rabbit.Config{Endpoint: "http://u:" + secret + "@local host:x"},
			"endpoint"},
		"AMQP URI": {rabbit.Config{Endpoint: "http://h", AMQPURI: "http://u:" + secret + "@h"},
			"amqp_uri"},
		"unreadable AMQP URI": {rabbit.Config{Endpoint: "http://h", AMQPURI: "amqp://u:" + secret +
			"@h:port"}, "amqp_uri"},
		"proxy": {rabbit.Config{Endpoint: "http://h", Proxy: "u:" + secret + "@h:3128"},
			"proxy"},
		"empty certificate authority": {rabbit.Config{Endpoint: "https://h", CACertPEM: []byte{}}, "cacert_pem"},
		"unreadable authority": {rabbit.Config{Endpoint: "https://h", CACertPEM: []byte("hello")},
			"cacert_pem"},
		"certificate without key": {rabbit.Config{Endpoint: "https://h", ClientCertPEM: []byte("x")},
			"clientkey_file"},
		"key without certificate": {rabbit.Config{Endpoint: "https://h", ClientKeyPEM: []byte("x")},
			"clientcert_file"},
		"unreadable certificate": {rabbit.Config{Endpoint: "https://h", ClientCertPEM: []byte(secret),
			ClientKeyPEM: []byte(secret)}, "clientcert_file"},
		"name of a header": {rabbit.Config{Endpoint: "http://h",
			Headers: map[string]string{"a b": secret}}, "headers"},
		"line break behind the endpoint": {rabbit.Config{Endpoint: "http://h\n"}, "endpoint"},
		"space before the user name":     {rabbit.Config{Endpoint: "http://h", Username: " u"}, "username"},
		"line break behind the password": {rabbit.Config{Endpoint: "http://h", Password: secret + "\r\n"}, "password"},
		"space behind the AMQP URI": {rabbit.Config{Endpoint: "http://h", AMQPURI: "amqp://u:" + secret + "@h/ "},
			"amqp_uri"},
		"tab before the proxy": {rabbit.Config{Endpoint: "http://h", Proxy: "\thttp://u:" + secret + "@h"}, "proxy"},
		"header of credentials": {rabbit.Config{Endpoint: "http://h",
			Headers: map[string]string{"authorization": "Bearer " + secret}}, "headers"},
		"value of a header": {rabbit.Config{Endpoint: "http://h", Headers: map[string]string{"a": secret +
			"\n"}}, "headers"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := rabbit.New(test.config)
			var wrong *rabbit.ConfigError
			if !errors.As(err, &wrong) || wrong.Attribute != test.attribute {
				t.Fatalf("the error is %v, not one on %s", err, test.attribute)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error contains a secret: %v", err)
			}
		})
	}
}

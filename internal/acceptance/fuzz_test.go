package acceptance

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
)

// Whatever the provider is configured with, it is taken or refused with errors on attributes, and the
// errors keep the password to themselves.
func FuzzProviderConfiguration(f *testing.F) {
	for _, variable := range harness.Variables {
		f.Setenv(variable, "")
	}
	f.Add("https://rabbitmq.example.com:15671/mq/", "terraform", "amqps://rabbitmq.example.com", "",
		"http://u:p@proxy:3128", "X-Token", "t", "10s", int64(4), int64(16))
	f.Add("http://[::1%25lo]:15672", "", "amqp://u:p@h:1/%2F", "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----",
		"socks5://[::1]", "", "\x00", "-1s", int64(-1), int64(0))
	f.Add("\x00", "é", "amqp://%zz@h", "x", "//", "a b", "a\nb", "", int64(1<<62), int64(-1<<62))
	p := harness.NewServer(f)
	f.Fuzz(func(t *testing.T, endpoint, username, amqpURI, authorities, proxy, header, value, timeout string, retries,
		parallel int64) {
		const password = "hunter2 & co"
		p.T = t
		configuration := harness.Attributes{
			"endpoint": endpoint, "username": username, "password": password, "amqp_uri": amqpURI,
			"cacert_pem": authorities, "proxy": proxy,
			"headers": stringMap(map[string]string{header: value + password}), "request_timeout": timeout,
			"retry_timeout": fmt.Sprintf("%ds", retries), "max_parallel_requests": parallel,
		}
		for name, given := range configuration {
			text, isText := given.(string)
			if isText && !utf8.ValidString(text) || !utf8.ValidString(header+value) {
				t.Skip("Terraform knows no such text")
			}
			if isText && text == "" {
				delete(configuration, name)
			}
		}
		for _, d := range p.Configure(configuration) {
			mustBlameWhatIsGiven(t, d, configuration)
			if strings.Contains(d.Detail, password) {
				t.Fatalf("the error tells a secret: %s", d.Detail)
			}
		}
	})
}

func mustBlameWhatIsGiven(t *testing.T, d *tfprotov6.Diagnostic, configuration harness.Attributes) {
	t.Helper()
	if len(d.Attribute.Steps()) == 0 || d.Summary == "" || d.Detail == "" {
		t.Fatalf("an error without an attribute or words: %v", d)
	}
	name, ok := d.Attribute.Steps()[0].(tftypes.AttributeName)
	if !ok || configuration[string(name)] == nil && name != "username" {
		t.Fatalf("an error on %s, which was not given: %s", d.Attribute, d.Detail)
	}
}

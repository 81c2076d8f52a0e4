package acceptance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
)

// Without a provider block everything comes from the environment.
func TestAccProviderFromEnvironment(t *testing.T) {
	v := harness.NewVhost(t)
	for _, assignment := range v.Broker.Environ() {
		name, value, _ := strings.Cut(assignment, "=")
		t.Setenv(name, value)
	}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: harness.Providers,
		Steps: []resource.TestStep{{
			Config: fmt.Sprintf("resource \"rabbitmqdelay_cascade\" \"t\" {\n  vhost = %q\n  name = \"t\"\n  levels "+
				"= 2\n}\n", v.Name),
			Check: resource.TestCheckResourceAttr("rabbitmqdelay_cascade.t", "entry_exchange", "t.delay-01"),
		}},
	})
}

// An attribute goes before its variable, the variable before the default, and a fault is an error on the attribute.
// guest is a default only where RabbitMQ lets guest in.
func TestProviderConfiguration(t *testing.T) {
	for _, name := range []string{"RABBITMQ_ENDPOINT", "RABBITMQ_USERNAME", "RABBITMQ_PASSWORD", "RABBITMQ_AMQP_URI",
		"RABBITMQ_CACERT", "RABBITMQ_INSECURE", "RABBITMQ_PROXY"} {
		t.Setenv(name, "")
	}
	elsewhere := harness.Attributes{"endpoint": "https://rabbitmq.example.com:15671", "username": "u", "password": "p"}
	credentials := map[string]string{"username": "RABBITMQ_USERNAME", "password": "RABBITMQ_PASSWORD"}
	for name, is := range map[string]providerCase{
		"nothing":            {nil, nil, nil},
		"guest on 127.0.0.2": {nil, harness.Attributes{"endpoint": "http://127.0.0.2:15672"}, nil},
		"guest on ::1":       {nil, harness.Attributes{"endpoint": "http://[::1]:15672"}, nil},
		"guest on localhost": {nil, harness.Attributes{"endpoint": "https://localhost:15671/prefix/"}, nil},
		"no guest elsewhere": {nil, harness.Attributes{"endpoint": "http://rabbitmq.example.com:15672"},
			credentials},
		"no guest for a name like it": {nil, harness.Attributes{"endpoint": "http://localhost.example.com:15672"},
			credentials},
		"no guest by RABBITMQ_ENDPOINT": {map[string]string{"RABBITMQ_ENDPOINT": "http://rabbitmq.example.com"}, nil,
			credentials},
		"no password": {nil, harness.Attributes{"username": "u"},
			map[string]string{"password": "RABBITMQ_PASSWORD"}},
		"one from each": {map[string]string{"RABBITMQ_USERNAME": "u"},
			harness.Attributes{"endpoint": "http://rabbitmq.example.com", "password": "p"}, nil},
		"attribute before variable": {map[string]string{"RABBITMQ_ENDPOINT": "nonsense",
			"RABBITMQ_INSECURE": "perhaps"}, elsewhere.With(harness.Attributes{"insecure": false}), nil},
		"no URL": {nil, elsewhere.With(harness.Attributes{"endpoint": "rabbitmq.example.com:15672"}),
			map[string]string{"endpoint": "http://"}},
		"a variable that is no URL": {map[string]string{"RABBITMQ_ENDPOINT": "rabbitmq"},
			harness.Attributes{"username": "u", "password": "p"}, map[string]string{"endpoint": "http://"}},
		"endpoint with a password": {nil, elsewhere.With(
			harness.Attributes{"endpoint": "http://u:secret@rabbitmq.example.com"}),
			map[string]string{"endpoint": "username and password"}},
		"endpoint of the API itself": {nil, elsewhere.With(
			harness.Attributes{"endpoint": "https://rabbitmq.example.com/prefix/api/"}),
			map[string]string{"endpoint": "ends in /api; take /api away, the provider adds it"}},
		"RABBITMQ_ENDPOINT of the API": {map[string]string{"RABBITMQ_ENDPOINT": "http://127.0.0.1:15672/api"}, nil,
			map[string]string{"endpoint": "The value is that of the environment variable RABBITMQ_ENDPOINT."}},
		"a port that is none": {nil, elsewhere.With(
			harness.Attributes{"endpoint": "http://rabbitmq.example.com:99999"}),
			map[string]string{"endpoint": "port that is none"}},
		"no URL, and nothing else": {nil, harness.Attributes{"endpoint": "127.0.0.1:15672"},
			map[string]string{"endpoint": "is not a URL"}},
		"no scheme, and nothing else": {nil, harness.Attributes{"endpoint": "localhost:15672"},
			map[string]string{"endpoint": "does not begin with http:// or https://"}},
		"an AMQP port that is none": {nil, elsewhere.With(
			harness.Attributes{"amqp_uri": "amqp://rabbitmq.example.com:99999"}),
			map[string]string{"amqp_uri": "AMQP URI"}},
		"no value for a header": {nil, elsewhere.With(
			harness.Attributes{"headers": tftypes.NewValue(tftypes.Map{ElementType: tftypes.String},
				map[string]tftypes.Value{"A": tftypes.NewValue(tftypes.String, nil)})}),
			map[string]string{"headers": "null"}},
		"half a request": {nil, elsewhere.With(harness.Attributes{"max_parallel_requests": 1.5}),
			map[string]string{"max_parallel_requests": "it has to be a whole number"}},
		"a time without a unit": {nil, elsewhere.With(harness.Attributes{"request_timeout": "5"}),
			map[string]string{"request_timeout": "write a number and its unit"}},
		"no AMQP URI": {nil, elsewhere.With(
			harness.Attributes{"amqp_uri": "http://u:secret@rabbitmq.example.com"}),
			map[string]string{"amqp_uri": "AMQP URI"}},
		"a line break behind the password": {map[string]string{"RABBITMQ_PASSWORD": "secret\n"},
			harness.Attributes{"username": "u"}, map[string]string{"password": "begins or ends with white space, " +
				"such as the line break at the end of a file. Take it away. The value is that of the environment " +
				"variable RABBITMQ_PASSWORD."}},
		"a space before the endpoint": {nil, elsewhere.With(harness.Attributes{"endpoint": " http://127.0.0.1:15672"}),
			map[string]string{"endpoint": "white space"}},
		"a tab behind the user name": {nil, elsewhere.With(harness.Attributes{"username": "u\t"}),
			map[string]string{"username": "white space"}},
		"a header of credentials": {nil, elsewhere.With(
			harness.Attributes{"headers": tftypes.NewValue(tftypes.Map{ElementType: tftypes.String},
				map[string]tftypes.Value{"authorization": tftypes.NewValue(tftypes.String, "Bearer secret")})}),
			map[string]string{"headers": "Give a token of OAuth 2.0 as the password: AMQP takes it, too."}},
		"no proxy": {map[string]string{"RABBITMQ_PROXY": "proxy"}, elsewhere,
			map[string]string{"proxy": "URL of a proxy"}},
		"no such certificate": {map[string]string{"RABBITMQ_CACERT": "/nowhere/ca.pem"}, elsewhere,
			map[string]string{"cacert_file": "/nowhere/ca.pem"}},
		"insecure, perhaps": {map[string]string{"RABBITMQ_INSECURE": "perhaps"}, elsewhere,
			map[string]string{"insecure": "true or false"}},
		"insecure": {map[string]string{"RABBITMQ_INSECURE": "true"}, elsewhere, nil},
		"no time at all": {nil, elsewhere.With(harness.Attributes{"request_timeout": "0s"}),
			map[string]string{"request_timeout": "positive"}},
		"limits": {nil, elsewhere.With(harness.Attributes{"request_timeout": "3s", "retry_timeout": "0s",
			"max_parallel_requests": 1}), nil},
	} {
		t.Run(name, func(t *testing.T) {
			configureProvider(t, is, name)
		})
	}
}

type providerCase struct {
	environment   map[string]string
	configuration harness.Attributes
	errors        map[string]string // parts of the texts, by attribute
}

// configureProvider configures the provider and looks at what it does or says.
func configureProvider(t *testing.T, is providerCase, name string) {
	for variable, value := range is.environment {
		t.Setenv(variable, value)
	}
	diagnostics := harness.NewServer(t).Configure(is.configuration)
	text := harness.ErrorText(diagnostics)
	warns := name == "insecure"
	if warning := harness.WarningText(diagnostics); (warning != "") != warns {
		t.Errorf("the warning is %q", warning)
	}
	diagnostics = slices.DeleteFunc(diagnostics,
		func(d *tfprotov6.Diagnostic) bool { return d.Severity == tfprotov6.DiagnosticSeverityWarning })
	if len(diagnostics) != len(is.errors) {
		t.Fatalf("%d errors, want %d: %s", len(diagnostics), len(is.errors), text)
	}
	for _, d := range diagnostics {
		attribute := strings.TrimSuffix(strings.TrimPrefix(d.Attribute.String(), `AttributeName("`), `")`)
		if says, expected := is.errors[attribute]; !expected || !strings.Contains(d.Detail, says) {
			t.Errorf("an error on %q, which should say %q: %s", attribute, says, d.Detail)
		}
	}
	if strings.Contains(text, "secret") {
		t.Errorf("the error tells the password: %s", text)
	}
}

// A certificate that nothing verifies is one warning for a plan, however many resources there are, and it says where
// that comes from.
func TestInsecureWarning(t *testing.T) {
	t.Setenv("RABBITMQ_INSECURE", "")
	v := harness.NewVhost(t)
	p := harness.NewProtocol(t, v.Broker, harness.Attributes{"insecure": true})
	for source, configure := range map[string]func() []*tfprotov6.Diagnostic{
		"insecure is true": p.NewRun,
		"The environment variable RABBITMQ_INSECURE is true": func() []*tfprotov6.Diagnostic {
			t.Setenv("RABBITMQ_INSECURE", "1")
			return harness.NewServer(t).Configure(harness.Attributes{"endpoint": "https://127.0.0.1:1", "username": "u",
				"password": "p"})
		},
	} {
		diagnostics := configure()
		text := harness.WarningText(diagnostics)
		for _, part := range []string{source, "who has issued the certificate", "for which host", "until when",
			`AttributeName("insecure")`} {
			if len(diagnostics) != 1 || !strings.Contains(text, part) {
				t.Errorf("%d diagnostics, without %q: %q", len(diagnostics), part, text)
			}
		}
	}
	p.MustApply(harness.Attributes{"vhost": v.Name, "name": "t", "levels": 2})
	if text := harness.WarningText(p.Refresh(t.Context())); text != "" {
		t.Errorf("a resource warns again: %s", text)
	}
	if text := harness.WarningText(harness.NewServer(t).Configure(harness.Attributes{"insecure": false})); text != "" {
		t.Errorf("without a reason: %s", text)
	}
}

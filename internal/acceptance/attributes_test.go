package acceptance

import (
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
)

// What no attribute of a kind can take. Terraform itself refuses values of another type.
var (
	noDuration = []any{"", "x", "1", "1 s", "1y", "-1s", "0s", "0", "1s1", "9999999999h", "\x00", "é", "1e3s", "ſ",
		"-9223372036854775808ns"}
	noCount = []any{0, -1, -1 << 63, 1.5, new(big.Float).SetInf(false), big.NewFloat(1e30), big.NewFloat(-1e30)}
	noName  = []any{"", "amq.x", "amq.", strings.Repeat("n", 256), strings.Repeat("é", 128), "a\x00", "a\n",
		"\x7f"}
	noFormat = []any{"", "x", "%s", "%d%d", "%", "%d%", "%5", "%-3d", "%x", "%!", "%%d", "%.3d", "amq.%d",
		"a\x00%d", strings.Repeat("n", 255) + "%d", "%999d", "%99999999999999999999d"}
	noURL = []any{"", "x", "127.0.0.1", "127.0.0.1:15672", "http://", "http:///x", "ftp://host", "://",
		"http://[::1", "http://a b", "%", "http://host:port", "\x00", "mailto:a@b"}
	noFile = []any{"", "/nowhere/at/all.pem", "\x00", strings.Repeat("x/", 5000)}
	noPEM  = []any{"", "x", "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n",
		"-----BEGIN CERTIFICATE-----", "\x00"}
	noUnits = []any{harness.TextList(), harness.TextList("1h", "7m"), harness.TextList("1s", "1m"),
		harness.TextList("1m", "60s"), harness.TextList("1s", "1us"), harness.TextList("1500us"),
		harness.TextList("4000d"), harness.TextList("1d", "x"), harness.TextList("1d", ""), harness.TextList("-1d"),
		harness.TextList("4096s", "2048s", "1024s", "512s", "256s", "128s", "64s", "32s", "16s", "8s", "4s", "2s",
			"1s")}
	noArguments = []any{tftypes.NewValue(tftypes.String, "lazy"), tftypes.NewValue(tftypes.Bool, true),
		harness.TextList("x-expires"), harness.Arguments(map[string]any{"x-queue-type": "quorum"}),
		harness.Arguments(map[string]any{"x-message-ttl": 5}), harness.Arguments(map[string]any{"x-max-length": 5}),
		harness.Arguments(map[string]any{"x-dead-letter-exchange": "x"}),
		harness.Arguments(map[string]any{"x-dead-letter-routing-key": "x"}),
		harness.Arguments(map[string]any{"x-queue-leader-locator": "balanced"}),
		harness.Arguments(map[string]any{"x-quorum-initial-group-size": 3}),
		harness.Arguments(map[string]any{"x-queue-mode": "lazy"}),
		harness.Arguments(map[string]any{"x-expires": "60000"}),
		harness.Arguments(map[string]any{"x-single-active-consumer": "true"}),
		harness.Arguments(map[string]any{"x-overflow": "bogus"}), harness.Arguments(map[string]any{"x-expires": 0}),
		harness.Arguments(map[string]any{"x-expires": 1e20}), harness.Arguments(map[string]any{"x-max-priority": 5}),
		harness.Arguments(map[string]any{"x-dead-letter-strategy": "bogus"})}
	noMapOfDelays = []any{stringMap(nil), stringMap(map[string]string{"5s": "a"}),
		stringMap(map[string]string{"5s": "a", "60s": "b"}),
		stringMap(map[string]string{"5s": "a", "1m": "b", "1h": "c"}),
		tftypes.NewValue(tftypes.Map{ElementType: tftypes.String}, map[string]tftypes.Value{
			"5s": tftypes.NewValue(tftypes.String, nil), "1m": tftypes.NewValue(tftypes.String, "b")})}
	anythingGoes  = []any(nil)
	onlyTrueFalse = []any(nil)
)

// byDelay is a map for the delays 5s and 1m.
func byDelay(short, long string) map[string]tftypes.Value {
	return stringMap(map[string]string{"5s": short, "1m": long})
}

// TestWrongAttributes gives every attribute of the provider and of the resources, one at a time, every
// value that it cannot take. Each gives errors on that attribute, and on no other.
func TestWrongAttributes(t *testing.T) {
	for _, name := range harness.Variables {
		t.Setenv(name, "")
	}
	p := harness.NewServer(t)
	tried := 0
	t.Run("provider", func(t *testing.T) {
		good := harness.Attributes{"endpoint": "https://rabbitmq.example.com", "username": "u", "password": "p"}
		client := harness.NewAuthority(t, "a").Issue()
		certificate, key, garbage := writeFile(t, client.Certificate), writeFile(t, client.Key),
			writeFile(t, []byte("x"))
		headers := func(name, value string) any { return stringMap(map[string]string{name: value}) }
		tried += eachWrong(t, p.Provider, map[string][]any{
			"endpoint":        append(noURL, "http://u:p@host", "http://host?x=1", "http://host#x", "amqp://host"),
			"username":        {""},
			"password":        {""},
			"amqp_uri":        append(noURL, "http://host:5672"),
			"cacert_file":     append(noFile, garbage, filepath.Dir(certificate), key),
			"cacert_pem":      noPEM,
			"clientcert_file": append(noFile, garbage, filepath.Dir(certificate), key),
			"clientkey_file":  append(noFile, garbage, filepath.Dir(certificate), certificate),
			"insecure":        onlyTrueFalse,
			"proxy":           append(noURL, "amqp://host"),
			"headers": {headers("", "x"), headers("a b", "x"), headers("X:", "x"), headers("é", "x"),
				headers("X", "a\nb"), headers("X", "\x00")},
			"request_timeout": noDuration,
			"retry_timeout": slices.DeleteFunc(slices.Clone(noDuration),
				func(text any) bool { return text == "0s" || text == "0" }),
			"max_parallel_requests": append(noCount, 1001),
		}, func(wrong harness.Attributes) []*tfprotov6.Diagnostic {
			configuration := good.With(wrong)
			if _, ok := wrong["clientcert_file"]; ok {
				configuration["clientkey_file"] = key
			}
			if _, ok := wrong["clientkey_file"]; ok {
				configuration["clientcert_file"] = certificate
			}
			return p.Configure(configuration)
		})
	})
	t.Run("cascade", func(t *testing.T) {
		tried += eachWrong(t, p.Resource, map[string][]any{
			"name":                      noName,
			"vhost":                     {"", ".", ".."},
			"preset":                    {"", "Celery", "celery ", "sidekiq"},
			"prefix":                    {"", "tasks"}, // there is no preset
			"base":                      append(noCount, 1, 17, 1<<40),
			"levels":                    append(noCount, 30, 40, 1<<40),
			"max_delay":                 append(noDuration, "200000h"),
			"resolution":                append(noDuration, "1ns", "1500us", "90000h"),
			"units":                     noUnits,
			"exchange_name":             noFormat,
			"queue_name":                noFormat,
			"delivery_exchange":         append(noName, ".", "..", "amq.default", "t.delay-03", "t.unroutable"),
			"create_delivery_exchange":  onlyTrueFalse,
			"queue_type":                {"", "stream", "Quorum", "quorum ", "\x00"},
			"max_length":                noCount,
			"queue_leader_locator":      {"", "Balanced", "random", "min-masters"},
			"quorum_initial_group_size": noCount,
			"lookahead":                 append(noCount, 5, 1<<40),
			"strict_keys":               onlyTrueFalse,
			"internal_levels":           onlyTrueFalse,
			"park_unroutable":           onlyTrueFalse,
			"adopt":                     onlyTrueFalse,
			"force_destroy":             onlyTrueFalse,
			"drain_timeout":             noDuration,
			"timeouts":                  anythingGoes, // see TestWrongTimeouts
			"entry_exchange":            anythingGoes, // computed, as the six below
			"delivery_exchange_type":    anythingGoes,
			"summary":                   anythingGoes,
			"policies":                  anythingGoes,
			"queue_arguments":           noArguments,
			"publisher":                 anythingGoes,
			"exchanges":                 anythingGoes,
			"queues":                    anythingGoes,
			"bindings":                  anythingGoes,
		}, func(wrong harness.Attributes) []*tfprotov6.Diagnostic {
			configuration := harness.Attributes{"name": "t", "levels": 4}.With(wrong)
			for _, name := range []string{"max_delay", "units"} {
				if _, ok := wrong[name]; ok {
					delete(configuration, "levels")
				}
			}
			return p.Plan(t.Context(), configuration).Diagnostics
		})
	})
	t.Run("ladder", func(t *testing.T) {
		p := harness.NewServerOf(t, harness.LadderType)
		tried += eachWrong(t, p.Resource, map[string][]any{
			"name":  noName,
			"vhost": {"", ".", ".."},
			"delays": {harness.TextList(), harness.TextList("1s", ""), harness.TextList("1s", "x"),
				harness.TextList("-1s"), harness.TextList("0s"), harness.TextList("1500us"), harness.TextList("1.5s"),
				harness.TextList("87601h"), harness.TextList("60s", "1m"), harness.TextList("1s\x00")},
			"entry_exchange":      append(noName, ".", "..", "t.delivery", "t.unroutable"),
			"entry_exchange_type": {"", "Direct", "direct", "fanout", "headers", "topic "}, // there are no binding_keys
			"binding_keys": append(noMapOfDelays, byDelay("a", "a"), byDelay("#", "a"), byDelay("a.*", "*.b"),
				byDelay("a.#", "a"), byDelay(strings.Repeat("k", 256), "b"), byDelay(strings.Repeat("é", 128), "b")),
			"queue_names": append(noMapOfDelays, byDelay("", "b"), byDelay("a", "a"), byDelay("amq.a", "b"),
				byDelay(strings.Repeat("n", 256), "b"), byDelay("a\x00", "b"), byDelay("..", "b"),
				byDelay("t.unroutable", "b")),
			"queue_name": {"", "x", "%d", "%s%s", "%", "%s%", "%5s", "%%s", "amq.%s", "a\x00%s",
				strings.Repeat("n", 255) + "%s"},
			"delivery_exchange":         append(noName, ".", "..", "amq.default", "t.entry", "t.unroutable"),
			"create_delivery_exchange":  onlyTrueFalse,
			"deliver_to_queue":          append(noName, "t.delay-5s", "t.unroutable"),
			"dead_letter_routing_key":   {"", strings.Repeat("k", 256), strings.Repeat("é", 128)},
			"queue_type":                {"", "stream", "Quorum", "quorum ", "\x00"},
			"max_length":                noCount,
			"queue_leader_locator":      {"", "Balanced", "random", "min-masters"},
			"quorum_initial_group_size": noCount,
			"park_unroutable":           onlyTrueFalse,
			"adopt":                     onlyTrueFalse,
			"force_destroy":             onlyTrueFalse,
			"drain_timeout":             noDuration,
			"timeouts":                  anythingGoes, // as those of the cascade
			"delivery_exchange_type":    anythingGoes,
			"summary":                   anythingGoes, // computed, as the five below
			"levels":                    anythingGoes,
			"publisher":                 anythingGoes,
			"queue_arguments":           noArguments,
			"exchanges":                 anythingGoes,
			"queues":                    anythingGoes,
			"bindings":                  anythingGoes,
		}, func(wrong harness.Attributes) []*tfprotov6.Diagnostic {
			return p.Plan(t.Context(), harness.Attributes{"name": "t", "delays": harness.TextList("5s",
				"1m")}.With(wrong)).Diagnostics
		})
	})
	t.Run("destination", func(t *testing.T) {
		p := harness.NewServerOf(t, harness.DestinationType)
		noReference := []any{"", ".", "..", strings.Repeat("n", 256), strings.Repeat("é", 128), "a\x00", "a\n", "\x7f"}
		tried += eachWrong(t, p.Resource, map[string][]any{
			"vhost":             {"", ".", ".."},
			"delivery_exchange": append(noReference, "amq.default"),
			"levels":            append(noCount, 40, 1<<40),
			"address": {"", "*", "#", "a.*", "#.a", "a.*.b", strings.Repeat("a", 248),
				strings.Repeat("é", 124)},
			"match":             {"", "Exact", "prefix", "suffix ", "\x00"},
			"queue":             noReference,
			"exchange":          append(noReference, "t.delivery"),
			"force_destroy":     onlyTrueFalse,
			"drain_timeout":     noDuration,
			"triggers":          anythingGoes,
			"timeouts":          anythingGoes, // as those of the cascade
			"routing_key":       anythingGoes, // computed, as the one below
			"leftover_bindings": anythingGoes,
		}, func(wrong harness.Attributes) []*tfprotov6.Diagnostic {
			configuration := harness.Attributes{"delivery_exchange": "t.delivery", "levels": 4, "address": "orders",
				"queue": "orders"}.With(wrong)
			if _, ok := wrong["exchange"]; ok {
				delete(configuration, "queue")
			}
			return p.Plan(t.Context(), configuration).Diagnostics
		})
	})
	if !t.Failed() {
		figure(t, "wrong_values", tried)
	}
}

func TestWrongTimeouts(t *testing.T) {
	p := harness.NewServer(t)
	typ, ok := p.Resource.AttributeTypes["timeouts"].(tftypes.Object)
	if !ok {
		t.Fatalf("timeouts are of type %s", p.Resource.AttributeTypes["timeouts"])
	}
	for operation := range typ.AttributeTypes {
		for _, wrong := range []any{"", "x", "1", "1y", "1 d", "0d", "-1d", "\x00"} {
			diagnostics := p.Plan(t.Context(), harness.Attributes{"name": "t", "levels": 4,
				"timeouts": harness.NewObject(t, typ, harness.Attributes{operation: wrong})}).Diagnostics
			if !harness.HasErrors(diagnostics) {
				t.Errorf("%s = %q is no error", operation, wrong)
			}
			for _, d := range diagnostics {
				if want := `AttributeName("timeouts").AttributeName("` + operation +
					`")`; d.Attribute.String() != want {
					t.Errorf("%s = %q: an error on %s: %s", operation, wrong, d.Attribute, d.Summary)
				}
			}
		}
	}
}

// TestVariablesAreDocumented looks for each variable in the table of the provider's page.
func TestVariablesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../templates/index.md.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	for attribute, variable := range harness.Variables {
		row := regexp.MustCompile("(?m)^\\|.*`" + variable + "`.*\\|.*`" + attribute + "`.*\\|$")
		if !row.Match(page) {
			t.Errorf("there is no row for %s and %s", variable, attribute)
		}
	}
}

// eachWrong knows wrong values for every attribute of the type, so that one that is added is not forgotten.
// It returns how many there are.
func eachWrong(
	t *testing.T, typ tftypes.Object, values map[string][]any, try func(harness.Attributes) []*tfprotov6.Diagnostic,
) (tried int) {
	t.Helper()
	for name := range typ.AttributeTypes {
		if _, ok := values[name]; !ok {
			t.Errorf("there are no wrong values for the attribute %s", name)
		}
	}
	for name := range values {
		for _, value := range values[name] {
			diagnostics := try(harness.Attributes{name: value})
			tried++
			if !harness.HasErrors(diagnostics) {
				t.Errorf("%s = %#v is no error", name, value)
			}
			for _, d := range diagnostics {
				mustBlame(t, d, name, value)
			}
		}
	}
	return tried
}

// mustBlame makes sure that the error is on the attribute and says something.
func mustBlame(t *testing.T, d *tfprotov6.Diagnostic, name string, value any) {
	t.Helper()
	if !strings.HasPrefix(d.Attribute.String(), `AttributeName("`+name+`")`) {
		t.Errorf("%s = %#v: an error on %s: %s\n%s", name, value, d.Attribute, d.Summary, d.Detail)
	}
	if d.Summary == "" || d.Detail == "" {
		t.Errorf("%s = %#v: an error without words: %q %q", name, value, d.Summary, d.Detail)
	}
}

// TestPartlyUnknown has a provider whose password is not known yet: the known part is checked all the same.
func TestPartlyUnknown(t *testing.T) {
	for _, name := range harness.Variables {
		t.Setenv(name, "")
	}
	unknown := tftypes.NewValue(tftypes.String, tftypes.UnknownValue)
	p := harness.NewServer(t)
	for name := range map[string]bool{"endpoint": true, "username": true, "password": true, "amqp_uri": true,
		"cacert_file": true, "cacert_pem": true, "proxy": true} {
		configuration := harness.Attributes{"endpoint": "https://rabbitmq.example.com", "username": "u",
			"password": "p", name: unknown}
		harness.NoErrors(t, p.Configure(configuration))
		diagnostics := p.Configure(configuration.With(harness.Attributes{"request_timeout": "0s"}))
		if len(diagnostics) != 1 || diagnostics[0].Attribute.String() != `AttributeName("request_timeout")` {
			t.Errorf("beside an unknown %s: %s", name, harness.ErrorText(diagnostics))
		}
	}
	diagnostics := p.Configure(harness.Attributes{"endpoint": "rabbitmq.example.com", "username": "u",
		"password": unknown})
	for _, d := range diagnostics {
		if d.Attribute.String() == `AttributeName("password")` {
			t.Errorf("an error on what is unknown: %s", d.Detail)
		}
	}
	if !strings.Contains(harness.ErrorText(diagnostics), "begin with http") {
		t.Errorf("the endpoint beside an unknown password: %s", harness.ErrorText(diagnostics))
	}
}

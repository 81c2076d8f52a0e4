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
)

// What no attribute of a kind can take. Terraform itself refuses values of another type.
var (
	noDuration = []any{"", "x", "1", "1 s", "1d", "-1s", "0s", "0", "1s1", "9999999999h", "\x00", "é", "1e3s", "ſ",
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
	anythingGoes  = []any(nil)
	onlyTrueFalse = []any(nil)
)

// TestWrongAttributes gives every attribute of the provider and of the resources, one at a time, every
// value that it cannot take. Each gives errors on that attribute, and on no other.
func TestWrongAttributes(t *testing.T) {
	for _, name := range variables {
		t.Setenv(name, "")
	}
	p := newServer(t)
	tried := 0
	t.Run("provider", func(t *testing.T) {
		good := attributes{"endpoint": "https://rabbitmq.example.com", "username": "u", "password": "p"}
		client := newAuthority(t, "a").issue()
		certificate, key, garbage := writeFile(t, client.certificate), writeFile(t, client.key),
			writeFile(t, []byte("x"))
		headers := func(name, value string) any { return stringMap(map[string]string{name: value}) }
		tried += eachWrong(t, p.provider, map[string][]any{
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
		}, func(wrong attributes) []*tfprotov6.Diagnostic {
			configuration := good.with(wrong)
			if _, ok := wrong["clientcert_file"]; ok {
				configuration["clientkey_file"] = key
			}
			if _, ok := wrong["clientkey_file"]; ok {
				configuration["clientcert_file"] = certificate
			}
			return p.configure(configuration)
		})
	})
	t.Run("cascade", func(t *testing.T) {
		tried += eachWrong(t, p.resource, map[string][]any{
			"name":                      noName,
			"vhost":                     {"", ".", ".."},
			"preset":                    {"", "Celery", "celery ", "sidekiq"},
			"base":                      append(noCount, 1, 17, 1<<40),
			"levels":                    append(noCount, 30, 40, 1<<40),
			"max_delay":                 append(noDuration, "200000h"),
			"resolution":                append(noDuration, "1ns", "1500us", "90000h"),
			"exchange_name":             noFormat,
			"queue_name":                noFormat,
			"delivery_exchange":         append(noName, ".", "..", "t.delay-03", "t.unroutable"),
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
			"entry_exchange":            anythingGoes, // computed, as the seven below
			"delivery_exchange_type":    anythingGoes,
			"summary":                   anythingGoes,
			"policies":                  anythingGoes,
			"queue_arguments":           anythingGoes,
			"publisher":                 anythingGoes,
			"exchanges":                 anythingGoes,
			"queues":                    anythingGoes,
			"bindings":                  anythingGoes,
		}, func(wrong attributes) []*tfprotov6.Diagnostic {
			configuration := attributes{"name": "t", "levels": 4}.with(wrong)
			if _, ok := wrong["max_delay"]; ok {
				delete(configuration, "levels")
			}
			return p.plan(t.Context(), configuration).diagnostics
		})
	})
	t.Run("ladder", func(t *testing.T) {
		p := newServerOf(t, ladderType)
		tried += eachWrong(t, p.resource, map[string][]any{
			"name":  noName,
			"vhost": {"", ".", ".."},
			"delays": {textSet(), textSet("1s", ""), textSet("1s", "x"), textSet("-1s"),
				textSet("0s"), textSet("1500us"), textSet("1.5s"), textSet("87601h"), textSet("60s", "1m"),
				textSet("1s\x00")},
			"entry_exchange": append(noName, ".", "..", "t.delivery", "t.unroutable"),
			"queue_name": {"", "x", "%d", "%s%s", "%", "%s%", "%5s", "%%s", "amq.%s", "a\x00%s",
				strings.Repeat("n", 255) + "%s"},
			"delivery_exchange":         append(noName, ".", "..", "t.entry", "t.unroutable"),
			"create_delivery_exchange":  onlyTrueFalse,
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
			"summary":                   anythingGoes, // computed, as the four below
			"queue_arguments":           anythingGoes,
			"exchanges":                 anythingGoes,
			"queues":                    anythingGoes,
			"bindings":                  anythingGoes,
		}, func(wrong attributes) []*tfprotov6.Diagnostic {
			return p.plan(t.Context(), attributes{"name": "t", "delays": textSet("5s", "1m")}.with(wrong)).diagnostics
		})
	})
	t.Run("destination", func(t *testing.T) {
		p := newServerOf(t, destinationType)
		noReference := []any{"", ".", "..", strings.Repeat("n", 256), strings.Repeat("é", 128), "a\x00", "a\n", "\x7f"}
		tried += eachWrong(t, p.resource, map[string][]any{
			"vhost":             {"", ".", ".."},
			"delivery_exchange": noReference,
			"levels":            append(noCount, 40, 1<<40),
			"address": {"", "*", "#", "a.*", "#.a", "a.*.b", strings.Repeat("a", 248),
				strings.Repeat("é", 124)},
			"match":             {"", "Exact", "prefix", "suffix ", "\x00"},
			"queue":             noReference,
			"exchange":          append(noReference, "t.delivery"),
			"adopt":             onlyTrueFalse,
			"force_destroy":     onlyTrueFalse,
			"drain_timeout":     noDuration,
			"triggers":          anythingGoes,
			"timeouts":          anythingGoes, // as those of the cascade
			"routing_key":       anythingGoes, // computed, as the one below
			"leftover_bindings": anythingGoes,
		}, func(wrong attributes) []*tfprotov6.Diagnostic {
			configuration := attributes{"delivery_exchange": "t.delivery", "levels": 4, "address": "orders",
				"queue": "orders"}.with(wrong)
			if _, ok := wrong["exchange"]; ok {
				delete(configuration, "queue")
			}
			return p.plan(t.Context(), configuration).diagnostics
		})
	})
	if !t.Failed() {
		figure(t, "wrong_values", tried)
	}
}

func TestWrongTimeouts(t *testing.T) {
	p := newServer(t)
	typ, ok := p.resource.AttributeTypes["timeouts"].(tftypes.Object)
	if !ok {
		t.Fatalf("timeouts are of type %s", p.resource.AttributeTypes["timeouts"])
	}
	for operation := range typ.AttributeTypes {
		for _, wrong := range []any{"", "x", "1", "1d", "\x00"} {
			diagnostics := p.plan(t.Context(), attributes{"name": "t", "levels": 4,
				"timeouts": object(t, typ, attributes{operation: wrong})}).diagnostics
			if !hasErrors(diagnostics) {
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
	for attribute, variable := range variables {
		row := regexp.MustCompile("(?m)^\\|.*`" + variable + "`.*\\|.*`" + attribute + "`.*\\|$")
		if !row.Match(page) {
			t.Errorf("there is no row for %s and %s", variable, attribute)
		}
	}
}

// eachWrong knows wrong values for every attribute of the type, so that one that is added is not forgotten.
// It returns how many there are.
func eachWrong(
	t *testing.T, typ tftypes.Object, values map[string][]any, try func(attributes) []*tfprotov6.Diagnostic,
) (tried int) {
	t.Helper()
	for name := range typ.AttributeTypes {
		if _, ok := values[name]; !ok {
			t.Errorf("there are no wrong values for the attribute %s", name)
		}
	}
	for name := range values {
		for _, value := range values[name] {
			diagnostics := try(attributes{name: value})
			tried++
			if !hasErrors(diagnostics) {
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
	for _, name := range variables {
		t.Setenv(name, "")
	}
	unknown := tftypes.NewValue(tftypes.String, tftypes.UnknownValue)
	p := newServer(t)
	for name := range map[string]bool{"endpoint": true, "username": true, "password": true, "amqp_uri": true,
		"cacert_file": true, "cacert_pem": true, "proxy": true} {
		configuration := attributes{"endpoint": "https://rabbitmq.example.com", "username": "u", "password": "p",
			name: unknown}
		noErrors(t, p.configure(configuration))
		diagnostics := p.configure(configuration.with(attributes{"request_timeout": "0s"}))
		if len(diagnostics) != 1 || diagnostics[0].Attribute.String() != `AttributeName("request_timeout")` {
			t.Errorf("beside an unknown %s: %s", name, errorText(diagnostics))
		}
	}
	diagnostics := p.configure(attributes{"endpoint": "rabbitmq.example.com", "username": "u", "password": unknown})
	for _, d := range diagnostics {
		if d.Attribute.String() == `AttributeName("password")` {
			t.Errorf("an error on what is unknown: %s", d.Detail)
		}
	}
	if !strings.Contains(errorText(diagnostics), "begin with http") {
		t.Errorf("the endpoint beside an unknown password: %s", errorText(diagnostics))
	}
}

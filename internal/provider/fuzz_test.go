package provider

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// An import ID leads to one cascade, and from there back to the same ID's meaning; anything else is refused.
func FuzzParseImportID(f *testing.F) {
	for _, id := range []string{"%2F/tasks.delay-16", "v/e", "", "/", "//", "a/b/c", "%/x", "%zz/x", "v/%00", "%ff/x", "v/e?x#y", "+/ ", "v%2Fw/a%2Fb", "é/日"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		vhost, entry, err := parseImportID(id)
		if err != nil {
			if !strings.Contains(err.Error(), "<vhost>/<entry exchange>") {
				t.Fatalf("the error does not say what an ID is: %v", err)
			}
			return
		}
		if vhost == "" || entry == "" || !utf8.ValidString(vhost+entry) {
			t.Fatalf("%q leads to vhost %q, exchange %q", id, vhost, entry)
		}
		if v, e, err := parseImportID(importID(vhost, entry)); v != vhost || e != entry || err != nil {
			t.Fatalf("%q leads to %q and %q; their ID %q to %q and %q: %v", id, vhost, entry, importID(vhost, entry), v, e, err)
		}
	})
}

// Every cascade has an import ID that leads to it.
func FuzzImportID(f *testing.F) {
	f.Add("/", "tasks.delay-16")
	f.Add("a/b%", "c d+e?f#g")
	f.Add("..", "é\x00")
	f.Fuzz(func(t *testing.T, vhost, entry string) {
		if vhost == "" || entry == "" || !utf8.ValidString(vhost+entry) {
			t.Skip("RabbitMQ knows no such names")
		}
		id := importID(vhost, entry)
		if v, e, err := parseImportID(id); v != vhost || e != entry || err != nil {
			t.Fatalf("the ID %q of %q and %q leads to %q and %q: %v", id, vhost, entry, v, e, err)
		}
		if strings.ContainsAny(id, "'\" \n") {
			t.Fatalf("%q cannot stand in a shell's quotes", id)
		}
	})
}

// Whatever the provider is configured with, it is taken or refused with errors on attributes, and the
// errors keep the password to themselves.
func FuzzProviderConfiguration(f *testing.F) {
	for _, variable := range variables {
		f.Setenv(variable, "")
	}
	f.Add("https://rabbitmq.example.com:15671/mq/", "terraform", "amqps://rabbitmq.example.com", "", "http://u:p@proxy:3128", "X-Token", "t", "10s", int64(4), int64(16))
	f.Add("http://[::1%25lo]:15672", "", "amqp://u:p@h:1/%2F", "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----", "socks5://[::1]", "", "\x00", "-1s", int64(-1), int64(0))
	f.Add("\x00", "é", "amqp://%zz@h", "x", "//", "a b", "a\nb", "", int64(1<<62), int64(-1<<62))
	p := newServer(f)
	f.Fuzz(func(t *testing.T, endpoint, username, amqpURI, authorities, proxy, header, value, timeout string, retries, parallel int64) {
		const password = "hunter2 & co"
		p.t = t
		configuration := attributes{
			"endpoint": endpoint, "username": username, "password": password, "amqp_uri": amqpURI, "cacert_pem": authorities, "proxy": proxy,
			"headers": stringMap(map[string]string{header: value + password}), "request_timeout": timeout, "max_retries": retries, "max_parallel_requests": parallel,
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
		for _, d := range p.configure(configuration) {
			if len(d.Attribute.Steps()) == 0 || d.Summary == "" || d.Detail == "" {
				t.Fatalf("an error without an attribute or words: %v", d)
			}
			if name, ok := d.Attribute.Steps()[0].(tftypes.AttributeName); !ok || configuration[string(name)] == nil && name != "username" {
				t.Fatalf("an error on %s, which was not given: %s", d.Attribute, d.Detail)
			}
			if strings.Contains(d.Detail, password) {
				t.Fatalf("the error tells a secret: %s", d.Detail)
			}
		}
	})
}

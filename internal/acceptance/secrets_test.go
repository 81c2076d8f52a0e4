package acceptance

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
)

// What must be nowhere. Each has characters that change on the way into a URL, JSON or a log.
const (
	secretPassword     = `api "p@ss/w:rd%41 &<é`
	secretHeader       = `token; "s=3cret/&<%`
	secretAMQPPassword = `amqp p@ss/w:rd%41 &<é"`
)

// TestSecrets runs Terraform with everything that it can log, and looks for the secrets of the provider's configuration
// in all output. Some files that Terraform writes by itself, if it is told to, are not in our hands.
// TF_LOG_SDK_PROTO_DATA_DIR keeps the messages to the provider as they are, and a saved plan holds the values of
// variables.
func TestSecrets(t *testing.T) {
	t.Parallel()
	if os.Getenv("TF_ACC") == "" {
		t.Skip("runs Terraform: set TF_ACC")
	}
	b := brokertest.Shared(t)
	trusted := harness.NewAuthority(t, "trusted")
	certificate := trusted.Issue()
	echo := func(status int, contentType string, body func(request string) string) func(testing.TB) string {
		return func(t testing.TB) string {
			return harness.NewGateway(t, b, nil, func(w http.ResponseWriter, r *http.Request) bool {
				request, err := httputil.DumpRequest(r, true)
				if err != nil {
					panic(err)
				}
				text := string(request) + " from " + r.Header.Get("X-Token") + " " + secretPassword + " " +
					secretAMQPPassword
				w.Header().Set("Content-Type", contentType)
				w.Header().Set("Location", "http://user:"+url.QueryEscape(secretPassword)+"@127.0.0.1:1/"+
					url.PathEscape(secretHeader)+"?token="+url.QueryEscape(secretHeader))
				w.WriteHeader(status)
				_, _ = io.WriteString(w, body(text))
				return true
			}).URL
		}
	}
	asJSON := func(text string) string {
		encoded, err := json.Marshal(map[string]any{"error": text, "reason": text, "name": text,
			"rabbitmq_version": text})
		if err != nil {
			panic(err)
		}
		return string(encoded)
	}
	plain := func(text string) string { return text }
	through := func(b *brokertest.Broker) func(testing.TB) string {
		return func(testing.TB) string { return b.Endpoint }
	}

	scenarios := map[string]secretCommand{
		"success": {endpoint: through(b)},
		"success through a proxy": {endpoint: through(b), change: func(t testing.TB, variables map[string]string) {
			variables["proxy"] = harness.NewForwardProxy(t).As(harness.ProxyUser, harness.ProxyPassword)
		}},
		"a proxy that refuses": {endpoint: through(b), want: "407 Proxy Authentication Required",
			change: func(t testing.TB, variables map[string]string) {
				variables["proxy"] = harness.NewForwardProxy(t).As("another", harness.ProxyPassword)
			}},
		"no proxy there": {endpoint: through(b), want: "Check proxy",
			change: func(_ testing.TB, variables map[string]string) {
				variables["proxy"] = (&url.URL{Scheme: "http", User: url.UserPassword(harness.ProxyUser,
					harness.ProxyPassword), Host: "127.0.0.1:1"}).String()
			}},
		"wrong password": {endpoint: through(b), want: "authentication failed",
			change: func(_ testing.TB, variables map[string]string) {
				variables["username"] = "nobody"
			}},
		"wrong AMQP password": {endpoint: through(b), keeps: true,
			change: func(_ testing.TB, variables map[string]string) {
				variables["amqp_uri"] = strings.Replace(variables["amqp_uri"], "amqp://", "amqp://not-", 1)
			}},
		"AMQP URI that is none": {endpoint: through(b), want: "is not an AMQP URI",
			change: func(_ testing.TB, variables map[string]string) {
				variables["amqp_uri"] = "http://user:" + secretAMQPPassword + "@host"
			}},
		"header that is none": {endpoint: through(b), want: "that an HTTP header cannot have",
			change: func(_ testing.TB, variables map[string]string) {
				variables["header"] = secretHeader + "\n" + secretHeader
			}},
		"endpoint with credentials": {want: "contains credentials", endpoint: func(testing.TB) string {
			return "http://user:" + url.QueryEscape(secretPassword) + "@127.0.0.1:1"
		}},
		"certificate of a stranger": {want: "unknown authority",
			endpoint: func(t testing.TB) string { return harness.NewGateway(t, b, &certificate, nil).URL }},
		"unreachable": {want: "connection refused",
			endpoint: func(testing.TB) string { return "http://127.0.0.1:1" }},
		"500 with the request":     {want: "500", endpoint: echo(500, "application/json", asJSON)},
		"500 with text":            {want: "500", endpoint: echo(500, "text/plain", plain)},
		"400 with the request":     {want: "RabbitMQ", endpoint: echo(400, "application/json", asJSON)},
		"401 with the request":     {want: "authentication failed", endpoint: echo(401, "application/json", asJSON)},
		"403 with the request":     {want: "permission denied", endpoint: echo(403, "application/json", asJSON)},
		"404 with the request":     {want: "RabbitMQ", endpoint: echo(404, "application/json", asJSON)},
		"success with the request": {want: "RabbitMQ", endpoint: echo(200, "application/json", asJSON)},
		"success with text":        {want: "not what RabbitMQ sends", endpoint: echo(200, "text/plain", plain)},
		"redirect":                 {want: "redirects to", endpoint: echo(302, "text/plain", plain)},
		"panic":                    {endpoint: through(b), mode: "panic", want: "a fault in the provider"},
	}
	figure(t, "secret_scenarios", len(scenarios))
	for name, test := range scenarios {
		t.Run(name, func(t *testing.T) {
			lookForSecrets(t, test, b)
		})
	}
}

type secretCommand struct {
	endpoint func(testing.TB) string
	change   func(testing.TB, map[string]string)
	mode     string
	want     string // in the output of an apply; none for success
	keeps    bool   // because a destroy is refused
}

// lookForSecrets runs one command and looks for secrets in all that it writes.
func lookForSecrets(t *testing.T, test secretCommand, b *brokertest.Broker) {
	t.Parallel()
	vhost := brokertest.Vhost(t, b)
	api, amqp := secretUser(t, b, vhost, "api", secretPassword), secretUser(t, b, vhost, "amqp", secretAMQPPassword)
	variables := map[string]string{
		"endpoint": test.endpoint(t), "username": api, "password": secretPassword, "header": secretHeader,
		"proxy": "", "vhost": vhost,
		"amqp_uri": (&url.URL{Scheme: "amqp", User: url.UserPassword(amqp, secretAMQPPassword),
			Host: hostOf(t, b.AMQPURI)}).String(),
	}
	if test.change != nil {
		test.change(t, variables)
	}
	tf := harness.NewCommandLine(t, test.mode, secretConfiguration, variables)
	output, err := tf.Run("apply", "-auto-approve")
	if test.want == "" && err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	if test.mode == "panic" && strings.Contains(output, "OpenTofu") { // 1.12 shows it in its log alone
		output += tf.Log()
	}
	if test.want != "" && (err == nil || !strings.Contains(harness.OneLine(output), test.want)) {
		t.Errorf("the apply does not say %q but: %v %s", test.want, err, output)
	}
	if test.want == "" {
		for _, arguments := range [][]string{{"plan"}, {"apply", "-auto-approve", "-var=lookahead=1"}, {"show"},
			{"destroy", "-auto-approve"}} {
			refused := test.keeps && arguments[0] == "destroy"
			if output, err := tf.Run(arguments...); err != nil != refused {
				t.Errorf("%s: %v\n%s", arguments, err, output)
			}
		}
	}
	mustHideSecrets(tf, harness.ProxyPassword)
}

// secretUser is an administrator with the password.
func secretUser(t testing.TB, b *brokertest.Broker, vhost, role, password string) string {
	t.Helper()
	u := harness.NewUser(t, b, vhost+"-"+role)
	u.Vhost = vhost
	u.Succeeds(u.Admin.PutUser(u.Name, rabbithole.UserSettings{Password: password,
		Tags: rabbithole.UserTags{"administrator"}}))
	u.Grant([3]string{".*", ".*", ".*"})
	return u.Name
}

const secretConfiguration = `
terraform {
  required_providers {
    rabbitmqdelay = {
      source = "rabbitmqdelay/rabbitmqdelay"
    }
  }
}

variable "endpoint" { sensitive = true }
variable "username" {}
variable "password" { sensitive = true }
variable "amqp_uri" { sensitive = true }
variable "proxy" { sensitive = true }
variable "header" { sensitive = true }
variable "vhost" {}
variable "lookahead" { default = 2 }

provider "rabbitmqdelay" {
  endpoint      = var.endpoint
  username      = var.username
  password      = var.password
  amqp_uri      = var.amqp_uri
  proxy         = var.proxy == "" ? null : var.proxy
  headers       = { X-Token = var.header }
  retry_timeout = "200ms"
}

resource "rabbitmqdelay_cascade" "tasks" {
  name      = "tasks"
  vhost     = var.vhost
  levels    = 2
  lookahead = var.lookahead
}
`

// mustHideSecrets reads the output, and every file that Terraform has written.
func mustHideSecrets(tf *harness.CommandLine, further ...string) {
	tf.T.Helper()
	texts := map[string]string{"the output": tf.Output.String()}
	for _, pattern := range []string{"log", "terraform.tfstate", "terraform.tfstate.backup", "crash.log"} {
		text, err := os.ReadFile(filepath.Join(tf.Directory, pattern))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			tf.T.Fatal(err)
		}
		texts[pattern] = string(text)
	}
	if !strings.Contains(texts["log"], "rabbitmqdelay") {
		tf.T.Error("there is no log")
	}
	for where, text := range texts {
		for _, secret := range append(further, secretPassword, secretHeader, secretAMQPPassword) {
			for _, form := range forms(secret) {
				if at := strings.Index(text, form); at >= 0 {
					tf.T.Errorf("%s holds a secret as %q: … %s …", where, form,
						text[max(0, at-200):min(len(text), at+len(form)+200)])
				}
			}
		}
	}
}

// forms are what a secret may look like in a text.
func forms(secret string) []string {
	inJSON, err := json.Marshal(secret)
	if err != nil {
		panic(err)
	}
	var unescaped strings.Builder
	encoder := json.NewEncoder(&unescaped)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(secret); err != nil {
		panic(err)
	}
	_, inURL, _ := strings.Cut(url.UserPassword("", secret).String(), ":")
	trim := func(quoted string) string { return strings.Trim(strings.TrimSpace(quoted), `"`) }
	return []string{
		secret, trim(string(inJSON)), trim(unescaped.String()), trim(fmt.Sprintf("%q", secret)), inURL,
		url.QueryEscape(secret), url.PathEscape(secret),
		// The end of user:password, whatever the user's name: of three alignments one fits.
		inner(secret, 0), inner(secret, 1), inner(secret, 2),
	}
}

// inner is the part of the secret's base64 that does not depend on its surroundings.
func inner(secret string, skip int) string {
	rest := secret[skip:]
	return base64.RawStdEncoding.EncodeToString([]byte(rest[:len(rest)/3*3]))
}

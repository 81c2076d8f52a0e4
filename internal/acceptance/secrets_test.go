package acceptance

import (
	"context"
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
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"
	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

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
	trusted := newAuthority(t, "trusted")
	certificate := trusted.issue()
	echo := func(status int, contentType string, body func(request string) string) func(testing.TB) string {
		return func(t testing.TB) string {
			return newGateway(t, b, nil, func(w http.ResponseWriter, r *http.Request) bool {
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
			variables["proxy"] = newForwardProxy(t).as(proxyUser, proxyPassword)
		}},
		"a proxy that refuses": {endpoint: through(b), want: "407 Proxy Authentication Required",
			change: func(t testing.TB, variables map[string]string) {
				variables["proxy"] = newForwardProxy(t).as("another", proxyPassword)
			}},
		"no proxy there": {endpoint: through(b), want: "Check proxy",
			change: func(_ testing.TB, variables map[string]string) {
				variables["proxy"] = (&url.URL{Scheme: "http", User: url.UserPassword(proxyUser, proxyPassword),
					Host: "127.0.0.1:1"}).String()
			}},
		"wrong password": {endpoint: through(b), want: "authentication failed",
			change: func(_ testing.TB, variables map[string]string) {
				variables["username"] = "nobody"
			}},
		"wrong AMQP password": {endpoint: through(b), change: func(_ testing.TB, variables map[string]string) {
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
			endpoint: func(t testing.TB) string { return newGateway(t, b, &certificate, nil).URL }},
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
	tf := newCommandLine(t, test.mode, secretConfiguration, variables)
	output, err := tf.run("apply", "-auto-approve")
	if test.want == "" && err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	if test.mode == "panic" && strings.Contains(output, "OpenTofu") { // 1.12 shows it in its log alone
		output += tf.log()
	}
	if test.want != "" && (err == nil || !strings.Contains(oneLine(output), test.want)) {
		t.Errorf("the apply does not say %q but: %v %s", test.want, err, output)
	}
	if test.want == "" {
		for _, arguments := range [][]string{{"plan"}, {"apply", "-auto-approve", "-var=lookahead=1"}, {"show"},
			{"destroy", "-auto-approve"}} {
			if output, err := tf.run(arguments...); err != nil {
				t.Errorf("%s: %v\n%s", arguments, err, output)
			}
		}
	}
	tf.lookForSecrets(proxyPassword)
}

// oneLine undoes the line breaks and frames that Terraform puts into errors.
func oneLine(output string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(output, "│", " ")), " ")
}

// secretUser is an administrator with the password.
func secretUser(t testing.TB, b *brokertest.Broker, vhost, role, password string) string {
	t.Helper()
	u := newUser(t, b, vhost+"-"+role)
	u.vhost = vhost
	u.succeeds(u.admin.PutUser(u.name, rabbithole.UserSettings{Password: password,
		Tags: rabbithole.UserTags{"administrator"}}))
	u.grant([3]string{".*", ".*", ".*"})
	return u.name
}

// commandLine is a working directory with a configuration, whose provider is this test binary.
type commandLine struct {
	t         testing.TB
	directory string
	provider  string // the file that Terraform starts
	environ   []string
	output    strings.Builder
}

// serveMode is the variable that makes the test binary a provider, see TestMain.
const serveMode = "RABBITMQDELAY_TEST_SERVE"

// newCommandLine writes a configuration and its variables into a directory.
func newCommandLine(t testing.TB, mode, configuration string, variables map[string]string) *commandLine {
	t.Helper()
	tf := &commandLine{t: t, directory: t.TempDir()}
	plugins := t.TempDir()
	tf.provider = filepath.Join(plugins, "terraform-provider-rabbitmqdelay")
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, tf.provider)
	}
	rc := filepath.Join(plugins, "terraformrc")
	if err == nil {
		err = os.WriteFile(rc, fmt.Appendf(nil, "provider_installation {\n  dev_overrides {\n    "+
			"\"rabbitmqdelay/rabbitmqdelay\" = %q\n  }\n  direct {}\n}\n", plugins), 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(tf.directory, "main.tf"), []byte(configuration), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if mode == "" {
		mode = "serve"
	}
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "TF_") && !strings.HasPrefix(variable, "RABBITMQ_") {
			tf.environ = append(tf.environ, variable)
		}
	}
	tf.environ = append(tf.environ, "TF_CLI_CONFIG_FILE="+rc, "CHECKPOINT_DISABLE=1", serveMode+"="+mode,
		"TF_LOG_PATH="+filepath.Join(tf.directory, "log"))
	for _, log := range []string{"", "_CORE", "_PROVIDER", "_SDK", "_SDK_PROTO", "_SDK_FRAMEWORK",
		"_PROVIDER_RABBITMQDELAY"} {
		tf.environ = append(tf.environ, "TF_LOG"+log+"=TRACE")
	}
	for name, value := range variables {
		tf.environ = append(tf.environ, "TF_VAR_"+name+"="+value)
	}
	return tf
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

// run runs a command, and returns all that it prints.
func (tf *commandLine) run(arguments ...string) (output string, err error) {
	text, err := tf.command(arguments...).CombinedOutput()
	tf.output.Write(text)
	return string(text), err
}

// command is a command that can be run.
func (tf *commandLine) command(arguments ...string) *exec.Cmd {
	binary := os.Getenv("TF_ACC_TERRAFORM_PATH")
	if binary == "" {
		binary = "terraform"
	}
	if !slices.Contains(arguments, "-no-color") { // which has to come before the name of a file
		arguments = append(arguments, "-no-color")
	}
	command := exec.CommandContext(tf.t.Context(), binary, arguments...)
	command.Dir, command.Env = tf.directory, tf.environ
	return command
}

// lookForSecrets reads the output, and every file that Terraform has written.
func (tf *commandLine) lookForSecrets(further ...string) {
	tf.t.Helper()
	texts := map[string]string{"the output": tf.output.String()}
	for _, pattern := range []string{"log", "terraform.tfstate", "terraform.tfstate.backup", "crash.log"} {
		text, err := os.ReadFile(filepath.Join(tf.directory, pattern))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			tf.t.Fatal(err)
		}
		texts[pattern] = string(text)
	}
	if !strings.Contains(texts["log"], "rabbitmqdelay") {
		tf.t.Error("there is no log")
	}
	for where, text := range texts {
		for _, secret := range append(further, secretPassword, secretHeader, secretAMQPPassword) {
			for _, form := range forms(secret) {
				if at := strings.Index(text, form); at >= 0 {
					tf.t.Errorf("%s holds a secret as %q: … %s …", where, form,
						text[max(0, at-200):min(len(text), at+len(form)+200)])
				}
			}
		}
	}
}

// log is what Terraform and the provider have logged.
func (tf *commandLine) log() string {
	tf.t.Helper()
	text, err := os.ReadFile(filepath.Join(tf.directory, "log"))
	if err != nil {
		tf.t.Fatal(err)
	}
	return string(text)
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

// servePlugin is the test binary in the part of the provider.
func servePlugin(mode string) {
	server, err := newProvider()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	serve := func() tfprotov6.ProviderServer {
		if mode == "panic" {
			return faultyServer{server}
		}
		return server
	}
	if err := tf6server.Serve("registry.terraform.io/rabbitmqdelay/rabbitmqdelay", serve); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// faultyServer panics in the middle of an apply.
type faultyServer struct{ tfprotov6.ProviderServer }

func (s faultyServer) ApplyResourceChange(
	ctx context.Context, request *tfprotov6.ApplyResourceChangeRequest,
) (*tfprotov6.ApplyResourceChangeResponse, error) {
	if _, err := s.ProviderServer.ApplyResourceChange(ctx, request); err != nil {
		return nil, err
	}
	panic("a fault in the provider")
}

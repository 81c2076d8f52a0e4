package acceptance

import (
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
)

// TestTLS reaches the management API through TLS servers of all kinds. They stand in front of a broker
// because a broker shows one certificate only; TestMutualTLS talks to the broker's own listeners.
func TestTLS(t *testing.T) {
	trusted, stranger := newAuthority(t, "trusted"), newAuthority(t, "stranger")
	good := trusted.issue()
	otherHost := trusted.issue(func(c *x509.Certificate) {
		c.IPAddresses, c.DNSNames = nil,
			[]string{"rabbitmq.example.com"}
	})
	expired := trusted.issue(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	unknown := stranger.issue()
	file := writeFile(t, trusted.pem)
	two := append(append([]byte("# a bundle\n"), stranger.pem...), trusted.pem...)

	for name, test := range map[string]struct {
		certificate *pair
		provider    attributes
		environment string
		scheme      string
		want        []string // in the error; none for success
	}{
		"authority in a file":            {&good, attributes{"cacert_file": file}, "", "", nil},
		"authority as text":              {&good, attributes{"cacert_pem": string(trusted.pem)}, "", "", nil},
		"authority in a bundle":          {&good, attributes{"cacert_pem": string(two)}, "", "", nil},
		"authority from the environment": {&good, nil, file, "", nil},
		"text before the environment":    {&good, attributes{"cacert_pem": string(trusted.pem)}, "/nowhere", "", nil},
		"unknown authority": {&unknown, attributes{"cacert_file": file}, "", "",
			[]string{"unknown authority", "cacert_file or RABBITMQ_CACERT"}},
		"authority of the system only": {&good, nil, "", "", []string{"unknown authority",
			"cacert_file or RABBITMQ_CACERT"}},
		"wrong host name": {&otherHost, attributes{"cacert_file": file}, "", "",
			[]string{"127.0.0.1", "use a host name in endpoint for which"}},
		"expired": {&expired, attributes{"cacert_file": file}, "", "",
			[]string{"expired", "has to be renewed"}},
		"insecure, unknown authority": {&unknown, attributes{"insecure": true}, "", "", nil},
		"insecure, wrong host name":   {&otherHost, attributes{"insecure": true}, "", "", nil},
		"insecure, expired":           {&expired, attributes{"insecure": true}, "", "", nil},
		"https where http is spoken": {nil, nil, "", "https", []string{"begins with https://, but http:// is " +
			"spoken there"}},
		"http where https is spoken": {&good, nil, "", "http", []string{"not a RabbitMQ management API", "400"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("RABBITMQ_CACERT", test.environment)
			b := brokertest.Shared(t)
			g := newGateway(t, b, test.certificate, nil)
			endpoint := g.URL
			if test.scheme != "" {
				endpoint = test.scheme + strings.TrimLeft(endpoint, "htps")
			}
			at := *b
			at.Endpoint = endpoint
			connects(t, &at, test.provider, test.want...)
		})
	}
}

// connects tells whether a cascade can be looked for, or what the error says.
func connects(t *testing.T, b *brokertest.Broker, provider attributes, want ...string) {
	t.Helper()
	p := newProtocol(t, b, provider)
	began := time.Now()
	text := errorText(p.importState(t.Context(), importID("/", "there is no such exchange")))
	if len(want) == 0 {
		want = []string{`in vhost "/": there is no such exchange`}
	}
	for _, part := range append(want, "Could not import") {
		if !strings.Contains(strings.ToLower(text), strings.ToLower(part)) {
			t.Errorf("the error does not say %q but: %s", part, text)
		}
	}
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("after %s: what no second try mends is tried again", took)
	}
}

// TestMutualTLS takes a broker that asks for client certificates, under a path prefix, through all operations, AMQP
// included.
func TestMutualTLS(t *testing.T) {
	trusted, stranger := newAuthority(t, "trusted"), newAuthority(t, "stranger")
	server, client, foreign := trusted.issue(), trusted.issue(), stranger.issue()
	b := brokertest.Own(t, brokertest.WithPathPrefix("/rabbit/mq"),
		brokertest.WithTLS(brokertest.TLS{CA: trusted.pem, Cert: server.certificate, Key: server.key,
			RequireClientCert: true}))
	amqps := newRelay(t, hostOf(t, b.TLSAMQPURI))
	secure := *b
	secure.Endpoint, secure.AMQPURI = b.TLSEndpoint+"/", strings.Replace(b.TLSAMQPURI, hostOf(t, b.TLSAMQPURI),
		amqps.Addr().String(), 1)
	authority := attributes{"cacert_pem": string(trusted.pem)}
	with := func(p pair) attributes {
		return attributes{"cacert_pem": string(trusted.pem), "clientcert_file": writeFile(t, p.certificate),
			"clientkey_file": writeFile(t, p.key)}
	}

	connects(t, &secure, authority, "broker not reachable", "clientcert_file and clientkey_file")
	connects(t, &secure, with(foreign), "broker not reachable", "clientcert_file and clientkey_file")
	connects(t, &secure, with(client))
	without := *b
	without.Endpoint = strings.Replace(b.Endpoint, "http://", "https://", 1)
	connects(t, &without, with(client), "but http:// is spoken there")
	without.Endpoint = strings.Replace(b.TLSEndpoint, "https://", "http://", 1)
	once := with(client)
	once["retry_timeout"] = "0s"
	connects(t, &without, once, "an https port closes connections that speak http")

	t.Run("all operations", func(t *testing.T) {
		vhost := brokertest.Vhost(t, b)
		configuration := attributes{"vhost": vhost, "name": "tasks", "levels": 3}
		p := newProtocol(t, &secure, with(client))
		p.mustApply(configuration)
		p.mustBeSettled(configuration)
		noErrors(t, newProtocol(t, &secure, with(client)).importState(t.Context(), importID(vhost, "tasks.delay-02")))

		admin, err := rabbithole.NewClient(b.Endpoint, b.Username, b.Password)
		if err != nil {
			t.Fatal(err)
		}
		deleted, err := admin.DeleteQueue(vhost, "tasks.delay-01")
		if err != nil {
			t.Fatal(err)
		}
		_ = deleted.Body.Close()
		p.mustApply(configuration)
		p.mustBeSettled(configuration)

		before := amqps.connections.Load()
		noErrors(t, p.apply(t.Context(), p.plan(t.Context(), nil)))
		if amqps.connections.Load() == before {
			t.Error("the destroy did not ask over AMQP whether queues are empty")
		}
	})
}

// TestProxy goes through proxies that ask for credentials.
func TestProxy(t *testing.T) {
	t.Parallel()
	trusted := newAuthority(t, "trusted")
	certificate := trusted.issue()
	b := brokertest.Shared(t)
	plain, secure := *b, *b
	secure.Endpoint = newGateway(t, b, &certificate, nil).URL

	for _, endpoint := range []*brokertest.Broker{&plain, &secure} {
		proxy := newForwardProxy(t)
		through := func(url string) attributes { return attributes{"proxy": url, "cacert_pem": string(trusted.pem)} }
		connects(t, endpoint, through(proxy.as(proxyUser, proxyPassword)))
		if proxy.plain.Load()+proxy.connects.Load() == 0 {
			t.Errorf("%s was reached past the proxy", endpoint.Endpoint)
		}
		if isSecure := strings.HasPrefix(endpoint.Endpoint, "https"); isSecure && proxy.plain.Load() > 0 || !isSecure &&
			proxy.connects.Load() > 0 {
			t.Errorf("%s: %d plain requests and %d with CONNECT", endpoint.Endpoint, proxy.plain.Load(),
				proxy.connects.Load())
		}
		connects(t, endpoint, through(proxy.as(proxyUser, "wr0ng")), "407 Proxy Authentication Required",
			"belong into proxy")
		connects(t, endpoint, through(proxy.URL), "407 Proxy Authentication Required", "belong into proxy")
	}

	t.Run("unreachable", func(t *testing.T) {
		t.Parallel()
		p := newProtocol(t, b, attributes{"proxy": "http://" + proxyUser + ":s3cret@127.0.0.1:1",
			"retry_timeout": "0s"})
		text := errorText(p.importState(t.Context(), importID("/", "x")))
		if !strings.Contains(text, "Check proxy or RABBITMQ_PROXY") || strings.Contains(text, "s3cret") {
			t.Error(text)
		}
	})
}

// TestHeaders has a gateway that demands headers, and serves the API under a path.
func TestHeaders(t *testing.T) {
	t.Parallel()
	b := brokertest.Shared(t)
	g := newGateway(t, b, nil, func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.Header.Get("X-Gateway-Token") != "t0ken" || r.Header.Get("X-Tenant") != "blue":
			http.Error(w, "<html>who are you?</html>", http.StatusForbidden)
		case !strings.HasPrefix(r.Header.Get("User-Agent"), "terraform-provider-rabbitmqdelay/test (Terraform "):
			http.Error(w, r.UserAgent(), http.StatusForbidden)
		case !strings.HasPrefix(r.URL.EscapedPath(), "/a%2Fb/mq/api/"):
			http.NotFound(w, r)
		default:
			r.URL.RawPath = strings.TrimPrefix(r.URL.EscapedPath(), "/a%2Fb/mq")
			r.URL.Path = strings.TrimPrefix(r.URL.Path, "/a/b/mq")
			return false
		}
		return true
	})
	headers := func(values map[string]string) attributes {
		return attributes{"headers": stringMap(values), "retry_timeout": "0s"}
	}
	vhost := brokertest.Vhost(t, b)
	for _, slashes := range []string{"", "/", "//"} {
		at := *b
		at.Endpoint = g.URL + "/a%2Fb/mq" + slashes
		p := newProtocol(t, &at, headers(map[string]string{"X-Gateway-Token": "t0ken", "x-tenant": "blue"}))
		configuration := attributes{"vhost": vhost, "name": "ta/sks", "levels": 2}
		p.mustApply(configuration)
		p.mustBeSettled(configuration)
		noErrors(t, p.apply(t.Context(), p.plan(t.Context(), nil)))
	}
	at := *b
	at.Endpoint = g.URL + "/a%2Fb/mq"
	connects(t, &at, headers(map[string]string{"X-Gateway-Token": "t0ken"}), "403 Forbidden")
	at.Endpoint = g.URL + "/elsewhere"
	connects(t, &at, headers(map[string]string{"X-Gateway-Token": "t0ken", "X-Tenant": "blue"}),
		"not a RabbitMQ management API", at.Endpoint)
}

// TestWrongPEM gives every attribute for certificates and keys what it cannot take.
func TestWrongPEM(t *testing.T) {
	t.Parallel()
	trusted := newAuthority(t, "trusted")
	client, other := trusted.issue(), trusted.issue()
	encrypted := pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("secret")})
	traditional := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: []byte("secret"),
		Headers: map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "AES-128-CBC,00"}})
	damaged := strings.Replace(string(trusted.pem), "MII", "M!I", 1)
	undecodable := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("no certificate")}))
	cert, key := writeFile(t, client.certificate), writeFile(t, client.key)

	for attribute, given := range map[string]attributes{
		"cacert_file": {}, "cacert_pem": {}, "clientcert_file": {"clientkey_file": key},
		"clientkey_file": {"clientcert_file": cert},
	} {
		wrong := map[string]string{
			"empty":           "",
			"garbage":         "\x00\xff garbage",
			"of another kind": string(client.key),
			"damaged":         damaged,
			"undecodable":     undecodable,
			"cut off":         string(trusted.pem[:len(trusted.pem)/2]),
			"one of two bad":  string(trusted.pem) + damaged,
			"second bad":      string(trusted.pem) + undecodable,
		}
		if attribute == "clientkey_file" {
			wrong = map[string]string{
				"empty": "", "garbage": "\x00\xff garbage", "of another kind": string(client.certificate),
				"of another certificate": string(other.key),
				"encrypted":              string(encrypted), "encrypted, traditional": string(traditional),
				"cut off":     string(client.key[:len(client.key)/2]),
				"undecodable": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("no key")})),
			}
		}
		values := map[string]string{}
		for name, content := range wrong {
			values[name] = content
			if strings.HasSuffix(attribute, "_file") {
				values[name] = writeFile(t, []byte(content))
			}
		}
		if strings.HasSuffix(attribute, "_file") {
			values["missing"], values["a directory"], values["no name"] = filepath.Join(t.TempDir(), "none.pem"),
				t.TempDir(), ""
		}
		for name, value := range values {
			mustRefusePEM(t, attribute, name, given.with(attributes{attribute: value}))
		}
	}
	for attribute, path := range map[string]string{"clientcert_file": cert, "clientkey_file": key} {
		text := errorText(newServer(t).configure(attributes{"endpoint": "https://127.0.0.1:1", "username": "u",
			"password": "p", attribute: path}))
		if !strings.Contains(text, "is missing") {
			t.Errorf("%s alone: %s", attribute, text)
		}
	}
}

// mustRefusePEM makes sure that the fault is one error on the attribute.
func mustRefusePEM(t *testing.T, attribute, wrong string, files attributes) {
	t.Helper()
	diagnostics := newServer(t).configure(files.with(attributes{"endpoint": "https://127.0.0.1:1", "username": "u",
		"password": "p"}))
	text := errorText(diagnostics)
	if len(diagnostics) != 1 || !strings.Contains(text, attribute) ||
		diagnostics[0].Attribute.String() != `AttributeName("`+attribute+`")` {
		t.Errorf("%s, %s: %s", attribute, wrong, text)
	}
	if strings.HasPrefix(wrong, "encrypted") && !strings.Contains(text, "is encrypted") {
		t.Errorf("%s, %s: %s", attribute, wrong, text)
	}
}

func writeFile(t testing.TB, content []byte) string {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "*.pem")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Name()
}

func hostOf(t testing.TB, uri string) string {
	t.Helper()
	u, err := url.Parse(uri)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

func stringMap(values map[string]string) map[string]tftypes.Value {
	result := map[string]tftypes.Value{}
	for key, value := range values {
		result[key] = tftypes.NewValue(tftypes.String, value)
	}
	return result
}

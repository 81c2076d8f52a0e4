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

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
)

// TestTLS reaches the management API through TLS servers of all kinds. They stand in front of a broker
// because a broker shows one certificate only; TestMutualTLS talks to the broker's own listeners.
func TestTLS(t *testing.T) {
	trusted, stranger := harness.NewAuthority(t, "trusted"), harness.NewAuthority(t, "stranger")
	good := trusted.Issue()
	otherHost := trusted.Issue(func(c *x509.Certificate) {
		c.IPAddresses, c.DNSNames = nil,
			[]string{"rabbitmq.example.com"}
	})
	expired := trusted.Issue(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	unknown := stranger.Issue()
	file := writeFile(t, trusted.PEM)
	two := append(append([]byte("# a bundle\n"), stranger.PEM...), trusted.PEM...)

	for name, test := range map[string]struct {
		certificate *harness.Pair
		provider    harness.Attributes
		environment string
		scheme      string
		want        []string // in the error; none for success
	}{
		"authority in a file":            {&good, harness.Attributes{"cacert_file": file}, "", "", nil},
		"authority as text":              {&good, harness.Attributes{"cacert_pem": string(trusted.PEM)}, "", "", nil},
		"authority in a bundle":          {&good, harness.Attributes{"cacert_pem": string(two)}, "", "", nil},
		"authority from the environment": {&good, nil, file, "", nil},
		"text before the environment": {&good, harness.Attributes{"cacert_pem": string(trusted.PEM)}, "/nowhere", "",
			nil},
		"unknown authority": {&unknown, harness.Attributes{"cacert_file": file}, "", "",
			[]string{"unknown authority", "cacert_file or RABBITMQ_CACERT"}},
		"authority of the system only": {&good, nil, "", "", []string{"unknown authority",
			"cacert_file or RABBITMQ_CACERT"}},
		"wrong host name": {&otherHost, harness.Attributes{"cacert_file": file}, "", "",
			[]string{"127.0.0.1", "use a host name in endpoint for which"}},
		"expired": {&expired, harness.Attributes{"cacert_file": file}, "", "",
			[]string{"expired", "has to be renewed"}},
		"insecure, unknown authority": {&unknown, harness.Attributes{"insecure": true}, "", "", nil},
		"insecure, wrong host name":   {&otherHost, harness.Attributes{"insecure": true}, "", "", nil},
		"insecure, expired":           {&expired, harness.Attributes{"insecure": true}, "", "", nil},
		"https where http is spoken": {nil, nil, "", "https", []string{"begins with https://, but http:// is " +
			"spoken there"}},
		"http where https is spoken": {&good, nil, "", "http", []string{"not a RabbitMQ management API", "400"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("RABBITMQ_CACERT", test.environment)
			b := brokertest.Shared(t)
			g := harness.NewGateway(t, b, test.certificate, nil)
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
func connects(t *testing.T, b *brokertest.Broker, provider harness.Attributes, want ...string) {
	t.Helper()
	p := harness.NewProtocol(t, b, provider)
	began := time.Now()
	text := harness.ErrorText(p.ImportState(t.Context(), harness.ImportID("/", "there is no such exchange")))
	if len(want) == 0 {
		want = []string{`in vhost "/": there is no such exchange`}
	}
	for _, part := range append(want, "Could not import") {
		if !strings.Contains(strings.ToLower(text), strings.ToLower(part)) {
			t.Errorf("the error does not say %q but: %s", part, text)
		}
	}
	// The provider would try again for a minute. A busy machine takes seconds for one attempt.
	if took := time.Since(began); took > rabbit.DefaultRetryTimeout/2 {
		t.Errorf("after %s: what no second try mends is tried again", took)
	}
}

// TestMutualTLS takes a broker that asks for client certificates, under a path prefix, through all operations, AMQP
// included.
func TestMutualTLS(t *testing.T) {
	trusted, stranger := harness.NewAuthority(t, "trusted"), harness.NewAuthority(t, "stranger")
	server, client, foreign := trusted.Issue(), trusted.Issue(), stranger.Issue()
	b := brokertest.Own(t, brokertest.WithPathPrefix("/rabbit/mq"),
		brokertest.WithTLS(brokertest.TLS{CA: trusted.PEM, Cert: server.Certificate, Key: server.Key,
			RequireClientCert: true}))
	amqps := harness.NewRelay(t, hostOf(t, b.TLSAMQPURI))
	secure := *b
	secure.Endpoint, secure.AMQPURI = b.TLSEndpoint+"/", strings.Replace(b.TLSAMQPURI, hostOf(t, b.TLSAMQPURI),
		amqps.Addr().String(), 1)
	authority := harness.Attributes{"cacert_pem": string(trusted.PEM)}
	with := func(p harness.Pair) harness.Attributes {
		return harness.Attributes{"cacert_pem": string(trusted.PEM), "clientcert_file": writeFile(t, p.Certificate),
			"clientkey_file": writeFile(t, p.Key)}
	}

	connects(t, &secure, authority, "no secure connection", "clientcert_file and clientkey_file")
	connects(t, &secure, with(foreign), "no secure connection", "clientcert_file and clientkey_file")
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
		configuration := harness.Attributes{"vhost": vhost, "name": "tasks", "levels": 3}
		p := harness.NewProtocol(t, &secure, with(client))
		p.MustApply(configuration)
		p.MustBeSettled(configuration)
		harness.NoErrors(t, harness.NewProtocol(t, &secure, with(client)).ImportState(t.Context(),
			harness.ImportID(vhost, "tasks.delay-02")))

		admin, err := rabbithole.NewClient(b.Endpoint, b.Username, b.Password)
		if err != nil {
			t.Fatal(err)
		}
		deleted, err := admin.DeleteQueue(vhost, "tasks.delay-01")
		if err != nil {
			t.Fatal(err)
		}
		_ = deleted.Body.Close()
		p.MustApply(configuration)
		p.MustBeSettled(configuration)

		before := amqps.Connections.Load()
		harness.NoErrors(t, p.Apply(t.Context(), p.Plan(t.Context(), nil)))
		if amqps.Connections.Load() == before {
			t.Error("the destroy did not ask over AMQP whether queues are empty")
		}
	})
}

// TestProxy goes through proxies that ask for credentials.
func TestProxy(t *testing.T) {
	t.Parallel()
	trusted := harness.NewAuthority(t, "trusted")
	certificate := trusted.Issue()
	b := brokertest.Shared(t)
	plain, secure := *b, *b
	secure.Endpoint = harness.NewGateway(t, b, &certificate, nil).URL

	for _, endpoint := range []*brokertest.Broker{&plain, &secure} {
		proxy := harness.NewForwardProxy(t)
		through := func(url string) harness.Attributes {
			return harness.Attributes{"proxy": url, "cacert_pem": string(trusted.PEM)}
		}
		connects(t, endpoint, through(proxy.As(harness.ProxyUser, harness.ProxyPassword)))
		if proxy.Plain.Load()+proxy.Connects.Load() == 0 {
			t.Errorf("%s was reached past the proxy", endpoint.Endpoint)
		}
		if isSecure := strings.HasPrefix(endpoint.Endpoint, "https"); isSecure && proxy.Plain.Load() > 0 || !isSecure &&
			proxy.Connects.Load() > 0 {
			t.Errorf("%s: %d plain requests and %d with CONNECT", endpoint.Endpoint, proxy.Plain.Load(),
				proxy.Connects.Load())
		}
		connects(t, endpoint, through(proxy.As(harness.ProxyUser, "wr0ng")), "407 Proxy Authentication Required",
			"belong into proxy")
		connects(t, endpoint, through(proxy.URL), "407 Proxy Authentication Required", "belong into proxy")
	}

	t.Run("unreachable", func(t *testing.T) {
		t.Parallel()
		p := harness.NewProtocol(t, b, harness.Attributes{"proxy": "http://" + harness.ProxyUser +
			":s3cret@127.0.0.1:1", "retry_timeout": "0s"})
		text := harness.ErrorText(p.ImportState(t.Context(), harness.ImportID("/", "x")))
		if !strings.Contains(text, "Check proxy or RABBITMQ_PROXY") || strings.Contains(text, "s3cret") {
			t.Error(text)
		}
	})
}

// TestHeaders has a gateway that demands headers, and serves the API under a path.
func TestHeaders(t *testing.T) {
	t.Parallel()
	b := brokertest.Shared(t)
	g := harness.NewGateway(t, b, nil, func(w http.ResponseWriter, r *http.Request) bool {
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
	headers := func(values map[string]string) harness.Attributes {
		return harness.Attributes{"headers": stringMap(values), "retry_timeout": "0s"}
	}
	vhost := brokertest.Vhost(t, b)
	for _, slashes := range []string{"", "/", "//"} {
		at := *b
		at.Endpoint = g.URL + "/a%2Fb/mq" + slashes
		p := harness.NewProtocol(t, &at, headers(map[string]string{"X-Gateway-Token": "t0ken", "x-tenant": "blue"}))
		configuration := harness.Attributes{"vhost": vhost, "name": "ta/sks", "levels": 2}
		p.MustApply(configuration)
		p.MustBeSettled(configuration)
		harness.NoErrors(t, p.Apply(t.Context(), p.Plan(t.Context(), nil)))
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
	trusted := harness.NewAuthority(t, "trusted")
	client, other := trusted.Issue(), trusted.Issue()
	encrypted := pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("secret")})
	traditional := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: []byte("secret"),
		Headers: map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "AES-128-CBC,00"}})
	damaged := strings.Replace(string(trusted.PEM), "MII", "M!I", 1)
	undecodable := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("no certificate")}))
	cert, key := writeFile(t, client.Certificate), writeFile(t, client.Key)

	for attribute, given := range map[string]harness.Attributes{
		"cacert_file": {}, "cacert_pem": {}, "clientcert_file": {"clientkey_file": key},
		"clientkey_file": {"clientcert_file": cert},
	} {
		wrong := map[string]string{
			"empty":           "",
			"garbage":         "\x00\xff garbage",
			"of another kind": string(client.Key),
			"damaged":         damaged,
			"undecodable":     undecodable,
			"cut off":         string(trusted.PEM[:len(trusted.PEM)/2]),
			"one of two bad":  string(trusted.PEM) + damaged,
			"second bad":      string(trusted.PEM) + undecodable,
		}
		if attribute == "clientkey_file" {
			wrong = map[string]string{
				"empty": "", "garbage": "\x00\xff garbage", "of another kind": string(client.Certificate),
				"of another certificate": string(other.Key),
				"encrypted":              string(encrypted), "encrypted, traditional": string(traditional),
				"cut off":     string(client.Key[:len(client.Key)/2]),
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
			mustRefusePEM(t, attribute, name, given.With(harness.Attributes{attribute: value}))
		}
	}
	for attribute, path := range map[string]string{"clientcert_file": cert, "clientkey_file": key} {
		text := harness.ErrorText(harness.NewServer(t).Configure(harness.Attributes{"endpoint": "https://127.0.0.1:1",
			"username": "u", "password": "p", attribute: path}))
		if !strings.Contains(text, "is missing") {
			t.Errorf("%s alone: %s", attribute, text)
		}
	}
}

// mustRefusePEM makes sure that the fault is one error on the attribute.
func mustRefusePEM(t *testing.T, attribute, wrong string, files harness.Attributes) {
	t.Helper()
	diagnostics := harness.NewServer(t).Configure(files.With(harness.Attributes{"endpoint": "https://127.0.0.1:1",
		"username": "u", "password": "p"}))
	text := harness.ErrorText(diagnostics)
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

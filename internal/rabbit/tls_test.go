package rabbit_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-log/tflogtest"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// authority issues certificates for one test.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	a := authority{certificate: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour),
	}}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, a.certificate, a.certificate, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

// issue returns a certificate and its key, for an address on this host unless changed.
func (a authority) issue(t *testing.T, change func(*x509.Certificate)) (certificate, key []byte) {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "guest"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if change != nil {
		change(template)
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, private.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

// TestTLSFailures has each of them fail at the first attempt, with what to do.
func TestTLSFailures(t *testing.T) {
	known, unknown := newAuthority(t), newAuthority(t)
	for name, test := range map[string]struct {
		certificate func(*x509.Certificate)
		server      func(*tls.Config)
		client      func(*rabbit.Config)
		words       string
	}{
		"unknown authority":  {client: func(c *rabbit.Config) { c.CACertPEM = unknown.pem }, words: "cacert_file"},
		"system authorities": {client: func(c *rabbit.Config) { c.CACertPEM = nil }, words: "cacert_file"},
		"another host": {certificate: func(c *x509.Certificate) {
			c.IPAddresses = []net.IP{net.IPv4(127, 0, 0,
				2)}
		}, words: "host name in endpoint"},
		"expired": {certificate: func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) },
			words: "renewed"},
		"no client certificate": {server: func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert },
			words: "clientcert_file"},
		"old version": {server: func(c *tls.Config) {
			c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 //nolint:gosec // to be refused
		}, words: "protocol version"},
		"https to an http port": {client: func(c *rabbit.Config) {
			c.Endpoint = "https" + strings.TrimPrefix(plainServer(t), "http")
		}, words: "http:// is spoken there"},
	} {
		t.Run(name, func(t *testing.T) {
			certificate, key := known.issue(t, test.certificate)
			pair, err := tls.X509KeyPair(certificate, key)
			if err != nil {
				t.Fatal(err)
			}
			server := httptest.NewUnstartedServer(http.NotFoundHandler())
			server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}} //nolint:gosec // the default version
			server.Config.ErrorLog = log.New(t.Output(), "", 0)
			if test.server != nil {
				test.server(server.TLS)
			}
			server.StartTLS()
			t.Cleanup(server.Close)
			c := client(t, server.URL, func(c *rabbit.Config) {
				c.CACertPEM = known.pem
				if test.client != nil {
					test.client(c)
				}
			})
			var attempts lockedBuffer
			_, _, err = c.Vhost("/").Queue(tflogtest.RootLogger(t.Context(), &attempts), "q")
			says(t, err, rabbit.NotSecure, test.words)
			if lines := attempts.String(); !strings.Contains(lines, `"attempt":1,`) ||
				strings.Contains(lines, `"attempt":2,`) {
				t.Errorf("no request is to be tried again:\n%s", lines)
			}
		})
	}
}

func plainServer(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	return server.URL
}

func TestUnknownHost(t *testing.T) {
	_, _, err := client(t, "http://broker.invalid:15672").Vhost("/").Queue(t.Context(), "q")
	says(t, err, rabbit.Unreachable, "host name in endpoint")
}

// TestTLS goes through the management API and AMQP with certificates on both sides.
func TestTLS(t *testing.T) {
	a := newAuthority(t)
	certificate, key := a.issue(t, nil)
	b := brokertest.Own(t, brokertest.WithTLS(brokertest.TLS{CA: a.pem, Cert: certificate, Key: key,
		RequireClientCert: true}))
	config := rabbit.Config{Endpoint: b.TLSEndpoint, AMQPURI: b.TLSAMQPURI, Username: b.Username, Password: b.Password,
		CACertPEM: a.pem, RetryTimeout: time.Minute} // a busy broker may close a connection
	config.ClientCertPEM, config.ClientKeyPEM = a.issue(t, nil)
	c, err := rabbit.New(config)
	if err != nil {
		t.Fatal(err)
	}
	q := topology.Queue{Name: "q", Durable: true, Arguments: topology.Arguments{"x-queue-type": "quorum"}}
	run(t, c, "/", plan.Plan{{Steps: []plan.Step{plan.DeclareQueue{Queue: q}}}})
	conn, channel := dialTo(t, b, "/")
	publish(t, conn, "", "q")
	if _, ok, err := channel.Get("q", false); err != nil || !ok { // now only AMQP shows the message
		t.Fatal(ok, err)
	}
	if _, err := engine.Run(t.Context(), c.Vhost("/"),
		plan.Plan{{Steps: []plan.Step{plan.VerifyEmpty{Queues: []topology.Queue{q}}}}}); err == nil {
		t.Error("the queue was called empty")
	}
	want := expand(t, delay.Config{Name: "tasks", Levels: 28, CreateDeliveryExchange: true, ParkUnroutable: true})
	state := create(t, c, "/", want)
	run(t, c, "/", plan.Teardown(want, state.Topology, plan.Guard{}))
}

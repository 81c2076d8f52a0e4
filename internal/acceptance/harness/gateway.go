package harness

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
)

// Gateway stands in front of a broker's management API.
type Gateway struct {
	*httptest.Server
	Requests atomic.Int32
}

// NewGateway lets requests through to the broker that the check, if there is one, does not answer.
// It listens with TLS if there is a certificate.
func NewGateway(
	t testing.TB, b *brokertest.Broker, certificate *Pair, check func(http.ResponseWriter, *http.Request) (
		answered bool),
) *Gateway {
	t.Helper()
	forward, err := b.Forward()
	if err != nil {
		t.Fatal(err)
	}
	g := &Gateway{}
	g.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.Requests.Add(1)
		if check == nil || !check(w, r) {
			forward.ServeHTTP(w, r)
		}
	}))
	g.Config.ErrorLog = quietLog
	if certificate == nil {
		g.Start()
	} else {
		g.TLS = &tls.Config{Certificates: []tls.Certificate{parsed(t, *certificate)}} //nolint:gosec // of a test
		g.StartTLS()
	}
	t.Cleanup(g.Close)
	return g
}

// NewRewriter is a broker behind a gateway that changes the objects in its answers, also in lists. The change goes by
// the path of the request.
func NewRewriter(
	t testing.TB, b *brokertest.Broker, change func(path string, object map[string]any),
) *brokertest.Broker {
	t.Helper()
	forward, err := b.Forward()
	if err != nil {
		t.Fatal(err)
	}
	g := NewGateway(t, b, nil, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet {
			return false
		}
		answer := httptest.NewRecorder()
		forward.ServeHTTP(answer, r)
		var body any
		if err := json.Unmarshal(answer.Body.Bytes(), &body); err != nil && r.Context().Err() != nil {
			return true // the client does not wait for it any more
		} else if err != nil {
			t.Errorf("the answer of %s: %v", r.URL.Path, err)
		}
		objects, isList := body.([]any)
		if !isList {
			objects = []any{body}
		}
		for _, each := range objects {
			if object, is := each.(map[string]any); is {
				change(r.URL.Path, object)
			}
		}
		w.WriteHeader(answer.Code)
		_ = json.NewEncoder(w).Encode(body)
		return true
	})
	front := *b
	front.Endpoint = g.URL
	return &front
}

// WithoutAMQP is a broker whose AMQP a client does not find: none is given, and that of the host is another cluster's.
func WithoutAMQP(t testing.TB, b *brokertest.Broker) *brokertest.Broker {
	t.Helper()
	front := *b
	front.AMQPURI = ""
	front.Endpoint = NewGateway(t, b, nil, func(w http.ResponseWriter, r *http.Request) bool {
		isName := strings.Contains(r.URL.Path, "/api/cluster-name")
		if isName {
			_, _ = io.WriteString(w, `{"name":"another"}`)
		}
		return isName
	}).URL
	return &front
}

// WithDerivedAMQP is a broker whose AMQP a client finds by itself: the management API names the port.
func WithDerivedAMQP(t testing.TB, b *brokertest.Broker) *brokertest.Broker {
	t.Helper()
	uri, err := url.Parse(b.AMQPURI)
	if err != nil {
		t.Fatal(err)
	}
	front := NewRewriter(t, b, func(path string, object map[string]any) {
		if strings.HasSuffix(path, "/api/overview") {
			object["listeners"] = []any{map[string]any{"protocol": "amqp", "port": json.Number(uri.Port())}}
		}
	})
	front.AMQPURI = ""
	return front
}

// ForwardProxy is an HTTP proxy that asks for a user and a password: for plain requests, and with
// CONNECT for those with TLS.
type ForwardProxy struct {
	*httptest.Server
	Plain, Connects atomic.Int32
}

// What the forward proxy asks for.
const (
	ProxyUser     = "proxy-user"
	ProxyPassword = "p/roxy s@crét"
)

// NewForwardProxy starts a proxy that asks for the user and the password below.
func NewForwardProxy(t testing.TB) *ForwardProxy {
	t.Helper()
	p := &ForwardProxy{}
	forward := &httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}}
	p.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		want := "Basic " + base64.StdEncoding.EncodeToString([]byte(ProxyUser+":"+ProxyPassword))
		switch {
		case r.Header.Get("Proxy-Authorization") != want:
			w.Header().Set("Proxy-Authenticate", "Basic")
			http.Error(w, "no entry for "+r.Header.Get("Proxy-Authorization"), http.StatusProxyAuthRequired)
		case r.Method == http.MethodConnect:
			p.Connects.Add(1)
			tunnel(w, r.Host)
		default:
			p.Plain.Add(1)
			forward.ServeHTTP(w, r)
		}
	}))
	p.Config.ErrorLog = quietLog
	p.Start()
	t.Cleanup(p.Close)
	return p
}

// As is the URL of the proxy with credentials.
func (p *ForwardProxy) As(user, password string) string {
	return (&url.URL{Scheme: "http", User: url.UserPassword(user, password), Host: strings.TrimPrefix(p.URL,
		"http://")}).String()
}

func tunnel(w http.ResponseWriter, address string) {
	out, err := net.Dial("tcp", address)
	if err != nil {
		http.Error(w, "", http.StatusBadGateway)
		return
	}
	w.WriteHeader(http.StatusOK)
	in, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = out.Close()
		return
	}
	go join(in, out)
}

// join copies in both directions until one side ends.
func join(x, y net.Conn) {
	var ends sync.WaitGroup
	for _, way := range [][2]net.Conn{{x, y}, {y, x}} {
		ends.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			_ = x.Close()
			_ = y.Close()
		})
	}
	ends.Wait()
}

// Relay passes TCP connections on and counts them.
type Relay struct {
	net.Listener
	Connections atomic.Int32

	mutex sync.Mutex
	open  []net.Conn
}

// Break breaks off the connections that have been opened so far.
func (r *Relay) Break() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, connection := range r.open {
		_ = connection.Close()
	}
	r.open = nil
}

// NewRelay starts a relay to an address.
func NewRelay(t testing.TB, address string) *Relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{Listener: listener}
	t.Cleanup(func() { _ = r.Close() })
	go func() {
		for {
			in, err := r.Accept()
			if err != nil {
				return
			}
			r.Connections.Add(1)
			out, err := net.Dial("tcp", address)
			if err != nil {
				_ = in.Close()
				continue
			}
			r.mutex.Lock()
			r.open = append(r.open, in, out)
			r.mutex.Unlock()
			go join(in, out)
		}
	}()
	return r
}

// quietLog takes what servers say of handshakes that are meant to fail.
var quietLog = log.New(io.Discard, "", 0)

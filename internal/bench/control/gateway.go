package control

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
)

// A gateway stands in front of the management API, counts, and makes the way longer. Every request, and every new
// connection, costs one more round trip of the latency.
type gateway struct {
	*httptest.Server
	latency               time.Duration
	requests, connections atomic.Int64
}

func newGateway(b *brokertest.Broker, latency time.Duration) (*gateway, error) {
	forward, err := b.Forward()
	if err != nil {
		return nil, err
	}
	g := &gateway{latency: latency}
	g.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.requests.Add(1)
		time.Sleep(latency)
		forward.ServeHTTP(w, r)
	}))
	g.Listener = slowListener{g.Listener, g}
	g.Config.ErrorLog = forward.ErrorLog
	g.Start()
	return g, nil
}

// slowListener holds each new connection back for a round trip.
type slowListener struct {
	net.Listener
	*gateway
}

func (l slowListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.connections.Add(1)
	return &slowConn{Conn: conn, ready: time.Now().Add(l.latency)}, nil
}

// Addr and Close are ambiguous otherwise.
func (l slowListener) Addr() net.Addr { return l.Listener.Addr() }
func (l slowListener) Close() error   { return l.Listener.Close() }

// A relay passes AMQP connections on over the same longer way.
type relay struct {
	net.Listener
	target      string
	latency     time.Duration
	connections atomic.Int64
}

func newRelay(target string, latency time.Duration) (*relay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &relay{Listener: listener, target: target, latency: latency}
	go func() {
		for {
			conn, err := r.Accept()
			if err != nil {
				return
			}
			r.connections.Add(1)
			go r.pass(conn)
		}
	}()
	return r, nil
}

// pass holds back what the client sends, which is what answers wait for.
func (r *relay) pass(client net.Conn) {
	defer client.Close()
	time.Sleep(r.latency) // of opening
	server, err := net.Dial("tcp", r.target)
	if err != nil {
		return
	}
	defer server.Close()
	type chunk struct {
		data []byte
		at   time.Time
	}
	chunks := make(chan chunk, 1024)
	go func() {
		defer close(chunks)
		for {
			data := make([]byte, 32<<10)
			n, err := client.Read(data)
			if err != nil {
				return
			}
			chunks <- chunk{data[:n], time.Now().Add(r.latency)}
		}
	}()
	go func() {
		for c := range chunks {
			time.Sleep(time.Until(c.at))
			if _, err := server.Write(c.data); err != nil {
				break
			}
		}
		_ = server.Close()
	}()
	_, _ = io.Copy(client, server)
}

type slowConn struct {
	net.Conn
	ready time.Time
}

func (c *slowConn) Read(b []byte) (int, error) {
	if wait := time.Until(c.ready); wait > 0 {
		time.Sleep(wait)
	}
	return c.Conn.Read(b)
}

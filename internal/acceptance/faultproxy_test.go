package acceptance

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
)

// point is a place in an operation where something can go wrong. It is the first time that a request is made, before or
// after anything has been written. How often a request is repeated differs between runs. So does the order of requests
// that go out together. The points do not differ.
type point struct {
	method, path string
	afterWrite   bool
}

func (p point) String() string {
	when := "before"
	if p.afterWrite {
		when = "after"
	}
	return fmt.Sprintf("%s %s %s a write", p.method, p.path, when)
}

// fault is how a request goes wrong.
type fault string

// The faults.
const (
	answers500 fault = "500"
	answers503 fault = "503"
	resets     fault = "reset"     // before the request reaches the broker
	hangs      fault = "hang"      // likewise, until the client gives up
	truncates  fault = "truncated" // done, the answer cut short
	loses      fault = "lost"      // done, without an answer

	kills fault = "kill" // the provider's process ends before the broker gets the request
)

// persistence is how long the fault lasts.
type persistence string

// The lengths of time.
const (
	once persistence = "once"
	// always is every try of the request.
	always persistence = "always"
	// fromHere is everything from the request on; after an answer that is lost, the connection stays away.
	fromHere persistence = "from here"
)

// faultProxy stands in front of a broker's management API and spoils what happens at one point.
type faultProxy struct {
	*httptest.Server
	broker  *brokertest.Broker
	forward *httputil.ReverseProxy

	// The rest is about the operation under way.
	mutex   sync.Mutex
	written bool
	seen    []point
	at      point
	failure // of no kind, to take down the points
	struck  bool
	kill    func()
}

// newFaultProxy starts a proxy in front of the broker. Nothing goes wrong there at first.
func newFaultProxy(t testing.TB, b *brokertest.Broker) *faultProxy {
	t.Helper()
	forward, err := b.Forward()
	if err != nil {
		t.Fatal(err)
	}
	p := &faultProxy{broker: b, forward: forward}
	// A declaration that is repeated without a change, to see whether it is allowed, is no write.
	forward.ModifyResponse = func(response *http.Response) error {
		p.mutex.Lock()
		defer p.mutex.Unlock()
		p.written = p.written || response.Request.Method == http.MethodPut && response.StatusCode == http.StatusCreated
		return nil
	}
	p.Server = httptest.NewUnstartedServer(p)
	p.Config.ErrorLog = quietLog
	p.Start()
	t.Cleanup(p.Close)
	return p
}

// front is the broker behind the proxy.
func (p *faultProxy) front() *brokertest.Broker {
	front := *p.broker
	front.Endpoint = p.URL
	return &front
}

// points are those that were met.
func (p *faultProxy) points() []point {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return slices.Clone(p.seen)
}

// hasStruck tells whether the point was met.
func (p *faultProxy) hasStruck() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.struck
}

// strikes decides what goes wrong with one request, if anything does.
func (p *faultProxy) strikes(r *http.Request) fault {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	// The mark of a create is another one each time, and with it the hash of its binding's arguments.
	here := point{r.Method, hashOfArguments.ReplaceAllString(r.URL.EscapedPath(), "~{hash}"), p.written}
	p.written = p.written || r.Method != http.MethodGet && r.Method != http.MethodPut
	if here.method != http.MethodGet {
		here.afterWrite = true // which of several that go out together is the first does not matter
	}
	if !slices.Contains(p.seen, here) {
		p.seen = append(p.seen, here)
	}
	switch {
	case !p.struck && here == p.at:
		p.struck = true
		return p.fault
	case p.struck && p.lasts == fromHere && p.fault == loses:
		return resets
	case p.struck && (p.lasts == fromHere || p.lasts == always && here.method == p.at.method && here.path == p.at.path):
		return p.fault
	}
	return ""
}

var hashOfArguments = regexp.MustCompile(`~[\w-]+$`)

// ServeHTTP lets the broker finish what has reached it, also for a client that is killed meanwhile. What becomes of it
// otherwise, TestFaultyBroker shows.
func (p *faultProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch p.strikes(r) {
	case "":
		// Given a context that nothing can cancel, the proxy would ask the server whether the client has left.
		ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
		defer cancel()
		p.forward.ServeHTTP(w, r.WithContext(ctx))
	case answers500:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write([]byte(`{"error":"Internal Server Error","reason":"{error,{noproc,{gen_server2,call,[]}}}"}`))
	case answers503:
		http.Error(w, "no server is available to handle this request", http.StatusServiceUnavailable)
	case kills:
		p.kill()
		reset(w)
	case resets:
		reset(w)
	case hangs:
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server see the client leave
		<-r.Context().Done()
	case truncates:
		answer := httptest.NewRecorder()
		p.forward.ServeHTTP(answer, r)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(answer.Body.Len()+10))
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
		_ = http.NewResponseController(w).Flush()
		reset(w)
	case loses:
		p.forward.ServeHTTP(httptest.NewRecorder(), r)
		reset(w)
	}
}

// reset breaks the connection off.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

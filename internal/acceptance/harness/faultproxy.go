package harness

import (
	"context"
	"fmt"
	"io"
	"maps"
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

// Point is a place in an operation where something can go wrong. It is the first time that a request is made, before or
// after anything has been written. How often a request is repeated differs between runs. So does the order of requests
// that go out together. The points do not differ.
type Point struct {
	Method, Path string
	AfterWrite   bool
}

func (p Point) String() string {
	when := "before"
	if p.AfterWrite {
		when = "after"
	}
	return fmt.Sprintf("%s %s %s a write", p.Method, p.Path, when)
}

// Fault is how a request goes wrong.
type Fault string

// The faults.
const (
	Answers500 Fault = "500"
	Answers503 Fault = "503"
	Resets     Fault = "reset"     // before the request reaches the broker
	Hangs      Fault = "hang"      // likewise, until the client gives up
	Truncates  Fault = "truncated" // done, the answer cut short
	Loses      Fault = "lost"      // done, without an answer

	// IsOld answers a read as Remember has seen it.
	IsOld Fault = "old"

	Kills Fault = "kill" // the provider's process ends before the broker gets the request
)

// Persistence is how long the fault lasts.
type Persistence string

// The lengths of time.
const (
	Once Persistence = "once"
	// always is every try of the request.
	Always Persistence = "always"
	// fromHere is everything from the request on; after an answer that is lost, the connection stays away.
	FromHere Persistence = "from here"
)

// FaultProxy stands in front of a broker's management API and spoils what happens at one point.
type FaultProxy struct {
	*httptest.Server
	broker  *brokertest.Broker
	forward *httputil.ReverseProxy

	// The rest is about the operation under way.
	Mutex   sync.Mutex
	Written bool
	Seen    []Point
	Reads   []string                              // the URIs of the reads that were seen
	old     map[string]*httptest.ResponseRecorder // by URI
	At      Point
	Failure // of no kind, to take down the points
	Struck  bool
	Kill    func()
	killing sync.RWMutex // while Kill stops something, which may take longer than a request
}

// NewFaultProxy starts a proxy in front of the broker. Nothing goes wrong there at first.
func NewFaultProxy(t testing.TB, b *brokertest.Broker) *FaultProxy {
	t.Helper()
	forward, err := b.Forward()
	if err != nil {
		t.Fatal(err)
	}
	p := &FaultProxy{broker: b, forward: forward}
	// A declaration that is repeated without a change, to see whether it is allowed, is no write.
	forward.ModifyResponse = func(response *http.Response) error {
		p.Mutex.Lock()
		defer p.Mutex.Unlock()
		p.Written = p.Written || response.Request.Method == http.MethodPut && response.StatusCode == http.StatusCreated
		return nil
	}
	p.Server = httptest.NewUnstartedServer(p)
	p.Config.ErrorLog = quietLog
	p.Start()
	t.Cleanup(p.Close)
	return p
}

// Front is the broker behind the proxy.
func (p *FaultProxy) Front() *brokertest.Broker {
	front := *p.broker
	front.Endpoint = p.URL
	return &front
}

// Points are those that were met.
func (p *FaultProxy) Points() []Point {
	p.Mutex.Lock()
	defer p.Mutex.Unlock()
	return slices.Clone(p.Seen)
}

// Remember reads what a node that lags behind will answer.
func (p *FaultProxy) Remember(uris []string) {
	p.Mutex.Lock()
	defer p.Mutex.Unlock()
	p.old = map[string]*httptest.ResponseRecorder{}
	for _, uri := range uris {
		r := httptest.NewRequest(http.MethodGet, uri, nil)
		r.RequestURI = ""
		r.SetBasicAuth(p.broker.Username, p.broker.Password)
		p.old[uri] = httptest.NewRecorder()
		// That of the proxy takes the same lock.
		forward := *p.forward
		forward.ModifyResponse = nil
		forward.ServeHTTP(p.old[uri], r)
	}
}

// HasStruck tells whether the point was met.
func (p *FaultProxy) HasStruck() bool {
	p.Mutex.Lock()
	defer p.Mutex.Unlock()
	return p.Struck
}

// strikes decides what goes wrong with one request, if anything does.
func (p *FaultProxy) strikes(r *http.Request) Fault {
	p.Mutex.Lock()
	defer p.Mutex.Unlock()
	// The mark of a create is another one each time, and with it the hash of its binding's arguments.
	here := Point{r.Method, hashOfArguments.ReplaceAllString(r.URL.EscapedPath(), "~{hash}"), p.Written}
	p.Written = p.Written || r.Method != http.MethodGet && r.Method != http.MethodPut
	if here.Method != http.MethodGet {
		here.AfterWrite = true // which of several that go out together is the first does not matter
	}
	if !slices.Contains(p.Seen, here) {
		p.Seen = append(p.Seen, here)
	}
	if uri := r.URL.RequestURI(); r.Method == http.MethodGet && !slices.Contains(p.Reads, uri) {
		p.Reads = append(p.Reads, uri)
	}
	switch {
	case !p.Struck && here == p.At:
		p.Struck = true
		return p.Fault
	case p.Struck && p.Lasts == FromHere && p.Fault == Loses:
		return Resets
	case p.Struck && (p.Lasts == FromHere || p.Lasts == Always && here.Method == p.At.Method && here.Path == p.At.Path):
		return p.Fault
	}
	return ""
}

var hashOfArguments = regexp.MustCompile(`~[\w-]+$`)

// ServeHTTP lets the broker finish what has reached it, also for a client that is killed meanwhile. What becomes of it
// otherwise, TestFaultyBroker shows.
func (p *FaultProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fault := p.strikes(r)
	if fault == Kills {
		p.killing.Lock()
		defer p.killing.Unlock()
	} else {
		p.killing.RLock()
		p.killing.RUnlock() //nolint:staticcheck // only a wait
	}
	switch fault {
	case "":
		// Given a context that nothing can cancel, the proxy would ask the server whether the client has left.
		ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
		defer cancel()
		p.forward.ServeHTTP(w, r.WithContext(ctx))
	case IsOld:
		p.Mutex.Lock()
		answer := p.old[r.URL.RequestURI()]
		p.Struck = p.Struck && answer != nil
		p.Mutex.Unlock()
		if answer == nil {
			p.forward.ServeHTTP(w, r)
			return
		}
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	case Answers500:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write([]byte(`{"error":"Internal Server Error","reason":"{error,{noproc,{gen_server2,call,[]}}}"}`))
	case Answers503:
		http.Error(w, "no server is available to handle this request", http.StatusServiceUnavailable)
	case Kills:
		p.Kill()
		reset(w)
	case Resets:
		reset(w)
	case Hangs:
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server see the client leave
		<-r.Context().Done()
	case Truncates:
		answer := httptest.NewRecorder()
		p.forward.ServeHTTP(answer, r)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(answer.Body.Len()+10))
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
		_ = http.NewResponseController(w).Flush()
		reset(w)
	case Loses:
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

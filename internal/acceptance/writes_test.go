package acceptance

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
)

// writesFile holds the requests that change something, by operation. UPDATE_OUTPUT=1 writes it anew.
var writesFile = filepath.Join("testdata", "writes.txt")

// TestWrites compares the requests by which an operation changes a broker. Many go out together, so they are sorted.
// Their order has its tests in internal/plan.
func TestWrites(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for _, o := range harness.Interruptions {
		fmt.Fprintf(&all, "# %s\n", o)
		for _, write := range writesOf(o, harness.NewVhost(t)) {
			fmt.Fprintf(&all, "  %s\n", write)
		}
	}
	if os.Getenv("UPDATE_OUTPUT") != "" {
		if err := os.WriteFile(writesFile, []byte(all.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(writesFile)
	if err != nil {
		t.Fatal(err)
	}
	if all.String() != string(want) {
		t.Errorf("the requests differ from %s; if they should, write it anew with UPDATE_OUTPUT=1"+
			"\n%s", writesFile, all.String())
	}
}

// writesOf are the requests of the operation that change something, sorted.
func writesOf(o harness.Interrupted, v *harness.Vhost) []string {
	v.T.Helper()
	a := o.Prepare(v)
	recorder := &writeRecorder{next: a.Proxy.Config.Handler, vhost: v.Name}
	a.Proxy.Config.Handler = recorder
	_, diagnostics := a.Operate()
	harness.NoErrors(v.T, diagnostics)
	a.MustHold(a.Desired)
	recorder.mutex.Lock()
	defer recorder.mutex.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(recorder.writes))) // one may be repeated
}

// writeRecorder notes what reaches a broker.
type writeRecorder struct {
	next  http.Handler
	vhost string

	mutex  sync.Mutex
	writes []string
}

// varying are the parts of a request that differ from run to run: the mark of a create and
// that of an owner.
var varying = regexp.MustCompile(`((?:rabbitmqdelay-claim|x-owner)":")\w+|(routing_key":")[01]{64}|~[\w-]+$`)

func (r *writeRecorder) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if request.Method != http.MethodGet {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		request.Body = io.NopCloser(bytes.NewReader(body))
		write := fmt.Sprintf("%s %s", request.Method, varying.ReplaceAllString(request.URL.EscapedPath(), "$1$2~"))
		if len(body) > 0 {
			write += " " + varying.ReplaceAllString(string(body), "$1$2~")
		}
		r.mutex.Lock()
		r.writes = append(r.writes, strings.ReplaceAll(write, r.vhost, "{vhost}"))
		r.mutex.Unlock()
	}
	r.next.ServeHTTP(w, request)
}

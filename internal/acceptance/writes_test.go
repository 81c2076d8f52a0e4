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
	"time"
)

// writesFile holds the requests that change something, by operation and phase. UPDATE_OUTPUT=1 writes it anew.
var writesFile = filepath.Join("testdata", "writes.txt")

// TestWrites compares the requests that an operation changes a broker by, in its phases. Those of one phase go out
// together, so that their order says nothing.
func TestWrites(t *testing.T) {
	t.Parallel()
	if !strings.HasPrefix(newVhost(t).broker.Version, "4.3.") {
		t.Skip("the file is of RabbitMQ 4.3: before, exchanges are deleted one after the other")
	}
	var all strings.Builder
	for _, o := range interruptions {
		fmt.Fprintf(&all, "# %s\n", o)
		for i, phase := range o.writes(newVhost(t)) {
			fmt.Fprintf(&all, "%d\n", i+1)
			for _, write := range phase {
				fmt.Fprintf(&all, "  %s\n", write)
			}
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

// writes are the requests of the operation that change something, in phases.
func (o interrupted) writes(v *vhost) [][]string {
	v.Helper()
	a := o.prepare(v)
	recorder := &writeRecorder{next: a.proxy.Config.Handler, vhost: v.name}
	a.proxy.Config.Handler = recorder
	_, diagnostics := a.operate()
	noErrors(v, diagnostics)
	a.mustHold(a.desired)
	return recorder.phases()
}

// writeRecorder delays each write, so that those which go out together overlap.
type writeRecorder struct {
	next  http.Handler
	vhost string

	mutex  sync.Mutex
	writes []recordedWrite
}

type recordedWrite struct {
	text       string
	begun, end time.Time
}

// varying are the parts of a request that differ from run to run: the mark of a create.
var varying = regexp.MustCompile(`(rabbitmqdelay-claim":")\w+|~[\w-]+$`)

func (r *writeRecorder) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if request.Method == http.MethodGet {
		r.next.ServeHTTP(w, request)
		return
	}
	write := recordedWrite{begun: time.Now()}
	body, err := io.ReadAll(request.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	time.Sleep(50 * time.Millisecond)
	r.next.ServeHTTP(w, request)
	write.text = fmt.Sprintf("%s %s", request.Method, varying.ReplaceAllString(request.URL.EscapedPath(), "$1~"))
	if len(body) > 0 {
		write.text += " " + varying.ReplaceAllString(string(body), "$1~")
	}
	write.text = strings.ReplaceAll(write.text, r.vhost, "{vhost}")
	write.end = time.Now()
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.writes = append(r.writes, write)
}

// phases are the writes that overlap, or that follow each other and do the same to objects of one kind, sorted.
func (r *writeRecorder) phases() [][]string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	slices.SortFunc(r.writes, func(a, b recordedWrite) int { return a.begun.Compare(b.begun) })
	var phases [][]string
	var end time.Time
	for i, write := range r.writes {
		if i == 0 || write.begun.After(end) && !isAlike(phases[len(phases)-1], write.text) {
			phases = append(phases, nil)
		}
		last := len(phases) - 1
		phases[last] = append(phases[last], write.text)
		if write.end.After(end) {
			end = write.end
		}
	}
	for _, phase := range phases {
		slices.Sort(phase)
	}
	return phases
}

// isAlike tells whether all writes of a phase do what another one does: DELETE /api/queues, say.
func isAlike(phase []string, write string) bool {
	kind := func(text string) string { return strings.Join(strings.SplitN(text, "/", 4)[:3], "/") }
	return !slices.ContainsFunc(phase, func(text string) bool { return kind(text) != kind(write) })
}

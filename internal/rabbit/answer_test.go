package rabbit_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// TestEndlessAnswer has answers that do not end. The memory of other tests would count: it does not run beside them.
func TestEndlessAnswer(t *testing.T) { //nolint:paralleltest // see above
	const most = 64 << 20
	levels := expand(t, delay.Config{Name: "t", Levels: 28, CreateDeliveryExchange: true})
	declare := plan.Plan{{Steps: []plan.Step{plan.DeclareExchange{Exchange: topology.Exchange{Name: "x",
		Type: "topic", Durable: true}}}}}
	for name, test := range map[string]struct {
		status int
		header http.Header
		do     func(context.Context, *rabbit.Client) error
		says   string
	}{
		"everything": {200, nil, func(ctx context.Context, c *rabbit.Client) error {
			_, err := c.Vhost("v").ReadExisting(ctx, levels)
			return err
		}, "is larger than "},
		"everything, of a length that is told": {200, http.Header{"Content-Length": {"999999999999"}},
			func(ctx context.Context, c *rabbit.Client) error {
				_, err := c.Vhost("v").ReadExisting(ctx, levels)
				return err
			}, "is larger than "},
		"compressed everything": {200, http.Header{"Content-Encoding": {"gzip"}},
			func(ctx context.Context, c *rabbit.Client) error {
				_, err := c.Vhost("v").ReadExisting(ctx, levels)
				return err
			}, "is larger than "},
		"a list": {200, nil, func(ctx context.Context, c *rabbit.Client) error {
			_, err := c.Vhost("v").Read(ctx, topology.New())
			return err
		}, "the answer of /base/api/exchanges/v is larger than 48 MiB: is that the management API?"},
		"an object": {200, nil, func(ctx context.Context, c *rabbit.Client) error {
			_, _, err := c.Vhost("v").Queue(ctx, "q/r")
			return err
		}, "the answer of /base/api/queues/v/q%2Fr is larger than 1 MiB: is that the management API?"},
		"an object, refused": {404, nil, func(ctx context.Context, c *rabbit.Client) error {
			_, _, err := c.Vhost("v").Queue(ctx, "q")
			return err
		}, "the answer of /base/api/queues/v/q is larger than 1 MiB: is that the management API?"},
		"a write": {201, nil, func(ctx context.Context, c *rabbit.Client) error {
			_, err := engine.Run(ctx, c.Vhost("v"), declare)
			return err
		}, "the answer of /base/api/exchanges/v/x is larger than 1 MiB: is that the management API?"},
	} {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // see above
			client := withAnswers(t, func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
					t.Error("the client takes compressed answers: of which size they are is not known then")
				}
				for name, values := range test.header {
					w.Header()[name] = values
				}
				w.WriteHeader(test.status)
				for _, err := w.Write(noEnd); err == nil; _, err = w.Write(noEnd) {
				}
			})
			var err error
			peak := leastPeakOf(most, func() { err = test.do(t.Context(), client) })
			if !rabbit.IsKind(err, rabbit.NotManagementAPI) || !strings.Contains(fmt.Sprint(err), test.says) {
				t.Error(err)
			}
			if peak > most {
				t.Errorf("it takes %d MiB of memory", peak>>20)
			}
		})
	}
}

var noEnd = []byte("[" + strings.Repeat(" ", 1<<16))

// leastPeakOf tries up to three times to stay below a number of bytes: a busy machine collects garbage late.
func leastPeakOf(most int64, do func()) int64 {
	peak := peakOf(do)
	for try := 1; try < 3 && peak > most; try++ {
		peak = min(peak, peakOf(do))
	}
	return peak
}

// peakOf is how much memory something takes, in bytes, beyond the memory taken before.
func peakOf(do func()) (peak int64) {
	defer debug.SetGCPercent(debug.SetGCPercent(5)) // so that unused memory hardly counts
	runtime.GC()
	inUse := func() int64 {
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc) //nolint:gosec // far from the limit
	}
	before, done := inUse(), make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	for {
		peak = max(peak, inUse()-before)
		select {
		case <-done:
			return peak
		case <-time.After(time.Millisecond):
		}
	}
}

// Answers of a usual size are read however many there are, one after the other.
func TestLargeAnswers(t *testing.T) {
	t.Parallel()
	list := `[{"name":"amq.direct","type":"direct"}` + strings.Repeat(
		`,{"name":"`+strings.Repeat("x", 250)+`","type":"topic","arguments":{}}`, 50_000) + "]"
	client := withAnswers(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "policies") {
			_, _ = w.Write([]byte("[]"))
			return
		}
		_, _ = w.Write([]byte(list))
	})
	for range 4 {
		if _, err := client.Vhost("v").Read(t.Context(), topology.New()); err != nil {
			t.Fatalf("of %d MiB: %v", len(list)>>20, err)
		}
	}
}

// withAnswers is a client of something that answers like that.
func withAnswers(t *testing.T, handle http.HandlerFunc) *rabbit.Client {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	client, err := rabbit.New(rabbit.Config{Endpoint: server.URL + "/base", Username: "user", Password: "password",
		RequestTimeout: time.Minute, // a busy machine may take long for all of an answer
		RetryTimeout:   rabbit.DefaultRetryTimeout})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

package brokertest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// Shared returns the broker that the tests of one binary share, with its data in memory. It starts at its first use; a
// package that uses it has a TestMain that calls [Main].
func Shared(t testing.TB) *Broker {
	t.Helper()
	b, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var (
	sharedStarted bool
	shared        = sync.OnceValues(func() (*Broker, error) {
		sharedStarted = true
		return Start(context.Background(), os.Stderr, InMemory())
	})
)

// Own starts a broker for one test, which may configure, stop and restart it. It is gone when the test is done.
func Own(t testing.TB, opts ...Option) *Broker {
	t.Helper()
	b, err := Start(t.Context(), t.Output(), append(opts, func(o *options) { o.own = true })...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// testedVariable names a file for the version of RabbitMQ that the tests ran on, see internal/tools/each-broker.
const testedVariable = "TESTED"

// Guard comes first in a program other than a test that starts a cluster. The program runs once more to watch over
// that, and then Guard does not return.
func Guard() {
	if label := os.Getenv(guardVariable); label != "" {
		guard(label)
		os.Exit(0)
	}
	guarded = true
}

// Main runs the tests, stops the shared broker and exits.
func Main(m *testing.M) {
	Guard()
	// RabbitMQ closes a connection 5 s after an answer. Go does not repeat a PUT, POST or DELETE that meets that. On a
	// busy machine, Go may close an idle connection some seconds late.
	if transport, is := http.DefaultTransport.(*http.Transport); is {
		transport.IdleConnTimeout = time.Second
	}
	code := m.Run()
	if sharedStarted {
		if b, err := shared(); err == nil {
			if file := os.Getenv(testedVariable); file != "" {
				if err := os.WriteFile(file, []byte(b.Version), 0o600); err != nil {
					fmt.Fprintln(os.Stderr, err)
					code = max(code, 1)
				}
			}
			if err := b.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = max(code, 1)
			}
		}
	}
	os.Exit(code)
}

// Vhost makes a vhost for one test, named after it, and removes it when the test is done.
func Vhost(t testing.TB, b *Broker) string {
	t.Helper()
	name, remove, err := b.NewVhost(t.Context(), notPlain.ReplaceAllString(t.Name(), "-"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := remove(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return name
}

var notPlain = regexp.MustCompile(`[^A-Za-z0-9]+`)

// ClusterImages are the images for tests with a cluster, in the order of an upgrade, from RABBITMQ_CLUSTER. Without it
// the test is skipped: three nodes take minutes and most of a small machine.
func ClusterImages(t testing.TB) []string {
	t.Helper()
	images := strings.Fields(os.Getenv("RABBITMQ_CLUSTER"))
	if len(images) == 0 {
		t.Skip("a cluster of three nodes: left out unless RABBITMQ_CLUSTER names images; make testacc-cluster does")
	}
	return images
}

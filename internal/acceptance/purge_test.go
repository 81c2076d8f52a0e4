package acceptance

import (
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/docstest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/version"
)

// pageOfWaiting is the guide to looking at messages and to purging them.
const pageOfWaiting = "templates/guides/changing.md.tmpl"

// purged is a cascade of the guide with a user that publishes.
type purged struct {
	*harness.Vhost
	page    string
	look    *harness.CommandLine
	user    *harness.User
	closed  [3]string // the permissions with which the user cannot publish
	cascade *harness.Protocol
	given   harness.Attributes
}

func newPurged(t *testing.T) *purged {
	t.Helper()
	v := harness.NewVhost(t)
	p := &purged{Vhost: v, page: docstest.ReadPage(t, pageOfWaiting), user: harness.NewUser(t, v.Broker, v.Name),
		look: harness.NewCommandLine(t, "", docstest.ReadExample(t, decommissioningExample, "main.tf"),
			map[string]string{"vhost": v.Name})}
	p.look.Environ = append(p.look.Environ, v.Broker.Environ()...)
	p.closed = closedPermissions(t, p.page)
	p.user.Grant([3]string{".*", ".*", ".*"})
	p.cascade = harness.NewProtocol(t, v.Broker, nil)
	p.given = harness.Attributes{"vhost": v.Name, "name": "orders"}
	p.cascade.MustApply(p.given)
	return p
}

// commandsOf is the block of commands of a page that holds a text.
func commandsOf(t testing.TB, page, text string) string {
	t.Helper()
	blocks := regexp.MustCompile("(?s)\n```sh\n(.*?)```\n").FindAllStringSubmatch(page, -1)
	i := slices.IndexFunc(blocks, func(block []string) bool { return strings.Contains(block[1], text) })
	if i < 0 {
		t.Fatalf("no commands of the page hold %q", text)
	}
	return blocks[i][1]
}

// apiOf is what pages call api, with the credentials.
func apiOf(t testing.TB, b *brokertest.Broker) string {
	t.Helper()
	endpoint, err := url.Parse(b.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	endpoint.User = url.UserPassword(b.Username, b.Password)
	return strings.TrimSuffix(endpoint.String(), "/") + "/api"
}

// closedPermissions are those with which the page closes the entry to a user.
func closedPermissions(t testing.TB, page string) [3]string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^rabbitmqctl set_permissions -p / app '(.*)' '(.*)' '(.*)'$`).
		FindStringSubmatch(page)
	if found == nil {
		t.Fatal("the page closes no entry")
	}
	return [3]string(found[1:])
}

// follow runs a block of commands of the page, the one that holds a text.
func (p *purged) follow(text string) {
	p.T.Helper()
	script := "set -eu\nterraform() { \"$TERRAFORM\" \"$@\"; }\n" +
		strings.NewReplacer("%2F", url.PathEscape(p.Name), "username/app", "username/"+url.PathEscape(p.user.Name)).
			Replace(commandsOf(p.T, p.page, text))
	docstest.RunIn(p.T, p.look.Directory, append(p.look.Environ, "TERRAFORM="+p.look.Command().Path,
		"api="+apiOf(p.T, p.Broker)), script, "bash")
}

// left is what the configuration of the page tells.
func (p *purged) left() (r struct {
	Messages    *int
	Next, Until *time.Time
}) {
	p.T.Helper()
	p.look.Must("apply", "-auto-approve", "-no-color")
	if err := json.Unmarshal([]byte(p.look.Must("output", "-json", "left")), &r); err != nil {
		p.T.Fatal(err)
	}
	return r
}

// publisher is one on a new connection of the user.
func (p *purged) publisher() *brokertest.Publisher {
	p.T.Helper()
	connection, err := p.user.Broker().Dial(p.Name)
	if err != nil {
		p.T.Fatal(err)
	}
	p.T.Cleanup(func() { _ = connection.Close() }) // it may be closed by then
	publisher, err := brokertest.NewPublisher(connection)
	if err != nil {
		p.T.Fatal(err)
	}
	return publisher
}

// send publishes messages whose bodies are their keys. It returns the first error.
func (p *purged) send(publisher *brokertest.Publisher, keys ...string) error {
	for _, key := range keys {
		err := publisher.Publish(p.T.Context(), "orders.d.h.m.s", key, amqp.Publishing{Body: []byte(key)})
		if err != nil {
			return err
		}
	}
	return nil
}

// refuses makes sure that RabbitMQ refuses a message at the entry.
func (p *purged) refuses(publisher *brokertest.Publisher, because string) {
	p.T.Helper()
	if err := p.send(publisher, "0.0.0.0.refused"); err == nil {
		p.T.Errorf("%s, the entry takes a message", because)
	}
}

// The steps of the guide: next and until are apart, and the closed entry refuses. One queue is purged, and then all.
// The opened entry takes messages. Nothing but the purged messages is gone, and the cascade stays as it was.
func TestAccSeeAndPurge(t *testing.T) {
	if os.Getenv("TF_ACC") == "" {
		t.Skip("runs Terraform: set TF_ACC")
	}
	t.Parallel()
	p := newPurged(t)
	arrivals := p.Collect("orders.delivery", "#")
	p.follow("queues/%2F/look")
	p.follow(`"tracing": true`)
	publisher, published := p.publisher(), time.Now()
	err := p.send(publisher, "0.1.0.0.billing", "0.0.30.0.billing", "0.0.30.0.mail")
	if err != nil {
		t.Fatal(err)
	}
	p.Eventually("the firehose shows what was published", func() bool { return p.Depth("look") == 3 })
	p.Eventually("the counts are up to date", func() bool {
		return p.Counted("orders.30m") == 2 && p.Counted("orders.1h") == 1 && p.HasStatistics()
	})
	// Two messages wait for 30 min, with keys that may ask for 59 s more. One waits for an hour, and may for another.
	const next, later = 30*time.Minute + 59*time.Second, time.Hour + 29*time.Minute
	if r := p.left(); r.Messages == nil || *r.Messages != 3 || r.Next == nil || r.Until == nil ||
		r.Until.Sub(*r.Next) < later-time.Second || r.Until.Sub(*r.Next) > later+time.Second ||
		r.Next.Before(published.Add(next).Truncate(time.Second)) || r.Next.After(time.Now().Add(next)) {
		t.Errorf("left are %+v", r)
	}

	p.user.Grant(p.closed)
	p.refuses(publisher, "with an open channel")
	p.refuses(p.publisher(), "with a new channel")
	p.follow("orders.30m/contents")
	if n := [2]int{p.Depth("orders.30m"), p.Depth("orders.1h")}; n != [2]int{0, 1} {
		t.Errorf("after the purge of one queue there are %d", n)
	}
	p.follow("terraform output -raw queues")
	if n := p.Depth("orders.1h"); n != 0 {
		t.Errorf("after the purge of all queues there are %d", n)
	}
	isEmpty := func() bool {
		r := p.left()
		return r.Messages != nil && *r.Messages == 0 && r.Next == nil && r.Until == nil
	}
	p.Eventually("nothing is counted", isEmpty)

	p.user.Grant([3]string{".*", ".*", ".*"})
	p.cascade.MustBeSettled(p.given)
	const after = "0.0.0.4.after"
	if err := p.send(p.publisher(), after); err != nil {
		t.Fatal(err)
	}
	p.Arrived(arrivals, 1)
	p.Eventually("a copy arrives", func() bool { return p.Depth("look") == 5 }) // published, and arrived

	publisher = p.publisher()
	p.follow("exchanges/%2F/orders.d.h.m.s")
	p.refuses(publisher, "when its exchange is gone")
	p.Eventually("nothing is counted without the entry", isEmpty)
	harness.NoErrors(t, p.cascade.Refresh(t.Context()))
	p.cascade.MustApply(p.given)
	p.cascade.MustBeSettled(p.given)
	if err := p.send(p.publisher(), after); err != nil {
		t.Fatal(err)
	}
	if got := bodies(p.Arrived(arrivals, 2)); !slices.Equal(got, []string{after, after}) {
		t.Errorf("there arrived %q", got)
	}
}

// A channel that publishes all the time keeps the permission that it had. What the guide closes ends that.
func TestClosedEntryStopsABusyPublisher(t *testing.T) {
	if os.Getenv("TF_ACC") == "" {
		t.Skip("runs Terraform: set TF_ACC")
	}
	t.Parallel()
	p := newPurged(t)
	isEarly, err := p.closeBesideABusyPublisher()
	for tries := 1; isEarly && tries < 5; tries++ {
		t.Logf("the publisher has paused: %v", err)
		isEarly, err = p.closeBesideABusyPublisher()
	}
	if isEarly || err == nil {
		t.Errorf("the busy publisher ends with %v, before its connection was closed: %t", err, isEarly)
	}
	p.refuses(p.publisher(), "with a new connection")
}

// closeBesideABusyPublisher closes the entry as the guide says while a publisher is busy. It returns the error with
// which the publisher ends, and whether that is early: before its connection is closed. A channel that pauses for a
// second, on a busy machine, forgets its permission.
func (p *purged) closeBesideABusyPublisher() (isEarly bool, err error) {
	p.user.Grant([3]string{".*", ".*", ".*"})
	publisher, began := p.publisher(), time.Now()
	var isClosing atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for err == nil && time.Since(began) < 2*harness.Patience {
			err = p.send(publisher, "0.0.0.0.busy")
		}
		isEarly = err != nil && !isClosing.Load()
	}()
	p.user.Grant(p.closed)
	p.Eventually("RabbitMQ lists the connection", func() bool {
		var open []struct{ User string }
		p.Get(&open, "connections")
		return slices.ContainsFunc(open, func(c struct{ User string }) bool { return c.User == p.user.Name }) ||
			hasEnded(ended)
	})
	if isClosing.Store(true); !hasEnded(ended) {
		p.follow("connections/username/app")
	}
	<-ended
	return isEarly, err
}

func hasEnded(ended <-chan struct{}) bool {
	select {
	case <-ended:
		return true
	default:
		return false
	}
}

// looked is a queue whose messages leave it after its TTL, and what becomes of them.
type looked struct {
	*harness.Vhost
	queue   string
	channel *amqp.Channel
	left    *brokertest.Collector
	sent    time.Time
}

// lookedTTL has room for 21 looks, or for the start of RabbitMQ's own tool, on a busy machine.
const lookedTTL = 25 * time.Second

func newLooked(t *testing.T, shared *harness.Vhost, queue, queueType string, bodies ...string) *looked {
	t.Helper()
	v := harness.OpenVhost(t, shared.Broker, shared.Name)
	l := &looked{Vhost: v, queue: queue, left: v.Collect("looked", queue)}
	v.DeclareQueue(queue, map[string]any{"x-queue-type": queueType, "x-message-ttl": lookedTTL.Milliseconds(),
		"x-dead-letter-exchange": "looked"})
	l.reopen()
	l.sent = harness.BrokerTime()
	for _, body := range bodies {
		v.Publish("", queue, body)
	}
	return l
}

// reopen puts a new channel in the place of the one that there is. Messages that it holds go back.
func (l *looked) reopen() {
	l.T.Helper()
	var err error
	if l.channel != nil {
		err = l.channel.Close()
	}
	if err == nil {
		l.channel, err = l.Conn.Channel()
	}
	if err != nil {
		l.T.Fatal(err)
	}
}

// get takes the first message.
func (l *looked) get() amqp.Delivery {
	l.T.Helper()
	d, ok, err := l.channel.Get(l.queue, false)
	if err != nil || !ok {
		l.T.Fatalf("no message in %q: %v", l.queue, err)
	}
	return d
}

func (l *looked) putBack(d amqp.Delivery) {
	l.T.Helper()
	if err := d.Nack(false, true); err != nil {
		l.T.Fatal(err)
	}
}

// after waits until so long after the messages were sent.
func (l *looked) after(d time.Duration) { harness.Sleep(l.T.Context(), time.Until(l.sent.Add(d))) }

// leave makes sure that the messages leave in an order, each after its time and at most five seconds later.
func (l *looked) leave(order string, times ...time.Duration) {
	l.T.Helper()
	arrived := l.Arrived(l.left, len(times))
	if got := strings.Join(bodies(arrived), " "); got != order {
		l.T.Errorf("%s: %q have left, not %q", l.queue, got, order)
	}
	for i, a := range arrived {
		if took := a.At.Sub(l.sent); took < harness.Least(times[i]) || took > times[i]+5*time.Second {
			l.T.Errorf("%s: %q has left after %s, not %s", l.queue, a.Body, took, times[i])
		}
	}
}

// look is a way to look into a queue that holds "first".
type look struct {
	what string
	do   func(*looked)
	// leaves are the messages and how long each waits. Those of other leaves are for quorum queues of some versions.
	leaves string
	times  []time.Duration
	// early is the first version on which a quorum queue lets go of the message at once. Kept is the first one after it
	// that does not. They are empty for none.
	early, kept [2]int
	// isMoved is set where RabbitMQ 3.10 puts the message of a quorum queue at the end.
	isMoved bool
}

var looks = []look{
	{what: "put back at once", leaves: "first second", times: []time.Duration{lookedTTL, lookedTTL + 9*time.Second},
		isMoved: true, do: func(l *looked) {
			l.after(9 * time.Second)
			l.Publish("", l.queue, "second")
			l.putBack(l.get())
		}},
	{what: "held", leaves: "second first", times: []time.Duration{lookedTTL, lookedTTL + 6*time.Second},
		do: func(l *looked) {
			d := l.get()
			l.Publish("", l.queue, "second")
			l.after(lookedTTL + 6*time.Second)
			l.putBack(d)
		}},
	{what: "21 times", leaves: "first", times: []time.Duration{lookedTTL}, early: [2]int{4, 0}, kept: [2]int{4, 3},
		do: func(l *looked) {
			for range 21 {
				l.putBack(l.get())
			}
		}},
	{what: "21 clients", leaves: "first", times: []time.Duration{lookedTTL}, early: [2]int{4, 0}, do: func(l *looked) {
		for range 21 {
			l.get()
			l.reopen()
			l.Eventually("the message is back", func() bool { return l.Depth(l.queue)+len(l.left.Arrivals()) > 0 })
		}
	}},
}

// must makes sure that the messages leave as they have to.
func (k look) must(l *looked, queueType string) {
	l.T.Helper()
	since := func(v [2]int) bool { return v[0] > 0 && !version.Before(l.Broker.Version, v[0], v[1]) }
	switch {
	case queueType != "quorum":
		l.leave(k.leaves, k.times...)
	case k.isMoved && !since([2]int{4, 0}):
		l.leave("second first", k.times[1], k.times[1])
	case since(k.early) && !since(k.kept):
		l.leave(k.leaves, 0)
	default:
		l.leave(k.leaves, k.times...)
	}
}

// What the guide says of looks at messages that wait, on spare queues.
func TestLooksIntoQueues(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	v.DeclareExchange("looked", "direct")
	for _, queueType := range []string{"quorum", "classic"} {
		for _, k := range looks {
			t.Run(queueType+" "+k.what, func(t *testing.T) {
				t.Parallel()
				l := newLooked(t, v, queueType+" "+k.what, queueType, "first")
				k.do(l)
				k.must(l, queueType)
			})
		}
	}
	t.Run("peek", func(t *testing.T) {
		t.Parallel()
		peek := regexp.MustCompile(`(?m)^(rabbitmq-queues) (peek) --vhost / orders\.30m (1)$`).
			FindStringSubmatch(docstest.ReadPage(t, pageOfWaiting))
		if peek == nil {
			t.Fatal("the page does not peek")
		}
		l := newLooked(t, v, "peek", "quorum", "first", "second")
		out, err := v.Broker.CLI(t.Context(), peek[1], peek[2], "--vhost", v.Name, l.queue, peek[3])
		if errors.Is(err, brokertest.ErrUnsupported) {
			t.Skip(err)
		}
		if err != nil || !strings.Contains(string(out), "first") {
			t.Fatalf("%v: %s", err, out)
		}
		d := l.get()
		if count, _ := d.Headers["x-delivery-count"].(int64); string(d.Body) != "first" || d.Redelivered || count != 0 {
			t.Errorf("after the peek there comes %q, redelivered %t, %v", d.Body, d.Redelivered, d.Headers)
		}
		if err := d.Ack(false); err != nil {
			t.Fatal(err)
		}
		l.leave("second", lookedTTL)
	})
}

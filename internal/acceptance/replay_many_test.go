package acceptance

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime/metrics"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/docstest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
)

// As many as the guide replays.
const (
	manyMessages  = 40_000
	sizeOfMany    = 1 << 10
	fewMessages   = manyMessages / 10
	doublesOfMany = 1000
	progressEach  = 5 * time.Second
)

// The test binary is a process that replays where these are set, see TestReplayOfMany. The limits are those of one
// replay after the other.
const (
	replaysVhost  = "RABBITMQDELAY_TEST_REPLAYS_VHOST"
	replaysLimits = "RABBITMQDELAY_TEST_REPLAYS_LIMITS"
)

// replayRun is what a process tells of a replay.
type replayRun struct {
	Says             []string
	Errors, Warnings string
	Took             time.Duration
	PeakBytes        uint64 // of the heap
}

// replayHere replays in this process, and tells of it.
func replayHere(t *testing.T, vhost string) {
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt)
	defer stop()
	p := harness.NewProtocol(t, &brokertest.Broker{Endpoint: os.Getenv("RABBITMQ_ENDPOINT"),
		Username: os.Getenv("RABBITMQ_USERNAME"), Password: os.Getenv("RABBITMQ_PASSWORD"),
		AMQPURI: os.Getenv("RABBITMQ_AMQP_URI")}, nil)
	tells := json.NewEncoder(os.Stdout)
	for _, limit := range strings.Fields(os.Getenv(replaysLimits)) {
		number, err := strconv.Atoi(limit)
		if err != nil {
			t.Fatal(err)
		}
		began, peak := time.Now(), watchHeap()
		says, diagnostics := p.Invoke(ctx, replayType, harness.Attributes{"vhost": vhost,
			"entry_exchange": replayEntry, "limit": number})
		run := replayRun{says, harness.OneLine(harness.ErrorText(diagnostics)),
			harness.OneLine(harness.WarningText(diagnostics)), time.Since(began), peak()}
		if err := tells.Encode(run); err != nil {
			t.Fatal(err)
		}
	}
}

// watchHeap watches the size of the heap. Peak ends that, and is the most that was there.
func watchHeap() (peak func() (bytes uint64)) {
	const each = 10 * time.Millisecond
	isOver, most := make(chan struct{}), make(chan uint64)
	go func() {
		heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		var highest uint64
		for {
			metrics.Read(heap)
			highest = max(highest, heap[0].Value.Uint64())
			select {
			case <-time.After(each):
			case <-isOver:
				most <- highest
				return
			}
		}
	}()
	return func() uint64 {
		close(isOver)
		return <-most
	}
}

// replays starts a process for replays with these limits. The results are what the process tells, once it has ended.
func (c parked) replays(limits ...int) (process *os.Process, results func() []replayRun) {
	c.T.Helper()
	self, err := os.Executable()
	if err != nil {
		c.T.Fatal(err)
	}
	command := exec.CommandContext(c.T.Context(), self, "-test.run=^TestReplayOfMany$")
	command.Env = append(os.Environ(), c.Broker.Environ()...)
	command.Env = append(command.Env, replaysVhost+"="+c.Name, replaysLimits+"="+strings.Trim(fmt.Sprint(limits), "[]"),
		"GOGC=100") // else the garbage of many messages is on the heap
	command.Stderr = c.T.Output()
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		c.T.Fatal(err)
	}
	return command.Process, func() (all []replayRun) {
		c.T.Helper()
		tells := json.NewDecoder(out)
		for range limits {
			var run replayRun
			if tells.Decode(&run) != nil {
				break // the process was killed
			}
			all = append(all, run)
		}
		_, _ = io.Copy(io.Discard, out) // a test says at its end that it has passed
		_ = command.Wait()              // by a signal
		return all
	}
}

// flood has messages wait for an address that nobody binds, until all are parked. Their numbers begin the bodies.
func (c parked) flood(n int, address string) {
	c.T.Helper()
	before := c.Depth(replayQueue)
	channel, err := c.Conn.Channel()
	if err == nil {
		err = channel.Confirm(false)
	}
	if err != nil {
		c.T.Fatal(err)
	}
	defer func() { _ = channel.Close() }()
	const most, mandatory, immediate = 500, true, false // without a confirmation
	var pending []*amqp.DeferredConfirmation
	settle := func(most int) {
		c.T.Helper()
		for ; len(pending) > most; pending = pending[1:] {
			if !pending[0].Wait() {
				c.T.Fatal("a message is not confirmed")
			}
		}
	}
	filler := strings.Repeat(".", sizeOfMany)
	for i := range n {
		settle(most)
		confirmation, err := channel.PublishWithDeferredConfirmWithContext(c.T.Context(), replayEntry, "0.0.1."+address,
			mandatory, immediate, amqp.Publishing{DeliveryMode: amqp.Persistent,
				Body: fmt.Appendf(nil, "%d %s", i, filler)})
		if err != nil {
			c.T.Fatal(err)
		}
		pending = append(pending, confirmation)
	}
	settle(0)
	const parts = 10 // a busy broker has time for each of them
	for part := range parts {
		so := before + n*(part+1)/parts
		c.Eventually(fmt.Sprintf("%d messages are parked", so), func() bool { return c.Depth(replayQueue) >= so })
	}
}

// An address had no destination while thousands of messages waited for it. One replay brings them all, each once. The
// memory of the process does not grow with their number. A process that is interrupted or killed loses none, and only
// the killed one makes doubles.
func TestReplayOfMany(t *testing.T) {
	if vhost := os.Getenv(replaysVhost); vhost != "" {
		replayHere(t, vhost)
		return
	}
	t.Parallel()
	c := newParked(t, nil)
	c.replayWhole()
	c.replayInTwo("interrupted", os.Interrupt, 0)
	c.replayInTwo("killed", syscall.SIGKILL, doublesOfMany)
}

func (c parked) replayWhole() {
	c.T.Helper()
	c.flood(fewMessages+manyMessages, "whole")
	c.receive("whole")
	_, results := c.replays(fewMessages, manyMessages)
	runs := results()
	if len(runs) != 2 {
		c.T.Fatalf("the process tells of %+v", runs)
	}
	for i, n := range []int{fewMessages, manyMessages} {
		if run := runs[i]; run.Errors+run.Warnings != "" {
			c.T.Errorf("the replay of %d messages says %s %s", n, run.Errors, run.Warnings)
		}
	}
	many := runs[1]
	at := 0
	for _, message := range many.Says {
		handled, there, published := c.handled(message)
		if there != manyMessages || handled < at || published > handled {
			c.T.Errorf("the process says %q", many.Says)
		}
		at = handled
	}
	if len(many.Says) < 2 && many.Took > 2*progressEach {
		c.T.Errorf("in %s, the process says only %q", many.Took, many.Says)
	}
	last := many.Says[len(many.Says)-1]
	onPage := strings.ReplaceAll(last, `"t.`, `"orders.`)
	if page := docstest.ReadPage(c.T, "templates/guides/troubleshooting.md.tmpl"); !strings.Contains(page, onPage) {
		c.T.Errorf("the page does not have %q", onPage)
	}
	if most := runs[0].PeakBytes + manyMessages*sizeOfMany/2; many.PeakBytes > most {
		c.T.Errorf("the process has %d bytes on its heap, more than %d", many.PeakBytes, most)
	}
	c.T.Logf("%d messages in %s: %.0f in a second. The heap has %d KiB, and has %d for %d messages", manyMessages,
		many.Took, manyMessages/many.Took.Seconds(), many.PeakBytes>>10, runs[0].PeakBytes>>10, fewMessages)
	const all = fewMessages + manyMessages
	if once, times := c.received("whole"); once != all || times != all {
		c.T.Errorf("of %d messages, %d have arrived, %d times", all, once, times)
	}
	c.holds(0)
}

// replayInTwo ends a process in the middle of its replay. Another replay brings the rest.
func (c parked) replayInTwo(address string, signal os.Signal, mostDoubles int) {
	c.T.Helper()
	c.flood(manyMessages, address)
	c.receive(address)
	process, results := c.replays(manyMessages)
	c.Eventually("the replay is under way", func() bool { return c.Depth(address) > fewMessages })
	if err := process.Signal(signal); err != nil {
		c.T.Fatal(err)
	}
	runs := results()
	switch {
	case signal == syscall.SIGKILL && len(runs) > 0 || c.Depth(address) >= manyMessages:
		c.T.Fatalf("%s: the replay had come to its end", address)
	case signal == os.Interrupt && len(runs) != 1:
		c.T.Fatalf("%s: the process tells of %+v", address, runs)
	case signal == os.Interrupt:
		harness.MustSay(c.T, address, runs[0].Errors, "the operation was canceled", "No message is lost",
			"Invoke the action once more")
		harness.MustNotSay(c.T, address, runs[0].Errors, "publishes these twice")
	}
	c.Eventually("the messages that were under way are back", func() bool {
		return c.Depth(address)+c.Depth(replayQueue) >= manyMessages
	})
	_, diagnostics := c.replay(nil)
	harness.NoErrors(c.T, diagnostics)
	if text := harness.WarningText(diagnostics); text != "" {
		c.T.Errorf("%s: the second replay says %s", address, text)
	}
	once, times := c.received(address)
	c.T.Logf("%s: %d come twice", address, times-once)
	if once != manyMessages || times > manyMessages+mostDoubles {
		c.T.Errorf("%s: of %d messages, %d have arrived, %d times", address, manyMessages, once, times)
	}
	c.holds(0)
}

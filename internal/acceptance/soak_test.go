package acceptance

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Streams run through three cascades of one broker while these are changed, damaged and repaired at random. A fourth
// comes and goes, applies are stopped in the middle, and the broker restarts. Whatever the broker has confirmed
// arrives, and neither the provider nor the broker is left with more than it had. SOAK_DURATION says for how long.
func TestSoak(t *testing.T) {
	duration := 10 * time.Second
	if text := os.Getenv("SOAK_DURATION"); text != "" {
		var err error
		if duration, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	s := newSoak(t)
	for _, c := range s.cascades {
		c.stream()
		c.GoesOn()
	}
	before := s.measure()
	t.Logf("at first %s", before)

	began := time.Now()
	s.churn(duration)
	took, after := time.Since(began), s.measure()
	for deadline := time.Now().Add(harness.Patience); len(after.beyond(before)) > 0 &&
		time.Now().Before(deadline); after = s.measure() {
		time.Sleep(time.Second) // idle connections end after 5 s
	}
	t.Logf("after %s, %d rounds (%v) and %d restarts %s", took.Round(time.Second), s.rounds, s.done, s.restarts, after)
	for _, excess := range after.beyond(before) {
		t.Error(excess)
	}
	s.finish()
	s.destroy()
}

// churn changes, damages, repairs and restarts at random.
func (s *soak) churn(duration time.Duration) {
	s.Helper()
	restarts := max(1, int(duration/(5*time.Minute)))
	began := time.Now()
	reported := began
	for s.restarts < restarts || time.Since(began) < duration {
		if s.restarts < restarts && time.Since(began) > duration*time.Duration(s.restarts+1)/time.Duration(restarts+1) {
			s.restart()
		}
		s.round()
		if time.Since(reported) > max(time.Minute, duration/20) {
			reported = time.Now()
			s.Logf("after %s and %d rounds %s", time.Since(began).Round(time.Second), s.rounds, s.measure())
		}
	}
	if !s.coming.Protocol.State.IsNull() {
		s.coming.comeOrGo()
	}
}

// finish ends the streams and accounts for their messages.
func (s *soak) finish() {
	s.Helper()
	for _, c := range s.cascades {
		c.Traffic.Stop()
	}
	for _, c := range s.cascades {
		c.Traffic.Finish(soakUnit<<soakLevels + soakLevels*soakRetry + time.Minute)
		sum := c.Sum()
		s.Logf("%s: confirmed %d, delivered %d, parked %d, lost %d, early %d, doubled over a restart %d; not "+
			"confirmed and published again %d, of these arrived twice %d; late p50 %s, p99 %s, most %s",
			c.name, sum.Confirmed, sum.Delivered, sum.Parked, len(sum.Lost), sum.Early, sum.Doubled, sum.Unsure+
				sum.Returned, sum.Twice,
			sum.Late.Quantile(0.5), sum.Late.Quantile(0.99), sum.Late.Most.Round(time.Millisecond))
	}
	s.at().Eventually("all connections are closed", func() bool {
		last := s.measure()
		return last.connections == 0 && last.channels == 0
	})
}

// destroy makes sure that all is there, and that nothing is left when it is destroyed.
func (s *soak) destroy() {
	s.Helper()
	all := topology.New()
	for _, c := range s.cascades {
		all = union(all, c.desired())
		all.Queues[c.Arrivals()] = topology.Queue{Name: c.Arrivals(), Durable: true,
			Arguments: topology.Arguments{"x-queue-type": "quorum"}}
		all.Bindings.Add(topology.Binding{Source: c.name + ".delivery", RoutingKey: harness.DestinationKey(soakLevels,
			harness.TrafficAddress), DestinationType: topology.ToQueue, Destination: c.Arrivals()})
	}
	s.at().MustHold(all)
	var together sync.WaitGroup
	for _, c := range s.cascades {
		s.at().Do(plan.DeleteQueue{Queue: all.Queues[c.Arrivals()]})
		together.Go(func() {
			if text := harness.ErrorText(c.Apply(s.Context(), c.Plan(s.Context(), nil))); text != "" {
				s.Error(text)
			}
		})
	}
	together.Wait()
	s.at().MustHold(topology.New())
}

const (
	soakLevels = 9
	// soakUnit lets the longest delay be 5 s.
	soakUnit = 10 * time.Millisecond
	// soakRetry is when a message is dead-lettered again.
	soakRetry = 5 * time.Second
	// soakLog is how many bytes there are in the broker's write-ahead log at most.
	soakLog = 8_000_000
)

type soak struct {
	*testing.T
	broker   *brokertest.Broker
	vhost    string
	look     *harness.Vhost
	cascades []*soakCascade
	coming   *soakCascade // and going, without messages
	damages  []func(*soakCascade)
	random   *rand.Rand

	rounds, restarts int
	done             map[string]int
}

type soakCascade struct {
	*soak
	*harness.Traffic
	*harness.Protocol
	name  string
	given harness.Attributes
}

func newSoak(t *testing.T) *soak {
	t.Helper()
	b := brokertest.Own(t,
		// A message may find no way when it expires, while an exchange is missing or the broker starts. It is sent
		// again within three minutes by default.
		brokertest.WithSetting("dead_letter_worker_publisher_confirm_timeout", int(soakRetry.Milliseconds())),
		// Quorum queues keep the log in memory, over restarts, too: 512 MiB of it by default (4.3, where the key in
		// rabbitmq.conf does nothing). Below, only growth beyond it counts.
		brokertest.WithConfig(fmt.Sprintf("raft.wal_max_size_bytes = %d", soakLog)),
		brokertest.WithSetting("quorum_wal_max_size_bytes", soakLog))
	s := &soak{T: t, broker: b, vhost: brokertest.Vhost(t, b), random: rand.New(rand.NewPCG(6, 6)),
		done: map[string]int{}}
	s.look = &harness.Vhost{T: t, Broker: b, Name: s.vhost, API: harness.Management(t, b)}
	s.damages = []func(*soakCascade){(*soakCascade).unbind, (*soakCascade).bindForeign, (*soakCascade).deleteExchange}
	for i, further := range []harness.Attributes{{}, {"max_length": 100_000}, {"lookahead": 1, "strict_keys": false}} {
		c := s.cascade(fmt.Sprintf("c%d", i), further)
		c.Protocol.MustApply(c.given)
		s.cascades = append(s.cascades, c)
	}
	s.coming = s.cascade("coming", harness.Attributes{"queue_type": "classic"})
	return s
}

func (s *soak) cascade(name string, further harness.Attributes) *soakCascade {
	given := harness.Attributes{"vhost": s.vhost, "name": name, "levels": soakLevels, "resolution": soakUnit.String()}
	return &soakCascade{soak: s, Protocol: harness.NewProtocol(s, s.broker, nil), name: name,
		given: given.With(further)}
}

func (c *soakCascade) stream() {
	c.Traffic = harness.NewTraffic(c.soak, harness.TrafficConfig{URIs: []string{c.broker.AMQPURI},
		Through: harness.Resolve(c.soak, delay.Config{Vhost: c.soak.vhost, Name: c.name, Levels: soakLevels,
			Resolution: soakUnit, CreateDeliveryExchange: true}),
		Publishers: 2, Pause: 5 * time.Millisecond, Delay: harness.AnyDelay(soakLevels, soakUnit)})
}

// at is a look at the vhost, through one client for the whole run.
func (s *soak) at() *harness.Vhost { return s.look }

// round does something to one of the cascades, at random.
func (s *soak) round() {
	s.Helper()
	s.rounds++
	c := s.cascades[s.random.IntN(len(s.cascades))]
	all := []struct {
		name string
		do   func()
	}{
		{"damage", func() { c.damage(); c.repair() }},
		{"damage", func() { c.damage(); c.damage(); c.repair() }},
		{"stopped repair", func() { c.damage(); c.stopped(); c.repair() }},
		{"change", func() { c.change(); c.repair() }},
		{"stopped change", func() { c.change(); c.stopped(); c.repair() }},
		{"refused destroy", c.refused},
		{"import", c.imported},
		{"create or destroy", s.coming.comeOrGo},
	}
	one := all[s.random.IntN(len(all))]
	one.do()
	s.done[one.name]++
	c.GoesOn()
}

func (c *soakCascade) damage() { c.damages[c.random.IntN(len(c.damages))](c) }

func (c *soakCascade) unbind() { c.at().Do(plan.Unbind{Binding: c.anyBinding()}) }

// bindForeign binds from an exchange that another damage has left.
func (c *soakCascade) bindForeign() {
	b, there := c.anyBinding(), c.at().Objects().Exchanges
	for there[b.Source].Name == "" || b.DestinationType == topology.ToExchange && there[b.Destination].Name == "" {
		b = c.anyBinding()
	}
	b.RoutingKey += ".foreign"
	c.at().Do(plan.Bind{Binding: b})
}

func (c *soakCascade) deleteExchange() {
	c.at().Do(plan.DeleteExchange{Name: fmt.Sprintf("%s.delay-%02d", c.name, c.random.IntN(soakLevels-1))})
}

// anyBinding is one of a level exchange.
func (c *soakCascade) anyBinding() topology.Binding {
	bindings := slices.DeleteFunc(c.desired().Bindings.Sorted(),
		func(b topology.Binding) bool { return !strings.HasPrefix(b.Source, c.name+".delay-") })
	return bindings[c.random.IntN(len(bindings))]
}

// desired is what the configuration stands for.
func (c *soakCascade) desired() topology.Topology {
	config := delay.Config{Name: c.name, Vhost: c.soak.vhost, Levels: soakLevels, Resolution: soakUnit,
		QueueType:              delay.Quorum,
		CreateDeliveryExchange: true, StrictKeys: true, ParkUnroutable: true}
	if lookahead, ok := c.given["lookahead"].(int); ok {
		config.Lookahead = lookahead
	}
	if strict, ok := c.given["strict_keys"].(bool); ok {
		config.StrictKeys = strict
	}
	if length, ok := c.given["max_length"].(int); ok {
		config.MaxLength = int64(length)
	}
	return harness.Expand(c.soak, config)
}

// change asks for something else, which the next repair brings about.
func (c *soakCascade) change() {
	c.given["lookahead"] = 1 + c.random.IntN(soakLevels)
	c.given["strict_keys"] = c.random.IntN(2) == 0
}

// stopped is an apply that ends in the middle.
func (c *soakCascade) stopped() {
	harness.NoErrors(c.soak, c.Refresh(c.soak.Context()))
	todo := c.Plan(c.soak.Context(), c.given)
	ctx, cancel := context.WithTimeout(c.soak.Context(), time.Duration(c.random.IntN(100))*time.Millisecond)
	defer cancel()
	c.Apply(ctx, todo)
}

// repair applies until there is nothing to do. Where a repair has to wait for queues to run empty, it is refused.
func (c *soakCascade) repair() {
	c.soak.Helper()
	var text string
	for deadline := time.Now().Add(harness.Patience); time.Now().Before(deadline); {
		harness.NoErrors(c.soak, c.Refresh(c.soak.Context()))
		if text = harness.ErrorText(c.Apply(c.soak.Context(), c.Plan(c.soak.Context(), c.given))); text == "" {
			c.MustBeSettled(c.given)
			return
		}
	}
	c.soak.Fatalf("%s cannot be repaired: %s", c.name, text)
}

// refused tries to destroy what holds messages.
func (c *soakCascade) refused() {
	c.soak.Helper()
	harness.NoErrors(c.soak, c.Refresh(c.soak.Context()))
	if text := harness.ErrorText(c.Apply(c.soak.Context(), c.Plan(c.soak.Context(), nil))); !strings.Contains(text,
		c.name+
			".") || c.Protocol.State.IsNull() {
		c.soak.Errorf("destroying %s, in which messages wait: %q", c.name, text)
	}
	c.MustBeSettled(c.given)
}

// imported forgets the state and imports it.
func (c *soakCascade) imported() {
	c.soak.Helper()
	harness.NoErrors(c.soak, c.ImportState(c.soak.Context(), harness.ImportID(c.soak.vhost,
		fmt.Sprintf("%s.delay-%02d", c.name, soakLevels-1))))
	c.MustApply(c.given)
	c.MustBeSettled(c.given)
}

// comeOrGo creates a cascade, or destroys it.
func (c *soakCascade) comeOrGo() {
	c.soak.Helper()
	if c.Protocol.State.IsNull() {
		c.MustApply(c.given)
		c.MustBeSettled(c.given)
	} else {
		c.MustApply(nil)
	}
}

// restart restarts the broker beside an apply.
func (s *soak) restart() {
	s.Helper()
	s.restarts++
	c := s.cascades[s.random.IntN(len(s.cascades))]
	run := func() {
		restarted := make(chan error)
		go func() { restarted <- s.broker.Restart(s.Context()) }()
		c.change()
		c.Apply(s.Context(), c.Plan(s.Context(), c.given)) // whatever comes of it
		if err := <-restarted; err != nil {
			s.Fatal(err)
		}
	}
	for _, other := range s.cascades {
		inner := run
		run = func() { other.MayDouble(inner) }
	}
	run()
	c.repair()
	for _, other := range s.cascades {
		other.GoesOn()
	}
}

// burden is what the provider and the broker carry.
type burden struct {
	heap, goroutines      int // of this process, and so of the provider; bytes
	memory, processes     int // of the broker; bytes
	connections, channels int
}

func (b burden) String() string {
	return fmt.Sprintf("provider and test have %.1f MiB of heap and %d goroutines, the broker %.0f MiB, %d "+
		"processes, %d connections, %d channels",
		float64(b.heap)/(1<<20), b.goroutines, float64(b.memory)/(1<<20), b.processes, b.connections, b.channels)
}

func (s *soak) measure() (b burden) {
	s.Helper()
	// The management API has these figures too, but seconds late.
	const figures = `[erlang:garbage_collect(P) || P <- processes()],
		io_lib:format("~b ~b ~b ~b", [erlang:memory(total), erlang:system_info(process_count),
			length(rabbit_networking:connections()), length(rabbit_channel:list())]).`
	out, err := s.broker.CLI(s.Context(), "rabbitmqctl", "--quiet", "eval", figures)
	if err == nil {
		_, err = fmt.Sscanf(strings.Trim(strings.TrimSpace(string(out)), `"`), "%d %d %d %d", &b.memory, &b.processes,
			&b.connections, &b.channels)
	}
	if err != nil {
		s.Fatalf("%v: %s", err, out)
	}
	http.DefaultClient.CloseIdleConnections()
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	b.heap, b.goroutines = int(memory.HeapAlloc), runtime.NumGoroutine() //nolint:gosec // it fits
	return b
}

// beyond is the surplus over an earlier burden. The allowances are for things that come and go, and for the plugin
// framework. That keeps some 2 KiB of each request in a round until the provider stops (registerContext in
// proto6server).
func (b burden) beyond(before burden) (excess []string) {
	for _, c := range []struct {
		what         string
		before, now  int
		allowedExtra int
	}{
		{"bytes of heap", before.heap, b.heap, 16 << 20},
		{"goroutines", before.goroutines, b.goroutines, 20},
		{"bytes of the broker's memory", before.memory, b.memory, before.memory/4 + 64<<20},
		{"processes of the broker", before.processes, b.processes, 100},
		{"connections to the broker", before.connections, b.connections, 2},
		{"channels of the broker", before.channels, b.channels, 2},
	} {
		if c.now > c.before+c.allowedExtra {
			excess = append(excess, fmt.Sprintf("%d %s, before it were %d", c.now, c.what, c.before))
		}
	}
	return excess
}

func union(a, b topology.Topology) topology.Topology {
	maps.Copy(a.Exchanges, b.Exchanges)
	maps.Copy(a.Queues, b.Queues)
	for binding := range b.Bindings {
		a.Bindings.Add(binding)
	}
	return a
}

package acceptance

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// A stream runs through a cascade on a cluster of three nodes: the default one, and one of 17 levels in base 2.
// Meanwhile a node is killed and comes back, the leaders move, a node is cut off, and two of three are killed. Then the
// nodes are restarted one after the other, and upgraded. Whatever the broker has confirmed arrives, once, and not too
// early. As long as two nodes are there, the provider plans, changes and repairs through one of them.
func TestCluster(t *testing.T) {
	images := brokertest.ClusterImages(t)
	names := newNames(t)
	before := net.DefaultResolver
	net.DefaultResolver = names.resolver // before anything runs that looks up a name
	t.Cleanup(func() { net.DefaultResolver = before })
	for name, form := range clusterForms {
		t.Run(name, func(t *testing.T) {
			c := newClusterTest(t, images[0], form)
			c.names = names
			c.run(images)
		})
	}
}

func (c *clusterTest) run(images []string) {
	t := c.T
	c.Enter("nothing else happens")
	c.wait(20 * time.Second)

	c.stage("a node is killed and comes back", func() {
		down := c.leading()
		killed := make(chan error)
		time.AfterFunc(500*time.Millisecond, func() { killed <- down.Kill() })
		c.outlives(down)
		c.must(<-killed)
		c.GoesOn()
		c.outlives(down)
		survivor := c.other(down)
		c.work(survivor)
		c.refusesToDestroy(survivor)
		c.must(down.Start(t.Context(), down.Image))
		c.whole()
		c.work(down)
	})

	c.stage("the leaders of the queues move", func() {
		for range 3 {
			m := c.leading()
			before := c.leaders()
			c.cli(m, "rabbitmq-upgrade", "drain")
			c.wait(5 * time.Second)
			c.work(c.other(m))
			c.cli(m, "rabbitmq-upgrade", "revive")
			c.cli(m, "rabbitmq-queues", "rebalance", "quorum")
			c.T.Logf("leaders %v, then %v", before, c.leaders())
		}
		c.whole()
	})

	c.stage("the network of a node is cut and healed", func() {
		cut := c.leading()
		c.must(cut.Cut(t.Context()))
		c.wait(15 * time.Second) // for every node to see it
		c.GoesOn()
		c.work(c.other(cut))
		c.refusesToDestroy(c.other(cut))
		c.isOfNoUse(cut)
		c.must(cut.Heal(t.Context()))
		c.whole()
		c.regain(cut)
		c.work(cut)
	})

	c.stage("two of three nodes are killed and come back", func() {
		left := c.cluster.Members[0]
		for _, m := range c.cluster.Members[1:] {
			c.must(m.Kill())
		}
		c.wait(15 * time.Second)
		c.isOfNoUse(left)
		for _, m := range c.cluster.Members[1:] {
			c.must(m.Start(t.Context(), m.Image))
		}
		c.whole()
		c.regain(left)
		c.work(left)
	})

	c.stage("the nodes are restarted one after the other", func() {
		for _, m := range c.cluster.Members {
			c.must(c.roll(m, m.Image))
		}
	})

	for _, image := range images[1:] {
		c.stage("the nodes are upgraded to "+image, func() { c.upgrade(image) })
	}

	const longestDelay = clusterUnit << clusterLevels
	c.Finish(longestDelay + 4*time.Minute)
	t.Logf("RabbitMQ %s\n%s", strings.Join(images, ", "), table(c.Traffic))

	// The application goes first: its binding would leave the delivery exchange standing.
	down := c.leading()
	c.at(down).Do(plan.Unbind{Binding: topology.Binding{
		Source: c.Through.DeliveryExchange, DestinationType: topology.ToQueue,
		RoutingKey:  harness.DestinationKey(c.Through.Levels, harness.TrafficAddress),
		Destination: c.Arrivals(),
	}})
	// A node less is no reason to refuse: nothing waits any more.
	c.must(down.Kill())
	began := time.Now()
	p := c.through(c.other(down))
	harness.NoErrors(t, p.Refresh(t.Context()))
	harness.NoErrors(t, p.Apply(t.Context(), p.Plan(t.Context(), nil)))
	t.Logf("destroyed with a node down in %s", time.Since(began).Round(time.Millisecond))
	c.must(down.Start(t.Context(), down.Image))
	c.whole()
	arrivals := topology.New()
	arrivals.Queues[c.Arrivals()] = topology.Queue{Name: c.Arrivals(), Durable: true,
		Arguments: topology.Arguments{"x-queue-type": "quorum"}}
	c.at(down).MustHold(arrivals)
}

const (
	clusterLevels = 17
	// clusterUnit lets the longest delay be 2 min 11 s.
	clusterUnit = time.Millisecond
)

// clusterForm is a cascade, as attributes and as what they stand for, and the delays of its messages.
type clusterForm struct {
	given  harness.Attributes
	config delay.Config
	delay  func() time.Duration
}

var clusterForms = map[string]clusterForm{
	// Messages wait for up to two minutes, so that they pass queues of minutes and of seconds.
	"units": {harness.Attributes{}, delay.Config{}, harness.AnyDelay(7, time.Second)},
	"base 2": {harness.Attributes{"levels": clusterLevels, "resolution": clusterUnit.String()},
		delay.Config{Levels: clusterLevels, Resolution: clusterUnit}, harness.AnyDelay(clusterLevels, clusterUnit)},
}

type clusterTest struct {
	*harness.Traffic
	cluster *brokertest.Cluster
	views   map[*brokertest.Member]*brokertest.Broker // of the members, running or not
	hand    *harness.Protocol                         // that has the state
	given   harness.Attributes
	names   *names
	changes int
}

func newClusterTest(t *testing.T, image string, form clusterForm) *clusterTest {
	t.Helper()
	cluster := startCluster(t, image)
	c := &clusterTest{cluster: cluster, views: map[*brokertest.Member]*brokertest.Broker{}}
	var uris []string
	for _, m := range cluster.Members {
		c.views[m] = m.Broker
		uris = append(uris, m.AMQPURI)
	}
	c.given = form.given.With(harness.Attributes{"name": "t"})
	form.config.Vhost, form.config.Name, form.config.CreateDeliveryExchange = "/", "t", true
	c.hand = harness.NewProtocol(t, c.views[cluster.Members[0]], nil)
	c.hand.MustApply(c.given)
	c.Traffic = harness.NewTraffic(t, harness.TrafficConfig{
		URIs: uris, Through: harness.Resolve(t, form.config), Publishers: 6, Pause: 10 * time.Millisecond,
		Delay: form.delay,
	})
	c.whole()
	return c
}

func startCluster(t *testing.T, image string) *brokertest.Cluster {
	t.Helper()
	cluster, err := brokertest.StartCluster(t.Context(), os.Stderr, image, 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	return cluster
}

// stage runs a part of the test, and counts apart the messages that are published meanwhile.
func (c *clusterTest) stage(name string, run func()) {
	c.T.Helper()
	c.Enter(name)
	began := time.Now()
	c.MayDouble(func() {
		run()
		c.GoesOn()
	})
	c.T.Logf("%s: %s, leaders now %v", name, time.Since(began).Round(time.Second), c.leaders())
}

func (c *clusterTest) must(err error) {
	c.T.Helper()
	if err != nil {
		c.T.Fatal(err)
	}
}

func (c *clusterTest) wait(d time.Duration) { harness.Sleep(c.T.Context(), d) }

func (c *clusterTest) whole() { c.T.Helper(); c.must(c.cluster.WaitWhole(c.T.Context())) }

func (c *clusterTest) cli(m *brokertest.Member, tool string, args ...string) {
	c.T.Helper()
	_, err := m.CLI(c.T.Context(), tool, args...)
	c.must(err)
}

func (c *clusterTest) leaders() map[string]int {
	c.T.Helper()
	leaders, err := c.cluster.Leaders(c.T.Context())
	c.must(err)
	return leaders
}

// leading is the member that leads most queues.
func (c *clusterTest) leading() *brokertest.Member {
	leaders := c.leaders()
	return slices.MaxFunc(c.cluster.Members, func(a,
		b *brokertest.Member) int {
		return leaders[a.Name] - leaders[b.Name]
	})
}

// other is a member that runs beside this one.
func (c *clusterTest) other(than *brokertest.Member) *brokertest.Member {
	i := slices.IndexFunc(c.cluster.Members, func(m *brokertest.Member) bool { return m != than && m.Broker != nil })
	return c.cluster.Members[i]
}

// at is a look at the vhost through a member.
func (c *clusterTest) at(m *brokertest.Member) *harness.Vhost {
	return &harness.Vhost{T: c.T, Broker: c.views[m], Name: "/", API: harness.Management(c.T, c.views[m])}
}

// through puts the cascade into the hands of a provider that talks to the member.
func (c *clusterTest) through(m *brokertest.Member) *harness.Protocol {
	c.T.Helper()
	c.hand = c.hand.With(c.views[m], nil)
	return c.hand
}

// anotherLookahead is another one than last time.
func (c *clusterTest) anotherLookahead() int {
	c.changes++
	return 1 + c.changes*5%c.Through.Levels
}

// work plans, changes the lookahead, and repairs a damage, all through one member.
func (c *clusterTest) work(m *brokertest.Member) {
	c.T.Helper()
	p := c.through(m)
	began := time.Now()
	p.MustBeSettled(c.given)
	planned := time.Since(began)

	c.given["lookahead"] = c.anotherLookahead()
	began = time.Now()
	p.MustApply(c.given)
	changed := time.Since(began)

	v := c.at(m)
	desired := v.Objects()
	victim := slices.IndexFunc(desired.Bindings.Sorted(),
		func(b topology.Binding) bool { return b.Source == c.Through.Exchange(0) })
	v.Do(plan.Unbind{Binding: desired.Bindings.Sorted()[victim]})
	harness.NoErrors(c.T, p.Refresh(c.T.Context()))
	if p.Plan(c.T.Context(), c.given).IsEmpty(p.State) {
		c.T.Errorf("a binding is missing, and the plan through %s is empty", m.Name)
	}
	began = time.Now()
	p.MustApply(c.given)
	c.T.Logf("through %s: planned in %s, lookahead changed in %s, repaired in %s", m.Name,
		planned.Round(time.Millisecond), changed.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	p.MustBeSettled(c.given)
	v.MustHold(desired)
	c.GoesOn()
}

// outlives changes the lookahead through a name that has the addresses of all nodes. That of a dying or dead one is
// first: an endpoint needs no list.
func (c *clusterTest) outlives(dying *brokertest.Member) {
	c.T.Helper()
	addresses := []string{dying.Address()}
	for _, m := range c.cluster.Members {
		if m != dying {
			addresses = append(addresses, m.Address())
		}
	}
	c.names.set(addresses...)
	named := *c.views[dying]
	named.Endpoint = strings.Replace(named.Endpoint, addresses[0], clusterHost, 1)
	named.AMQPURI = strings.Replace(named.AMQPURI, addresses[0], clusterHost, 1)
	p := c.hand.With(&named, nil)
	for range 3 {
		c.given["lookahead"] = c.anotherLookahead()
		began := time.Now()
		p.MustApply(c.given)
		p.MustBeSettled(c.given)
		c.T.Logf("through a name with three addresses: changed and planned in %s",
			time.Since(began).Round(time.Millisecond))
	}
	c.hand = p
}

// refusesToDestroy tries to, through a member with a majority: messages wait.
func (c *clusterTest) refusesToDestroy(m *brokertest.Member) {
	c.T.Helper()
	p := c.through(m)
	harness.NoErrors(c.T, p.Refresh(c.T.Context()))
	before := c.at(m).Objects()
	began := time.Now()
	text := harness.ErrorText(p.Apply(c.T.Context(), p.Plan(c.T.Context(), nil)))
	c.T.Logf("destroying through %s was refused in %s: %.200s", m.Name, time.Since(began).Round(time.Millisecond), text)
	if !slices.ContainsFunc(slices.Collect(maps.Values(before.Queues)), func(q topology.Queue) bool {
		return q.DeadLetterExchange() != "" && strings.Contains(text, fmt.Sprintf("queue %q: ", q.Name))
	}) {
		c.T.Errorf("destroying through %s: %q", m.Name, text)
	}
	c.at(m).MustHold(before)
}

// isOfNoUse tries to work through a member that has no majority. It may show the cascade as it was; it must not
// show it as gone, and can neither change nor destroy it.
func (c *clusterTest) isOfNoUse(m *brokertest.Member) {
	c.T.Helper()
	p := c.hand.With(c.views[m], harness.Attributes{"retry_timeout": harness.OnceMore})
	began := time.Now()
	text := harness.ErrorText(p.Refresh(c.T.Context()))
	c.T.Logf("reading through %s, without a majority: %s, %.300q", m.Name, time.Since(began).Round(time.Millisecond),
		text)
	if p.State.IsNull() {
		c.T.Fatalf("%s says that everything is gone", m.Name)
	}
	lookahead := c.anotherLookahead()
	began = time.Now()
	text = harness.ErrorText(p.Apply(c.T.Context(), p.Plan(c.T.Context(),
		c.given.With(harness.Attributes{"lookahead": lookahead}))))
	c.T.Logf("changing the lookahead through %s, without a majority: %s, %.300q", m.Name,
		time.Since(began).Round(time.Millisecond), text)
	if text == "" {
		c.T.Errorf("%s changes the cascade without a majority", m.Name)
	}
	began = time.Now()
	text = harness.ErrorText(p.Apply(c.T.Context(), p.Plan(c.T.Context(), nil)))
	c.T.Logf("destroying through %s, without a majority: %s, %.300q", m.Name, time.Since(began).Round(time.Millisecond),
		text)
	if text == "" || p.State.IsNull() {
		c.T.Fatalf("%s destroys without a majority", m.Name)
	}
}

// regain applies the configuration from before the changes that were tried without a majority. One of these may have
// come through later.
func (c *clusterTest) regain(m *brokertest.Member) {
	c.T.Helper()
	p := c.through(m)
	harness.NoErrors(c.T, p.Refresh(c.T.Context()))
	todo := p.Plan(c.T.Context(), c.given)
	c.T.Logf("with a majority again, there is nothing to repair: %t", todo.IsEmpty(p.State))
	harness.NoErrors(c.T, p.Apply(c.T.Context(), todo))
}

// roll restarts a member with an image as its operator would. The image may be one that the member refuses.
func (c *clusterTest) roll(m *brokertest.Member, image string) error {
	c.T.Helper()
	c.cli(m, "rabbitmq-upgrade", "await_online_quorum_plus_one")
	c.cli(m, "rabbitmq-upgrade", "drain")
	c.must(m.Shutdown(c.T.Context()))
	if err := m.Start(c.T.Context(), image); err != nil {
		return err
	}
	c.whole()
	c.GoesOn()
	return nil
}

// upgrade upgrades one member after the other. A member that does not start with the image gets its own again.
func (c *clusterTest) upgrade(image string) {
	c.T.Helper()
	m := c.cluster.Members[0]
	c.cli(m, "rabbitmqctl", "enable_feature_flag", "all")
	// Khepri has to be asked for one by one in 4.0, and is required from 4.3 on.
	_, err := m.CLI(c.T.Context(), "rabbitmqctl", "enable_feature_flag", "--opt-in", "khepri_db")
	c.T.Logf("feature flag khepri_db: %v", err)
	for _, m := range c.cluster.Members {
		was := m.Image
		if err := c.roll(m, image); err != nil {
			c.T.Logf("%s does not start with %s in a cluster of %s: %v", m.Name, image, was, err)
			c.must(m.Start(c.T.Context(), was))
			c.whole()
			c.work(m)
			return
		}
		c.work(m)
	}
}

// table is the account of each stage in a line.
func table(f *harness.Traffic) string {
	text := "| while | confirmed | not confirmed, published again | lost | delivered | late p50 | p99 | most | early " +
		"| doubled | of those published again | parked |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n"
	for _, name := range f.Order {
		s := f.Stages[name]
		text += fmt.Sprintf("| %s | %d | %d | %d | %d | %s | %s | %s | %d | %d | %d | %d |\n", name, s.Confirmed,
			s.Returned+s.Unsure, len(s.Lost),
			s.Delivered, s.Late.Quantile(0.5), s.Late.Quantile(0.99), s.Late.Most.Round(time.Millisecond), s.Early,
			s.Doubled, s.Twice, s.Parked)
	}
	return text
}

// What three nodes cost in comparison with one, all on this machine: the ratio is what counts.
func TestClusterRate(t *testing.T) {
	image := brokertest.ClusterImages(t)[0]
	for _, members := range []int{1, 3, 1, 3} {
		t.Logf("%s, nodes: %d: %s", image, members, clusterRate(t, image, members))
	}
}

// rate is how fast messages are published, each publisher waiting for the confirm of one before the next.
type rate struct {
	publishers int
	perSecond  float64
	confirm    time.Duration // median
}

func (r rate) String() string {
	return fmt.Sprintf("%.0f msg/s with %d publishers, a confirm in %s", r.perSecond, r.publishers,
		r.confirm.Round(10*time.Microsecond))
}

// clusterRate is that of a cluster with so many nodes.
func clusterRate(t *testing.T, image string, members int) rate {
	t.Helper()
	cluster, err := brokertest.StartCluster(t.Context(), os.Stderr, image, members)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	}()
	return measureRate(t, cluster.Members[0].Broker)
}

// measureRate publishes into a cascade of its own, from which the messages go nowhere while that takes.
func measureRate(t *testing.T, b *brokertest.Broker) rate {
	t.Helper()
	const publishers, during, warmUp = 16, 8 * time.Second, 2 * time.Second
	given := harness.Attributes{"name": "rate", "levels": clusterLevels, "force_destroy": true}
	p := harness.NewProtocol(t, b, nil)
	p.MustApply(given)
	connection, err := b.Dial("/")
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	begin := time.Now().Add(warmUp)
	took := make([][]time.Duration, publishers)
	var together sync.WaitGroup
	for i := range publishers {
		publisher, err := brokertest.NewPublisher(connection)
		if err != nil {
			t.Fatal(err)
		}
		together.Go(func() {
			for began := time.Now(); began.Before(begin.Add(during)); began = time.Now() {
				key := harness.RoutingKey(t, time.Hour+time.Duration(rand.IntN(1<<16))*time.Second, clusterLevels,
					time.Second, harness.TrafficAddress)
				err := publisher.Publish(t.Context(), fmt.Sprintf("rate.delay-%02d", clusterLevels-1), key,
					amqp.Publishing{DeliveryMode: amqp.Persistent, Body: make([]byte, 256)})
				if err != nil {
					t.Error(err)
					return
				}
				if began.After(begin) {
					took[i] = append(took[i], time.Since(began))
				}
			}
		})
	}
	together.Wait()
	all := slices.Sorted(slices.Values(slices.Concat(took...)))
	p.MustApply(nil)
	if len(all) == 0 {
		t.Fatal("nothing was published")
	}
	return rate{publishers, float64(len(all)) / during.Seconds(), all[len(all)/2]}
}

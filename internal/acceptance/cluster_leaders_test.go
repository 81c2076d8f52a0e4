package acceptance

import (
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
)

// Without a locator, the node that answers the provider leads a whole cascade; a plan says so, with a command that
// helps. With the locator "balanced" the leaders are spread from the beginning. Nodes that are down are told, too.
func TestClusterLeaders(t *testing.T) {
	images := brokertest.ClusterImages(t)
	for name, form := range leadersForms {
		t.Run(name, func(t *testing.T) {
			c := &leadersTest{TB: t, leadersForm: form, cluster: startCluster(t, images[0])}
			for _, m := range c.cluster.Members {
				c.views = append(c.views, m.Broker)
			}
			c.run()
		})
	}
}

func (c *leadersTest) run() {
	t := c.TB
	even := c.given.With(harness.Attributes{"name": "even", "queue_leader_locator": "balanced",
		"quorum_initial_group_size": 3})
	balanced := harness.NewProtocol(t, c.views[0], nil)
	if said := c.apply(balanced, even); said != "" {
		t.Errorf("an apply with balanced leaders says: %s", said)
	}
	c.isSpread("even")
	imported := harness.NewProtocol(t, c.views[1], nil)
	harness.NoErrors(t, imported.ImportIdentity(t.Context(), "/", c.entryOf("even")))
	imported.MustBeSettled(even)

	// One cascade through each of several nodes: the leaders of all of them together are spread.
	var cascades []*harness.Protocol
	for i, view := range c.views[:c.hands] {
		name, node := fmt.Sprintf("by%d", i), c.cluster.Members[i].Name
		p := harness.NewProtocol(t, view, nil)
		said := c.apply(p, c.given.With(harness.Attributes{"name": name}))
		if led := c.observe(p, name).leaders[node]; led != c.queues {
			t.Errorf("%s leads %d of %d queues of %s", node, led, c.queues, name)
		}
		if !strings.Contains(said, fmt.Sprintf("%s on node %q", c.allLeaders(), node)) {
			t.Errorf("the apply of %s says: %s", name, said)
		}
		cascades = append(cascades, p)
	}

	said := harness.WarningText(cascades[0].Refresh(t.Context()))
	command := regexp.MustCompile(`(?m)rabbitmq-queues rebalance .*$`).FindString(said)
	if _, err := c.cluster.Members[1].CLI(t.Context(), "sh", "-c", command); err != nil {
		t.Fatalf("%s\nThe plan said: %s", err, said)
	}
	c.eventually(cascades[0], "the leaders are spread", func(said string) bool { return said == "" })
	c.isSpread("by0")
	if said := harness.WarningText(cascades[1].Refresh(t.Context())); !strings.Contains(said, c.allLeaders()) {
		t.Errorf("the command for another cascade has spread this one, too: %s", said)
	}

	c.nodesFail(balanced)
}

// leadersForm is a form of cascade, with its number of delay queues and the format of its entry.
type leadersForm struct {
	given  harness.Attributes
	queues int
	entry  string
	hands  int // the nodes through which somebody creates a cascade
}

// The default cascade has so many queues that three of them are too much for a small machine.
var leadersForms = map[string]leadersForm{
	"units":  {harness.Attributes{}, 171, "%s.d.h.m.s", 2},
	"base 2": {harness.Attributes{"levels": 28}, 28, "%s.delay-27", 3},
}

type leadersTest struct {
	testing.TB
	leadersForm
	cluster *brokertest.Cluster
	views   []*brokertest.Broker // of the members, running or not
}

func (c *leadersTest) entryOf(name string) string { return fmt.Sprintf(c.entry, name) }

// allLeaders are those of the delay queues and of the queue of unroutable messages.
func (c *leadersTest) allLeaders() string {
	return fmt.Sprintf("%d of %[1]d leaders", c.queues+1)
}

// apply says what the apply warns of.
func (c *leadersTest) apply(p *harness.Protocol, given harness.Attributes) string {
	c.Helper()
	began := time.Now()
	diagnostics := p.Apply(c.Context(), p.Plan(c.Context(), given))
	harness.NoErrors(c, diagnostics)
	c.Logf("%s created in %s", given["name"], time.Since(began).Round(time.Millisecond))
	return harness.WarningText(diagnostics)
}

// nodesFail kills the first node, then the second, and starts both again. It looks through the third.
func (c *leadersTest) nodesFail(p *harness.Protocol) {
	c.Helper()
	p = p.With(c.views[2], harness.Attributes{"retry_timeout": harness.OnceMore})
	c.must(c.cluster.Members[0].Kill())
	c.eventually(p, "a node is down", func(said string) bool {
		return strings.Contains(said, "2 of 3 members online") && c.showsOnline(p, 2)
	})
	c.must(c.cluster.Members[1].Kill())
	// Before 4.3, the node that is left pauses and does not answer.
	c.eventually(p, "two nodes are down", func(said string) bool {
		return strings.Contains(said, "1 of 3 members online") || strings.Contains(said, "broker not reachable")
	})
	for _, m := range c.cluster.Members[:2] {
		c.must(m.Start(c.Context(), m.Image))
	}
	c.must(c.cluster.WaitWhole(c.Context()))
	c.eventually(p, "all nodes run", func(said string) bool {
		return said == "" && c.showsOnline(p, 3)
	})
}

func (c *leadersTest) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// says is what a refresh warns of, or why it fails.
func (c *leadersTest) says(p *harness.Protocol) string {
	c.Helper()
	diagnostics := p.Refresh(c.Context())
	return harness.WarningText(diagnostics) + harness.ErrorText(diagnostics)
}

// eventually waits until a refresh says what it has to.
func (c *leadersTest) eventually(p *harness.Protocol, what string, is func(said string) bool) {
	c.Helper()
	for began := time.Now(); ; time.Sleep(time.Second) {
		said := c.says(p)
		if is(said) {
			c.Logf("%s, after %s: %s", what, time.Since(began).Round(time.Millisecond), said)
			return
		}
		if time.Since(began) > harness.Patience {
			c.Fatalf("%s: after %s, a plan says %q", what, harness.Patience, said)
		}
	}
}

// showsOnline tells whether the data source shows so many members online of each queue.
func (c *leadersTest) showsOnline(p *harness.Protocol, members int64) bool {
	c.Helper()
	return c.observe(p, "even").online[members] == c.queues
}

// isSpread checks that no node leads more of the queues than RabbitMQ lets one do that spreads them. The queue of
// unroutable messages is one of them.
func (c *leadersTest) isSpread(name string) {
	c.Helper()
	leaders := c.observe(harness.NewProtocol(c, c.views[0], nil), name).leaders
	c.Logf("leaders of %s: %v", name, leaders)
	members := len(c.cluster.Members)
	most := (c.queues+1)/members + 1
	for _, m := range c.cluster.Members {
		if n := leaders[m.Name]; n < c.queues-(members-1)*most || n > most {
			c.Errorf("%s leads %d of %d queues of %s", m.Name, n, c.queues, name)
		}
	}
}

// observedLeaders are what the data source shows: queues by their leader, and by the number of members that are online.
type observedLeaders struct {
	leaders map[string]int
	online  map[int64]int
}

func (c *leadersTest) observe(p *harness.Protocol, name string) observedLeaders {
	c.Helper()
	o := observedLeaders{map[string]int{}, map[int64]int{}}
	found, diagnostics := p.Observe(c.Context(), harness.CascadeType,
		harness.Attributes{"entry_exchange": c.entryOf(name)})
	harness.NoErrors(c, diagnostics)
	var queues []tftypes.Value
	c.must(harness.Fields(c, found)["queues"].As(&queues))
	for _, q := range queues {
		var leader string
		var online big.Float
		c.must(harness.Fields(c, q)["leader"].As(&leader))
		c.must(harness.Fields(c, q)["online_members"].As(&online))
		o.leaders[leader]++
		members, _ := online.Int64()
		o.online[members]++
	}
	return o
}

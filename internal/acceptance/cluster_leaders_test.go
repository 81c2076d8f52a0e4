package acceptance

import (
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
)

// Without a locator, the node that answers the provider leads a whole cascade; a plan says so, with a command that
// helps. With the locator "balanced" the leaders are spread from the beginning. Nodes that are down are told, too.
func TestClusterLeaders(t *testing.T) {
	c := &leadersTest{TB: t, cluster: startCluster(t, brokertest.ClusterImages(t)[0])}
	for _, m := range c.cluster.Members {
		c.views = append(c.views, m.Broker)
	}

	even := attributes{"name": "even", "levels": leadersLevels, "queue_leader_locator": "balanced",
		"quorum_initial_group_size": 3}
	balanced := newProtocol(t, c.views[0], nil)
	if said := c.apply(balanced, even); said != "" {
		t.Errorf("an apply with balanced leaders says: %s", said)
	}
	c.isSpread("even")
	imported := newProtocol(t, c.views[1], nil)
	noErrors(t, imported.importIdentity(t.Context(), "/", c.entry("even")))
	imported.mustBeSettled(even)

	// One cascade through each node: the leaders of all of them together are spread.
	var cascades []*protocol
	for i, view := range c.views {
		name, node := fmt.Sprintf("by%d", i), c.cluster.Members[i].Name
		p := newProtocol(t, view, nil)
		said := c.apply(p, attributes{"name": name, "levels": leadersLevels})
		if led := c.observe(p, name).leaders[node]; led != leadersLevels {
			t.Errorf("%s leads %d of %d queues of %s", node, led, leadersLevels, name)
		}
		if !strings.Contains(said, fmt.Sprintf("29 of 29 leaders on node %q", node)) {
			t.Errorf("the apply of %s says: %s", name, said)
		}
		cascades = append(cascades, p)
	}

	said := warningText(cascades[0].refresh(t.Context()))
	command := regexp.MustCompile(`(?m)rabbitmq-queues rebalance .*$`).FindString(said)
	if _, err := c.cluster.Members[1].CLI(t.Context(), "sh", "-c", command); err != nil {
		t.Fatalf("%s\nThe plan said: %s", err, said)
	}
	c.eventually(cascades[0], "the leaders are spread", func(said string) bool { return said == "" })
	c.isSpread("by0")
	if said := warningText(cascades[1].refresh(t.Context())); !strings.Contains(said, "29 of 29 leaders") {
		t.Errorf("the command for another cascade has spread this one, too: %s", said)
	}

	c.nodesFail(balanced)
}

// leadersLevels are as many delay queues; there is one more for unroutable messages.
const leadersLevels = 28

type leadersTest struct {
	testing.TB
	cluster *brokertest.Cluster
	views   []*brokertest.Broker // of the members, running or not
}

func (c *leadersTest) entry(name string) string {
	return fmt.Sprintf("%s.delay-%d", name, leadersLevels-1)
}

// apply says what the apply warns of.
func (c *leadersTest) apply(p *protocol, given attributes) string {
	c.Helper()
	began := time.Now()
	diagnostics := p.apply(c.Context(), p.plan(c.Context(), given))
	noErrors(c, diagnostics)
	c.Logf("%s created in %s", given["name"], time.Since(began).Round(time.Millisecond))
	return warningText(diagnostics)
}

// nodesFail kills the first node, then the second, and starts both again. It looks through the third.
func (c *leadersTest) nodesFail(p *protocol) {
	c.Helper()
	p = p.with(c.views[2], attributes{"retry_timeout": onceMore})
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
func (c *leadersTest) says(p *protocol) string {
	c.Helper()
	diagnostics := p.refresh(c.Context())
	return warningText(diagnostics) + errorText(diagnostics)
}

// eventually waits until a refresh says what it has to.
func (c *leadersTest) eventually(p *protocol, what string, is func(said string) bool) {
	c.Helper()
	for began := time.Now(); ; time.Sleep(time.Second) {
		said := c.says(p)
		if is(said) {
			c.Logf("%s, after %s: %s", what, time.Since(began).Round(time.Millisecond), said)
			return
		}
		if time.Since(began) > patience {
			c.Fatalf("%s: after %s, a plan says %q", what, patience, said)
		}
	}
}

// showsOnline tells whether the data source shows so many members online of each queue.
func (c *leadersTest) showsOnline(p *protocol, members int64) bool {
	c.Helper()
	return c.observe(p, "even").online[members] == leadersLevels
}

// isSpread checks that no node leads many more of the queues than another.
func (c *leadersTest) isSpread(name string) {
	c.Helper()
	leaders := c.observe(newProtocol(c, c.views[0], nil), name).leaders
	c.Logf("leaders of %s: %v", name, leaders)
	for _, m := range c.cluster.Members {
		if n := leaders[m.Name]; n < leadersLevels/3-1 || n > leadersLevels/3+1 {
			c.Errorf("%s leads %d of %d queues of %s", m.Name, n, leadersLevels, name)
		}
	}
}

// observedLeaders are what the data source shows: queues by their leader, and by the number of members that are online.
type observedLeaders struct {
	leaders map[string]int
	online  map[int64]int
}

func (c *leadersTest) observe(p *protocol, name string) observedLeaders {
	c.Helper()
	o := observedLeaders{map[string]int{}, map[int64]int{}}
	found, diagnostics := p.observe(c.Context(), cascadeType, attributes{"entry_exchange": c.entry(name)})
	noErrors(c, diagnostics)
	var queues []tftypes.Value
	c.must(fields(c, found)["queues"].As(&queues))
	for _, q := range queues {
		var leader string
		var online big.Float
		c.must(fields(c, q)["leader"].As(&leader))
		c.must(fields(c, q)["online_members"].As(&online))
		o.leaders[leader]++
		members, _ := online.Int64()
		o.online[members]++
	}
	return o
}

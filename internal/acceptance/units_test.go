package acceptance

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// unitsEntry is the entry of a cascade of days to seconds.
const unitsEntry = "orders.d.h.m.s"

// ordersOf is the configuration of a cascade of days to seconds, with further attributes.
func ordersOf(attributes ...string) string {
	return block(harness.CascadeType, "orders", append([]string{`name = "orders"`}, attributes...)...)
}

// ordersExpanded is what it stands for.
func ordersExpanded(v *harness.Vhost, change func(*delay.Config)) topology.Topology {
	v.T.Helper()
	c := delay.Config{Vhost: v.Name, Name: "orders", CreateDeliveryExchange: true, StrictKeys: true,
		ParkUnroutable: true}
	if change != nil {
		change(&c)
	}
	return harness.Expand(v.T, c)
}

// newOrders applies such a cascade.
func newOrders(t *testing.T, further harness.Attributes) (*harness.Vhost, *harness.Protocol, harness.Attributes) {
	t.Helper()
	v := harness.NewVhost(t)
	p := harness.NewProtocol(t, v.Broker, nil)
	given := harness.Attributes{"vhost": v.Name, "name": "orders"}.With(further)
	p.MustApply(given)
	return v, p, given
}

// A name is all that it takes. The plan fits a comment in a pull request. Each message waits in one queue for each
// word of its key but 0, and a key without a delay is parked.
func TestAccUnits(t *testing.T) {
	if os.Getenv("TF_ACC") == "" {
		t.Skip("runs Terraform: set TF_ACC")
	}
	t.Parallel()
	v := harness.NewLargeVhost(t)
	tf := v.CommandLine()
	text := repeatable(planText(tf, ordersOf()), v.Name)
	lines := strings.Split(text, "\n")
	const first, last = 30, 40
	compareOutput(v, filepath.Join(plansDirectory, "create-units.txt"), strings.Join(slices.Concat(lines[:first],
		[]string{fmt.Sprintf("[%d of %d lines, %d characters]", len(lines)-first-last, len(lines),
			utf8.RuneCountInString(text))}, lines[len(lines)-last:]), "\n"))
	const comment, longer = 65_536, 12 // a name of so many characters fits, too
	text = tf.MustRun("plan", "-input=false")
	n := utf8.RuneCountInString(text) + strings.Count(text, "orders")*(longer-len("orders"))
	if n > comment {
		t.Errorf("the plan has %d characters, and a comment in a pull request %d", n, comment)
	}
	tf.MustRun("apply", "-input=false", "-auto-approve")
	v.MustHold(ordersExpanded(v, nil))
	tf.MustRun("plan", "-input=false", "-detailed-exitcode")

	v.DeclareQueue("billing", map[string]any{"x-queue-type": "classic"})
	planText(tf, ordersOf()+`
resource "rabbitmqdelay_destination" "billing" {
  vhost             = var.vhost
  delivery_exchange = rabbitmqdelay_cascade.orders.delivery_exchange
  levels            = length(rabbitmqdelay_cascade.orders.units)
  address           = "billing"
  queue             = "billing"
}
`)
	tf.MustRun("apply", "-input=false", "plan")
	sendsInUnits(v)
	parksOtherKeys(v)
	tf.MustRun("destroy", "-input=false", "-auto-approve")
	left := topology.New()
	left.Queues["billing"] = topology.Queue{Name: "billing", Durable: true,
		Arguments: topology.Arguments{"x-queue-type": "classic"}}
	v.MustHold(left)
}

// sendsInUnits sends messages that wait for seconds, the longest first.
func sendsInUnits(v *harness.Vhost) {
	v.T.Helper()
	sent := map[string]time.Time{}
	billing := v.Consume("billing")
	const longest = 3
	for seconds := longest; seconds >= 0; seconds-- {
		key := fmt.Sprintf("0.0.0.%d.billing", seconds)
		sent[key] = harness.BrokerTime()
		v.Publish(unitsEntry, key, key)
	}
	for _, a := range v.Arrived(billing, len(sent)) {
		key, seconds := string(a.Body), 0
		began, waits := sent[key]
		delete(sent, key) // each arrives once
		if _, err := fmt.Sscanf(key, "0.0.0.%d.billing", &seconds); err != nil || !waits {
			v.T.Errorf("a message with key %s arrives: %v", key, err)
		}
		// Not in order: on a busy machine, a publisher may take a second for a message.
		took, asked := a.At.Sub(began), time.Duration(seconds)*time.Second
		if took < harness.Least(asked) || took > asked+mostLateness {
			v.T.Errorf("the message with key %s took %s", key, took)
		}
		through := map[string]int64{}
		if seconds > 0 {
			through[fmt.Sprintf("orders.%ds", seconds)] = 1
		}
		if died := timesDied(a); !maps.Equal(died, through) {
			v.T.Errorf("the message with key %s has waited in %v, want %v", key, died, through)
		}
	}
}

// parksOtherKeys sends keys that stand for no delay.
func parksOtherKeys(v *harness.Vhost) {
	v.T.Helper()
	keys := []string{"31.0.0.0.billing", "0.24.0.0.billing", "0.0.60.0.billing", "0.0.0.60.billing",
		"0.0.0.01.billing", "0.0.1.billing", "0.0.0.1", "-1.0.0.0.billing", "1d.0.0.0.billing", "0.0.0.0.nobody",
		"billing"}
	for _, key := range keys {
		v.Publish(unitsEntry, key, key)
	}
	v.Eventually("the messages are parked", func() bool { return v.Depth("orders.unroutable") == len(keys) })
	v.Purge("orders.unroutable")
}

// A dashboard shows what waits in which queue, and a check sends a message through.
func TestUnitsAreWatched(t *testing.T) {
	t.Parallel()
	v, p, given := newOrders(t, harness.Attributes{"queue_type": "classic"})
	const many = 124
	for range many {
		v.Publish(unitsEntry, "0.0.30.0.later", "")
	}
	v.Publish(unitsEntry, "7.0.0.0.later", "")
	waits(v, "orders.30m", many)
	waits(v, "orders.7d", 1)
	v.Eventually("there are statistics", v.HasStatistics)
	at := harness.Attributes{"vhost": v.Name, "entry_exchange": unitsEntry}
	found, diagnostics := p.Observe(t.Context(), harness.CascadeType, at)
	harness.NoErrors(t, diagnostics)
	seen := harness.PlainMap(t, found)
	for name, want := range map[string]any{"units": []any{"1d", "1h", "1m", "1s"}, "base": nil, "levels": int64(4),
		"resolution": "1s", "max_delay": "30d", "messages": int64(many + 1),
	} {
		if fmt.Sprint(seen[name]) != fmt.Sprint(want) {
			t.Errorf("the data source has %s = %v, want %v", name, seen[name], want)
		}
	}
	if found, _ := seen["findings"].([]any); len(found) != v.Findings(0) {
		t.Errorf("the data source has the findings %v", found)
	}
	held := map[any]any{}
	queues, _ := seen["queues"].([]any)
	for _, each := range queues {
		q := harness.AsMap(t, each)
		if n, _ := q["messages"].(int64); n > 0 {
			held[q["name"]] = fmt.Sprintf("%v of level %v: %v wait %v ms", q["digit"], q["level"], n, q["message_ttl"])
		}
	}
	if want := map[any]any{"orders.30m": "30 of level 1: 124 wait 1800000 ms",
		"orders.7d": "7 of level 3: 1 wait 604800000 ms"}; !maps.Equal(held, want) || len(queues) != 171 {
		t.Errorf("of %d queues these hold messages: %v", len(queues), held)
	}

	found, diagnostics = p.Observe(t.Context(), "rabbitmqdelay_probe", at.With(harness.Attributes{"delay": "2s"}))
	harness.NoErrors(t, diagnostics)
	late, _ := harness.PlainMap(t, found)["lateness_ms"].(int64)
	if most := mostLateness.Milliseconds(); late < 0 || late > most {
		t.Errorf("the probe is %d ms late", late)
	}

	var todo harness.PlannedChange
	v.Eventually("the plan of a destroy counts all messages but that of the probe", func() bool {
		harness.NoErrors(t, p.Refresh(t.Context()))
		todo = p.Plan(t.Context(), nil)
		return strings.Contains(harness.WarningText(todo.Diagnostics), "125 messages are on the way through it now")
	})
	harness.MustSay(t, "the plan of a destroy", harness.WarningText(todo.Diagnostics), wouldFail)
	harness.MustSay(t, "the error of a destroy", harness.ErrorText(p.Apply(t.Context(), todo)),
		`queue "orders.30m": 124`, `queue "orders.7d": 1`)
	p.MustBeSettled(given)
}

// Each damage is a warning and some lines of the plan, and one apply repairs it.
func TestUnitsDrift(t *testing.T) {
	t.Parallel()
	v, p, given := newOrders(t, harness.Attributes{"max_delay": "1h", "queue_type": "classic"})
	desired := ordersReaching(v, time.Hour)
	v.DeclareQueue("audit", map[string]any{"x-queue-type": "classic"})
	audit := topology.Queue{Name: "audit", Durable: true, Arguments: topology.Arguments{"x-queue-type": "classic"}}
	for name, damage := range map[string]struct {
		do       func()
		says     string
		queues   string // the one that differs in the plan, if any
		bindings int    // that differ, but for those of an exchange that is gone
	}{
		"deleted queue": {func() { v.Do(plan.DeleteQueue{Queue: desired.Queues["orders.30m"]}) },
			"The queue orders.30m is gone. Any messages that waited in it are lost. Messages that need it are parked.",
			"orders.30m", 3},
		"changed TTL": {func() {
			q := desired.Queues["orders.45s"]
			q.Arguments = maps.Clone(q.Arguments)
			q.Arguments["x-message-ttl"] = int64(5000)
			v.Do(plan.DeleteQueue{Queue: q}, plan.DeclareQueue{Queue: q})
			for b := range desired.Bindings {
				if b.LeadsTo(topology.ToQueue, q.Name) {
					v.Do(plan.Bind{Binding: b})
				}
			}
		}, "The queue orders.45s has a TTL of 5 s, not 45 s. Messages leave it early.", "orders.45s", 0},
		"foreign binding": {func() { v.Bind("orders.h.m.s", "*.2.#", "queue", "audit") },
			`The binding of exchange orders.h.m.s to queue audit with key "*.2.#" was added.`, "", 1},
		"deleted exchange": {func() { v.Do(plan.DeleteExchange{Name: "orders.m.s"}) },
			"The exchange orders.m.s is gone.", "", 0},
	} {
		damage.do()
		said := harness.WarningText(p.Refresh(t.Context()))
		harness.MustSay(t, name+": the refresh", said, driftSummary, damage.says)
		if n := strings.Count(said, "\n- "); n != 1 {
			t.Errorf("%s: the refresh names %d causes: %s", name, n, said)
		}
		todo := p.Plan(t.Context(), given)
		differences, err := p.State.Diff(todo.State)
		if err != nil {
			t.Fatal(err)
		}
		bindings := 0
		for _, d := range differences {
			switch steps := d.Path.Steps(); {
			case len(steps) == 3 && strings.HasPrefix(d.Path.String(), `AttributeName("bindings")`):
				bindings++
			case len(steps) == 2 && strings.HasPrefix(d.Path.String(), `AttributeName("queues")`) &&
				!strings.Contains(d.Path.String(), `"`+damage.queues+`"`):
				t.Errorf("%s: the plan changes %s", name, d)
			}
		}
		if bindings != damage.bindings {
			t.Errorf("%s: the plan changes %d bindings, want %d", name, bindings, damage.bindings)
		}
		harness.NoErrors(t, p.Apply(t.Context(), todo))
		want := desired.Clone()
		want.Queues[audit.Name] = audit
		v.MustHold(want)
		p.MustBeSettled(given)
	}
}

// All but the units, and what else gives the entry another name, changes in place.
func TestUnitsChange(t *testing.T) {
	t.Parallel()
	const reach = 5 * time.Second
	for name, is := range map[string]struct {
		change harness.Attributes
		config func(*delay.Config)
	}{
		"queue_type": {harness.Attributes{"queue_type": "classic"},
			func(c *delay.Config) { c.QueueType = delay.Classic }},
		"queue_name":  {harness.Attributes{"queue_name": "q.%s"}, func(c *delay.Config) { c.QueueName = "q.%s" }},
		"lookahead":   {harness.Attributes{"lookahead": 1}, func(c *delay.Config) { c.Lookahead = 1 }},
		"strict_keys": {harness.Attributes{"strict_keys": false}, func(c *delay.Config) { c.StrictKeys = false }},
		"park_unroutable": {harness.Attributes{"park_unroutable": false},
			func(c *delay.Config) { c.ParkUnroutable = false }},
		"internal_levels": {harness.Attributes{"internal_levels": true},
			func(c *delay.Config) { c.InternalLevels = true }},
		"max_delay": {harness.Attributes{"max_delay": "1m"}, func(c *delay.Config) { c.MaxDelay = time.Minute }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, p, given := newOrders(t, harness.Attributes{"max_delay": reach.String()})
			next := given.With(is.change)
			todo := p.Plan(t.Context(), next)
			if todo.Replace || todo.IsEmpty(p.State) {
				t.Errorf("replace %t, empty %t", todo.Replace, todo.IsEmpty(p.State))
			}
			harness.NoErrors(t, p.Apply(t.Context(), todo))
			v.MustHold(ordersExpanded(v, func(c *delay.Config) { c.MaxDelay = reach; is.config(c) }))
			p.MustBeSettled(next)
			p.MustApply(given)
			v.MustHold(ordersExpanded(v, func(c *delay.Config) { c.MaxDelay = reach }))
		})
	}
}

// Other units replace the cascade. Where the old entry becomes an inner exchange, the plan says that publishers who
// still use it are misunderstood, and that is so. An internal one refuses them.
func TestReplacementMisunderstandsOldPublishers(t *testing.T) {
	t.Parallel()
	few := harness.Attributes{"max_delay": "2m", "queue_type": "classic"}
	week := harness.Attributes{"units": harness.TextList("1w", "1d", "1h", "1m", "1s")}
	for name, is := range map[string]struct {
		before, change harness.Attributes
		entry, after   string
		key, ends      string // of a message to the old entry, and the queue in which it waits
		stays          bool
	}{
		"a larger unit": {few, week, unitsEntry, "orders.7d.d.h.m.s", "0.0.0.2.later", "orders.2m", true},
		"more levels": {harness.Attributes{"levels": 12, "queue_type": "classic"}, harness.Attributes{"levels": 13},
			"orders.delay-11", "orders.delay-12", "0.1" + strings.Repeat(".0", 10) + ".later", "orders.delay-11", true},
		"a larger unit, internal": {few.With(harness.Attributes{"internal_levels": true}), week, unitsEntry,
			"orders.7d.d.h.m.s", "", "", false},
		"fewer units": {few, harness.Attributes{"units": harness.TextList("1d", "1h", "1m")}, unitsEntry,
			"orders.d.h.m", "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, p, given := newOrders(t, is.before)
			todo := p.Plan(t.Context(), given.With(is.change))
			harness.NoErrors(t, todo.Diagnostics)
			said := harness.WarningText(todo.Diagnostics)
			if !todo.Replace {
				t.Error("the change does not replace the cascade")
			}
			harness.MustSay(t, "the plan", said, fmt.Sprintf("The new entry is exchange %q.", is.after))
			misunderstood := fmt.Sprintf("Exchange %q is then in the middle of the cascade, and misunderstands "+
				"publishers who still use it: messages wait for another time, or go astray. With internal_levels = "+
				"true, RabbitMQ refuses them.", is.entry)
			if strings.Contains(said, misunderstood) != is.stays {
				t.Errorf("the plan says %s", said)
			}
			harness.NoErrors(t, p.Apply(t.Context(), todo))
			if is.stays {
				v.Publish(is.entry, is.key, "")
				v.Eventually("the message waits for another time", func() bool { return v.Depth(is.ends) == 1 })
			}
		})
	}
}

package acceptance

import (
	"strings"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// A plan that reads nothing sees no drift, and warns of none. An update repairs the object that it writes all the same.
func TestAccWithoutRefresh(t *testing.T) {
	t.Parallel()
	for flag, is := range map[string]struct {
		needs string
		// warns tells whether the plan of a change reads what it changes.
		warns bool
	}{
		"-refresh=false":   {"1.11.0", false},
		"-minimal-refresh": {"1.17.0", true},
	} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			w := harness.NewWorkspace(t, harness.NewVhost(t))
			w.CommandLine.Needs(is.needs)
			w.DeclareQueue("orders", nil)
			const all = `
resource "rabbitmqdelay_cascade" "t" {
  VHOST
  name       = "t"
  levels     = 3
  lookahead  = 1
  queue_type = "classic"
}

resource "rabbitmqdelay_destination" "d" {
  VHOST
  delivery_exchange = rabbitmqdelay_cascade.t.delivery_exchange
  levels            = length(rabbitmqdelay_cascade.t.units)
  address           = "orders"
  queue             = "orders"
}
`
			w.MustApply(all)
			w.Do(plan.DeleteQueue{Queue: topology.Queue{Name: "t.delay-01"}})
			w.LoseDestinations()
			const drift = "Objects are not as declared"
			without, err := w.CommandLine.Run("plan", "-detailed-exitcode", flag)
			if err != nil || strings.Contains(without, drift) {
				t.Errorf("with %s, the plan has something: %v %s", flag, err, without)
			}
			harness.MustSay(t, "a plan", harness.OneLine(w.CommandLine.Must("plan")), drift,
				"1 to add, 1 to change, 0 to destroy")

			output := w.MustApply(strings.Replace(all, "= 1\n", "= 2\n", 1), flag)
			if strings.Contains(output, drift) != is.warns {
				t.Errorf("with %s, the apply of a change says: %s", flag, output)
			}
			if _, isThere := w.Objects().Queues["t.delay-01"]; !isThere {
				t.Error("the queue is not there again")
			}
			w.MustApply(all)
			w.MustBeBound("*.*.*.orders -> queue orders")
			w.MustBeSettled()
		})
	}
}

// A refresh of what holds no messages, and is as it was, changes nothing that Terraform keeps, not even what it shows
// nobody. Otherwise each plan of a refresh would have something to apply.
func TestRefreshKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	for name, is := range ownedKinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := harness.NewVhost(t)
			p := harness.NewProtocolOf(t, is.typeName, v.Broker, nil)
			p.MustApply(is.given.With(harness.Attributes{"vhost": v.Name}))
			// RabbitMQ leaves out the counts of a new queue for a moment.
			v.Eventually("a refresh changes nothing", func() bool {
				harness.NoErrors(t, p.Refresh(t.Context()))
				before, private := p.State, string(p.Private)
				harness.NoErrors(t, p.Refresh(t.Context()))
				return p.State.Equal(before) && string(p.Private) == private
			})
		})
	}
}

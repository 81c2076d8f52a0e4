package acceptance

import (
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
)

// The same duration in other words, and a format that gives the same names, make no difference: neither an update nor a
// replacement.
func TestEqualIsEqual(t *testing.T) {
	t.Parallel()
	w := harness.NewWorkspace(t, harness.NewVhost(t))
	w.DeclareQueue("orders", nil)
	configuration := func(other bool) string {
		const all = `
resource "rabbitmqdelay_cascade" "by_delay" {
  VHOST
  name          = "a"
  base          = 2
  max_delay     = "60s|1m"
  resolution    = "1000ms|1s"
  exchange_name = "a%5d|a    %d"
  queue_name    = "a.%02d|a.0%d"
  drain_timeout = "2m0s|120000ms"
  timeouts = {
    create = "3600s|1h"
    read   = "90s|1m30s"
    update = "7200s|2h"
    delete = "90m|1h30m"
  }
}

resource "rabbitmqdelay_cascade" "by_levels" {
  VHOST
  name       = "b"
  levels     = 2
  resolution = "0.5s|500ms"
}

resource "rabbitmqdelay_ladder" "l" {
  VHOST
  name          = "l"
  delays        = ["1s"]
  queue_name    = "wait-1s|wait-%s"
  drain_timeout = "24h|1d"
  timeouts      = { delete = "25h|1d1h" }
}

resource "rabbitmqdelay_destination" "d" {
  VHOST
  delivery_exchange = rabbitmqdelay_cascade.by_delay.delivery_exchange
  levels            = length(rabbitmqdelay_cascade.by_delay.units)
  address           = "orders"
  queue             = "orders"
  drain_timeout     = "2h|120m"
  timeouts          = { delete = "3h|180m", create = "60s|1m" }
}
`
		text := ""
		for i, part := range strings.Split(all, `"`) {
			if one, another, two := strings.Cut(part, "|"); two && i%2 == 1 {
				part = one
				if other {
					part = another
				}
			}
			text += `"` + part
		}
		return text[1:]
	}
	w.MustApply(configuration(false))
	w.MustBeSettled()
	w.Configure(configuration(true))
	w.MustBeSettled()
	// A real change beside it is one, and leaves nothing to do.
	w.MustApply(strings.Replace(configuration(true), `"2h"`, `"4h"`, 1))
	w.MustBeSettled()
}

// The delays of a ladder are words of routing keys: publishers who write "1m" do not reach a binding for "60s".
func TestLadderDelaysAreWords(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	p := harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil)
	given := harness.Attributes{"vhost": v.Name, "name": "l", "delays": harness.TextList("60s", "1h")}
	p.MustApply(given)
	given = given.With(harness.Attributes{"delays": harness.TextList("1m", "1h")})
	plan := p.Plan(t.Context(), given)
	if plan.IsEmpty(p.State) || plan.Replace {
		t.Errorf("empty %t, replace %t: %s", plan.IsEmpty(p.State), plan.Replace, harness.ErrorText(plan.Diagnostics))
	}
	if text := harness.WarningText(plan.Diagnostics); !strings.Contains(text, `queue "l.delay-60s"`) ||
		!strings.Contains(text, "A message with a key for one of them is parked from then on") {
		t.Errorf("the plan does not say what becomes of old keys: %s", text)
	}
	p.MustApply(given)
	p.MustBeSettled(given)
	v.Compare(harness.ExpandLadder(t, delay.LadderConfig{
		Vhost: v.Name, Name: "l", Delays: []string{"1m", "1h"}, CreateDeliveryExchange: true, ParkUnroutable: true,
	}), v.Objects())
}

// The order of the delays means nothing, and stays as it is written. An import has the shortest first.
func TestLadderDelaysInAnyOrder(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	p := harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil)
	given := harness.Attributes{"vhost": v.Name, "name": "l", "delays": harness.TextList("1h", "5s", "30m")}
	p.MustApply(given)
	p.MustBeSettled(given)
	mustHaveDelays := func(want ...any) {
		t.Helper()
		if got := harness.Plain(t, harness.Fields(t, p.State)["delays"]); !reflect.DeepEqual(got, want) {
			t.Errorf("the state has the delays %v, want %v", got, want)
		}
	}
	mustHaveDelays("1h", "5s", "30m")
	given["delays"] = harness.TextList("30m", "1h", "5s")
	p.MustBeSettled(given)

	p = harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil)
	harness.NoErrors(t, p.ImportState(t.Context(), harness.ImportID(v.Name, "l.entry")))
	mustHaveDelays("5s", "30m", "1h")
	p.MustBeSettled(given)
	given["delays"] = harness.TextList("30m", "1h", "5s", "2h")
	p.MustApply(given)
	mustHaveDelays("30m", "1h", "5s", "2h")
	p.MustBeSettled(given)
}

// A state may have durations in other words.
func TestEqualIsEqualForComputedDurations(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	p := harness.NewProtocol(t, v.Broker, nil)
	given := harness.Attributes{"vhost": v.Name, "preset": "nservicebus_v1"}
	p.MustApply(given)
	state := harness.Fields(t, p.State)
	for name, is := range map[string][2]string{
		"max_delay": {"3106d21h24m15s", "74565h24m15s"}, "resolution": {"1s", "1000ms"},
	} {
		if want := tftypes.NewValue(tftypes.String, is[0]); !state[name].Equal(want) {
			t.Errorf("%s is %s, want %s", name, state[name], want)
		}
		state[name] = tftypes.NewValue(tftypes.String, is[1])
	}
	p.State = tftypes.NewValue(p.Resource, state)
	p.MustBeSettled(given)
}

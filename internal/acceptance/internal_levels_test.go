package acceptance

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// In each base, every delay of a small cascade arrives once and on time. The levels below the entry refuse publishers.
func TestEveryDelay(t *testing.T) {
	t.Parallel()
	for _, s := range []delay.Scale{binary(3, 200*time.Millisecond), {Base: 3, Levels: 3, Resolution: 100e6},
		{Base: 10, Levels: 2, Resolution: 20e6}, {Base: 8, Levels: 2, Resolution: 10e6}} {
		for _, queueType := range []string{"quorum", "classic"} {
			for _, lookahead := range []int{1, s.Levels} {
				t.Run(fmt.Sprintf("base %d, %s, lookahead %d", s.Base, queueType, lookahead), func(t *testing.T) {
					t.Parallel()
					v := newVhost(t)
					p := newProtocol(t, v.broker, nil)
					p.mustApply(attributes{"vhost": v.name, "name": "t", "base": s.Base, "levels": s.Levels,
						"resolution": s.Resolution.String(), "queue_type": queueType, "lookahead": lookahead})
					for level := range s.Levels - 1 {
						v.refusesPublishers(fmt.Sprintf("t.delay-%02d", level), "1.1.1.here")
					}
					v.deliversEvery(s)
					p.mustApply(nil)
				})
			}
		}
	}
}

// A cascade gets more levels, so that its entry is an inner level. Publishers that do not know of it get an error and
// no confirmation, and nothing of theirs stays anywhere.
func TestOldPublishersAfterResize(t *testing.T) {
	t.Parallel()
	for _, queueType := range []string{"quorum", "classic"} {
		t.Run(queueType, func(t *testing.T) {
			t.Parallel()
			v := newVhost(t)
			const before, after, unit = 3, 5, 100 * time.Millisecond
			p := newProtocol(t, v.broker, nil)
			given := attributes{
				"vhost": v.name, "name": "t", "levels": before, "resolution": unit.String(), "queue_type": queueType,
			}
			p.mustApply(given)
			v.deliversEvery(binary(before, unit))
			p.mustApply(given.with(attributes{"levels": after}))

			const old = "t.delay-02"
			for step := range 1 << before {
				delay := time.Duration(step) * unit
				v.refusesPublishers(old, routingKey(t, delay, before, unit, "here"))
			}
			v.deliversEvery(binary(after, unit))
			for name := range v.objects().Queues {
				if n := v.depth(name); n != 0 {
					t.Errorf("%d messages are in queue %q", n, name)
				}
			}
			p.mustBeSettled(given.with(attributes{"levels": after}))
		})
	}
}

// refusesPublishers publishes with confirms and mandatory, and wants the channel to be closed by the broker.
func (v *vhost) refusesPublishers(exchange, key string) {
	v.Helper()
	channel, err := v.conn.Channel()
	if err != nil {
		v.Fatal(err)
	}
	if err := channel.Confirm(false); err != nil {
		v.Fatal(err)
	}
	closed := channel.NotifyClose(make(chan *amqp.Error, 1))
	const mandatory, immediate = true, false
	confirmation, err := channel.PublishWithDeferredConfirmWithContext(v.Context(), exchange, key, mandatory, immediate,
		amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("astray")})
	if err != nil {
		v.Fatal(err)
	}
	select {
	case reason := <-closed:
		if reason == nil || reason.Code != amqp.AccessRefused || !strings.Contains(reason.Reason, "internal exchange") {
			v.Errorf("exchange %q closes the channel with: %v", exchange, reason)
		}
	case <-confirmation.Done():
		v.Errorf("exchange %q confirms (%t) a message with key %q", exchange, confirmation.Acked(), key)
	case <-time.After(patience):
		v.Errorf("exchange %q does nothing about a message with key %q", exchange, key)
	}
}

// deliversEvery sends a message for each delay there is, the longest first, and nothing else may arrive.
func (v *vhost) deliversEvery(s delay.Scale) {
	v.Helper()
	entry := fmt.Sprintf("t.delay-%02d", s.Levels-1)
	collector := v.collect("t.delivery", "#")
	sent := map[string]time.Time{}
	for delay := s.Longest(); delay >= 0; delay -= s.Resolution {
		sent[delay.String()] = brokerTime()
		v.publish(entry, keyOf(v, s, delay, "here"), delay.String())
	}
	arrivals := v.arrived(collector, len(sent))
	latest := time.Duration(0)
	for _, a := range arrivals {
		body := string(a.Body)
		delay, err := time.ParseDuration(body)
		if err != nil {
			v.Fatalf("what arrives is %q", body)
		}
		began, asked := sent[body]
		delete(sent, body)
		if took := a.At.Sub(began); !asked || took < delay || took > delay+mostLateness {
			v.Errorf("a message with a delay of %s took %s", delay, took)
		} else {
			latest = max(latest, took-delay)
		}
	}
	if len(sent) > 0 || len(collector.Arrivals()) > len(arrivals) {
		v.Errorf("missing are %v, and %d arrived", sent, len(collector.Arrivals()))
	}
	v.Logf("%d delays, the latest %s behind its time", len(arrivals), latest.Round(time.Millisecond))
}

// A level that somebody declared anew, open to publishers, is in the plan and repaired. So is one that is internal and
// is not to be.
func TestInternalLevelsDrift(t *testing.T) {
	t.Parallel()
	for _, internal := range []bool{true, false} {
		t.Run(fmt.Sprint(internal), func(t *testing.T) {
			t.Parallel()
			v := newVhost(t)
			p := newProtocol(t, v.broker, nil)
			given := attributes{"vhost": v.name, "name": "t", "levels": 3, "internal_levels": internal}
			p.mustApply(given)
			want := v.objects()

			wrong := want.Exchanges["t.delay-01"]
			wrong.Internal = !internal
			v.do(plan.DeleteExchange{Name: wrong.Name}, plan.DeclareExchange{Exchange: wrong})
			for b := range want.Bindings {
				if b.Source == wrong.Name || b.DestinationType == topology.ToExchange && b.Destination == wrong.Name {
					v.do(plan.Bind{Binding: b})
				}
			}
			noErrors(t, p.refresh(t.Context()))
			todo := p.plan(t.Context(), given)
			noErrors(t, todo.diagnostics)
			shown, planned := elements(t, p.state), elements(t, todo.state)
			if differ := differing(shown, planned); len(differ) != 1 || differ[0] != "exchanges "+wrong.Name ||
				todo.replace {
				t.Errorf("the plan replaces (%t) or changes %v", todo.replace, differ)
			}
			noErrors(t, p.apply(t.Context(), todo))
			v.mustHold(want)
			p.mustBeSettled(given)
		})
	}
}

// A state of a version without the attribute gets it from the broker. So the plan shows the difference from the
// default, and nothing where there is none.
func TestStateWithoutInternalLevels(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		internal, levels, shown any
	}{
		"open levels":     {false, 3, false},
		"internal levels": {true, 3, true},
		"one level":       {true, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVhost(t)
			p := newProtocol(t, v.broker, nil)
			given := attributes{"vhost": v.name, "name": "t", "levels": test.levels}
			p.mustApply(given.with(attributes{"internal_levels": test.internal}))
			p.loseAttribute("internal_levels")
			if before := fields(t, p.state)["internal_levels"]; !before.IsNull() {
				t.Fatalf("the old state has %s", before)
			}
			noErrors(t, p.refresh(t.Context()))
			if got := plain(t, fields(t, p.state)["internal_levels"]); got != test.shown {
				t.Errorf("the state shows %v, want %v", got, test.shown)
			}
			p.mustBeSettled(given.with(attributes{"internal_levels": test.shown}))
			todo := p.plan(t.Context(), given)
			noErrors(t, todo.diagnostics)
			if todo.isEmpty(p.state) != (test.shown == true) {
				t.Errorf("the plan of the default is empty: %t", todo.isEmpty(p.state))
			}
		})
	}
}

// So does a state without base and publisher, also where nobody refreshes it: it is not rebuilt.
func TestStateWithoutBase(t *testing.T) {
	t.Parallel()
	for _, refreshed := range []bool{true, false} {
		t.Run(fmt.Sprint(refreshed), func(t *testing.T) {
			t.Parallel()
			v := newVhost(t)
			p := newProtocol(t, v.broker, nil)
			given := attributes{"vhost": v.name, "name": "t", "levels": 3}
			p.mustApply(given)
			before, want := v.objects(), p.state
			p.loseAttribute("base")
			p.loseAttribute("publisher")
			if refreshed {
				noErrors(t, p.refresh(t.Context()))
				if !p.state.Equal(want) {
					t.Errorf("the state is %s, want %s", p.state, want)
				}
				p.mustBeSettled(given)
				return
			}
			todo := p.plan(t.Context(), given)
			if text := errorText(todo.diagnostics) + warningText(todo.diagnostics); todo.replace || text != "" {
				t.Errorf("it is replaced (%t), or the plan says %q", todo.replace, text)
			}
			noErrors(t, p.apply(t.Context(), todo))
			v.mustHold(before)
			p.mustBeSettled(given)
		})
	}
}

// loseAttribute makes the state one without the attribute.
func (p *protocol) loseAttribute(name string) {
	p.t.Helper()
	state, ok := plain(p.t, p.state).(map[string]any)
	if !ok {
		p.t.Fatalf("the state is %s", p.state)
	}
	delete(state, name)
	text, err := json.Marshal(state)
	if err != nil {
		p.t.Fatal(err)
	}
	resp, err := p.server.UpgradeResourceState(p.t.Context(), &tfprotov6.UpgradeResourceStateRequest{
		TypeName: p.typeName, RawState: &tfprotov6.RawState{JSON: text},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	noErrors(p.t, resp.Diagnostics)
	p.state = p.value(resp.UpgradedState)
}

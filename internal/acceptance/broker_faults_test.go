package acceptance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// TestFaultyBroker makes trouble in a broker of its own.
func TestFaultyBroker(t *testing.T) {
	t.Parallel()

	// The broker restarts in the middle of an operation. Either that is got over, or the state names what
	// exists; one apply converges once the broker is back.
	for _, o := range []interrupted{{cascadeType, delay.Quorum, 2, "create"},
		{cascadeType, delay.Quorum, 2, "update"}, {cascadeType, delay.Quorum, 2, "destroy"},
		{cascadeType, delay.Classic, 2, "update"}} {
		t.Run(fmt.Sprintf("restart during %s, %s", o.verb, o.queueType), func(t *testing.T) {
			t.Parallel()
			faultAtApply(t, o, brokertest.Own(t))
		})
	}

	// An alarm blocks those who publish, and nobody else.
	t.Run("alarm", func(t *testing.T) {
		t.Parallel()
		b := brokertest.Own(t)
		rabbitmqctl(t, b, "set_vm_memory_high_watermark", "absolute", "1")
		defer rabbitmqctl(t, b, "set_vm_memory_high_watermark", "0.4")
		v := newVhostNamed(t, b, "alarm")
		for _, queueType := range []delay.QueueType{delay.Quorum, delay.Classic} {
			for _, verb := range []string{"create", "update", "destroy"} {
				a := interrupted{cascadeType, queueType, 2, verb}.prepare(v)
				a.converge()
				if verb != "destroy" {
					a.mustHold(topology.New())
				}
			}
		}
	})

	// RabbitMQ answers that nothing is in a queue whose leader is down. A destroy does not believe it.
	t.Run("queue without a leader", func(t *testing.T) {
		t.Parallel()
		const vhost = "leaderless"
		b := brokertest.Own(t)
		v := newVhostNamed(t, b, vhost)
		a := interrupted{cascadeType, delay.Quorum, 2, "destroy"}.prepare(v)
		v.publish("t.delay-01", "1.0.nowhere", "")
		server := fmt.Sprintf("(quorum_queues, {'%s_t.delay-01', node()}).", vhost)
		rabbitmqctl(t, b, "eval", "ra:stop_server"+server)
		noErrors(t, a.sound.refresh(t.Context()))
		for what, configuration := range map[string]attributes{
			"destroy":     nil,
			"replacement": {"vhost": v.name, "name": "t", "levels": 1, "resolution": "1h"},
		} {
			if text := errorText(a.sound.apply(t.Context(),
				a.sound.plan(t.Context(), configuration))); !strings.Contains(text, "t.delay-01") {
				t.Errorf("the %s does not end with an error that names the queue: %s", what, text)
			}
			v.mustHold(a.before)
		}
		rabbitmqctl(t, b, "eval", "ra:restart_server"+server)
		v.eventually("the message is there again", func() bool { return v.depth("t.delay-01") == 1 })
		v.purge("t.delay-01")
		a.converge()
	})

	// RabbitMQ leaves a queue without replicas behind a deletion whose client ended in the middle of it. Nobody can
	// tell it from a queue whose replicas are down, so it is not deleted; the error says what to do.
	t.Run("half-deleted queue", func(t *testing.T) {
		t.Parallel()
		const vhost = "half"
		b := brokertest.Own(t)
		a := interrupted{cascadeType, delay.Quorum, 2, "destroy"}.prepare(newVhostNamed(t, b, vhost))
		rabbitmqctl(t, b, "eval", fmt.Sprintf("ra:delete_cluster([{'%s_t.delay-01', node()}]).", vhost))
		noErrors(t, a.sound.refresh(t.Context()))
		text := oneLine(errorText(a.sound.apply(t.Context(), a.sound.plan(t.Context(), nil))))
		if !strings.Contains(text, `queue "t.delay-01"`) || !strings.Contains(text, "rabbitmqctl delete_queue") {
			t.Errorf("the destroy ends with: %s", text)
		}
		a.mustHold(a.before)
		rabbitmqctl(t, b, "delete_queue", "t.delay-01", "--vhost", vhost)
		a.converge()
	})
}

// faultAtApply lets the broker fail in an apply.
func faultAtApply(t *testing.T, o interrupted, b *brokertest.Broker) {
	points := o.points(newVhostNamed(t, b, "points"))
	a := o.prepare(newVhostNamed(t, b, "restart"))
	restarted := make(chan error, 1)
	a.strike(points[len(points)/2], failure{kills, once})
	a.proxy.kill = func() {
		go func() { restarted <- b.Restart(t.Context()) }()
		a.eventually("the broker stops", func() bool {
			response, err := http.Get(b.Endpoint)
			if err == nil {
				_ = response.Body.Close()
			}
			return err != nil
		})
	}
	p, diagnostics := a.operate()
	if !a.proxy.hasStruck() {
		t.Fatal("there was no restart")
	}
	if err := <-restarted; err != nil {
		t.Fatal(err)
	}
	a.sound.state, a.sound.private, a.sound.tainted = p.state, p.private, p.tainted
	if hasErrors(diagnostics) {
		t.Logf("it is not got over: %s", errorText(diagnostics))
		a.mustBeNamed()
	} else {
		a.mustHold(a.desired)
	}
	a.converge()
}

func rabbitmqctl(t testing.TB, b *brokertest.Broker, arguments ...string) {
	t.Helper()
	if out, err := b.CLI(t.Context(), "rabbitmqctl", arguments...); err != nil {
		t.Fatalf("rabbitmqctl %s: %v\n%s", arguments, err, out)
	}
}

// TestUnhealthyQueue reads queues as RabbitMQ describes them while nodes are down: with fields that are
// missing, null, or of another type. That is no drift, and the warning names the queue.
func TestUnhealthyQueue(t *testing.T) {
	t.Parallel()
	for name, is := range map[string]struct {
		queueType delay.QueueType
		answer    map[string]any // laid over what the broker says; nil takes a field away
		warning   string
	}{
		"quorum, no replica (3.10)": {delay.Quorum, map[string]any{"leader": json.RawMessage("null"),
			"online": []string{}, "messages": nil, "consumers": nil, "policy": nil, "effective_policy_definition": nil,
			"state": nil}, "0 of 1 members online"},
		"quorum, a minority": {delay.Quorum, map[string]any{"members": []string{"a", "b", "c"},
			"online": []string{"b"}, "state": "minority", "messages": json.RawMessage("null")},
			"1 of 3 members online"},
		"quorum, a majority": {delay.Quorum, map[string]any{"members": []string{"a", "b", "c"},
			"online": []string{"b", "c"}}, "2 of 3 members online"},
		"quorum, all online": {delay.Quorum, map[string]any{"members": []string{"a", "b", "c"},
			"online": []string{"a", "b", "c"}}, ""},
		"quorum, its leader down (4.0)": {delay.Quorum, map[string]any{"members": []string{"a", "b", "c"},
			"online": []string{"b", "c"}, "state": "down"}, "its leader is down"},
		"classic, its node down": {delay.Classic, map[string]any{"state": "down", "messages": nil,
			"consumers": nil, "effective_policy_definition": nil}, "its node is down"},
		"classic, words where figures ": {delay.Classic, map[string]any{"messages": "undefined", "consumers": "",
			"effective_policy_definition": []int{}, "exclusive": "undefined", "policy": json.RawMessage("null")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVhost(t)
			given := attributes{"vhost": v.name, "name": "t", "levels": 2, "queue_type": string(is.queueType)}
			newProtocol(t, v.broker, nil).mustApply(given)
			b := *v.broker
			b.Endpoint = newGateway(t, v.broker, nil, func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/t.delay-01") ||
					!strings.Contains(r.URL.Path, "/queues/") {
					return false
				}
				answerOver(t, w, v.broker.Endpoint+r.URL.RequestURI(), v.broker, is.answer)
				return true
			}).URL
			p := newProtocol(t, &b, nil)
			noErrors(t, p.importState(t.Context(), v.name+"/t.delay-01"))
			diagnostics := p.refresh(t.Context())
			noErrors(t, diagnostics)
			if todo := p.plan(t.Context(), given); !onlySettings(t, p, todo) {
				t.Errorf("there is drift: %s", todo.state)
			}
			text := warningText(diagnostics)
			if is.warning == "" && text != "" || !strings.Contains(text, is.warning) || is.warning != "" &&
				!strings.Contains(text, `queue "t.delay-01"`) {
				t.Errorf("the warning is %q, want %q on the queue", text, is.warning)
			}
		})
	}
}

// answerOver answers with what the broker says, with some fields changed.
func answerOver(t testing.TB, w http.ResponseWriter, address string, b *brokertest.Broker, over map[string]any) {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Error(err)
		return
	}
	request.SetBasicAuth(b.Username, b.Password)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	fields := map[string]any{}
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("%s: %s %v", address, response.Status, err)
		return
	}
	for key, value := range over {
		if value == nil {
			delete(fields, key)
		} else {
			fields[key] = value
		}
	}
	text, err = json.Marshal(fields)
	if err != nil {
		t.Error(err)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.Copy(w, bytes.NewReader(text))
}

// onlySettings tells whether the plan leaves the broker alone.
func onlySettings(t testing.TB, p *protocol, todo plannedChange) bool {
	t.Helper()
	noErrors(t, todo.diagnostics)
	before, after := fields(t, p.state), fields(t, todo.state)
	return !todo.replace && before["exchanges"].Equal(after["exchanges"]) && before["queues"].Equal(after["queues"]) &&
		before["bindings"].Equal(after["bindings"])
}

// TestTwoApplies runs two applies of the same cascade at once, which Terraform's state locking prevents.
// One of them may fail. Nothing that was there is lost, and one more apply converges.
func TestTwoApplies(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	given := attributes{"vhost": v.name, "name": "t", "levels": 2, "adopt": true}
	config := delay.Config{Name: "t", Vhost: v.name, Levels: 2, CreateDeliveryExchange: true,
		StrictKeys: true, InternalLevels: true, ParkUnroutable: true}
	together := func(x, y *protocol, ofX, ofY attributes) (errors []string) {
		var applies sync.WaitGroup
		diagnostics := make([][]*tfprotov6.Diagnostic, 2)
		for i, one := range []struct {
			*protocol
			given attributes
		}{{x, ofX}, {y, ofY}} {
			todo := one.plan(t.Context(), one.given)
			applies.Go(func() { diagnostics[i] = one.apply(t.Context(), todo) })
		}
		applies.Wait()
		for _, d := range diagnostics {
			if hasErrors(d) {
				errors = append(errors, errorText(d))
			}
		}
		return errors
	}
	for range 5 {
		x, y := newProtocol(t, v.broker, nil), newProtocol(t, v.broker, nil)
		t.Logf("two creates: %q", together(x, y, given, given))
		survivor := newProtocol(t, v.broker, nil)
		survivor.mustApply(given)
		v.mustHold(expand(t, config))

		v.publish("t.delay-01", "1.0.nowhere", "kept")
		v.do(plan.DeleteExchange{Name: "t.delay-00"})
		chain := given.with(attributes{"lookahead": 1})
		other := survivor.with(v.broker, nil)
		t.Logf("a repair and a change: %q", together(survivor, other, given, chain))
		survivor.mustApply(given)
		v.mustHold(expand(t, config))

		v.eventually("the message is parked", func() bool { return v.depth("t.unroutable") == 1 })
		v.purge("t.unroutable")
		other = survivor.with(v.broker, nil)
		t.Logf("a destroy and a change: %q", together(survivor, other, nil, chain))
		last := newProtocol(t, v.broker, nil)
		last.mustApply(given)
		v.mustHold(expand(t, config))
		last.mustApply(nil)
		v.mustHold(topology.New())
	}
}

// TestBrokerAway stops a broker in the middle of an apply. In one case it is back after half a minute, and the apply
// goes on. In the other it stays away, and an interrupt ends the apply at once, with one error.
func TestBrokerAway(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"create", "destroy"} {
		o := interrupted{cascadeType, delay.Quorum, 2, verb}
		t.Run(verb+" goes on", func(t *testing.T) {
			t.Parallel()
			b := brokertest.Own(t)
			a := o.prepareHalfWay(t, b)
			var back sync.WaitGroup
			a.proxy.kill = func() {
				rabbitmqctl(t, b, "stop_app")
				back.Go(func() {
					time.Sleep(30 * time.Second)
					rabbitmqctl(t, b, "start_app")
				})
			}
			diagnostics := a.operateOneByOne(t.Context())
			back.Wait()
			noErrors(t, diagnostics)
			a.mustHold(a.desired)
		})
		t.Run(verb+" is interrupted", func(t *testing.T) {
			t.Parallel()
			b := brokertest.Own(t)
			a := o.prepareHalfWay(t, b)
			ctx, interrupt := context.WithCancel(t.Context())
			var interruptedAt time.Time
			a.proxy.kill = func() {
				rabbitmqctl(t, b, "stop_app")
				time.AfterFunc(5*time.Second, func() {
					interruptedAt = time.Now()
					interrupt()
				})
			}
			diagnostics := a.operateOneByOne(ctx)
			if took := time.Since(interruptedAt); took > 5*time.Second {
				t.Errorf("after the interrupt it took %s", took)
			}
			if text := errorText(diagnostics); len(diagnostics) != 1 || !strings.Contains(text, "canceled") {
				t.Errorf("%d errors: %s", len(diagnostics), text)
			}
			rabbitmqctl(t, b, "start_app")
			a.mustBeNamed()
			a.converge()
		})
	}
}

// prepareHalfWay makes something happen in the middle of the operation.
func (o interrupted) prepareHalfWay(t *testing.T, b *brokertest.Broker) *trial {
	t.Helper()
	points := o.points(newVhostNamed(t, b, "points"))
	a := o.prepare(newVhostNamed(t, b, "away"))
	a.strike(points[len(points)/2], failure{kills, once})
	return a
}

// operateOneByOne operates with one request at a time.
func (a *trial) operateOneByOne(ctx context.Context) []*tfprotov6.Diagnostic {
	a.Helper()
	p := a.sound.with(a.proxy.front(), attributes{"max_parallel_requests": 1})
	diagnostics := p.apply(ctx, p.plan(ctx, a.given))
	if !a.proxy.hasStruck() {
		a.Fatal("the broker was not stopped")
	}
	a.sound.state, a.sound.private, a.sound.tainted = p.state, p.private, p.tainted
	return diagnostics
}

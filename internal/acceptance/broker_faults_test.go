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

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
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
	for _, o := range []harness.Interrupted{{TypeName: harness.CascadeType, QueueType: delay.Quorum, Base: 2,
		Verb: "create"}, {TypeName: harness.CascadeType, QueueType: delay.Quorum, Base: 2, Verb: "update"},
		{TypeName: harness.CascadeType, QueueType: delay.Quorum, Base: 2, Verb: "destroy"},
		{TypeName: harness.CascadeType, QueueType: delay.Classic, Base: 2, Verb: "update"}} {
		t.Run(fmt.Sprintf("restart during %s, %s", o.Verb, o.QueueType), func(t *testing.T) {
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
		v := harness.NewVhostNamed(t, b, "alarm")
		for _, queueType := range []delay.QueueType{delay.Quorum, delay.Classic} {
			for _, verb := range []string{"create", "update", "destroy"} {
				a := harness.Interrupted{TypeName: harness.CascadeType, QueueType: queueType, Base: 2,
					Verb: verb}.Prepare(v)
				a.Converge()
				if verb != "destroy" {
					a.MustHold(topology.New())
				}
			}
		}
	})

	// RabbitMQ answers that nothing is in a queue whose leader is down. A destroy does not believe it.
	t.Run("queue without a leader", func(t *testing.T) {
		t.Parallel()
		const vhost = "leaderless"
		b := brokertest.Own(t)
		v := harness.NewVhostNamed(t, b, vhost)
		a := harness.Interrupted{TypeName: harness.CascadeType, QueueType: delay.Quorum, Base: 2,
			Verb: "destroy"}.Prepare(v)
		v.Publish("t.delay-01", "1.0.nowhere", "")
		server := fmt.Sprintf("(quorum_queues, {'%s_t.delay-01', node()}).", vhost)
		rabbitmqctl(t, b, "eval", "ra:stop_server"+server)
		harness.NoErrors(t, a.Sound.Refresh(t.Context()))
		for what, configuration := range map[string]harness.Attributes{
			"destroy":     nil,
			"replacement": {"vhost": v.Name, "name": "t", "levels": 1, "resolution": "1h"},
		} {
			if text := harness.ErrorText(a.Sound.Apply(t.Context(),
				a.Sound.Plan(t.Context(), configuration))); !strings.Contains(text, "t.delay-01") {
				t.Errorf("the %s does not end with an error that names the queue: %s", what, text)
			}
			v.MustHold(a.Before)
		}
		rabbitmqctl(t, b, "eval", "ra:restart_server"+server)
		v.Eventually("the message is there again", func() bool { return v.Depth("t.delay-01") == 1 })
		v.Purge("t.delay-01")
		a.Converge()
	})

	// RabbitMQ leaves a queue without replicas behind a deletion whose client ended in the middle of it. Nobody can
	// tell it from a queue whose replicas are down, so it is not deleted; the error says what to do.
	t.Run("half-deleted queue", func(t *testing.T) {
		t.Parallel()
		const vhost = "half"
		b := brokertest.Own(t)
		a := harness.Interrupted{TypeName: harness.CascadeType, QueueType: delay.Quorum, Base: 2,
			Verb: "destroy"}.Prepare(harness.NewVhostNamed(t, b, vhost))
		rabbitmqctl(t, b, "eval", fmt.Sprintf("ra:delete_cluster([{'%s_t.delay-01', node()}]).", vhost))
		harness.NoErrors(t, a.Sound.Refresh(t.Context()))
		text := harness.OneLine(harness.ErrorText(a.Sound.Apply(t.Context(), a.Sound.Plan(t.Context(), nil))))
		if !strings.Contains(text, `queue "t.delay-01"`) || !strings.Contains(text, "rabbitmqctl delete_queue") {
			t.Errorf("the destroy ends with: %s", text)
		}
		a.MustHold(a.Before)
		rabbitmqctl(t, b, "delete_queue", "t.delay-01", "--vhost", vhost)
		a.Converge()
	})
}

// faultAtApply lets the broker fail in an apply.
func faultAtApply(t *testing.T, o harness.Interrupted, b *brokertest.Broker) {
	points := o.Points(harness.NewVhostNamed(t, b, "points"))
	a := o.Prepare(harness.NewVhostNamed(t, b, "restart"))
	restarted := make(chan error, 1)
	a.Strike(points[len(points)/2], harness.Failure{Fault: harness.Kills, Lasts: harness.Once})
	a.Proxy.Kill = func() {
		go func() { restarted <- b.Restart(t.Context()) }()
		a.Eventually("the broker stops", func() bool {
			response, err := http.Get(b.Endpoint)
			if err == nil {
				_ = response.Body.Close()
			}
			return err != nil
		})
	}
	p, diagnostics := a.Operate()
	if !a.Proxy.HasStruck() {
		t.Fatal("there was no restart")
	}
	if err := <-restarted; err != nil {
		t.Fatal(err)
	}
	a.Sound.State, a.Sound.Private, a.Sound.Tainted = p.State, p.Private, p.Tainted
	if harness.HasErrors(diagnostics) {
		t.Logf("it is not got over: %s", harness.ErrorText(diagnostics))
		a.MustBeNamed()
	} else {
		a.MustHold(a.Desired)
	}
	a.Converge()
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
			v := harness.NewVhost(t)
			given := harness.Attributes{"vhost": v.Name, "name": "t", "levels": 2, "queue_type": string(is.queueType)}
			harness.NewProtocol(t, v.Broker, nil).MustApply(given)
			b := *v.Broker
			b.Endpoint = harness.NewGateway(t, v.Broker, nil, func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/t.delay-01") ||
					!strings.Contains(r.URL.Path, "/queues/") {
					return false
				}
				answerOver(t, w, v.Broker.Endpoint+r.URL.RequestURI(), v.Broker, is.answer)
				return true
			}).URL
			p := harness.NewProtocol(t, &b, nil)
			harness.NoErrors(t, p.ImportState(t.Context(), v.Name+"/t.delay-01"))
			diagnostics := p.Refresh(t.Context())
			harness.NoErrors(t, diagnostics)
			if todo := p.Plan(t.Context(), given); !onlySettings(t, p, todo) {
				t.Errorf("there is drift: %s", todo.State)
			}
			text := harness.WarningText(diagnostics)
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
func onlySettings(t testing.TB, p *harness.Protocol, todo harness.PlannedChange) bool {
	t.Helper()
	harness.NoErrors(t, todo.Diagnostics)
	before, after := harness.Fields(t, p.State), harness.Fields(t, todo.State)
	return !todo.Replace && before["exchanges"].Equal(after["exchanges"]) && before["queues"].Equal(after["queues"]) &&
		before["bindings"].Equal(after["bindings"])
}

// TestTwoApplies runs two applies of the same cascade at once, which Terraform's state locking prevents.
// One of them may fail. Nothing that was there is lost, and one more apply converges.
func TestTwoApplies(t *testing.T) {
	t.Parallel()
	// On a busy machine the message is due while its exchange is missing. It is offered again after that time.
	b := brokertest.Own(t, brokertest.WithSetting("dead_letter_worker_publisher_confirm_timeout", 10_000))
	v := harness.NewVhostNamed(t, b, "twice")
	given := harness.Attributes{"vhost": v.Name, "name": "t", "levels": 2, "adopt": true}
	config := delay.Config{Name: "t", Vhost: v.Name, Levels: 2, CreateDeliveryExchange: true,
		StrictKeys: true, ParkUnroutable: true}
	together := func(x, y *harness.Protocol, ofX, ofY harness.Attributes) (errors []string) {
		var applies sync.WaitGroup
		diagnostics := make([][]*tfprotov6.Diagnostic, 2)
		for i, one := range []struct {
			*harness.Protocol
			given harness.Attributes
		}{{x, ofX}, {y, ofY}} {
			todo := one.Plan(t.Context(), one.given)
			applies.Go(func() { diagnostics[i] = one.Apply(t.Context(), todo) })
		}
		applies.Wait()
		for _, d := range diagnostics {
			if harness.HasErrors(d) {
				errors = append(errors, harness.ErrorText(d))
			}
		}
		return errors
	}
	for range 5 {
		x, y := harness.NewProtocol(t, v.Broker, nil), harness.NewProtocol(t, v.Broker, nil)
		t.Logf("two creates: %q", together(x, y, given, given))
		survivor := harness.NewProtocol(t, v.Broker, nil)
		survivor.MustApply(given)
		v.MustHold(harness.Expand(t, config))

		v.Publish("t.delay-01", "1.0.nowhere", "kept")
		v.Do(plan.DeleteExchange{Name: "t.delay-00"})
		chain := given.With(harness.Attributes{"lookahead": 1})
		other := survivor.With(v.Broker, nil)
		t.Logf("a repair and a change: %q", together(survivor, other, given, chain))
		survivor.MustApply(given)
		v.MustHold(harness.Expand(t, config))

		v.Eventually("the message is parked", func() bool { return v.Depth("t.unroutable") == 1 })
		v.Purge("t.unroutable")
		other = survivor.With(v.Broker, nil)
		t.Logf("a destroy and a change: %q", together(survivor, other, nil, chain))
		last := harness.NewProtocol(t, v.Broker, nil)
		last.MustApply(given)
		v.MustHold(harness.Expand(t, config))
		last.MustApply(nil)
		v.MustHold(topology.New())
	}
}

// TestBrokerAway stops a broker in the middle of an apply. In one case it is back after half a minute, and the apply
// goes on. In the other it stays away, and an interrupt ends the apply at once, with one error.
func TestBrokerAway(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"create", "destroy"} {
		o := harness.Interrupted{TypeName: harness.CascadeType, QueueType: delay.Quorum, Base: 2, Verb: verb}
		t.Run(verb+" goes on", func(t *testing.T) {
			t.Parallel()
			b := brokertest.Own(t)
			a := prepareHalfWay(o, t, b)
			var back sync.WaitGroup
			a.Proxy.Kill = func() {
				rabbitmqctl(t, b, "stop_app")
				back.Go(func() {
					time.Sleep(30 * time.Second)
					rabbitmqctl(t, b, "start_app")
				})
			}
			diagnostics := a.OperateOneByOne(t.Context())
			back.Wait()
			harness.NoErrors(t, diagnostics)
			a.MustHold(a.Desired)
		})
		t.Run(verb+" is interrupted", func(t *testing.T) {
			t.Parallel()
			b := brokertest.Own(t)
			a := prepareHalfWay(o, t, b)
			ctx, interrupt := context.WithCancel(t.Context())
			var interruptedAt time.Time
			a.Proxy.Kill = func() {
				rabbitmqctl(t, b, "stop_app")
				time.AfterFunc(5*time.Second, func() {
					interruptedAt = time.Now()
					interrupt()
				})
			}
			diagnostics := a.OperateOneByOne(ctx)
			// Without the interrupt, it would go on for the rest of the retry_timeout, which is a minute.
			if took := time.Since(interruptedAt); took > 20*time.Second {
				t.Errorf("after the interrupt it took %s", took)
			}
			if text := harness.ErrorText(diagnostics); len(diagnostics) != 1 || !strings.Contains(text, "canceled") {
				t.Errorf("%d errors: %s", len(diagnostics), text)
			}
			rabbitmqctl(t, b, "start_app")
			a.MustBeNamed()
			a.Converge()
		})
	}
}

// prepareHalfWay makes something happen in the middle of the operation.
func prepareHalfWay(o harness.Interrupted, t *testing.T, b *brokertest.Broker) *harness.Trial {
	t.Helper()
	points := o.Points(harness.NewVhostNamed(t, b, "points"))
	a := o.Prepare(harness.NewVhostNamed(t, b, "away"))
	a.Strike(points[len(points)/2], harness.Failure{Fault: harness.Kills, Lasts: harness.Once})
	return a
}

package acceptance

import (
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
)

// The provider asks for objects by name. So a cascade takes as many requests beside thousands of queues and bindings of
// others as in an empty vhost, and hardly longer. A plan without changes takes one request for each queue and each
// exchange, and four more.
func TestAccScale(t *testing.T) {
	const foreign, mostRequests = 5000, 63
	v := harness.NewVhost(t)
	counted := harness.NewGateway(t, v.Broker, nil, nil)
	proxied := *v.Broker
	proxied.Endpoint = counted.URL
	configuration := harness.Attributes{"name": "t", "levels": 28}
	p := harness.NewProtocol(t, &proxied, harness.Attributes{"retry_timeout": "0s"})
	type measured struct {
		requests int32
		took     time.Duration
	}
	measure := func(v *harness.Vhost, where string) map[string]measured {
		steps, configuration := map[string]measured{}, configuration.With(harness.Attributes{"vhost": v.Name})
		for _, step := range []struct {
			name string
			do   func()
		}{
			{"create", func() { p.MustApply(configuration) }},
			{"plan", func() { p.MustBeSettled(configuration) }},
			{"update", func() { p.MustApply(configuration.With(harness.Attributes{"lookahead": 1})) }},
			{"destroy", func() { p.MustApply(nil) }},
		} {
			if step.name == "destroy" {
				// RabbitMQ 3.10 tells the first counts of queues in lists alone, which take longer where others live.
				v.Eventually("RabbitMQ has counted the queues", v.HasStatistics)
			}
			before, started := counted.Requests.Load(), time.Now()
			step.do()
			made, took := counted.Requests.Load()-before, time.Since(started)
			steps[step.name] = measured{made, took}
			t.Logf("%s: %-8s %6s, %d requests", where, step.name, took.Round(time.Millisecond), made)
			if step.name == "plan" && made > mostRequests {
				t.Errorf("%s: a plan without changes makes %d requests, the limit is %d", where, made, mostRequests)
			}
		}
		return steps
	}
	const looks = 20 // more, while new queues settle or messages are counted
	// A ratio, because the machine may be busy; a second for what the ratio of small times makes of chance.
	tooMuch := func(empty, crowded map[string]measured) map[string]string {
		found := map[string]string{}
		for name, in := range crowded {
			alone := empty[name]
			if in.requests > alone.requests+looks || in.took > 3*alone.took+time.Second {
				found[name] = fmt.Sprintf("%s: %d requests in %s in a vhost with %d foreign queues, %d in %s in an "+
					"empty one", name, in.requests, in.took, foreign, alone.requests, alone.took)
			}
		}
		return found
	}
	empty := measure(v, "empty vhost")
	crowd(v, foreign)
	where := fmt.Sprintf("%d foreign queues", foreign)
	excess := tooMuch(empty, measure(v, where))
	// Something else may have begun between the two. A step that is slow by itself is slow in each pair.
	other := harness.NewVhost(t)
	for tries := 0; tries < 3 && len(excess) > 0; tries++ {
		again := tooMuch(measure(other, "empty vhost, again"), measure(v, where+", again"))
		maps.DeleteFunc(excess, func(name, _ string) bool { return again[name] == "" })
	}
	for _, text := range excess {
		t.Error(text)
	}
}

// crowd fills the vhost with queues of others, each bound to an exchange of theirs.
func crowd(v *harness.Vhost, queues int) {
	v.T.Helper()
	started := time.Now()
	v.DeclareExchange("others", "topic")
	const workers = 8
	var group sync.WaitGroup
	for w := range workers {
		channel, err := v.Conn.Channel()
		if err != nil {
			v.T.Fatal(err)
		}
		group.Go(func() {
			for i := w; i < queues; i += workers {
				name := fmt.Sprintf("other-%05d", i)
				// Transient and exclusive, they cost no disk and go with the connection.
				if _, err := channel.QueueDeclare(name, false, false, true, false, nil); err != nil {
					v.T.Error(err)
					return
				}
				if err := channel.QueueBind(name, name+".#", "others", false, nil); err != nil {
					v.T.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	v.T.Logf("%d foreign queues are there after %s", queues, time.Since(started).Round(time.Millisecond))
}

package acceptance

import (
	"fmt"
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
	configuration := harness.Attributes{"vhost": v.Name, "name": "t", "levels": 28}
	p := harness.NewProtocol(t, &proxied, harness.Attributes{"retry_timeout": "0s"})
	measure := func(where string) (requests map[string]int32, times map[string]time.Duration) {
		requests, times = map[string]int32{}, map[string]time.Duration{}
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
			made := counted.Requests.Load() - before
			requests[step.name], times[step.name] = made, time.Since(started)
			t.Logf("%s: %-8s %6s, %d requests", where, step.name, times[step.name].Round(time.Millisecond), made)
			if step.name == "plan" && made > mostRequests {
				t.Errorf("%s: a plan without changes makes %d requests, the limit is %d", where, made, mostRequests)
			}
		}
		return requests, times
	}
	empty, emptyTook := measure("empty vhost")
	crowd(v, foreign)
	const looks = 20 // more, while new queues settle or messages are counted
	where := fmt.Sprintf("%d foreign queues", foreign)
	// A ratio, because the machine may be busy; a second for what the ratio of small times makes of chance.
	isSlow := func(name string, took time.Duration) bool { return took > 3*emptyTook[name]+time.Second }
	crowded, crowdedTook := measure(where)
	for name, took := range crowdedTook {
		if isSlow(name, took) { // something else may have begun meanwhile
			_, crowdedTook = measure(where + ", again")
			break
		}
	}
	for name, made := range crowded {
		if made > empty[name]+looks {
			t.Errorf("%s makes %d requests in a vhost with %d foreign queues and %d in an empty one", name, made,
				foreign, empty[name])
		}
		if took := crowdedTook[name]; isSlow(name, took) {
			t.Errorf("%s takes %s in a vhost with %d foreign queues and %s in an empty one", name, took, foreign,
				emptyTook[name])
		}
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

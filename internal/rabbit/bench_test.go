package rabbit_test

import (
	"fmt"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// BenchmarkParallel is what DefaultMaxParallelRequests was chosen by: 28 levels with full
// lookahead, made, read and removed.
func BenchmarkParallel(b *testing.B) {
	want := expand(b, delay.Config{Name: "tasks", Levels: 28, CreateDeliveryExchange: true,
		StrictKeys: true, ParkUnroutable: true})
	for _, limit := range []int{1, 4, 8, 16, 32, 64} {
		client, vhost := connect(b, func(c *rabbit.Config) { c.MaxParallelRequests = limit }),
			brokertest.Vhost(b, brokertest.Shared(b))
		b.Run(fmt.Sprintf("create/%d", limit), func(b *testing.B) {
			for b.Loop() {
				run(b, client, vhost, plan.Repair(want, topology.New()))
				b.StopTimer()
				run(b, client, vhost, plan.Teardown(want, want, plan.Guard{Force: true}))
				b.StartTimer()
			}
		})
		run(b, client, vhost, plan.Repair(want, topology.New()))
		b.Run(fmt.Sprintf("read/%d", limit), func(b *testing.B) {
			for b.Loop() {
				read(b, client, vhost, want)
			}
		})
		b.Run(fmt.Sprintf("destroy/%d", limit), func(b *testing.B) {
			for b.Loop() {
				run(b, client, vhost, plan.Teardown(want, want, plan.Guard{}))
				b.StopTimer()
				run(b, client, vhost, plan.Repair(want, topology.New()))
				b.StartTimer()
			}
		})
	}
}

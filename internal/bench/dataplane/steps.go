package dataplane

import (
	"context"
	"fmt"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/bench/sample"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Steps measures the broker's time to make and to delete the objects of a cascade. That is the time of an apply and of
// a destroy without Terraform, without reads and looks, and without latency. The chain has the objects that single
// resources have.
func (b *Bench) Steps(ctx context.Context, levels, round int) error {
	return b.in(ctx, func(ctx context.Context, s *space) error {
		for _, lookahead := range []int{1, full} {
			c := config("steps", levels, lookahead, delay.Quorum)
			c.Vhost = s.vhost
			resolved, err := c.Resolve()
			if err != nil {
				return err
			}
			objects := resolved.Expand()
			destroy := plan.Teardown(objects, objects, plan.Guard{Force: true})
			destroy = append(destroy, plan.DeleteShared(objects.Delivery, true)...)
			for _, each := range []struct {
				operation string
				todo      plan.Plan
			}{
				{"create", plan.Repair(objects, topology.New())},
				{"destroy", destroy},
			} {
				took, err := s.timed(ctx, each.todo)
				if err != nil {
					return fmt.Errorf("%s %s: %w", each.operation, lookaheadName(lookahead), err)
				}
				err = b.add(sample.Sample{
					Scenario: "steps " + each.operation, Subject: lookaheadName(lookahead), Parameter: "levels",
					X:      float64(levels),
					Metric: "time", Unit: "s", Round: round, Value: took.Seconds(),
				})
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// timed runs a plan.
func (s *space) timed(ctx context.Context, todo plan.Plan) (took time.Duration, err error) {
	v := engine.OnBroker(s.client.Vhost(s.vhost))
	defer v.Close()
	began := time.Now()
	_, err = v.Run(ctx, todo)
	return time.Since(began), err
}

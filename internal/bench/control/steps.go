package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/bench/dataplane"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/bench/sample"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/broker"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// steps measures what is left of an apply and of a destroy without Terraform, without anything that is read or looked at, and
// without latency: what the broker takes to make and to delete the objects. Beside full lookahead it measures the chain, which has
// the objects that single resources have.
func (b *Bench) steps(ctx context.Context, levels, round int) (err error) {
	client, err := broker.New(broker.Config{Endpoint: b.broker.Endpoint, Username: b.broker.Username, Password: b.broker.Password, AMQPURI: b.broker.AMQPURI})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	vhost, remove, err := b.broker.NewVhost(ctx, "steps")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove(context.WithoutCancel(ctx))) }()
	for _, s := range []struct {
		subject   string
		lookahead int
	}{{"chain", 1}, {"full", levels}} {
		config := dataplane.Config("steps", levels, s.lookahead, cascade.Quorum)
		config.Vhost = vhost
		objects, err := cascade.Expand(config)
		if err != nil {
			return err
		}
		for _, each := range []struct {
			operation string
			plan      topology.Plan
		}{
			{"create", topology.Diff(objects, topology.New())},
			{"destroy", topology.Teardown(objects, objects, topology.Guard{Force: true})},
		} {
			took, err := run(ctx, client, vhost, each.plan)
			if err != nil {
				return fmt.Errorf("%s %s: %w", each.operation, s.subject, err)
			}
			err = b.recorder.Add(sample.Sample{
				Broker: b.broker.Version, Scenario: "steps " + each.operation, Subject: s.subject, Parameter: "levels", X: float64(levels),
				Metric: "time", Unit: "s", Round: round, Value: took.Seconds(),
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// run has AMQP at hand from the beginning, as the provider has after it has read.
func run(ctx context.Context, client *broker.Client, vhost string, plan topology.Plan) (took time.Duration, err error) {
	runner := client.Begin(vhost)
	defer runner.Close()
	runner.Connect(ctx, 0)
	began := time.Now()
	_, err = runner.Run(ctx, plan)
	return time.Since(began), err
}

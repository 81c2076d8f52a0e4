package delay_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay/delaytest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Given arguments stand for all further ones. Those with an attribute of their own are beside them.
func TestQueueArguments(t *testing.T) {
	for name, test := range map[string]struct {
		queueType   delay.QueueType
		given, want topology.Arguments
		options     delay.QuorumOptions
	}{
		"not given, quorum": {delay.Quorum, nil, topology.Arguments{"x-dead-letter-strategy": "at-least-once",
			"x-overflow": "reject-publish"}, delay.QuorumOptions{}},
		"not given, classic": {delay.Classic, nil, nil, delay.QuorumOptions{}},
		"none":               {delay.Quorum, topology.Arguments{}, nil, delay.QuorumOptions{}},
		"beside others": {delay.Quorum, topology.Arguments{"x-expires": int64(5), "plugin": true},
			topology.Arguments{"x-expires": int64(5), "plugin": true, "x-max-length": int64(7),
				"x-queue-leader-locator": "balanced"},
			delay.QuorumOptions{MaxLength: 7, LeaderLocator: delay.Balanced}},
		"a limit of classic queues": {delay.Classic, topology.Arguments{"x-max-length": int64(7)},
			topology.Arguments{"x-max-length": int64(7)}, delay.QuorumOptions{}},
		"what no attribute takes": {delay.Quorum, topology.Arguments{"x-queue-leader-locator": "random"},
			topology.Arguments{"x-queue-leader-locator": "random"}, delay.QuorumOptions{}},
	} {
		t.Run(name, func(t *testing.T) {
			cascade := delaytest.Expand(t, delay.Config{Name: "t", Levels: 2, QueueType: test.queueType,
				QueueArguments: test.given, QuorumOptions: test.options, ParkUnroutable: true})
			without := delaytest.Expand(t, delay.Config{Name: "t", Levels: 2, QueueType: test.queueType,
				QuorumOptions: test.options, ParkUnroutable: true})
			if !cascade.Queues["t.unroutable"].Equal(without.Queues["t.unroutable"]) {
				t.Errorf("the queue of unroutable messages is %+v", cascade.Queues["t.unroutable"])
			}
			ladder := delaytest.Resolve(t, delay.LadderConfig{Name: "t", Delays: []string{"1s"},
				QueueType: test.queueType, QueueArguments: test.given, QuorumOptions: test.options}).Expand()
			for _, q := range []topology.Queue{cascade.Queues["t.delay-00"], ladder.Queues["t.delay-1s"]} {
				want := topology.Arguments{"x-queue-type": string(test.queueType), "x-message-ttl": int64(1000),
					"x-dead-letter-exchange": "t.delivery"}
				maps.Copy(want, test.want)
				if !q.Arguments.Equal(want) {
					t.Errorf("queue %s has %v, not %v", q.Name, q.Arguments, want)
				}
			}
		})
	}
}

// The error says which attribute to give, or what RabbitMQ would take.
func TestQueueArgumentsErrors(t *testing.T) {
	for _, test := range []struct {
		queueType    delay.QueueType
		name         string
		value        any
		want, ladder string // of a ladder, if it is another one
	}{
		{delay.Quorum, "x-queue-type", "quorum", `has "x-queue-type"; give queue_type in its place`, ""},
		{delay.Quorum, "x-message-ttl", int64(5),
			`has "x-message-ttl"; give units, or levels, base and resolution in its place`,
			`has "x-message-ttl"; give delays in its place`},
		{delay.Classic, "x-dead-letter-exchange", "x",
			`has "x-dead-letter-exchange"; give delivery_exchange in its place`, ""},
		{delay.Quorum, "x-dead-letter-routing-key", "x",
			`has "x-dead-letter-routing-key", with which messages would lose their delay and their address; ` +
				"leave it out",
			`has "x-dead-letter-routing-key"; give dead_letter_routing_key in its place`},
		{delay.Quorum, "x-max-length", int64(5), `has "x-max-length"; give max_length in its place`, ""},
		{delay.Quorum, "x-queue-leader-locator", "balanced",
			`has "x-queue-leader-locator"; give queue_leader_locator in its place`, ""},
		{delay.Quorum, "x-quorum-initial-group-size", int64(3),
			`has "x-quorum-initial-group-size"; give quorum_initial_group_size in its place`, ""},
		{delay.Classic, "x-quorum-initial-group-size", int64(3),
			`has "x-quorum-initial-group-size", which only quorum queues have; leave it out`, ""},
		{delay.Classic, "x-dead-letter-strategy", "at-least-once",
			`has "x-dead-letter-strategy", which only quorum queues have; leave it out`, ""},
		{delay.Quorum, "x-queue-mode", "lazy", `has "x-queue-mode", which only classic queues have; leave it out`, ""},
		{delay.Quorum, "x-expires", "60000", `has "x-expires" = "60000"; it has to be a whole number`, ""},
		{delay.Quorum, "x-expires", 1.5, `has "x-expires" = 1.5; it has to be a whole number`, ""},
		{delay.Quorum, "x-overflow", true, `has "x-overflow" = true; it has to be a text`, ""},
		{delay.Classic, "x-single-active-consumer", "true",
			`has "x-single-active-consumer" = "true"; it has to be true or false`, ""},
	} {
		given := topology.Arguments{test.name: test.value}
		_, ofCascade := delay.Config{Name: "t", Levels: 2, QueueType: test.queueType, QueueArguments: given}.Resolve()
		_, ofLadder := delay.LadderConfig{Name: "t", Delays: []string{"1s"}, QueueType: test.queueType,
			QueueArguments: given}.Resolve()
		if test.ladder == "" {
			test.ladder = test.want
		}
		for want, err := range map[string]error{"queue_arguments " + test.want: ofCascade,
			"queue_arguments " + test.ladder: ofLadder} {
			var errs delay.Errors
			if !errors.As(err, &errs) || errs.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		}
	}
	both := delay.Config{Name: "t", Levels: 2, QuorumOptions: delay.QuorumOptions{LeaderLocator: delay.Balanced},
		QueueArguments: topology.Arguments{"x-queue-leader-locator": "random"}}
	if _, err := both.Resolve(); err == nil || !strings.Contains(err.Error(), "give queue_leader_locator") {
		t.Errorf("of two leader locators, the error is %v", err)
	}
}

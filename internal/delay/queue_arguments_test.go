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
		{delay.Quorum, "x-overflow", "bogus",
			`has "x-overflow" = bogus; it can be "drop-head" or "reject-publish" or "reject-publish-dlx"`, ""},
		{delay.Quorum, "x-expires", int64(0), `has "x-expires" = 0; it can be 1 to 315360000000`, ""},
		{delay.Classic, "x-expires", int64(315_360_000_001),
			`has "x-expires" = 315360000001; it can be 1 to 315360000000`, ""},
		{delay.Classic, "x-expires", 99999999999999999999.0,
			`has "x-expires" = 100000000000000000000; it can be 1 to 315360000000`, ""},
		{delay.Quorum, "x-delivery-limit", float64(1 << 53), `has "x-delivery-limit" = 9007199254740992; it can be ` +
			"-9007199254740991 to 9007199254740991", ""},
		{delay.Classic, "x-max-length", int64(-1), `has "x-max-length" = -1; it can be 0 to 9007199254740991`, ""},
		{delay.Quorum, "x-dead-letter-strategy", "bogus",
			`has "x-dead-letter-strategy" = bogus; it can be "at-least-once" or "at-most-once"`, ""},
		{delay.Quorum, "x-max-priority", int64(5), `has "x-max-priority", which only classic queues have; leave it out`,
			""},
		{delay.Classic, "x-max-priority", int64(256), `has "x-max-priority" = 256; it can be 0 to 255`, ""},
		{delay.Classic, "x-queue-version", int64(9), `has "x-queue-version" = 9; it can be 1 to 2`, ""},
		{delay.Quorum, "x-quorum-initial-group-size", int64(0),
			`has "x-quorum-initial-group-size" = 0; it can be 1 to 9007199254740991`, ""},
		{delay.Quorum, "x-queue-leader-locator", "bogus", `has "x-queue-leader-locator" = bogus; it can be ` +
			`"balanced" or "client-local" or "least-leaders" or "min-masters" or "random"`, ""},
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

// A configuration may have what some version from 3.10 to 4.3 takes: an import of it changes nothing.
func TestQueueArgumentsOfSomeVersion(t *testing.T) {
	for name, test := range map[string]struct {
		queueType delay.QueueType
		value     any
	}{
		"x-queue-mode":           {delay.Classic, "bogus"},
		"x-queue-version":        {delay.Classic, int64(1)},
		"x-max-priority":         {delay.Classic, int64(255)},
		"x-queue-leader-locator": {delay.Classic, "min-masters"},
		"x-delivery-limit":       {delay.Quorum, int64(-2)},
		"x-max-length":           {delay.Quorum, int64(0)},
		"x-overflow":             {delay.Quorum, "reject-publish-dlx"},
		"x-expires":              {delay.Quorum, int64(315_360_000_000)},
		"":                       {delay.Quorum, "x"},
	} {
		given := topology.Arguments{name: test.value}
		c, err := delay.Config{Name: "t", Levels: 2, QueueType: test.queueType, QueueArguments: given}.Resolve()
		if err != nil {
			t.Errorf("%v are refused: %s", given, err)
		} else if got := delay.QueueArgumentsOf(c.Expand().Queues["t.delay-00"]); !got.Equal(given) {
			t.Errorf("%v come back as %v", given, got)
		}
	}
}

package diagnose

import (
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

const (
	lastCount   = "by the last count, which may be some seconds old. "
	willFail    = "The apply will fail if one waits by then; drain_timeout makes it wait."
	whileParked = "While messages are parked, the apply fails: consume or purge them first."

	isRebuilt = `Update in place recreates all queues: cascade "t.delay-16" in vhost "/"` + "\n" +
		`The cascade with entry exchange "t.delay-16" in vhost "/" is rebuilt, ` +
		`because queue_type changes from "quorum" to "classic". The update deletes all queues and makes them anew.` +
		"\n\n"
	keepsParked = `Update in place recreates all delay queues: cascade "t.delay-16" in vhost "/"` + "\n" +
		`The cascade with entry exchange "t.delay-16" in vhost "/" is rebuilt, ` +
		`because queue_type changes from "quorum" to "classic". The update deletes all delay queues and makes them ` +
		"anew.\n\n"
	isReplaced = `Replacement: cascade "t.delay-16" in vhost "/"` + "\n" +
		`The cascade with entry exchange "t.delay-16" in vhost "/" is replaced, ` +
		"because levels changes from 17 to 18"
)

func TestOverhaul(t *testing.T) {
	scale := func(base, levels int) *delay.Scale {
		scale := delay.Uniform{Base: base, Levels: levels, Resolution: 1e9}.Scale()
		return &scale
	}
	rebuilt := Overhaul{Kind: "cascade", Vhost: "/", Entry: "t.delay-16", Because: []string{
		`queue_type changes from "quorum" to "classic"`}, Waits: &Waiting{}, Before: scale(2, 17), After: scale(2, 17),
		Delivery: "t.delivery", NewDelivery: "t.delivery"}
	replaced := rebuilt
	replaced.Because = []string{"levels changes from 17 to 18"}
	replaced.Moved = &MovedEntry{Vhost: "/", Entry: "t.delay-17"}
	replaced.After = scale(2, 18)
	for name, is := range map[string]struct {
		of     Overhaul
		change func(*Overhaul)
		want   string
	}{
		"rebuilt": {rebuilt, func(*Overhaul) {},
			isRebuilt +
				"No message waited in it at the last refresh. " + willFail + "\n\n" +
				"The entry is closed for some seconds. Publishers get an error and have to try " +
				"again.\n\n" +
				`The bindings of exchange "t.delivery" stay.`},
		"rebuilt, not counted": {rebuilt, func(o *Overhaul) { o.Waits = nil },
			isRebuilt +
				"How many messages wait in it is not known without a refresh. " + willFail + "\n\n" +
				"The entry is closed for some seconds. Publishers get an error and have to try " +
				"again.\n\n" +
				`The bindings of exchange "t.delivery" stay.`},
		"rebuilt, messages": {rebuilt, func(o *Overhaul) { o.Waits = &Waiting{Delayed: Tally{Messages: 3}} },
			isRebuilt +
				"3 messages are on the way through it now, " + lastCount + willFail + "\n\n" +
				"The entry is closed for some seconds. Publishers get an error and have to try " +
				"again.\n\n" +
				`The bindings of exchange "t.delivery" stay.`},
		"rebuilt, messages of the last refresh": {rebuilt, func(o *Overhaul) {
			o.Waits = &Waiting{Delayed: Tally{Messages: 3}, At: time.Now().Add(-2 * time.Hour)}
		},
			isRebuilt +
				"3 messages are on the way through it now, if the count of 2 h ago still holds. " + willFail + "\n\n" +
				"The entry is closed for some seconds. Publishers get an error and have to try " +
				"again.\n\n" +
				`The bindings of exchange "t.delivery" stay.`},
		"rebuilt, messages of some queues": {rebuilt, func(o *Overhaul) {
			o.Waits = &Waiting{Delayed: Tally{3, true}}
		},
			isRebuilt +
				"3 messages are on the way through it now, " + lastCount + "There may be more: RabbitMQ leaves out " +
				"the counts of some queues. " + willFail + "\n\n" +
				"The entry is closed for some seconds. Publishers get an error and have to try " +
				"again.\n\n" +
				`The bindings of exchange "t.delivery" stay.`},
		"rebuilt, counts left out": {rebuilt, func(o *Overhaul) { o.Waits = &Waiting{Parked: Tally{Unknown: true}} },
			isRebuilt +
				"How many messages wait is not known: RabbitMQ leaves out the counts of some queues. " +
				willFail + "\n\n" +
				"The entry is closed for some seconds. Publishers get an error and have to try " +
				"again.\n\n" +
				`The bindings of exchange "t.delivery" stay.`},
		"rebuilt, bindings of others": {rebuilt, func(o *Overhaul) {
			o.Others.Lost = []topology.Binding{{Source: "a", RoutingKey: "k", DestinationType: topology.ToQueue,
				Destination: "t.old"}}
			o.Others.Again = []topology.Binding{
				{Source: "a", RoutingKey: "#", DestinationType: topology.ToExchange, Destination: "t.delay-16"},
				{Source: "t.delay-16", RoutingKey: "x", DestinationType: topology.ToQueue, Destination: "audit"}}
		},
			isRebuilt +
				"No message waited in it at the last refresh. " + willFail + "\n\n" +
				"The entry is closed for some seconds. Publishers get an error and have to try again.\n\n" +
				"The bindings of exchange \"t.delivery\" stay.\n\n" +
				"Bindings of exchange \"a\" lead into it, and go with it. Whoever made them has to bind again:\n\n  " +
				"exchange \"a\", bound to queue \"t.old\" with key \"k\"\n\n" +
				"Bindings of exchange \"a\" lead into it. The apply takes them away, and makes them again. Messages " +
				"that they would take meanwhile are unroutable, and the publishers get no error:\n\n  " +
				"exchange \"a\", bound to exchange \"t.delay-16\" with key \"#\""},
		"rebuilt, parked that stay": {rebuilt, func(o *Overhaul) {
			o.Waits, o.KeepsParked = &Waiting{Parked: Tally{Messages: 1}}, true
		},
			keepsParked +
				"1 message is parked in it now, " + lastCount + willFail + " Parked messages stay.\n\n" +
				"The entry is closed for some seconds. Publishers get an error and have to try " +
				"again.\n\n" +
				`The bindings of exchange "t.delivery" stay.`},
		"rebuilt, both, and a drain": {rebuilt, func(o *Overhaul) {
			o.Waits = &Waiting{Delayed: Tally{Messages: 1}, Parked: Tally{Messages: 2}}
			o.Guard.Drain = 90 * time.Second
		},
			isRebuilt +
				"1 message is on the way through it now, and 2 parked, by the last count, which may be some " +
				"seconds old. " +
				"The apply closes the entry and waits up to 1 min 30 s until all are delivered. If some are not, it " +
				"opens the entry again and fails. " + whileParked + " The provider's credentials have to be valid " +
				"for as long: if they end before, the entry stays closed.\n\n" +
				"The entry is closed for as long as messages wait, at most 1 min 30 s, and some seconds longer. " +
				"Publishers get an error and have to try again.\n\n" +
				`The bindings of exchange "t.delivery" stay.`},
		"rebuilt, a drain of nothing": {rebuilt, func(o *Overhaul) { o.Guard = plan.Guard{Drain: 90 * time.Second} },
			isRebuilt +
				"No message waited in it at the last refresh. The apply closes the " +
				"entry and waits up to 1 min 30 s until all are delivered. If some are not, it opens the entry again " +
				"and fails.\n\n" +
				"The entry is closed for as long as messages wait, at most 1 min 30 s, and some seconds longer. " +
				"Publishers get an error and have to try again.\n\n" +
				`The bindings of exchange "t.delivery" stay.`},
		"rebuilt with force": {rebuilt, func(o *Overhaul) {
			o.Waits = &Waiting{Delayed: Tally{Messages: 1}, Parked: Tally{Messages: 2}}
			o.Guard = plan.Guard{Drain: 90 * time.Second, Force: true}
		},
			isRebuilt +
				"1 message is on the way through it now, and 2 parked, by the last count, which may be some " +
				"seconds old. The apply deletes waiting messages, because force_destroy is true.\n\n" +
				"The entry is closed for some seconds. Publishers get an error and have to try " +
				"again.\n\n" +
				`The bindings of exchange "t.delivery" stay.`},
		"rebuilt in another base": {rebuilt, func(o *Overhaul) { o.After = scale(10, 17) },
			isRebuilt +
				"No message waited in it at the last refresh. " + willFail + "\n\n" +
				"The entry is closed for some seconds. Publishers get an error and have to try " +
				"again. A key then stands for another delay: publishers need other keys from then on.\n\n" +
				`The bindings of exchange "t.delivery" stay.`},
		"rebuilt with another delivery exchange": {rebuilt, func(o *Overhaul) { o.NewDelivery = "d" },
			isRebuilt +
				"No message waited in it at the last refresh. " + willFail + "\n\n" +
				"The entry is closed for some seconds. Publishers get an error and have to try " +
				"again.\n\n" +
				`Messages then arrive at exchange "d" in place of exchange "t.delivery": applications have to ` +
				"bind their queues there."},
		"rebuilt with a queue in place of the delivery exchange": {rebuilt, func(o *Overhaul) {
			o.NewDelivery, o.NewQueue = "", "w"
		},
			isRebuilt +
				"No message waited in it at the last refresh. " + willFail + "\n\n" +
				"The entry is closed for some seconds. Publishers get an error and have to try again.\n\n" +
				`Messages then arrive at queue "w" in place of exchange "t.delivery".`},
		"rebuilt with another queue": {rebuilt, func(o *Overhaul) {
			o.Delivery, o.Queue, o.NewDelivery, o.NewQueue = "", "w", "", "w2"
		},
			isRebuilt +
				"No message waited in it at the last refresh. " + willFail + "\n\n" +
				"The entry is closed for some seconds. Publishers get an error and have to try again.\n\n" +
				`Messages then arrive at queue "w2" in place of queue "w".`},
		"rebuilt with a delivery exchange in place of a queue": {rebuilt, func(o *Overhaul) {
			o.Delivery, o.Queue, o.NewDelivery = "", "w", "d"
		},
			isRebuilt +
				"No message waited in it at the last refresh. " + willFail + "\n\n" +
				"The entry is closed for some seconds. Publishers get an error and have to try again.\n\n" +
				`Messages then arrive at exchange "d" in place of queue "w": applications have to bind their queues ` +
				"there."},
		"replaced": {replaced, func(*Overhaul) {},
			isReplaced + ".\n\n" +
				"No message waited in it at the last refresh. " + willFail + "\n\n" +
				`Publishers to exchange "t.delay-16" get an error from then on. The new entry is exchange ` +
				"\"t.delay-17\".\n\n" +
				`Delays get 18 words in place of 17. Bindings of applications to exchange "t.delivery" ` +
				`with a "*" for each word then match no message: they have to bind again.`},
		"replaced, for two reasons, elsewhere": {replaced, func(o *Overhaul) {
			o.Because = append(o.Because, `vhost changes from "/" to "b"`)
			o.Moved = &MovedEntry{Vhost: "b", Entry: "t.delay-16"}
		},
			isReplaced + " and vhost changes from \"/\" to \"b\".\n\n" +
				"No message waited in it at the last refresh. " + willFail + "\n\n" +
				`Publishers to exchange "t.delay-16" get an error from then on. The new entry is exchange ` +
				"\"t.delay-16\" in vhost \"b\".\n\n" +
				`Delays get 18 words in place of 17. Bindings of applications to exchange "t.delivery" ` +
				`with a "*" for each word then match no message: they have to bind again.`},
		"replaced, not known": {replaced, func(o *Overhaul) {
			o.Moved, o.Before, o.After, o.NewDelivery = &MovedEntry{Vhost: "/"}, nil, nil, ""
		},
			isReplaced + "." + "\n\n" +
				"No message waited in it at the last refresh. " + willFail + "\n\n" +
				`Publishers to exchange "t.delay-16" get an error from then on. The new entry is not known ` +
				"yet."},
		"replaced, and the old entry stays open": {replaced, func(o *Overhaul) { o.Moved.StaysOpen = true },
			isReplaced + ".\n\n" +
				"No message waited in it at the last refresh. " + willFail + "\n\n" +
				`Exchange "t.delay-16" is then in the middle of the cascade, and misunderstands publishers who still ` +
				"use it: messages wait for another time, or go astray. With internal_levels = true, RabbitMQ refuses " +
				"them. The new entry is exchange \"t.delay-17\".\n\n" +
				`Delays get 18 words in place of 17. Bindings of applications to exchange "t.delivery" ` +
				`with a "*" for each word then match no message: they have to bind again.`},
		"replaced, messages, bindings of others": {replaced, func(o *Overhaul) {
			o.Waits = &Waiting{Delayed: Tally{Messages: 2}, Parked: Tally{Messages: 1}}
			o.Others.Lost = []topology.Binding{{Source: "a", RoutingKey: "#", DestinationType: topology.ToExchange,
				Destination: "t.delay-16"}}
		},
			isReplaced + ".\n\n" +
				"2 messages are on the way through it now, and 1 parked, by the last count, which may be some " +
				"seconds old. " + willFail + " " + whileParked + "\n\n" +
				`Publishers to exchange "t.delay-16" get an error from then on. The new entry is exchange ` +
				"\"t.delay-17\".\n\n" +
				`Delays get 18 words in place of 17. Bindings of applications to exchange "t.delivery" ` +
				"with a \"*\" for each word then match no message: they have to bind again.\n\n" +
				`Bindings of exchange "a" lead into it, and go with it. ` +
				"Whoever made them has to bind again:\n\n  " +
				`exchange "a", bound to exchange "t.delay-16" with key "#"`},
	} {
		t.Run(name, func(t *testing.T) {
			moved := is.of.Moved
			if moved != nil {
				one := *moved
				is.of.Moved = &one
			}
			is.change(&is.of)
			said := is.of.Diagnostic()
			if got := said.Summary() + "\n" + said.Detail(); got != is.want {
				t.Errorf("it says\n%s\nand not\n%s", got, is.want)
			}
		})
	}
}

func TestReasons(t *testing.T) {
	text := func(s string) attr.Value { return types.StringValue(s) }
	number := func(n int64) attr.Value { return types.Int64Value(n) }
	texts := func(all ...attr.Value) attr.Value { return types.ListValueMust(types.StringType, all) }
	type values = map[string]attr.Value
	for name, is := range map[string]struct {
		altered               []string
		config, before, after values
		want                  []string
	}{
		"given": {[]string{"levels"}, values{"levels": number(18)}, values{"levels": number(17)},
			values{"levels": number(18)}, []string{"levels changes from 17 to 18"}},
		"max_delay": {[]string{"levels"}, values{"max_delay": text("72h")},
			values{"levels": number(17), "max_delay": text("36h")},
			values{"levels": number(18), "max_delay": text("72h")},
			[]string{`max_delay changes from "36h" to "72h"`}},
		"the same max_delay in another base": {[]string{"base", "levels"},
			values{"base": number(10), "max_delay": text("168h")},
			values{"base": number(2), "levels": number(20), "max_delay": text("168h")},
			values{"base": number(10), "levels": number(6), "max_delay": text("168h")},
			[]string{"base changes from 2 to 10"}},
		"the same max_delay, and the cause taken out of the configuration": {[]string{"levels", "resolution"},
			values{"max_delay": text("168h")},
			values{"levels": number(14), "resolution": text("1m"), "max_delay": text("168h")},
			values{"levels": number(20), "resolution": text("1s"), "max_delay": text("168h")},
			[]string{"levels changes from 14 to 20", `resolution changes from "1m" to "1s"`}},
		"names that follow": {[]string{"name", "queue_name"}, values{"name": text("b")},
			values{"name": text("a"), "queue_name": text("a.%d")},
			values{"name": text("b"), "queue_name": text("b.%d")},
			[]string{`name changes from "a" to "b"`}},
		"taken out of the configuration": {[]string{"queue_type"}, values{}, values{"queue_type": text("classic")},
			values{"queue_type": text("quorum")}, []string{`queue_type changes from "classic" to "quorum"`}},
		"arguments": {[]string{"queue_arguments"}, values{}, values{
			"queue_arguments": types.DynamicValue(types.ObjectValueMust(
				map[string]attr.Type{"x-overflow": types.StringType, "x-expires": types.NumberType},
				values{"x-overflow": text("drop-head"), "x-expires": types.NumberValue(big.NewFloat(60_000))}))},
			values{"queue_arguments": types.DynamicValue(types.ObjectValueMust(map[string]attr.Type{}, values{}))},
			[]string{`queue_arguments changes from {"x-expires":60000,"x-overflow":"drop-head"} to {}`}},
		"unknown, absent and others": {[]string{"name", "max_length", "park_unroutable", "delays"},
			values{}, values{"name": text("a"), "max_length": number(3), "park_unroutable": types.BoolValue(true),
				"delays": texts(text("5s"), text("1m"))},
			values{"name": types.StringUnknown(), "max_length": types.Int64Null(),
				"park_unroutable": types.BoolValue(false), "delays": texts()},
			[]string{`name changes from "a" to a value that is not known yet`, "max_length changes from 3 to no value",
				"park_unroutable changes from true to false", `delays changes from ["5s","1m"] to []`}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Reasons(is.altered, is.config, is.before, is.after); !slices.Equal(got, is.want) {
				t.Errorf("it says %q, not %q", got, is.want)
			}
		})
	}
}

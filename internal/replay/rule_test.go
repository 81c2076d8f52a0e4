package replay_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/replay"
)

func cascade(t *testing.T, config delay.Config) delay.Cascade {
	t.Helper()
	config.Vhost, config.Name = "/", "t"
	config.CreateDeliveryExchange, config.StrictKeys, config.ParkUnroutable = true, true, true
	c, err := config.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// deaths are those of "queue<exchange", the last one first.
func deaths(texts ...string) (all []replay.Death) {
	for _, text := range texts {
		queue, exchange, _ := strings.Cut(text, "<")
		all = append(all, replay.Death{Queue: queue, Reason: "expired", Exchange: exchange})
	}
	return all
}

func TestCascadeRule(t *testing.T) {
	binary := cascade(t, delay.Config{Levels: 5})
	clock := cascade(t, delay.Config{MaxDelay: 48 * time.Hour})
	internal := cascade(t, delay.Config{Levels: 5, InternalLevels: true})
	const entry, end, clockEntry = "t.delay-04", "t.delivery", "t.d.h.m.s"
	to := func(exchange, key string) replay.Verdict { return replay.Verdict{Exchange: exchange, Key: key} }
	begins := func(exchange, key string) replay.Verdict {
		return replay.Verdict{Exchange: exchange, Key: key, Begins: true}
	}
	stays := func(why replay.Reason) replay.Verdict { return replay.Verdict{Stays: why} }
	for _, test := range []struct {
		what string
		of   delay.Cascade
		m    replay.Message
		keep replay.Verdict
		skip replay.Verdict // as keep if it is empty
	}{
		{"over", binary, replay.Message{Exchange: end, Key: "0.0.0.0.1.a"}, to(end, "0.0.0.0.1.a"), to("", "")},
		{"any key at the end", binary, replay.Message{Exchange: end, Key: "a"}, to(end, "a"), to("", "")},
		{"no delay", binary, replay.Message{Exchange: entry, Key: "0.0.0.0.0.a"}, to(end, "0.0.0.0.0.a"), to("", "")},
		{"not begun", binary, replay.Message{Exchange: entry, Key: "0.0.1.0.0.a"}, begins(entry, "0.0.1.0.0.a"),
			to(end, "0.0.1.0.0.a")},
		{"a retry that was rejected before", binary, replay.Message{Exchange: entry, Key: "0.0.1.0.0.a",
			Deaths: []replay.Death{{Queue: "work", Reason: "rejected"}}}, begins(entry, "0.0.1.0.0.a"),
			to(end, "0.0.1.0.0.a")},
		{"from a queue above the entry", binary, replay.Message{Exchange: entry, Key: "1.0.0.0.0.0.a",
			Deaths: deaths("t.delay-05<t.delay-05")}, stays(replay.Waited), to("", "")},
		{"too few words", binary, replay.Message{Exchange: entry, Key: "0.0.1.a"}, stays(replay.Malformed), to("", "")},
		{"no address", binary, replay.Message{Exchange: entry, Key: "0.0.1.0.0"}, stays(replay.Malformed), to("", "")},
		{"no key", binary, replay.Message{Exchange: entry}, stays(replay.Malformed), to("", "")},
		{"another digit", binary, replay.Message{Exchange: entry, Key: "0.0.2.0.0.a"}, stays(replay.Malformed),
			to("", "")},
		{"another exchange", binary, replay.Message{Exchange: "x", Key: "0.0.1.0.0.a"}, stays(replay.Foreign),
			to("", "")},
		{"the default exchange", binary, replay.Message{Key: "t.unroutable"}, stays(replay.Foreign), to("", "")},
		{"further keys", binary, replay.Message{Exchange: end, Key: "a", HasFurtherKeys: true},
			stays(replay.FurtherKeys), to("", "")},
		{"the last wait is over", binary, replay.Message{Exchange: "t.delay-01", Key: "0.0.1.0.0.a",
			Deaths: deaths("t.delay-02<t.delay-04")}, to(end, "0.0.1.0.0.a"), to("", "")},
		{"in the middle", binary, replay.Message{Exchange: "t.delay-01", Key: "1.0.1.0.1.a",
			Deaths: deaths("t.delay-02<t.delay-03", "t.delay-04<t.delay-04")}, to("t.delay-01", "1.0.1.0.1.a"),
			to("", "")},
		{"in the middle, from an earlier wait", binary, replay.Message{Exchange: "t.delay-01", Key: "1.0.1.0.1.a",
			Deaths: append(deaths("t.delay-02<t.delay-03", "t.delay-04<t.delay-04"), replay.Death{Reason: "rejected"})},
			to("t.delay-01", "1.0.1.0.1.a"), to("", "")},
		{"internal and in the middle", internal, replay.Message{Exchange: "t.delay-01", Key: "0.0.1.0.1.a",
			Deaths: deaths("t.delay-02<t.delay-04")}, stays(replay.Internal), to("", "")},
		{"internal and over", internal, replay.Message{Exchange: "t.delay-01", Key: "0.0.1.0.0.a",
			Deaths: deaths("t.delay-02<t.delay-04")}, to(end, "0.0.1.0.0.a"), to("", "")},
		{"published to a level", binary, replay.Message{Exchange: "t.delay-01", Key: "0.0.1.0.0.a"},
			stays(replay.Unproven), to("", "")},
		{"a queue of another level", binary, replay.Message{Exchange: "t.delay-01", Key: "0.0.1.0.0.a",
			Deaths: deaths("t.delay-03<t.delay-04")}, stays(replay.Unproven), to("", "")},
		{"a queue that the key does not name", binary, replay.Message{Exchange: "t.delay-01", Key: "0.0.0.0.0.a",
			Deaths: deaths("t.delay-02<t.delay-04")}, stays(replay.Unproven), to("", "")},
		{"a queue that was left out", binary, replay.Message{Exchange: "t.delay-01", Key: "1.0.1.0.0.a",
			Deaths: deaths("t.delay-02<t.delay-04")}, stays(replay.Unproven), to("", "")},
		{"not from the entry", binary, replay.Message{Exchange: "t.delay-01", Key: "0.0.1.0.0.a",
			Deaths: deaths("t.delay-02<t.delay-03")}, stays(replay.Unproven), to("", "")},
		{"rejected on its way", binary, replay.Message{Exchange: "t.delay-01", Key: "0.0.1.0.0.a",
			Deaths: []replay.Death{{Queue: "t.delay-02", Reason: "rejected", Exchange: entry}}}, stays(replay.Unproven),
			to("", "")},
		{"from a cascade of six levels", binary, replay.Message{Exchange: "t.delay-02", Key: "1.1.1.0.0.1.a",
			Deaths: deaths("t.delay-03<t.delay-03", "t.delay-04<t.delay-04", "t.delay-05<t.delay-05")},
			stays(replay.Unproven), to("", "")},
		{"malformed in the middle", binary, replay.Message{Exchange: "t.delay-01", Key: "0.0.1.0.a",
			Deaths: deaths("t.delay-02<t.delay-04")}, stays(replay.Malformed), to("", "")},
		{"days to seconds", clock, replay.Message{Exchange: "t.m.s", Key: "1.2.0.30.a",
			Deaths: deaths("t.2h<t.h.m.s", "t.1d<t.d.h.m.s")}, to("t.m.s", "1.2.0.30.a"), to("", "")},
		{"days to seconds, over", clock, replay.Message{Exchange: "t.s", Key: "0.0.30.0.a",
			Deaths: deaths("t.30m<t.d.h.m.s")}, to(end, "0.0.30.0.a"), to("", "")},
		{"longer than max_delay", clock, replay.Message{Exchange: clockEntry, Key: "3.0.0.0.a"},
			stays(replay.Malformed), to("", "")},
	} {
		skip := test.skip
		if skip == (replay.Verdict{}) {
			skip = test.keep
		}
		if got := replay.OfCascade(test.of, replay.Keep).Judge(test.m); got != test.keep {
			t.Errorf("%s: %+v, not %+v", test.what, got, test.keep)
		}
		if got := replay.OfCascade(test.of, replay.Skip).Judge(test.m); got != skip {
			t.Errorf("%s: to skip, %+v, not %+v", test.what, got, skip)
		}
	}
}

func TestLadderRule(t *testing.T) {
	ladder := func(config delay.LadderConfig) delay.Ladder {
		config.Vhost, config.Name, config.Delays = "/", "t", []string{"30s", "1h"}
		config.CreateDeliveryExchange, config.ParkUnroutable = config.DeliverToQueue == "", true
		l, err := config.Resolve()
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	topic, fixed := ladder(delay.LadderConfig{}), ladder(delay.LadderConfig{DeadLetterRoutingKey: "late"})
	queue := ladder(delay.LadderConfig{DeliverToQueue: "work"})
	direct := ladder(delay.LadderConfig{EntryExchangeType: delay.Direct,
		BindingKeys: map[string]string{"30s": "soon", "1h": "late"}})
	for _, test := range []struct {
		what           string
		of             delay.Ladder
		exchange, key  string
		keeps, skipped string // exchange and key, or the reason
	}{
		{"over", topic, "t.delivery", "1h.a", "t.delivery 1h.a", "t.delivery 1h.a"},
		{"not begun", topic, "t.entry", "1h.a", "t.entry 1h.a", "t.delivery 1h.a"},
		{"no rung", topic, "t.entry", "2h.a", "malformed key", "malformed key"},
		{"no address", topic, "t.entry", "1h", "malformed key", "malformed key"},
		{"a pattern is no key of a topic", topic, "t.entry", "#", "malformed key", "malformed key"},
		{"a fixed key", fixed, "t.entry", "1h", "t.entry 1h", "t.delivery late"},
		{"to a queue", queue, "t.entry", "1h", "t.entry 1h", " work"},
		{"the default exchange", queue, "", "work", "exchange of another owner", "exchange of another owner"},
		{"keys of their own", direct, "t.entry", "soon", "t.entry soon", "t.delivery soon"},
		{"another key", direct, "t.entry", "soon.a", "malformed key", "malformed key"},
		{"another exchange", topic, "x", "1h.a", "exchange of another owner", "exchange of another owner"},
	} {
		for begin, want := range map[replay.Delay]string{replay.Keep: test.keeps, replay.Skip: test.skipped} {
			v := replay.OfLadder(test.of, begin).Judge(replay.Message{Exchange: test.exchange, Key: test.key})
			got := v.Exchange + " " + v.Key
			if v.Stays != "" {
				got = string(v.Stays)
			}
			if got != want {
				t.Errorf("%s, %s: %q, not %q", test.what, begin, got, want)
			}
		}
	}
}

package resource

import (
	"strings"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/connection"
)

// The same is known of a cascade that the same apply is to make.
func TestDestinationMisnamedInThePlan(t *testing.T) {
	config := delay.Config{Name: "t", Levels: 4, CreateDeliveryExchange: true, StrictKeys: true, ParkUnroutable: true}
	ladder := delay.LadderConfig{Name: "l", Delays: []string{"5s"}, DeliveryExchange: "t.delivery"}
	expandedCascade, err := config.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	expandedLadder, err := ladder.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	one := connection.Planned{Kind: "cascade", Vhost: "/", Topology: expandedCascade.Expand(),
		Scale: delay.Scale{Units: make([]time.Duration, 4)}}
	both := []connection.Planned{one, {Kind: "ladder", Vhost: "/", Topology: expandedLadder.Expand(),
		Scale: delay.Scale{Units: make([]time.Duration, 1)}}}
	good := delay.Destination{DeliveryExchange: "t.delivery", Levels: 4, Match: delay.Exact, Address: "orders",
		Queue: "orders"}
	for name, is := range map[string]struct {
		change func(*delay.Destination)
		all    []connection.Planned
		says   string // none if it is right
	}{
		"good": {func(*delay.Destination) {}, both, ""},
		"entry": {func(d *delay.Destination) { d.DeliveryExchange = "t.delay-03" }, both,
			`delay queues of the cascade with entry exchange "t.delay-03"`},
		"level": {func(d *delay.Destination) { d.DeliveryExchange = "t.delay-00" }, both,
			"before their time"},
		"entry of ladder": {func(d *delay.Destination) { d.DeliveryExchange = "l.entry" }, both,
			"the ladder with entry exchange"},
		"delay queue": {func(d *delay.Destination) { d.Queue = "t.delay-02" }, both, "one of the delay queues"},
		"rung":        {func(d *delay.Destination) { d.Queue = "l.delay-5s" }, both, "one of the delay queues"},
		"circle": {func(d *delay.Destination) { d.Queue, d.Exchange = "", "t.delay-03" }, both,
			"would come back"},
		"other end": {func(d *delay.Destination) {
			d.DeliveryExchange, d.Queue, d.Exchange = "d", "", "t.delay-03"
		}, both, ""},
		"levels": {func(d *delay.Destination) { d.Levels = 3 }, both,
			"have this number of levels: 1, 4. The destination has levels = 3"},
		"those of ladder":  {func(d *delay.Destination) { d.Levels = 1 }, both, ""},
		"ladder later":     {func(d *delay.Destination) { d.Levels = 1 }, both[:1], ""},
		"cascade later":    {func(*delay.Destination) {}, both[1:], ""},
		"without a ladder": {func(d *delay.Destination) { d.Levels = 3 }, both[:1], "have this number of levels: 4"},
		"suffix":           {func(d *delay.Destination) { d.Levels, d.Match = 0, delay.Suffix }, both, ""},
		"unknown":          {func(d *delay.Destination) { *d = delay.Destination{Match: delay.Exact} }, both, ""},
	} {
		d := good
		is.change(&d)
		found, _ := misnamedInPlan(d, is.all)
		var texts []string
		for _, each := range found {
			texts = append(texts, each.Detail())
		}
		if text := strings.Join(texts, " "); len(texts) > 1 || (is.says == "") != (text == "") ||
			!strings.Contains(text, is.says) {
			t.Errorf("%s: %q, want %q", name, texts, is.says)
		}
	}
}

package acceptance

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
)

// exampleForms are small cascades of each form. Each has steps of 100 ms, and delays of 9.9 s or more.
var exampleForms = map[string]harness.Attributes{
	"binary":  {"levels": 7, "resolution": "100ms"},
	"decimal": {"base": 10, "levels": 2, "resolution": "100ms"},
	"units":   {"units": harness.TextList("2s", "500ms", "100ms"), "max_delay": "8s"},
}

// inEachForm runs a test beside a cascade of each form.
func inEachForm(t *testing.T, test func(*exampleCascade)) {
	t.Helper()
	for form, given := range exampleForms {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			test(newExampleCascade(t, given))
		})
	}
}

// exampleCascade is a cascade named tasks, for the program of an example.
type exampleCascade struct {
	*harness.Vhost
	t     *testing.T
	scale delay.Scale
	// environ leads the program to the broker and the cascade.
	environ []string
}

func newExampleCascade(t *testing.T, given harness.Attributes) *exampleCascade {
	t.Helper()
	v := harness.NewVhost(t)
	p := harness.NewProtocol(t, v.Broker, nil)
	p.MustApply(given.With(harness.Attributes{"vhost": v.Name, "name": "tasks"}))
	text, err := json.Marshal(harness.PlainMap(t, p.State)["publisher"])
	if err != nil {
		t.Fatal(err)
	}
	var publisher struct {
		UnitsMS    []int64 `json:"units_ms"`
		MaxDelayMS int64   `json:"max_delay_ms"`
	}
	if err := json.Unmarshal(text, &publisher); err != nil {
		t.Fatal(err)
	}
	scale, err := delay.PublisherScale(publisher.UnitsMS, publisher.MaxDelayMS)
	if err != nil {
		t.Fatal(err)
	}
	return &exampleCascade{v, t, scale, append(v.Environ(), "PUBLISHER="+string(text))}
}

// destination is the key that binds an address.
func (c *exampleCascade) destination(address string) string {
	return harness.DestinationKey(c.scale.Levels(), address)
}

// run is the command that runs a program there.
func (c *exampleCascade) run(program ...string) []string {
	return append(append([]string{"env"}, c.environ...), program...)
}

// eitherForm is a cascade in base 2, or in units. Keys whose words are 0 and 1 are the same in both.
type eitherForm struct {
	name    string
	levels  int
	unit    time.Duration
	inUnits bool
	times   int // that the next unit is in a larger one, in units
}

// severalQueues is for levels with more than one queue, but for the highest.
const severalQueues = 3

// bothForms are the values of inUnits.
var bothForms = map[string]bool{"uniform": false, "units": true}

// ofQueues is a type of queues, and perhaps units.
type ofQueues struct {
	queueType string
	inUnits   bool
}

// queueForms are both types of queues, and units with the usual one.
var queueForms = map[string]ofQueues{
	"quorum": {"quorum", false}, "classic": {"classic", false}, "quorum, units": {"quorum", true},
}

// of is the unit of a level.
func (d eitherForm) of(level int) time.Duration {
	times := 2
	if d.inUnits {
		times = d.times
	}
	units := 1
	for range level {
		units *= times
	}
	return time.Duration(units) * d.unit
}

func (d eitherForm) unitsBelow(level int) (units []time.Duration) {
	for ; level >= 0; level-- {
		units = append(units, d.of(level))
	}
	return units
}

// given are the attributes of its form.
func (d eitherForm) given() harness.Attributes {
	if !d.inUnits {
		return harness.Attributes{"name": d.name, "levels": d.levels, "resolution": d.unit.String()}
	}
	var units []string
	for _, unit := range d.unitsBelow(d.levels - 1) {
		units = append(units, delay.DurationText(unit))
	}
	return harness.Attributes{"name": d.name, "units": harness.TextList(units...), "max_delay": units[0]}
}

// config is what they stand for, with the defaults of Terraform.
func (d eitherForm) config() delay.Config {
	c := delay.Config{Name: d.name, CreateDeliveryExchange: true, StrictKeys: true, ParkUnroutable: true}
	if d.inUnits {
		c.Units = d.unitsBelow(d.levels - 1)
		c.MaxDelay = c.Units[0]
	} else {
		c.Levels, c.Resolution = d.levels, d.unit
	}
	return c
}

// exchange is the name of the level's exchange, if there are so many.
func (d eitherForm) exchange(level int) string {
	if d.inUnits {
		return d.name + "." + delay.UnitsLabel(d.unitsBelow(level))
	}
	return fmt.Sprintf("%s.delay-%02d", d.name, level)
}

func (d eitherForm) entry() string { return d.exchange(d.levels - 1) }

// queue is the name of the level's first queue.
func (d eitherForm) queue(level int) string {
	if d.inUnits {
		return d.name + "." + delay.DurationText(d.of(level))
	}
	return fmt.Sprintf("%s.delay-%02d", d.name, level)
}

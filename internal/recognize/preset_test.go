package recognize

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay/delaytest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// A preset is recognized, and so are its prefix and its parking by a policy.
func TestRecognizePreset(t *testing.T) {
	all := []delay.Config{{Preset: delay.Celery, Prefix: "a.%d_"}, {Preset: delay.CeleryClassic, Prefix: "tasks"}}
	for _, preset := range delay.Presets() {
		all = append(all, delay.Config{Preset: preset})
	}
	for _, given := range all {
		given.Vhost, given.CreateDeliveryExchange = "/", true
		b := declared(t, given)
		got, err := Cascade(t.Context(), b, "/", b.there.Entry)
		if err != nil {
			t.Fatal(err)
		}
		expandsTo(t, got, given)
		for _, name := range []string{"", "billing"} {
			for _, creates := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s %s %s %t", given.Preset, given.Prefix, name, creates), func(t *testing.T) {
					recognizeParking(t, delay.Config{Vhost: "/", Preset: given.Preset, Prefix: given.Prefix, Name: name,
						CreateDeliveryExchange: creates, ParkUnroutable: true})
				})
			}
		}
	}
}

func recognizeParking(t *testing.T, given delay.Config) {
	t.Helper()
	got := delaytest.Expand(t, given)
	b := holding(t, got.Clone())
	recognized, err := Cascade(t.Context(), b, "/", got.Entry)
	want, resolveErr := given.Resolve()
	if err != nil || resolveErr != nil || !reflect.DeepEqual(recognized, want) {
		t.Errorf("it is recognized as %+v (%v)\nand not %+v (%v)", recognized, err, want, resolveErr)
	}
	recognizeAltered(t, given, got)
}

// recognizeAltered alters the policy of a preset that parks, and takes away what it leads to.
func recognizeAltered(t *testing.T, given delay.Config, got topology.Topology) {
	t.Helper()
	parking, want := got.Parking(), delaytest.Resolve(t, given)
	p, b := got.Policies[parking], holding(t, got.Clone())
	for what, change := range map[string]struct {
		do    func(*topology.Policy)
		parks bool
	}{
		"another pattern":    {func(p *topology.Policy) { p.Pattern = "^" + p.Pattern }, given.Name == ""},
		"another priority":   {func(p *topology.Policy) { p.Priority = 3 }, true},
		"queues":             {func(p *topology.Policy) { p.ApplyTo = "queues" }, true},
		"another definition": {func(p *topology.Policy) { p.Definition = topology.Arguments{} }, true},
	} {
		changed := p
		change.do(&changed)
		b.there.Policies[parking] = changed
		recognized, err := Cascade(t.Context(), b, "/", got.Entry)
		if err != nil || recognized.ParkUnroutable != change.parks ||
			change.parks && !reflect.DeepEqual(recognized, want) {
			t.Errorf("with %s, it is recognized as %+v (%v)", what, recognized, err)
		}
	}
	changed := p
	changed.Priority = 3
	for what, remove := range map[string]func(topology.Topology){
		"exchange": func(there topology.Topology) { delete(there.Exchanges, parking) },
		"queue":    func(there topology.Topology) { delete(there.Queues, parking) },
		"policy":   func(there topology.Topology) { delete(there.Policies, parking) },
	} {
		without := holding(t, got.Clone())
		without.there.Policies[parking] = changed
		remove(without.there)
		recognized, err := Cascade(t.Context(), without, "/", got.Entry)
		if err != nil || recognized.ParkUnroutable {
			t.Errorf("without the %s, it is recognized as %+v (%v)", what, recognized, err)
		}
	}
}

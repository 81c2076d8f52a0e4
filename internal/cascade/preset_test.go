package cascade

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// What the frameworks declare, written out by hand.
func TestPresets(t *testing.T) {
	for preset, declares := range map[Preset]struct {
		name, delivery string
		further        topology.Arguments
	}{
		NServiceBus: {"nsb.v2.delay-level-%02d", "nsb.v2.delay-delivery", topology.Arguments{"x-queue-type": "quorum",
			"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}},
		NServiceBusV1: {"nsb.delay-level-%02d", "nsb.delay-delivery", topology.Arguments{"x-queue-mode": "lazy"}},
		Celery: {"celery_delayed_%d", "celery_delayed_delivery", topology.Arguments{"x-queue-type": "quorum",
			"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}},
		CeleryClassic: {"celery_delayed_%d", "celery_delayed_delivery", topology.Arguments{"x-queue-type": "classic",
			"x-overflow": "reject-publish"}},
	} {
		t.Run(string(preset), func(t *testing.T) {
			got := expand(t, Config{Preset: preset, CreateDeliveryExchange: true})
			want := topology.New()
			topic := func(name string) {
				want.Exchanges[name] = topology.Exchange{Name: name, Type: "topic",
					Durable: true}
			}
			next := declares.delivery
			topic(next)
			for level := range 28 {
				name := fmt.Sprintf(declares.name, level)
				arguments := topology.Arguments{"x-message-ttl": int64(1000) << level, "x-dead-letter-exchange": next}
				maps.Copy(arguments, declares.further)
				topic(name)
				want.Queues[name] = topology.Queue{Name: name, Durable: true, Arguments: arguments}
				stars := strings.Repeat("*.", 27-level)
				want.Bindings.Add(topology.Binding{Source: name, RoutingKey: stars + "1.#",
					DestinationType: topology.ToQueue, Destination: name})
				want.Bindings.Add(topology.Binding{Source: name, RoutingKey: stars + "0.#",
					DestinationType: topology.ToExchange, Destination: next})
				next = name
			}
			compareObjects(t, "exchange", got.Exchanges, want.Exchanges)
			compareObjects(t, "queue", got.Queues, want.Queues)
			compareObjects(t, "binding", got.Bindings, want.Bindings)
			for name, q := range got.Queues {
				if len(q.Arguments) != len(want.Queues[name].Arguments) {
					t.Errorf("arguments %v, want %v", q.Arguments, want.Queues[name].Arguments)
				}
			}

			b := &fakeBroker{t: t, there: got, delivery: declares.delivery}
			recognized, err := Recognize(t.Context(), b, "/", got.Entry)
			if err != nil {
				t.Fatal(err)
			}
			expandsTo(t, recognized, Config{Preset: preset, CreateDeliveryExchange: true})
		})
	}
}

func TestPresetFixes(t *testing.T) {
	for attribute, c := range map[string]Config{
		"preset":                    {Preset: "sidekiq"},
		"levels":                    {Preset: Celery, Levels: 27},
		"max_delay":                 {Preset: Celery, MaxDelay: time.Hour},
		"resolution":                {Preset: Celery, Resolution: time.Minute},
		"exchange_name":             {Preset: Celery, ExchangeName: "e%d"},
		"queue_name":                {Preset: Celery, QueueName: "q%d"},
		"delivery_exchange":         {Preset: Celery, DeliveryExchange: "elsewhere"},
		"queue_type":                {Preset: Celery, QueueType: Classic},
		"max_length":                {Preset: Celery, QuorumOptions: QuorumOptions{MaxLength: 5}},
		"queue_leader_locator":      {Preset: Celery, QuorumOptions: QuorumOptions{LeaderLocator: Balanced}},
		"quorum_initial_group_size": {Preset: Celery, QuorumOptions: QuorumOptions{InitialGroupSize: 3}},
		"lookahead":                 {Preset: Celery, Lookahead: 28},
		"strict_keys":               {Preset: Celery, StrictKeys: true},
		"internal_levels":           {Preset: Celery, InternalLevels: true},
	} {
		_, err := c.Resolve()
		var errs Errors
		if !errors.As(err, &errs) || len(errs) == 0 || errs[0].Attribute != attribute {
			t.Errorf("%s: the error is %v", attribute, err)
		}
	}
	same := Config{Preset: Celery, Levels: 28, Resolution: time.Second, QueueName: "celery_delayed_%d",
		QueueType: Quorum, Lookahead: 1}
	if _, err := same.Resolve(); err != nil {
		t.Errorf("what the preset has anyway is refused: %v", err)
	}
	if _, err := (Config{Preset: Celery, MaxDelay: 1 << 27 * time.Second}).Resolve(); err != nil {
		t.Errorf("a longest delay that takes 28 levels is refused: %v", err)
	}
}

// TestPresetWithParking has every preset park by a policy. The framework's declarations stay as they are, the policy
// matches exactly these exchanges, and the cascade is recognized by it.
func TestPresetWithParking(t *testing.T) {
	for _, preset := range slices.Sorted(maps.Keys(presets)) {
		for _, name := range []string{"", "billing"} {
			for _, creates := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s %s %t", preset, name, creates), func(t *testing.T) {
					parkInPreset(t, Config{Vhost: "/", Preset: preset, Name: name, CreateDeliveryExchange: creates})
				})
			}
		}
	}
}

func parkInPreset(t *testing.T, given Config) {
	t.Helper()
	plain := expand(t, given)
	given.ParkUnroutable = true
	got := expand(t, given)
	if !got.WithoutPolicies().SameObjects(plain) || !maps.Equal(got.WithoutPolicies().Bindings, plain.Bindings) {
		t.Error("what the framework declares has changed")
	}
	parking := cmp.Or(given.Name, presets[given.Preset].name) + ".unroutable"
	p := got.Policies[parking]
	if len(got.Policies) != 1 || p.AlternateExchange() != parking || p.ApplyTo != "exchanges" ||
		got.Parking() != parking {
		t.Errorf("the policies are %v", got.Policies)
	}
	pattern := regexp.MustCompile(p.Pattern)
	for name := range got.Exchanges {
		if pattern.MatchString(name) != plain.Has(name) {
			t.Errorf("%q matches %q: %t", p.Pattern, name, plain.Has(name))
		}
		others := []string{name + "0", "x" + name, strings.ToUpper(name), strings.ReplaceAll(name, ".", "-")}
		for _, other := range others {
			if other != name && !plain.Has(other) && pattern.MatchString(other) {
				t.Errorf("%q matches %q", p.Pattern, other)
			}
		}
	}
	b := holding(t, got.Clone())
	recognized, err := Recognize(t.Context(), b, "/", got.Entry)
	want, resolveErr := given.Resolve()
	if err != nil || resolveErr != nil || recognized != want {
		t.Errorf("it is recognized as %+v (%v)\nand not %+v (%v)", recognized, err, want, resolveErr)
	}
	recognizeAltered(t, given, got)
}

// recognizeAltered alters the policy of a preset that parks, and takes away what it leads to.
func recognizeAltered(t *testing.T, given Config, got topology.Topology) {
	t.Helper()
	parking, want := got.Parking(), resolve(t, given)
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
		recognized, err := Recognize(t.Context(), b, "/", got.Entry)
		if err != nil || recognized.ParkUnroutable != change.parks || change.parks && recognized != want {
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
		recognized, err := Recognize(t.Context(), without, "/", got.Entry)
		if err != nil || recognized.ParkUnroutable {
			t.Errorf("without the %s, it is recognized as %+v (%v)", what, recognized, err)
		}
	}
}

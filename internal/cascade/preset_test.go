package cascade_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade/cascadetest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// What the frameworks declare, written out by hand.
func TestPresets(t *testing.T) {
	for preset, declares := range map[cascade.Preset]struct {
		name, delivery string
		further        topology.Arguments
	}{
		cascade.NServiceBus: {"nsb.v2.delay-level-%02d", "nsb.v2.delay-delivery", topology.Arguments{"x-queue-type": "quorum",
			"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}},
		cascade.NServiceBusV1: {"nsb.delay-level-%02d", "nsb.delay-delivery", topology.Arguments{"x-queue-mode": "lazy"}},
		cascade.Celery: {"celery_delayed_%d", "celery_delayed_delivery", topology.Arguments{"x-queue-type": "quorum",
			"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}},
		cascade.CeleryClassic: {"celery_delayed_%d", "celery_delayed_delivery", topology.Arguments{"x-queue-type": "classic",
			"x-overflow": "reject-publish"}},
	} {
		t.Run(string(preset), func(t *testing.T) {
			got := cascadetest.Expand(t, cascade.Config{Preset: preset, CreateDeliveryExchange: true})
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
		})
	}
}

func TestPresetFixes(t *testing.T) {
	for attribute, c := range map[string]cascade.Config{
		"preset":                    {Preset: "sidekiq"},
		"levels":                    {Preset: cascade.Celery, Levels: 27},
		"max_delay":                 {Preset: cascade.Celery, MaxDelay: time.Hour},
		"resolution":                {Preset: cascade.Celery, Resolution: time.Minute},
		"exchange_name":             {Preset: cascade.Celery, ExchangeName: "e%d"},
		"queue_name":                {Preset: cascade.Celery, QueueName: "q%d"},
		"delivery_exchange":         {Preset: cascade.Celery, DeliveryExchange: "elsewhere"},
		"queue_type":                {Preset: cascade.Celery, QueueType: cascade.Classic},
		"max_length":                {Preset: cascade.Celery, QuorumOptions: cascade.QuorumOptions{MaxLength: 5}},
		"queue_leader_locator":      {Preset: cascade.Celery, QuorumOptions: cascade.QuorumOptions{LeaderLocator: cascade.Balanced}},
		"quorum_initial_group_size": {Preset: cascade.Celery, QuorumOptions: cascade.QuorumOptions{InitialGroupSize: 3}},
		"lookahead":                 {Preset: cascade.Celery, Lookahead: 28},
		"strict_keys":               {Preset: cascade.Celery, StrictKeys: true},
		"internal_levels":           {Preset: cascade.Celery, InternalLevels: true},
	} {
		_, err := c.Resolve()
		var errs cascade.Errors
		if !errors.As(err, &errs) || len(errs) == 0 || errs[0].Attribute != attribute {
			t.Errorf("%s: the error is %v", attribute, err)
		}
	}
	same := cascade.Config{Preset: cascade.Celery, Levels: 28, Resolution: time.Second, QueueName: "celery_delayed_%d",
		QueueType: cascade.Quorum, Lookahead: 1}
	if _, err := same.Resolve(); err != nil {
		t.Errorf("what the preset has anyway is refused: %v", err)
	}
	if _, err := (cascade.Config{Preset: cascade.Celery, MaxDelay: 1 << 27 * time.Second}).Resolve(); err != nil {
		t.Errorf("a longest delay that takes 28 levels is refused: %v", err)
	}
}

// TestPresetWithParking has every preset park by a policy. The framework's declarations stay as they are, the policy
// matches exactly these exchanges.
func TestPresetWithParking(t *testing.T) {
	for _, preset := range cascade.Presets() {
		for _, name := range []string{"", "billing"} {
			for _, creates := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s %s %t", preset, name, creates), func(t *testing.T) {
					parkInPreset(t, cascade.Config{Vhost: "/", Preset: preset, Name: name, CreateDeliveryExchange: creates})
				})
			}
		}
	}
}

func parkInPreset(t *testing.T, given cascade.Config) {
	t.Helper()
	plain := cascadetest.Expand(t, given)
	given.ParkUnroutable = true
	got := cascadetest.Expand(t, given)
	if !got.WithoutPolicies().SameObjects(plain) || !maps.Equal(got.WithoutPolicies().Bindings, plain.Bindings) {
		t.Error("what the framework declares has changed")
	}
	parking := map[cascade.Preset]string{cascade.NServiceBus: "nsb.v2", cascade.NServiceBusV1: "nsb",
		cascade.Celery: "celery", cascade.CeleryClassic: "celery"}[given.Preset]
	parking = cmp.Or(given.Name, parking) + ".unroutable"
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
}

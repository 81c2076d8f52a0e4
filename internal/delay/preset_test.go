package delay_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay/delaytest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// What the frameworks declare, written out by hand.
func TestPresets(t *testing.T) {
	for named, declares := range map[[2]string]struct {
		name, delivery string
		further        topology.Arguments
	}{
		{"nservicebus"}: {"nsb.v2.delay-level-%02d", "nsb.v2.delay-delivery",
			topology.Arguments{"x-queue-type": "quorum",
				"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}},
		{"nservicebus_v1"}: {"nsb.delay-level-%02d", "nsb.delay-delivery", topology.Arguments{"x-queue-mode": "lazy"}},
		{"celery"}: {"celery_delayed_%d", "celery_delayed_delivery", topology.Arguments{"x-queue-type": "quorum",
			"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}},
		{"celery", "a.b"}: {"a.b_celery_delayed_%d", "a.b_celery_delayed_delivery",
			topology.Arguments{"x-queue-type": "quorum",
				"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}},
		{"celery_classic", "tasks"}: {"tasks_celery_delayed_%d", "tasks_celery_delayed_delivery",
			topology.Arguments{"x-queue-type": "classic",
				"x-overflow": "reject-publish"}},
		{"celery_classic"}: {"celery_delayed_%d", "celery_delayed_delivery",
			topology.Arguments{"x-queue-type": "classic",
				"x-overflow": "reject-publish"}},
	} {
		t.Run(strings.Join(named[:], " "), func(t *testing.T) {
			got := delaytest.Expand(t, delay.Config{Preset: delay.Preset(named[0]), Prefix: named[1],
				CreateDeliveryExchange: true})
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
	for attribute, c := range map[string]delay.Config{
		"preset":            {Preset: "sidekiq"},
		"prefix":            {Preset: delay.NServiceBus, Prefix: "orders"},
		"levels":            {Preset: delay.Celery, Levels: 27},
		"max_delay":         {Preset: delay.Celery, MaxDelay: time.Hour},
		"resolution":        {Preset: delay.Celery, Resolution: time.Minute},
		"exchange_name":     {Preset: delay.Celery, ExchangeName: "e%d"},
		"queue_name":        {Preset: delay.Celery, QueueName: "q%d"},
		"delivery_exchange": {Preset: delay.Celery, DeliveryExchange: "elsewhere"},
		"queue_type":        {Preset: delay.Celery, QueueType: delay.Classic},
		"max_length":        {Preset: delay.Celery, QuorumOptions: delay.QuorumOptions{MaxLength: 5}},
		"queue_leader_locator": {Preset: delay.Celery,
			QuorumOptions: delay.QuorumOptions{LeaderLocator: delay.Balanced}},
		"quorum_initial_group_size": {Preset: delay.Celery, QuorumOptions: delay.QuorumOptions{InitialGroupSize: 3}},
		"queue_arguments": {Preset: delay.NServiceBusV1,
			QueueArguments: topology.Arguments{"x-queue-mode": "default"}},
		"lookahead":       {Preset: delay.Celery, Lookahead: 28},
		"strict_keys":     {Preset: delay.Celery, StrictKeys: true},
		"internal_levels": {Preset: delay.Celery, InternalLevels: true},
	} {
		_, err := c.Resolve()
		var errs delay.Errors
		if !errors.As(err, &errs) || len(errs) == 0 || errs[0].Attribute != attribute {
			t.Errorf("%s: the error is %v", attribute, err)
		}
	}
	_, err := delay.Config{Name: "orders", Prefix: "tasks", Levels: 2}.Resolve()
	if want := `prefix is "tasks" without a preset; give name, with which all names begin`; err == nil ||
		err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	for _, prefix := range []string{"amq.", strings.Repeat("p", 250)} {
		for _, parks := range []bool{true, false} {
			_, err := delay.Config{Preset: delay.Celery, Prefix: prefix, CreateDeliveryExchange: true,
				ParkUnroutable: parks}.Resolve()
			var errs delay.Errors
			if !errors.As(err, &errs) || len(errs) != 1 || errs[0].Attribute != "prefix" {
				t.Errorf("with prefix %s, the error is %v", prefix, err)
			}
		}
	}
	same := delay.Config{Preset: delay.CeleryClassic, Levels: 28, Resolution: time.Second,
		QueueName: "celery_delayed_%d", QueueType: delay.Classic, Lookahead: 1,
		QueueArguments: topology.Arguments{"x-overflow": "reject-publish"}}
	if _, err := same.Resolve(); err != nil {
		t.Errorf("what the preset has anyway is refused: %v", err)
	}
	if _, err := (delay.Config{Preset: delay.Celery, MaxDelay: 1 << 27 * time.Second}).Resolve(); err != nil {
		t.Errorf("a longest delay that takes 28 levels is refused: %v", err)
	}
}

// TestPresetWithParking has every preset park by a policy. The framework's declarations stay as they are, the policy
// matches exactly these exchanges.
// A cascade with the names of presets is one of them only if all else is as that has it.
func TestAsPresets(t *testing.T) {
	c, err := delay.Config{Vhost: "/", Preset: delay.Celery, CreateDeliveryExchange: true}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	c.Preset = ""
	if all := c.AsPresets(); len(all) != 1 || all[0].Preset != delay.Celery {
		t.Errorf("the cascade of Celery is %v", all)
	}
	c.StrictKeys = true
	if all := c.AsPresets(); len(all) > 0 {
		t.Errorf("a cascade with strict keys is %v", all)
	}
}

func TestPresetWithParking(t *testing.T) {
	for _, preset := range delay.Presets() {
		for _, name := range []string{"", "billing"} {
			for _, creates := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s %s %t", preset, name, creates), func(t *testing.T) {
					parkInPreset(t, delay.Config{Vhost: "/", Preset: preset, Name: name,
						CreateDeliveryExchange: creates})
				})
			}
		}
	}
}

func parkInPreset(t *testing.T, given delay.Config) {
	t.Helper()
	plain := delaytest.Expand(t, given)
	given.ParkUnroutable = true
	got := delaytest.Expand(t, given)
	if !got.WithoutPolicies().SameObjects(plain) || !maps.Equal(got.WithoutPolicies().Bindings, plain.Bindings) {
		t.Error("what the framework declares has changed")
	}
	parking := map[delay.Preset]string{delay.NServiceBus: "nsb.v2", delay.NServiceBusV1: "nsb",
		delay.Celery: "celery", delay.CeleryClassic: "celery"}[given.Preset]
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

package delay_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay/delaytest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology/topologytest"
)

func TestExpandVectors(t *testing.T) {
	for name, config := range delaytest.Vectors {
		t.Run(name, func(t *testing.T) {
			got := delaytest.Expand(t, config)
			want := delaytest.ReadVector(t, name)
			if name == "article_level3" {
				// It leaves the type to the broker, which takes classic; we always send it.
				for name, q := range want.Queues {
					if !q.Equal(got.Queues[name]) {
						t.Errorf("queue %v, want %v", got.Queues[name], q)
					}
					q.Arguments["x-queue-type"] = "classic"
				}
			}
			compareObjects(t, "exchange", got.Exchanges, want.Exchanges)
			compareObjects(t, "queue", got.Queues, want.Queues)
			compareObjects(t, "binding", got.Bindings, want.Bindings)
		})
	}
	files, err := filepath.Glob("delaytest/vectors/*.json")
	if err != nil || len(files) != len(delaytest.Vectors) {
		t.Errorf("%d vectors are tested, but there are %q (%v)", len(delaytest.Vectors), files, err)
	}
}

func compareObjects[K comparable, V any](t *testing.T, kind string, got, want map[K]V) {
	t.Helper()
	for key, value := range want {
		if have, exists := got[key]; !exists {
			t.Errorf("%s %v is missing", kind, key)
		} else if !reflect.DeepEqual(have, value) {
			t.Errorf("%s %v is %v, want %v", kind, key, have, value)
		}
	}
	for key := range got {
		if _, exists := want[key]; !exists {
			t.Errorf("%s %v is too much", kind, key)
		}
	}
}

// Only what lies between the entry and the delivery exchange is internal.
func TestExpandInternalLevels(t *testing.T) {
	for levels := 1; levels <= 4; levels++ {
		c := delay.Config{Name: "t", Levels: levels, CreateDeliveryExchange: true, InternalLevels: true,
			ParkUnroutable: true}
		got := delaytest.Expand(t, c)
		c.InternalLevels = false
		want := delaytest.Expand(t, c)
		for level := range levels - 1 {
			e := want.Exchanges[fmt.Sprintf("t.delay-%02d", level)]
			e.Internal = true
			want.Exchanges[e.Name] = e
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%d levels: got %v, want %v", levels, got, want)
		}
	}
}

func TestExpandParking(t *testing.T) {
	for _, queueType := range []delay.QueueType{delay.Quorum, delay.Classic} {
		got := delaytest.Expand(t, delay.Config{Name: "t", Levels: 2, QueueType: queueType,
			CreateDeliveryExchange: true,
			ParkUnroutable:         true})
		for _, name := range []string{"t.delay-00", "t.delay-01", "t.delivery"} {
			if got.Exchanges[name].AlternateExchange() != "t.unroutable" {
				t.Errorf("exchange %q has the alternate exchange %q", name, got.Exchanges[name].AlternateExchange())
			}
		}
		if e := got.Exchanges["t.unroutable"]; e.Type != "fanout" || !e.Durable || len(e.Arguments) > 0 {
			t.Errorf("the parking exchange is %v", e)
		}
		q := got.Queues["t.unroutable"]
		if q.Type() != string(queueType) || !q.Durable || q.DeadLetterExchange() != "" {
			t.Errorf("the parking queue is %v", q)
		}
		// A quorum queue of RabbitMQ 4 would drop a message that is looked at often. A classic queue takes no limit.
		if _, limited := q.Arguments["x-delivery-limit"]; limited != (queueType == delay.Quorum) {
			t.Errorf("the parking queue has a delivery limit: %t", limited)
		}
		if _, expires := q.Arguments["x-message-ttl"]; expires {
			t.Errorf("what is parked expires: %v", q)
		}
	}
}

// Whatever the configuration, a key leads to the delivery exchange by exactly one way, after exactly its delay. The way
// has one queue for every digit that is not zero.
func TestEveryDelayArrivesOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := delaytest.AnyConfig().Draw(t, "config")
		r := deployed(t, c)
		most := r.steps()
		steps := []int64{0, 1, most / 2, most/2 + 1, most - 1, most}
		for range 20 {
			steps = append(steps, rapid.Int64Range(0, most).Draw(t, "steps"))
		}
		destination := delaytest.AnyAddress(c.Levels).Draw(t, "destination")
		for _, each := range steps {
			r.arrives(t, max(each, 0), destination)
		}
	})
}

func TestEveryDelayArrivesOnceExhaustively(t *testing.T) {
	for base, most := range map[int]int{2: 12, 3: 6, 5: 4, 9: 3, 10: 3} {
		for levels := 1; levels <= most; levels++ {
			for lookahead := range levels {
				for _, strict := range []bool{false, true} {
					everyDelayArrivesOnce(t, delay.Config{Name: "t", Base: base, Levels: levels,
						Lookahead:  lookahead + 1,
						StrictKeys: strict, CreateDeliveryExchange: true})
				}
			}
		}
	}
}

func everyDelayArrivesOnce(t *testing.T, c delay.Config) {
	r := deployed(t, c)
	for steps := range r.steps() + 1 {
		r.arrives(t, steps, "a.b")
	}
}

// A change of lookahead or of strict keys adds bindings before it removes others: all together
// they still lead to each queue once.
func TestEveryDelayArrivesOnceWithAllBindings(t *testing.T) {
	for base, levels := range map[int]int{2: 8, 9: 2, 10: 3} {
		everyDelayArrivesOnceWithAllBindings(t, base, levels)
	}
}

func everyDelayArrivesOnceWithAllBindings(t *testing.T, base, levels int) {
	c := delay.Config{Name: "t", Base: base, Levels: levels, CreateDeliveryExchange: true}
	together := topology.New()
	for lookahead := 1; lookahead <= levels; lookahead++ {
		for _, strict := range []bool{false, true} {
			c.Lookahead, c.StrictKeys = lookahead, strict
			expanded := delaytest.Expand(t, c)
			maps.Copy(together.Exchanges, expanded.Exchanges)
			maps.Copy(together.Queues, expanded.Queues)
			maps.Copy(together.Bindings, expanded.Bindings)
			together.Entry, together.Delivery = expanded.Entry, expanded.Delivery
		}
	}
	r := deploy(delaytest.Resolve(t, c), together)
	for steps := range r.steps() + 1 {
		r.arrives(t, steps, "a.b")
	}
}

// With strict keys and parking, every malformed key ends in the parking queue. One that is too short or begins with
// another digit does so at the entry.
func TestMalformedKeysAreParked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := delaytest.AnyConfig().Filter(func(c delay.Config) bool { return c.StrictKeys && c.ParkUnroutable }).Draw(t,
			"config")
		r := deployed(t, c)
		most := func(word int) int { return r.Scale().LargestNumber(c.Levels - 1 - word) }
		digits := make([]string, c.Levels)
		for word := range digits {
			digits[word] = strconv.Itoa(rapid.IntRange(0, most(word)).Draw(t, "digit"))
		}
		at := rapid.IntRange(0, c.Levels-1).Draw(t, "at")
		wrong := rapid.SampledFrom([]string{"", strconv.Itoa(most(at) + 1), "a", "A", "00", "x", "*", "#",
			"é"}).Draw(t, "wrong")
		withWrong := append(append(append([]string{}, digits[:at]...), wrong), digits[at+1:]...)
		for _, key := range []string{
			"",
			strings.Join(digits[:at], "."),
			strings.Join(append(append([]string{}, digits[:at]...), "destination"), "."),
			strings.Join(digits, "."),
		} {
			r.parked(t, key, true)
		}
		r.parked(t, strings.Join(append(withWrong, "destination"), "."), at == 0)
		r.parked(t, strings.Join(append(withWrong, "a", "b"), "."), at == 0)
	})
}

// A topic pattern cannot tell an empty word from another one. So a key whose destination is empty
// goes its way, and nothing takes it at the delivery exchange.
func TestEmptyDestinationIsParkedAtTheEnd(t *testing.T) {
	expanded := delaytest.Expand(t, delay.Config{Name: "t", Levels: 3, CreateDeliveryExchange: true,
		StrictKeys: true, InternalLevels: true, ParkUnroutable: true})
	arrivals := topologytest.NewRouter(expanded).Follow(expanded.Entry, "1.0.1.")
	want := []topologytest.Arrival{{Queue: "t.unroutable", Path: []string{"t.delay-02", "t.delay-00"},
		Delay: 5 * time.Second}}
	if !reflect.DeepEqual(arrivals, want) {
		t.Errorf("it went %v, want %v", arrivals, want)
	}
}

// Without strict keys, a short key waits for as long as its digits say before nothing takes it.
func TestLaxEntryTakesShortKeys(t *testing.T) {
	r := deployed(t, delay.Config{Name: "t", Levels: 4, CreateDeliveryExchange: true, ParkUnroutable: true})
	arrivals := r.Follow(r.entry, "1.destination")
	want := []topologytest.Arrival{{Queue: "t.unroutable", Path: []string{"t.delay-03"}, Delay: 8 * time.Second}}
	if !reflect.DeepEqual(arrivals, want) {
		t.Errorf("it went %v, want %v", arrivals, want)
	}
}

// running is a cascade with an application's queue behind it.
type running struct {
	*topologytest.Router
	delay.Cascade
	entry string
}

const application = "the application's queue"

func deployed(t delaytest.Tester, config delay.Config) running {
	t.Helper()
	c := delaytest.Resolve(t, config)
	return deploy(c, c.Expand())
}

// deploy binds the application's queue to the delivery exchange for everything that comes there.
func deploy(c delay.Cascade, expanded topology.Topology) running {
	if _, own := expanded.Exchanges[expanded.Delivery]; !own {
		expanded.Exchanges[expanded.Delivery] = topology.Exchange{Name: expanded.Delivery, Type: "topic", Durable: true}
	}
	expanded.Queues[application] = topology.Queue{Name: application, Durable: true}
	expanded.Bindings.Add(topology.Binding{
		Source: expanded.Delivery, RoutingKey: "#", DestinationType: topology.ToQueue, Destination: application,
	})
	return running{topologytest.NewRouter(expanded), c, expanded.Entry}
}

// steps are the largest number of steps that a delay can have.
func (r running) steps() int64 { return int64(r.Scale().Longest / r.Scale().Resolution()) }

func (r running) arrives(t delaytest.Tester, steps int64, destination string) {
	t.Helper()
	s := r.Scale()
	wait := time.Duration(steps) * s.Resolution()
	key, err := s.RoutingKey(wait, destination)
	if err != nil {
		t.Fatal(err)
	}
	arrivals := r.Follow(r.entry, key)
	waits := 0
	left := wait
	for _, unit := range s.Units {
		if left >= unit {
			waits++
		}
		left %= unit
	}
	if len(arrivals) != 1 || arrivals[0].Queue != application ||
		arrivals[0].Delay != wait || len(arrivals[0].Path) != waits {
		t.Fatalf("key %q went %s", key, fmt.Sprint(arrivals))
	}
}

func (r running) parked(t delaytest.Tester, key string, atOnce bool) {
	t.Helper()
	arrivals := r.Follow(r.entry, key)
	if len(arrivals) != 1 || arrivals[0].Queue != r.Expand().Parking() || atOnce && len(arrivals[0].Path) > 0 {
		t.Fatalf("key %q went %s", key, fmt.Sprint(arrivals))
	}
}

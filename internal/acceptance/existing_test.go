package acceptance

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/tfversion"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/sampling"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// writes counts the requests that could change something on their way to the broker.
type writes struct {
	*brokertest.Broker
	count atomic.Int64
}

func countWrites(t testing.TB, b *brokertest.Broker) *writes {
	t.Helper()
	w := &writes{}
	through := *b
	through.Endpoint = harness.NewGateway(t, b, nil, func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet {
			w.count.Add(1)
		}
		return false
	}).URL
	w.Broker = &through
	return w
}

// existing is a vhost with a part of a cascade in it that Terraform does not know of.
type existing struct {
	*harness.Vhost
	*writes
	desired topology.Topology
	given   harness.Attributes
}

func newExisting(t *testing.T, queueType delay.QueueType) *existing {
	t.Helper()
	v := harness.NewVhost(t)
	return &existing{
		Vhost:  v,
		writes: countWrites(t, v.Broker),
		desired: harness.Expand(t, delay.Config{
			Name: "a b/ü", Vhost: v.Name, Levels: 3, QueueType: queueType, CreateDeliveryExchange: true,
			StrictKeys: true, ParkUnroutable: true,
		}),
		given: harness.Attributes{"name": "a b/ü", "vhost": v.Name, "levels": 3, "queue_type": string(queueType)},
	}
}

// refuses checks that an apply without adopt writes nothing and names everything that exists.
func (e *existing) refuses(t *testing.T, adopt bool, says ...string) (text string) {
	t.Helper()
	before, count := e.Objects(), e.count.Load()
	p := harness.NewProtocol(t, e.writes.Broker, nil)
	text = harness.ErrorText(p.Apply(t.Context(),
		p.Plan(t.Context(), e.given.With(harness.Attributes{"adopt": adopt}))))
	harness.MustSay(t, "the error", text, says...)
	for name, have := range before.Exchanges {
		want, named := e.desired.Exchanges[name]
		if shared := name == e.desired.Delivery && have.Equal(want); shared {
			continue
		}
		if named && !strings.Contains(text, fmt.Sprintf("exchange %q", name)) {
			t.Errorf("the error does not name exchange %q: %s", name, text)
		}
	}
	for name := range before.Queues {
		if _, named := e.desired.Queues[name]; named && !strings.Contains(text, fmt.Sprintf("queue %q", name)) {
			t.Errorf("the error does not name queue %q: %s", name, text)
		}
	}
	if n := e.count.Load() - count; n != 0 {
		t.Errorf("%d requests to write", n)
	}
	e.MustHold(before)
	if !p.State.IsNull() {
		t.Errorf("there is a state: %s", p.State)
	}
	return text
}

// adopts takes over what exists, completes it and destroys it in the end.
func (e *existing) adopts(t *testing.T) {
	t.Helper()
	e.settles(t, harness.NewProtocol(t, e.writes.Broker, nil), e.given.With(harness.Attributes{"adopt": true}))
}

// imports runs the import command of an error, and one apply.
func (e *existing) imports(t *testing.T, command string) {
	t.Helper()
	id := importCommand.FindStringSubmatch(command)
	if id == nil {
		t.Fatalf("no import command: %s", command)
	}
	p := harness.NewProtocol(t, e.writes.Broker, nil)
	harness.NoErrors(t, p.ImportState(t.Context(), id[1]))
	todo := p.Plan(t.Context(), e.given)
	if todo.Replace {
		t.Fatal("after the import the plan is a replacement")
	}
	e.settles(t, p, e.given)
}

// The block in an error imports what it says, whatever the names, with the configuration that was refused.
func TestAccImportAsErrorsSay(t *testing.T) {
	t.Parallel()
	const name = `a "b" ${c}'/%{d`
	v := harness.NewVhostNamed(t, brokertest.Shared(t), "import "+name)
	for _, is := range []struct {
		typeName    string
		given, more harness.Attributes
		text        string // more, in Terraform's language
	}{
		{harness.CascadeType, harness.Attributes{"name": name}, harness.Attributes{"levels": 2}, "levels = 2"},
		{harness.LadderType, harness.Attributes{"name": name}, harness.Attributes{"delays": harness.TextList("5s",
			"30s")}, `delays = ["5s", "30s"]`},
	} {
		given := is.given.With(harness.Attributes{"vhost": v.Name})
		all := given.With(is.more)
		harness.NewProtocolOf(t, is.typeName, v.Broker, nil).MustApply(all)
		again := harness.NewProtocolOf(t, is.typeName, v.Broker, nil)
		text := harness.ErrorText(again.Apply(t.Context(), again.Plan(t.Context(), all)))
		block, command := importBlock.FindStringSubmatch(text), importCommand.FindStringSubmatch(text)
		if block == nil || command == nil || block[1] != is.typeName || block[2] != command[1] {
			t.Fatalf("it does not show both ways to import the %s: %s", is.typeName, text)
		}
		resource.Test(t, resource.TestCase{
			TerraformVersionChecks:   []tfversion.TerraformVersionCheck{tfversion.SkipBelow(tfversion.Version1_5_0)},
			ProtoV6ProviderFactories: harness.Providers,
			Steps: []resource.TestStep{{
				Config: harness.RequiredProviders + harness.WithProvider(v.Broker,
					"resource %q \"t\" {\n%s  %s\n}\n\n%s\n", is.typeName, arguments(t, given), is.text,
					strings.ReplaceAll(block[0], "<name in your configuration>", "t")),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{imports(is.typeName +
					".t")}},
			}},
		})
	}
}

var importBlock = regexp.MustCompile(`import \{\s+to = (\S+)\.<name in your configuration>\s+id = "([^"]+)"\s+\}`)

var importCommand = regexp.MustCompile(`terraform import .*'([^']+)'`)

func (e *existing) settles(t *testing.T, p *harness.Protocol, given harness.Attributes) {
	t.Helper()
	p.MustApply(given)
	p.MustBeSettled(given)
	e.MustExport(e.desired)
	p.MustApply(nil)
	e.MustHold(topology.New())
}

// Everything exists, exactly as it should, or a random part of it.
func TestAdopt(t *testing.T) {
	t.Parallel()
	for _, queueType := range []delay.QueueType{delay.Quorum, delay.Classic} {
		t.Run(string(queueType), func(t *testing.T) {
			t.Parallel()
			e := newExisting(t, queueType)
			steps := plan.Repair(e.desired, topology.New()).Steps()
			random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // to be repeatable
			for round := range 6 {
				t.Run(fmt.Sprint(round), func(t *testing.T) {
					adoptOrRefuse(t, e, steps, round, random)
				})
			}
		})
	}
}

// adoptOrRefuse applies with and without adopt.
func adoptOrRefuse(t *testing.T, e *existing, steps []plan.Step, round int, random *rand.Rand) {
	e.Vhost.T = t
	there := topology.New()
	for _, step := range steps {
		if round > 0 && random.IntN(2) == 0 {
			continue
		}
		switch s := step.(type) {
		case plan.DeclareExchange:
			there.Exchanges[s.Exchange.Name] = s.Exchange
		case plan.DeclareQueue:
			there.Queues[s.Queue.Name] = s.Queue
		case plan.Bind:
			_, from := there.Exchanges[s.Binding.Source]
			_, exchange := there.Exchanges[s.Binding.Destination]
			_, queue := there.Queues[s.Binding.Destination]
			if !from || s.Binding.DestinationType == topology.ToExchange && !exchange ||
				s.Binding.DestinationType == topology.ToQueue && !queue {
				continue
			}
		}
		e.Do(step)
	}
	if delete(there.Exchanges, e.desired.Delivery); !there.IsEmpty() { // two may have the same delivery exchange
		e.refuses(t, false, "adopt = true")
	}
	e.adopts(t)
}

// Some of it differs: the error has both values of each argument that does, and adopt does not help.
func TestConflicts(t *testing.T) {
	t.Parallel()
	for _, queueType := range []delay.QueueType{delay.Quorum, delay.Classic} {
		t.Run(string(queueType), func(t *testing.T) {
			t.Parallel()
			e := newExisting(t, queueType)
			exchange := e.desired.Exchanges["a b/ü.delay-01"]
			exchange.Type, exchange.Durable, exchange.Internal = "direct", false, true
			exchange.Arguments = topology.Arguments{"alternate-exchange": "5"}
			short := e.desired.Queues["a b/ü.delay-02"]
			short.Arguments = maps.Clone(short.Arguments)
			short.Arguments["x-message-ttl"] = int64(134217728000)
			delete(short.Arguments, "x-dead-letter-exchange")
			delete(short.Arguments, "x-dead-letter-strategy")
			short.Arguments["x-max-length"] = int64(7)
			stream := topology.Queue{Name: "a b/ü.delay-00", Durable: true,
				Arguments: topology.Arguments{"x-queue-type": "stream"}}
			e.Do(plan.DeclareExchange{Exchange: e.desired.Exchanges["a b/ü.delivery"]},
				plan.DeclareExchange{Exchange: exchange},
				plan.DeclareQueue{Queue: short}, plan.DeclareQueue{Queue: stream},
				plan.DeclareQueue{Queue: e.desired.Queues["a b/ü.unroutable"]})
			says := []string{
				`exchange "a b/ü.delay-01": type is direct, not topic; durable is false, not true; internal is ` +
					`true, not false; alternate-exchange is "5", not a b/ü.unroutable`,
				`x-dead-letter-exchange is absent, not a b/ü.delay-01`, `x-message-ttl is 134217728000, not 4000`,
				`x-max-length is 7, not absent`,
				fmt.Sprintf(`queue "a b/ü.delay-00": type is stream, not %s`, queueType),
			}
			e.refuses(t, false, says...)
			e.refuses(t, true, says...)

			// A complete cascade of which one queue differs is imported and brought into line.
			e = newExisting(t, queueType)
			wrong := e.desired.Queues["a b/ü.delay-01"]
			wrong.Arguments = maps.Clone(wrong.Arguments)
			wrong.Arguments["x-expires"] = int64(3_600_000)
			for _, step := range plan.Repair(e.desired, topology.New()).Steps() {
				if declared, ok := step.(plan.DeclareQueue); ok && declared.Queue.Name == wrong.Name {
					step = plan.DeclareQueue{Queue: wrong}
				}
				e.Do(step)
			}
			e.imports(t, e.refuses(t, true, `queue "a b/ü.delay-01": x-expires is 3600000, not absent`))
		})
	}
}

// A create is killed after any of its steps. Then nothing is in the state. The next apply names the existing objects
// and the ways out, and each of them works. Adopt works always, and an import when enough is there to recognize it.
func TestKilledCreate(t *testing.T) {
	t.Parallel()
	var points atomic.Int64
	t.Run("types", func(t *testing.T) {
		for _, queueType := range []delay.QueueType{delay.Quorum, delay.Classic} {
			t.Run(string(queueType), func(t *testing.T) {
				t.Parallel()
				e := newExisting(t, queueType)
				steps := plan.Create(e.desired, topology.New(), "mark").Steps()
				points.Add(int64(len(steps)))
				for _, last := range sampling.Of(t, "kills of a create", upTo(len(steps))) {
					made := last + 1
					t.Run(fmt.Sprint(made), func(t *testing.T) {
						e.Vhost.T = t
						e.Do(steps[:made]...)
						text := e.refuses(t, false, "adopt = true")
						e.adopts(t)
						if strings.Contains(text, "terraform import") {
							e.Do(steps[:made]...)
							e.imports(t, text)
						} else if made == len(steps) {
							t.Errorf("no import is offered of a complete cascade: %s", text)
						}
					})
				}
			})
		}
	})
	if !narrowed() {
		figure(t, "killed_creates", int(points.Load()))
	}
}

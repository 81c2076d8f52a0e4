package acceptance

import (
	"maps"
	"strings"
	"testing"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize/recognizetest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// The definitions files of applications are imported as they are. Nothing changes, or the import says why it refuses.
// Objects that are damaged are made anew, or refused.
func TestImportHeldOut(t *testing.T) {
	t.Parallel()
	for name, test := range recognizetest.HeldOuts {
		t.Run(name, func(t *testing.T) {
			a := recognizetest.Application{Topology: topology.New()}
			test.Declare(a)
			v := harness.NewVhost(t)
			v.Define(a.Topology)
			healthy := v.Objects()
			for _, entry := range test.Entries {
				mustImportHeldOut(v, entry, false, test.Refused)
			}
			v.MustHold(healthy)

			test.Damage(a)
			v = harness.NewVhostNamed(t, v.Broker, "damaged for "+t.Name())
			v.Define(a.Topology)
			for _, entry := range test.Entries {
				mustImportHeldOut(v, entry, len(test.Repairs) > 0, test.RefusedDamaged)
			}
			// RabbitMQ removes what others have bound with the exchange.
			maps.DeleteFunc(healthy.Bindings, func(b topology.Binding, _ struct{}) bool {
				_, isThere := a.Exchanges[b.Source]
				return !isThere
			})
			after := v.Objects()
			if whole := healthy.SameObjects(after) && maps.Equal(healthy.Bindings, after.Bindings); !whole &&
				len(test.Repairs) > 0 {
				t.Errorf("the repair has left %v", harness.Inventory(after))
			}
		})
	}
}

// mustImportHeldOut imports a cascade or a ladder with the configuration that Terraform generates, and repairs it. Or
// it makes sure that neither is imported, with these words.
func mustImportHeldOut(v *harness.Vhost, entry string, damaged bool, refused string) {
	v.T.Helper()
	ctx, said := v.T.Context(), ""
	for _, typeName := range []string{harness.CascadeType, harness.LadderType} {
		p := harness.NewProtocolOf(v.T, typeName, v.Broker, nil)
		diagnostics := p.ImportState(ctx, harness.ImportID(v.Name, entry))
		if harness.HasErrors(diagnostics) {
			said += harness.ErrorText(diagnostics)
			continue
		}
		if refused != "" {
			v.T.Fatalf("%s is imported, want %q", entry, refused)
		}
		configuration := p.Generated(ctx, p.State)
		todo := p.Plan(ctx, configuration)
		harness.NoErrors(v.T, todo.Diagnostics)
		if todo.Replace || todo.IsEmpty(p.State) == damaged {
			differences, err := p.State.Diff(todo.State)
			v.T.Fatalf("after the import of %s, the plan replaces: %t, or differs: %v %v", entry, todo.Replace,
				differences, err)
		}
		harness.NoErrors(v.T, p.Apply(ctx, todo))
		p.MustBeSettled(configuration)
		return
	}
	if refused == "" || !strings.Contains(said, refused) {
		v.T.Errorf("the import of %s says %q, want %q", entry, said, refused)
	}
}

// Retry queues without an entry, or with another one than a ladder has, are not imported. The error says why.
func TestImportOfNoLadder(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	v.DeclareExchange("e", "topic")
	v.DeclareExchange("orders", "direct")
	v.DeclareQueue("orders.retry.5s", map[string]any{"x-message-ttl": 5000, "x-dead-letter-exchange": "orders",
		"x-dead-letter-routing-key": "orders"})
	v.Bind("orders", "retry.5s", "queue", "orders.retry.5s")
	v.Bind("amq.direct", "retry.5s", "queue", "orders.retry.5s")
	v.DeclareQueue("e.5s", map[string]any{"x-dead-letter-exchange": "orders"})
	v.Bind("e", "retry.5s", "queue", "e.5s")
	v.Policy("ttl", 0, rabbithole.PolicyDefinition{"message-ttl": 5000})("^e")
	for entry, want := range map[string]string{
		"amq.default":     "it is the default exchange, which is no entry",
		"orders.retry.5s": "there is no such exchange, but a queue of that name",
		"orders":          `its delay queues, such as queue "orders.retry.5s", lead back to it`,
		"amq.direct":      "it is one of RabbitMQ's own exchanges",
		"amq.fanout":      "it is a fanout exchange", // as a cascade
		"e":               `queue "e.5s" has its TTL by the policy "ttl"`,
	} {
		mustImportHeldOut(v, entry, false, want)
	}
}

// An exchange in front of a cascade is not its entry, and the error has the import of the entry. An application's own
// alternate exchange on the delivery exchange stays.
func TestImportBehindAnotherExchange(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	there := harness.Expand(t, delay.Config{Vhost: v.Name, Name: "tasks", Levels: 3, CreateDeliveryExchange: true})
	for kind, key := range map[string]string{"fanout": "", "topic": "#"} {
		there.Exchanges[kind] = topology.Exchange{Name: kind, Type: kind, Durable: true}
		there.Bindings.Add(topology.Binding{Source: kind, RoutingKey: key, DestinationType: topology.ToExchange,
			Destination: there.Entry})
	}
	end := there.Exchanges[there.Delivery]
	end.Arguments = topology.Arguments{"alternate-exchange": "fanout"}
	there.Exchanges[end.Name] = end
	v.Define(there)
	before := v.Objects()
	for _, front := range []string{"fanout", "topic"} {
		mustImportHeldOut(v, front, false,
			`; the entry of the cascade there is exchange "tasks.delay-02". Import that:`)
	}
	mustImportHeldOut(v, there.Entry, false, "")
	v.MustHold(before)
}

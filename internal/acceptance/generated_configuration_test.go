package acceptance

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// importable are configurations of what an import has to read. No two of a vhost have an object in common.
var importable = []struct {
	resource string
	given    harness.Attributes
	// alters are attributes that an import does not read, as the same objects come from other values.
	alters []string
}{
	{harness.CascadeType, harness.Attributes{"name": "tasks", "levels": 5}, nil},
	{harness.CascadeType, harness.Attributes{"name": "by delay", "base": 2, "max_delay": "1m"}, nil},
	{harness.CascadeType, harness.Attributes{"name": "usual", "max_delay": "12s"}, nil},
	{harness.CascadeType, harness.Attributes{"name": "far", "units": harness.TextList("1d", "1h"), "max_delay": "40d",
		"lookahead": 1, "queue_type": "classic"}, nil},
	{harness.CascadeType, harness.Attributes{"name": "ten", "units": harness.TextList("1h", "10m", "1m"),
		"max_delay": "150m", "exchange_name": "%%%s ten", "queue_name": "ten %s", "queue_type": "classic"}, nil},
	{harness.CascadeType, harness.Attributes{"name": "single unit", "units": harness.TextList("100ms"),
		"max_delay": "500ms", "strict_keys": false, "park_unroutable": false}, nil},
	{harness.CascadeType, harness.Attributes{
		"name": "fine", "base": 2, "max_delay": "3000ms", "resolution": "0.1s", "lookahead": 2, "strict_keys": false,
		"internal_levels": false, "park_unroutable": false,
	}, nil},
	{harness.CascadeType, harness.Attributes{"name": "old", "levels": 2, "resolution": "1h", "queue_type": "classic"},
		nil},
	{harness.CascadeType, harness.Attributes{"name": "100%", "levels": 2, "max_length": 5}, nil},
	{harness.CascadeType, harness.Attributes{"name": "spread", "levels": 2, "queue_leader_locator": "balanced",
		"quorum_initial_group_size": 1}, nil},
	{harness.CascadeType, harness.Attributes{"name": "bare", "levels": 2, "queue_arguments": harness.Arguments(nil)},
		nil},
	{harness.CascadeType, harness.Attributes{"name": "weak", "levels": 2, "max_length": 5,
		"queue_arguments": harness.Arguments(map[string]any{"x-overflow": "drop-head", "x-expires": 86_400_000,
			"x-delivery-limit": 5, "x-note": "true", "x-flag": true})}, nil},
	{harness.CascadeType, harness.Attributes{"name": "lazy", "levels": 2, "queue_type": "classic",
		"queue_arguments": harness.Arguments(map[string]any{"x-queue-mode": "lazy", "x-max-length": 1000})}, nil},
	{harness.CascadeType, harness.Attributes{"name": "blanks", "levels": 3, "exchange_name": "b%5d",
		"queue_name": "%3db"}, nil},
	{harness.CascadeType, harness.Attributes{"name": "more blanks", "levels": 12, "exchange_name": "m%5d",
		"queue_name": "%3dm"}, nil},
	{harness.CascadeType, harness.Attributes{"name": "zeros", "levels": 2, "exchange_name": "z-%05d",
		"queue_name": "z0%02d"}, nil},
	{harness.CascadeType, harness.Attributes{"name": "more zeros", "levels": 11, "exchange_name": "y-%05d",
		"queue_name": "y0%02d"}, nil},
	{harness.CascadeType, harness.Attributes{"name": "one", "levels": 1, "exchange_name": "007-%d",
		"queue_name": "o%d-7"}, nil},
	{harness.CascadeType, harness.Attributes{"name": `quo"te\`, "levels": 2, "exchange_name": "${a}%d",
		"queue_name": "%%%d"}, nil},
	{harness.CascadeType, harness.Attributes{"name": "%{if}${x}", "levels": 1}, nil},
	{harness.CascadeType, harness.Attributes{"name": "decimal", "base": 10, "levels": 2}, nil},
	{harness.CascadeType, harness.Attributes{"name": "third", "base": 3, "levels": 1, "queue_name": "%02d-%d",
		"lookahead": 1}, nil},
	{harness.CascadeType, harness.Attributes{
		"levels": 2, "exchange_name": "wait %d/%%", "queue_name": "q%d", "delivery_exchange": "amq.topic",
		"create_delivery_exchange": false, "park_unroutable": false,
	}, nil},
	{harness.CascadeType, harness.Attributes{"preset": "nservicebus", "park_unroutable": true}, nil},
	{harness.CascadeType, harness.Attributes{"preset": "nservicebus_v1"}, nil},
	{harness.CascadeType, harness.Attributes{"preset": "celery"}, []string{"preset"}},
	{harness.CascadeType, harness.Attributes{"preset": "celery_classic"}, nil}, // in another vhost
	{harness.LadderType, harness.Attributes{"name": "retry", "delays": harness.TextList("5s", "1m", "60m", "1h30m")},
		nil},
	{harness.LadderType, harness.Attributes{"name": "lazy retry", "delays": harness.TextList("5s", "1m"),
		"queue_type": "classic", "queue_arguments": harness.Arguments(map[string]any{"x-queue-mode": "lazy"})}, nil},
	{harness.LadderType, harness.Attributes{"name": "single", "delays": harness.TextList("1s"),
		"queue_name": "wait-1s"},
		nil},
	{harness.LadderType, harness.Attributes{"name": "twice", "delays": harness.TextList("2s"), "queue_name": "2s-2s"},
		nil},
	{harness.LadderType, harness.Attributes{"name": "plain", "delays": harness.TextList("1000ms"),
		"queue_name": "100%% later"}, nil},
	{harness.LadderType, harness.Attributes{"name": "verb", "delays": harness.TextList("1s", "11s"),
		"queue_name": "%s-in-1s"}, nil},
	{harness.LadderType, harness.Attributes{
		"entry_exchange": "in", "delays": harness.TextList("1s"), "queue_name": "l-%s",
		"delivery_exchange":        "amq.fanout",
		"create_delivery_exchange": false, "dead_letter_routing_key": "k", "park_unroutable": false,
		"queue_type": "classic",
	}, nil},
	{harness.LadderType, harness.Attributes{
		"entry_exchange": "upload", "entry_exchange_type": "direct", "delays": harness.TextList("7s", "1m10s"),
		"binding_keys":      stringMap(map[string]string{"7s": "retry.1", "1m10s": "retry.2"}),
		"queue_names":       stringMap(map[string]string{"7s": "upload-1", "1m10s": "upload-2"}),
		"delivery_exchange": "amq.direct", "create_delivery_exchange": false, "dead_letter_routing_key": "k",
		"park_unroutable": false,
	}, nil},
	{harness.DestinationType, harness.Attributes{"delivery_exchange": "tasks.delivery", "levels": 5,
		"address": "eu.orders", "queue": "orders"}, nil},
	{harness.DestinationType, harness.Attributes{"delivery_exchange": "tasks.delivery", "match": "suffix",
		"address": "orders", "exchange": "amq.topic"}, nil},
}

// importBlockOf declares the configured binding, and checks that its import and the configuration plan to nothing.
func importBlockOf(t *testing.T, v *harness.Vhost, i int) string {
	t.Helper()
	is := importable[i]
	given := is.given.With(harness.Attributes{"vhost": v.Name})
	p := harness.NewProtocolOf(t, is.resource, v.Broker, nil)
	p.MustApply(given)
	state := harness.Fields(t, p.State)
	text := func(name string) string {
		var text *string
		if err := state[name].As(&text); err != nil {
			t.Fatal(err)
		}
		if text == nil {
			return ""
		}
		return *text
	}
	id := ""
	if is.resource == harness.DestinationType {
		b := topology.Binding{
			Source: text("delivery_exchange"), RoutingKey: text("routing_key"),
			DestinationType: topology.ToQueue, Destination: text("queue"),
		}
		if exchange := text("exchange"); exchange != "" {
			b.DestinationType, b.Destination = topology.ToExchange, exchange
		}
		id = harness.DestinationID(v.Name, b)
	} else {
		id = harness.ImportID(v.Name, text("entry_exchange"))
	}
	q := harness.NewProtocolOf(t, is.resource, v.Broker, nil)
	harness.NoErrors(t, q.ImportState(t.Context(), id))
	todo := q.Plan(t.Context(), given)
	harness.NoErrors(t, todo.Diagnostics)
	differences, err := q.State.Diff(todo.State)
	if err != nil {
		t.Fatal(err)
	}
	for _, difference := range differences {
		at := difference.Path.String()
		if at != "" && !slices.ContainsFunc(is.alters, func(name string) bool {
			return strings.Contains(at, `"`+name+
				`"`)
		}) {
			t.Errorf("after the import of %v there is a difference: %s", given, difference)
		}
	}
	return fmt.Sprintf("\nimport {\n  to = %s.r%d\n  id = %s\n}\n", is.resource, i, harness.Quote(id))
}

// What terraform plan -generate-config-out writes for an import is a configuration with which there is nothing to do,
// whatever names, presets and types there are. Where something is damaged, there is only that to repair.
func TestAccGeneratedConfiguration(t *testing.T) {
	t.Parallel()
	if os.Getenv("TF_ACC") == "" {
		t.Skip("runs Terraform: set TF_ACC")
	}
	for name, damage := range map[string]func(*harness.Vhost){
		"healthy": nil,
		"damaged": func(v *harness.Vhost) {
			v.Do(plan.DeleteQueue{Queue: topology.Queue{Name: "tasks.delay-02"}},
				plan.DeleteExchange{Name: "by delay.delay-03"}, plan.DeleteExchange{Name: "by delay.delivery"},
				plan.DeleteExchange{Name: "fine.delay-04"},
				plan.DeleteQueue{Queue: topology.Queue{Name: "decimal.delay-01-9"}},
				plan.DeleteQueue{Queue: topology.Queue{Name: "usual.7s"}}, plan.DeleteExchange{Name: "usual.m.s"},
				plan.DeleteQueue{Queue: topology.Queue{Name: "far.7d"}}, plan.DeleteExchange{Name: "far.d.h"},
				plan.DeleteQueue{Queue: topology.Queue{Name: "ten 1h30m"}},
				plan.DeleteQueue{Queue: topology.Queue{Name: "  1b"}},
				plan.DeleteExchange{Name: "m   10"}, plan.DeleteExchange{Name: "y-00003"},
				plan.DeleteExchange{Name: "nsb.delay-level-20"},
				plan.DeleteQueue{Queue: topology.Queue{Name: "celery_delayed_3"}},
				plan.DeleteQueue{Queue: topology.Queue{Name: "retry.delay-5s"}},
				plan.DeleteExchange{Name: "verb.unroutable"})
			v.Bind("tasks.delay-04", "1.#", "queue", "orders")
		},
	} {
		t.Run(name, func(t *testing.T) {
			generateConfiguration(t, damage)
		})
	}
}

// generateConfiguration lets Terraform write the configuration of what it imports, and plans it.
func generateConfiguration(t *testing.T, damage func(*harness.Vhost)) {
	t.Parallel()
	v, other := harness.NewVhost(t), harness.NewVhost(t)
	v.DeclareQueue("orders", nil)
	configuration := harness.RequiredProviders
	for i, is := range importable {
		in := v
		if is.given["preset"] == "celery_classic" {
			in = other
		}
		configuration += importBlockOf(t, in, i)
	}
	if damage != nil {
		damage(v)
	}
	tf := harness.NewCommandLine(t, "", configuration, nil)
	tf.Environ = slices.DeleteFunc(tf.Environ, func(variable string) bool {
		return strings.HasPrefix(variable, "TF_LOG")
	})
	tf.Environ = append(tf.Environ, v.Broker.Environ()...)
	tf.Needs("1.5.0")
	for _, arguments := range [][]string{{"plan", "-generate-config-out=generated.tf"}, {"plan"}} {
		out, err := tf.Run(arguments...)
		if err != nil {
			t.Fatalf("%q: %v\n%s", arguments, err, out)
		}
		if want := fmt.Sprintf("%d to import, 0 to add, 0 to change, 0 to destroy",
			len(importable)); damage == nil && !strings.Contains(out, want) {
			t.Fatalf("%q does not say %q:\n%s", arguments, want, out)
		}
		if damage != nil {
			onlyObjectsChange(t, out)
		}
	}
	for _, arguments := range [][]string{{"apply", "-auto-approve"}, {"plan", "-detailed-exitcode"}} {
		if out, err := tf.Run(arguments...); err != nil {
			t.Fatalf("%q: %v\n%s", arguments, err, out)
		}
	}
}

// onlyObjectsChange checks that no attribute that a configuration gives is changed in the plan, and that something is.
func onlyObjectsChange(t *testing.T, todo string) {
	t.Helper()
	changed := 0
	for line := range strings.Lines(todo) {
		name, _, ok := strings.Cut(line, " = ")
		fields := strings.Fields(name)
		if !ok || len(fields) != 2 || !slices.Contains([]string{"~", "+", "-"}, fields[0]) ||
			!strings.HasPrefix(line, "      ") {
			continue
		}
		changed++
		for _, typeName := range []string{harness.CascadeType, harness.LadderType, harness.DestinationType} {
			if slices.Contains(optional(t, typeName), fields[1]) {
				t.Errorf("the plan changes what is configured: %s", line)
			}
		}
	}
	if changed == 0 || strings.Contains(todo, "must be replaced") {
		t.Errorf("%d attributes change:\n%s", changed, todo)
	}
}

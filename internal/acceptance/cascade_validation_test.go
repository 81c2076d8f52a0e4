package acceptance

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
)

// What RabbitMQ would refuse, or silently do otherwise, is one error on the attribute that is to blame,
// before anything is planned.
var invalid = map[string]struct {
	configuration    harness.Attributes
	attribute, error string
}{
	"no levels": {harness.Attributes{"name": "t", "base": 10}, "levels", "levels is missing; give it or max_delay"},
	"no level": {harness.Attributes{"name": "t", "levels": 0}, "levels", "levels is 0; it has to be " +
		"1 or more"},
	"fewer levels than none": {harness.Attributes{"name": "t", "levels": -1}, "levels", "levels is -1; it has to be " +
		"1 or more"},
	"over the TTL ceiling": {harness.Attributes{"name": "t", "levels": 30}, "levels",
		"levels is 30; at a resolution of " + "1s it can be 1 to 29: RabbitMQ accepts no TTL over"},
	"more levels than any": {harness.Attributes{"name": "t", "levels": 40, "resolution": "1ms"}, "levels",
		"levels is 40"},
	"levels and max_delay": {harness.Attributes{"name": "t", "levels": 5, "max_delay": "32s"}, "levels",
		"levels is 5, but the max_delay beside it, 32s, takes 6"},
	"a delay that is too long": {harness.Attributes{"name": "t", "max_delay": "200000h"}, "max_delay",
		"max_delay is 8333d8h; give at most 3650d (ten years), the longest TTL that RabbitMQ accepts"},
	"a delay that is too long in base 2": {harness.Attributes{"name": "t", "max_delay": "200000h", "base": 2},
		"max_delay", "a coarser resolution reaches further"},
	"a unit that is no multiple": {harness.Attributes{"name": "t", "units": harness.TextList("1h", "7m")}, "units",
		"units have 1h before 7m; each unit has to be a multiple of the next"},
	"a unit below the finest": {harness.Attributes{"name": "t", "units": harness.TextList("1s", "100us")}, "units",
		"units have 100µs; RabbitMQ counts TTL in whole milliseconds, so give 1ms or a multiple of it"},
	"units out of order": {harness.Attributes{"name": "t", "units": harness.TextList("1s", "1m")}, "units",
		"units have 1m behind 1s; give the largest first"},
	"a unit twice": {harness.Attributes{"name": "t", "units": harness.TextList("1m", "60s")}, "units",
		"units have 1m twice; give each unit once"},
	"no unit": {harness.Attributes{"name": "t", "units": harness.TextList()}, "units",
		"units is empty; give it a value"},
	"a unit that is none": {harness.Attributes{"name": "t", "units": harness.TextList("day")}, "units",
		`units have "day"; write each as a number and its unit, w, d, h, m, s or ms`},
	"a unit of eleven years": {harness.Attributes{"name": "t", "units": harness.TextList("4000d", "1d")}, "units",
		"units have 4000d; give at most 3650d (ten years), the longest TTL that RabbitMQ accepts"},
	"a reach below the last unit": {harness.Attributes{"name": "t", "max_delay": "1s",
		"units": harness.TextList("1h", "1m")}, "max_delay",
		"max_delay is 1s; give at least 1m, the smallest of the units"},
	"a resolution beside units": {harness.Attributes{"name": "t", "resolution": "1m",
		"units": harness.TextList("1m", "1s")}, "resolution",
		"resolution is 1m beside the units 1m, 1s, the last of which it is; leave one of the two out"},
	"a base beside units": {harness.Attributes{"name": "t", "base": 10, "units": harness.TextList("1m", "1s")}, "base",
		"base is 10 beside the units 1m, 1s; leave one of the two out"},
	"levels beside units": {harness.Attributes{"name": "t", "levels": 3, "units": harness.TextList("1m", "1s")},
		"levels", "levels is 3 beside the units 1m, 1s; leave one of the two out"},
	"a resolution alone": {harness.Attributes{"name": "t", "resolution": "100ms"}, "resolution",
		"resolution is given without levels or base; give one of them, or units, the last of which is the resolution"},
	"more queues than there can be": {harness.Attributes{"name": "t", "units": harness.TextList("1h", "1s")}, "units",
		"units take 4319 delay queues up to a max_delay of 30d, 3599 of them for multiples of 1s; there can be 1024. " +
			"The units 1h, 1m, 1s take 838. Or give a shorter max_delay"},
	"a level in the names of units": {harness.Attributes{"name": "t", "exchange_name": "x%d",
		"max_delay": "1h", "units": harness.TextList("1m", "1s")}, "exchange_name", "exactly one %s"},
	"a digit in the names of units": {harness.Attributes{"name": "t", "queue_name": "q%d-%x"}, "queue_name",
		`queue_name is "q%d-%x", which has to have exactly one %s`},
	"a level of units like the delivery exchange": {harness.Attributes{"name": "t", "queue_name": "t.%s",
		"delivery_exchange": "t.h.m.s"}, "delivery_exchange", "all names have to differ"},
	"a long name of units": {harness.Attributes{"name": strings.Repeat("n", 246)}, "name", "RabbitMQ allows 255"},
	"a negative delay": {harness.Attributes{"name": "t", "max_delay": "-1s"}, "max_delay", "max_delay is -1s; it " +
		"has to be positive"},
	"no delay": {harness.Attributes{"name": "t", "max_delay": "0s"}, "max_delay", "max_delay is 0s; it has " +
		"to be positive"},
	"half a level": {harness.Attributes{"name": "t", "levels": 4.5}, "levels", "levels is 4.5; it has to be a " +
		"whole number"},
	"levels without end": {harness.Attributes{"name": "t", "levels": 1e30}, "levels", "levels is 1e+30; a number of " +
		"this size cannot be used"},
	"an unknown preset": {harness.Attributes{"preset": "celry"}, "preset", `preset is "celry"; it can be "celery" or ` +
		`"celery_classic" or "nservicebus" or "nservicebus_v1"`},
	"half a duration": {harness.Attributes{"name": "t", "levels": 4, "drain_timeout": "10"}, "drain_timeout",
		`drain_timeout is "10"; write a number and its unit, w, d, h, m, s or ms, such as "7d"`},
	"no duration": {harness.Attributes{"name": "t", "max_delay": "36 hours"}, "max_delay",
		`max_delay is "36 hours"; write a number and its unit`},
	"years": {harness.Attributes{"name": "t", "max_delay": "2y"}, "max_delay", `max_delay is "2y"; write ` +
		`a number and its unit`},
	"a resolution of nothing": {harness.Attributes{"name": "t", "levels": 4, "resolution": "0s"}, "resolution",
		"resolution is 0s; it has to be positive"},
	"too fine a resolution": {harness.Attributes{"name": "t", "levels": 4, "resolution": "100us"}, "resolution",
		"whole milliseconds"},
	"a crooked resolution": {harness.Attributes{"name": "t", "levels": 4, "resolution": "1500us"}, "resolution",
		"whole milliseconds"},
	"too coarse a resolution": {harness.Attributes{"name": "t", "levels": 1, "resolution": "90000h"}, "resolution",
		"longest TTL"},
	"no name": {harness.Attributes{"levels": 4}, "name", "name is missing; give it, or else exchange_name " +
		"and queue_name and delivery_exchange and park_unroutable = false"},
	"an empty name":  {harness.Attributes{"name": "", "levels": 4}, "name", "name is empty"},
	"an empty vhost": {harness.Attributes{"name": "t", "levels": 4, "vhost": ""}, "vhost", "vhost is empty"},
	"no name for parking": {harness.Attributes{"levels": 4, "exchange_name": "x%d", "queue_name": "q%d",
		"delivery_exchange": "d"}, "name", "park_unroutable = false"},
	"a format without a verb": {harness.Attributes{"name": "t", "levels": 4, "exchange_name": "x"}, "exchange_name",
		"has 0 integer verbs"},
	"a format with two verbs": {harness.Attributes{"name": "t", "levels": 4, "queue_name": "%d.%02d"}, "queue_name",
		"has 2 integer verbs"},
	"a format with a text verb": {harness.Attributes{"name": "t", "levels": 4, "queue_name": "%s.%d"}, "queue_name",
		"percent sign that begins no %d"},
	"a format that ends early": {harness.Attributes{"name": "t", "levels": 4, "queue_name": "%d%"}, "queue_name",
		"percent sign"},
	"a long name": {harness.Attributes{"name": strings.Repeat("n", 250), "levels": 4}, "name",
		"RabbitMQ allows 255"},
	"a long vhost": {harness.Attributes{"name": strings.Repeat("n", 200), "vhost": strings.Repeat("v", 100),
		"levels": 4}, "name", "inside RabbitMQ"},
	"a long delivery exchange": {harness.Attributes{"name": "t", "levels": 4,
		"delivery_exchange": strings.Repeat("d", 256)}, "delivery_exchange", "256 bytes"},
	"a reserved name": {harness.Attributes{"name": "amq.t", "levels": 4}, "name", "RabbitMQ reserves"},
	"a control character": {harness.Attributes{"name": "t\n", "levels": 4}, "name",
		"control character. RabbitMQ drops " +
			"some of them, and the object would have another name. Use a name without"},
	"one name for two": {harness.Attributes{"name": "t", "levels": 4, "delivery_exchange": "t.delay-02"},
		"delivery_exchange", "all names have to differ"},
	"an unknown queue type": {harness.Attributes{"name": "t", "levels": 4, "queue_type": "stream"}, "queue_type",
		`queue_type is "stream"; it can be "quorum" or "classic"`},
	"max_length with classic": {harness.Attributes{"name": "t", "levels": 4, "queue_type": "classic", "max_length": 5},
		"max_length", "loses messages that are dead-lettered into it"},
	"a leader locator with classic": {harness.Attributes{"name": "t", "levels": 4, "queue_type": "classic",
		"queue_leader_locator": "balanced"}, "queue_leader_locator", "only quorum queues have it"},
	"a group size with classic": {harness.Attributes{"name": "t", "levels": 4, "queue_type": "classic",
		"quorum_initial_group_size": 3}, "quorum_initial_group_size", "only quorum queues have it"},
	"a leader locator with a preset": {harness.Attributes{"preset": "celery", "queue_leader_locator": "balanced"},
		"queue_leader_locator", `the queues of preset "celery" have none; leave queue_leader_locator out`},
	"the default exchange": {harness.Attributes{"name": "t", "levels": 4, "delivery_exchange": "amq.default"},
		"delivery_exchange", `is "amq.default", the default exchange, which takes no bindings; leave it out`},
	"the default exchange, by its empty name": {harness.Attributes{"name": "t", "levels": 4, "delivery_exchange": ""},
		"delivery_exchange", `is "", the default exchange, which takes no bindings; leave it out`},
	"an argument with an attribute of its own": {harness.Attributes{"name": "t", "levels": 4,
		"queue_arguments": harness.Arguments(map[string]any{"x-max-length": 5})}, "queue_arguments",
		`queue_arguments has "x-max-length"; give max_length in its place`},
	"an argument of classic queues": {harness.Attributes{"name": "t", "levels": 4,
		"queue_arguments": harness.Arguments(map[string]any{"x-queue-mode": "lazy"})}, "queue_arguments",
		`has "x-queue-mode", which only classic queues have; leave it out`},
	"a number as a text": {harness.Attributes{"name": "t", "levels": 4,
		"queue_arguments": harness.Arguments(map[string]any{"x-expires": "60000"})}, "queue_arguments",
		`has "x-expires" = "60000"; it has to be a whole number`},
	"arguments that are a text": {harness.Attributes{"name": "t", "levels": 4, "queue_arguments": tftypes.NewValue(
		tftypes.String, "lazy")}, "queue_arguments", "queue_arguments is no object; write one such as"},
	"arguments with a preset": {harness.Attributes{"preset": "celery", "queue_arguments": harness.Arguments(nil)},
		"queue_arguments", "queue_arguments is given, and preset \"celery\" has"},
	"a max_length of nothing": {harness.Attributes{"name": "t", "levels": 4, "max_length": 0}, "max_length",
		"max_length is 0; it has to be 1 or more"},
	"too far a lookahead": {harness.Attributes{"name": "t", "levels": 4, "lookahead": 5}, "lookahead",
		"lookahead is 5; with 4 levels it can be 1 (the classic chain) to 4"},
	"no lookahead": {harness.Attributes{"name": "t", "levels": 4, "lookahead": 0}, "lookahead",
		"lookahead is 0; it has to be 1 or more"},
	"internal levels of a preset": {
		harness.Attributes{"preset": "celery", "internal_levels": true}, "internal_levels", `preset "celery" has false`,
	},
	"an impossible drain": {harness.Attributes{"name": "t", "levels": 4, "drain_timeout": "-1m"}, "drain_timeout",
		"it has to be positive"},
	"no drain": {harness.Attributes{"name": "t", "levels": 4, "drain_timeout": "soon"}, "drain_timeout",
		`drain_timeout is "soon"; write a number and its unit`},
	"a vhost of dots": {harness.Attributes{"name": "t", "vhost": "..", "levels": 4}, "vhost", "management API"},
	"an exchange of dots": {harness.Attributes{"name": "t", "delivery_exchange": "..", "levels": 4},
		"delivery_exchange", "management API"},
	"base 0":  {harness.Attributes{"name": "t", "levels": 4, "base": 0}, "base", "base is 0; it can be 2 to 10"},
	"base 1":  {harness.Attributes{"name": "t", "levels": 4, "base": 1}, "base", "base is 1; it can be 2 to 10"},
	"base 11": {harness.Attributes{"name": "t", "levels": 4, "base": 11}, "base", "base is 11; it can be 2 to 10"},
	"half a base": {harness.Attributes{"name": "t", "levels": 4, "base": 2.5}, "base",
		"base is 2.5; it has to be a whole " + "number"},
	"negative base": {harness.Attributes{"name": "t", "levels": 4, "base": -10}, "base",
		"base is -10; it can be 2 to 10"},
	"base 10 of a preset": {harness.Attributes{"preset": "celery", "base": 10}, "base",
		"base is 10; presets are base 2, leave base out"},
	"no verb of the digit": {harness.Attributes{"name": "t", "levels": 4, "base": 10, "queue_name": "q%d"},
		"queue_name",
		`queue_name is "q%d", which has 1 integer verbs. In base 10 write exactly two: first %d or %02d for the ` +
			"level, then %x or %d for the digit"},
	"three verbs": {harness.Attributes{"name": "t", "levels": 4, "base": 10, "queue_name": "q%d-%x-%x"}, "queue_name",
		"has 3 integer verbs. In base 10 write exactly two"},
	"the digit before the level": {harness.Attributes{"name": "t", "levels": 4, "base": 8, "queue_name": "q%x-%d"},
		"queue_name", "has %x in the place of the level. Write the level first, as %d or %02d, then the digit, as " +
			"%x or %d"},
	"a verb of the digit that is none": {harness.Attributes{"name": "t", "levels": 4, "base": 10,
		"queue_name": "q%d-%s"}, "queue_name", "percent sign that begins no %d or %x"},
	"a digit in base 2": {harness.Attributes{"name": "t", "levels": 4, "queue_name": "q%d-%x"}, "queue_name",
		"percent sign that begins no %d"},
	"a digit in exchange names": {harness.Attributes{"name": "t", "levels": 4, "base": 10, "exchange_name": "x%d-%d"},
		"exchange_name", "has 2 integer verbs. Write exactly one"},
	"a delay queue like that of parking": {harness.Attributes{"name": "t01", "levels": 2, "base": 3,
		"queue_name": "t%d%x.unroutable"}, "queue_name", `gives the name "t01.unroutable" to a second queue; all ` +
		`names have to differ`},
	"over the TTL ceiling in base 10": {harness.Attributes{"name": "t", "levels": 9, "base": 10}, "levels",
		"levels is 9; at " +
			"a resolution of 1s in base 10 it can be 1 to 8: RabbitMQ accepts no TTL over 3650d (ten years)"},
	"over the TTL ceiling in base 8": {harness.Attributes{"name": "t", "levels": 10, "base": 8}, "levels",
		"levels is 10; at " + "a resolution of 1s in base 8 it can be 1 to 9"},
	"too coarse a resolution in base 9": {harness.Attributes{"name": "t", "levels": 1, "base": 9,
		"resolution": "11000h"}, "resolution",
		"resolution is 458d8h; in base 9 give at most 456d6h: the highest digit waits 8 times as long"},
	"a delay that is too long in base 10": {harness.Attributes{"name": "t", "max_delay": "200000h", "base": 10},
		"max_delay", "a coarser resolution reaches further"},
	"levels and max_delay in base 10": {harness.Attributes{"name": "t", "levels": 5, "base": 10, "max_delay": "1h"},
		"levels", "levels is 5, but the max_delay beside it, 1h, takes 4"},
	"too far a lookahead in base 10": {harness.Attributes{"name": "t", "levels": 4, "base": 10, "lookahead": 5},
		"lookahead", "lookahead is 5; with 4 levels it can be 1"},
	"a long queue name in base 10": {harness.Attributes{"name": "t", "levels": 4, "base": 10,
		"queue_name": strings.Repeat("n", 250) + "%02d-%x"}, "queue_name", "With the vhost it has 258 bytes inside"},
}

func TestValidation(t *testing.T) {
	for name, is := range invalid {
		t.Run(name, func(t *testing.T) {
			p := harness.NewServer(t)
			plan := p.Plan(t.Context(), is.configuration)
			if len(plan.Diagnostics) != 1 || plan.Diagnostics[0].Severity != tfprotov6.DiagnosticSeverityError {
				t.Fatalf("not one error: %s%s", harness.ErrorText(plan.Diagnostics),
					harness.WarningText(plan.Diagnostics))
			}
			d := plan.Diagnostics[0]
			if want := `AttributeName("` + is.attribute + `")`; d.Attribute.String() != want {
				t.Errorf("the error is on %s, want %s", d.Attribute, want)
			}
			if !strings.Contains(d.Detail, is.error) {
				t.Errorf("the error does not say %q: %s", is.error, d.Detail)
			}
			t.Log(harness.ErrorText(plan.Diagnostics))
		})
	}
}

// A destroy or a rebuild whose time is over before the cascade may have run empty could never do what it is to.
func TestDrainFitsIntoTimeouts(t *testing.T) {
	for _, operation := range []string{"delete", "update"} {
		for timeout, fits := range map[string]bool{"5m": false, "10m": false, "11m": true} {
			p := harness.NewServer(t)
			typ, ok := p.Resource.AttributeTypes["timeouts"].(tftypes.Object)
			if !ok {
				t.Fatalf("timeouts are of type %s", p.Resource.AttributeTypes["timeouts"])
			}
			timeouts := harness.NewObject(t, typ, harness.Attributes{operation: timeout})
			plan := p.Plan(t.Context(), harness.Attributes{"name": "t", "levels": 4, "drain_timeout": "10m",
				"timeouts": timeouts})
			want := "does not fit into timeouts." + operation
			if got := harness.ErrorText(plan.Diagnostics); (got == "") != fits || !fits &&
				!strings.Contains(got, want) {
				t.Errorf("with timeouts.%s = %s: %q", operation, timeout, got)
			}
		}
	}
}

// Terraform reports them at the plan, without a broker.
func TestAccValidation(t *testing.T) {
	for name, is := range invalid {
		t.Run(name, func(t *testing.T) {
			resource.ParallelTest(t, resource.TestCase{
				ProtoV6ProviderFactories: harness.Providers,
				Steps: []resource.TestStep{{
					Config: "provider \"rabbitmqdelay\" {\n  endpoint = \"http://127.0.0.1:1\"\n}\n\nresource " +
						"\"rabbitmqdelay_cascade\" \"t\" {\n" + arguments(t, is.configuration) + "}\n",
					PlanOnly:    true,
					ExpectError: harness.Saying(is.error),
				}},
			})
		})
	}
}

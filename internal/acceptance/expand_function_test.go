package acceptance

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// expand gives what the resource plans, from the same attributes.
func TestExpandFunction(t *testing.T) {
	c := newCaller(t)
	for name, test := range map[string]struct {
		given attributes
		want  cascade.Config
		vhost string
	}{
		"defaults": {
			attributes{"name": "t", "levels": 4, "adopt": true, "lookahead": nil},
			cascade.Config{Name: "t", Levels: 4, CreateDeliveryExchange: true,
				StrictKeys: true, InternalLevels: true, ParkUnroutable: true}, "/",
		},
		"all given": {
			attributes{
				"vhost": "v", "max_delay": "1h", "resolution": "100ms", "exchange_name": "x%d", "queue_name": "q%d",
				"delivery_exchange": "d", "create_delivery_exchange": false,
				"queue_type": "classic", "lookahead": 1, "strict_keys": false, "internal_levels": false,
				"park_unroutable": false,
			},
			cascade.Config{
				Vhost: "v", MaxDelay: time.Hour, Resolution: 100 * time.Millisecond, ExchangeName: "x%d",
				QueueName: "q%d", DeliveryExchange: "d", QueueType: cascade.Classic, Lookahead: 1,
			}, "v",
		},
		"the largest": {
			attributes{"name": "t", "levels": 39, "resolution": "1ms", "max_length": 5},
			cascade.Config{Name: "t", Levels: 39, Resolution: time.Millisecond,
				QuorumOptions:          cascade.QuorumOptions{MaxLength: 5},
				CreateDeliveryExchange: true,
				StrictKeys:             true, InternalLevels: true, ParkUnroutable: true}, "/",
		},
		"base 10": {
			attributes{"name": "t", "max_delay": "1h", "base": 10, "lookahead": 2},
			cascade.Config{Name: "t", Levels: 4, Base: 10, Lookahead: 2, CreateDeliveryExchange: true,
				StrictKeys: true, InternalLevels: true, ParkUnroutable: true}, "/",
		},
		"base 16 with names": {
			attributes{"name": "t", "levels": 2, "base": 16, "queue_name": "q%02d.%d", "queue_type": "classic"},
			cascade.Config{Name: "t", Levels: 2, Base: 16, QueueName: "q%02d.%d", QueueType: cascade.Classic,
				CreateDeliveryExchange: true, StrictKeys: true, InternalLevels: true, ParkUnroutable: true}, "/",
		},
		"a resource": {
			attributes{"name": "t", "levels": 4, "max_delay": "15s", "entry_exchange": "t.delay-03",
				"queues": objectOf(attributes{})},
			cascade.Config{Name: "t", Levels: 4, CreateDeliveryExchange: true,
				StrictKeys: true, InternalLevels: true, ParkUnroutable: true}, "/",
		},
	} {
		got := c.mustCall(t, "expand", objectOf(test.given))
		text, err := json.Marshal(expand(t, test.want).Definitions(test.vhost))
		if err != nil {
			t.Fatal(err)
		}
		var want any
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

// A broker loads what jsonencode makes of expand, by its API and by rabbitmqctl. The resource with the same attributes
// then imports it without a change, or adopts it, which writes nothing.
func TestAccExpandIsWhatABrokerLoads(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]struct {
		given attributes
		want  cascade.Config
		entry string
		load  func(t *testing.T, v *vhost, definitions string)
		adopt bool
	}{
		"defaults by the API, imported": {
			attributes{"name": "t", "levels": 4},
			cascade.Config{Name: "t", Levels: 4, CreateDeliveryExchange: true,
				StrictKeys: true, InternalLevels: true, ParkUnroutable: true},
			"t.delay-03", loadByAPI, false,
		},
		"classic by the API, adopted": {
			attributes{"name": "ü \"1\"", "max_delay": "10s", "resolution": "100ms", "queue_type": "classic",
				"lookahead": 2},
			cascade.Config{
				Name: "ü \"1\"", Levels: 7, Resolution: 100 * time.Millisecond, QueueType: cascade.Classic,
				Lookahead:              2,
				CreateDeliveryExchange: true, StrictKeys: true, InternalLevels: true, ParkUnroutable: true,
			},
			"", loadByAPI, true,
		},
		"base 10 by the API, imported": {
			attributes{"name": "t", "levels": 3, "base": 10, "lookahead": 2},
			cascade.Config{Name: "t", Levels: 3, Base: 10, Lookahead: 2, CreateDeliveryExchange: true,
				StrictKeys: true, InternalLevels: true, ParkUnroutable: true},
			"t.delay-02", loadByAPI, false,
		},
		"base 3 by the API, adopted": {
			attributes{"name": "t", "levels": 3, "base": 3, "queue_name": "q%02d.%d", "queue_type": "classic"},
			cascade.Config{Name: "t", Levels: 3, Base: 3, QueueName: "q%02d.%d", QueueType: cascade.Classic,
				CreateDeliveryExchange: true, StrictKeys: true, InternalLevels: true, ParkUnroutable: true},
			"", loadByAPI, true,
		},
		"the longest by rabbitmqctl, imported": {
			attributes{"name": "t", "levels": 29, "max_length": 1000, "lookahead": 1},
			cascade.Config{Name: "t", Levels: 29, QuorumOptions: cascade.QuorumOptions{MaxLength: 1000},
				Lookahead: 1, CreateDeliveryExchange: true,
				StrictKeys: true, InternalLevels: true, ParkUnroutable: true},
			"t.delay-28", loadByCtl, false,
		},
		"own names by rabbitmqctl, adopted": {
			attributes{"levels": 3, "exchange_name": "x.%d", "queue_name": "q.%d", "delivery_exchange": "d",
				"park_unroutable": false, "strict_keys": false},
			cascade.Config{Levels: 3, ExchangeName: "x.%d", QueueName: "q.%d", DeliveryExchange: "d",
				CreateDeliveryExchange: true, InternalLevels: true},
			"", loadByCtl, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVhost(t)
			given := fmt.Sprintf("  vhost = %q\n%s", v.name, arguments(of.given))
			declaration := on(v.broker, "resource \"rabbitmqdelay_cascade\" \"t\" {\n%s  adopt = %t\n}\n", given,
				of.adopt)
			if !of.adopt {
				declaration += fmt.Sprintf("import {\n  to = rabbitmqdelay_cascade.t\n  id = %q\n}\n",
					importID(v.name, of.entry))
			}
			check := resource.ConfigPlanChecks{PostApplyPostRefresh: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}}
			if !of.adopt {
				check.PreApply = []plancheck.PlanCheck{imports("rabbitmqdelay_cascade.t")}
			}
			var definitions string
			var loaded topology.Topology
			resource.Test(t, resource.TestCase{
				TerraformVersionChecks:   functionsSince,
				ProtoV6ProviderFactories: factories,
				Steps: []resource.TestStep{
					{
						Config: requiring + "output \"definitions\" {\n  value = " +
							"jsonencode(provider::rabbitmqdelay::expand({\n" + given + "}))\n}\n",
						ConfigStateChecks: []statecheck.StateCheck{statecheck.ExpectKnownOutputValue("definitions",
							knownvalue.StringFunc(func(text string) error {
								definitions = text
								return nil
							}))},
					},
					{
						PreConfig: func() {
							of.load(t, v, definitions)
							loaded = v.objects()
							v.compare(expand(t, of.want), loaded)
						},
						Config:           requiring + declaration,
						ConfigPlanChecks: check,
						Check:            func(*terraform.State) error { v.mustHold(loaded); return nil },
					},
				},
			})
		})
	}
}

func loadByAPI(_ *testing.T, v *vhost, definitions string) {
	v.request(http.MethodPost, []byte(definitions), "definitions")
}

func loadByCtl(t *testing.T, v *vhost, definitions string) {
	t.Helper()
	ctl := func(arguments ...string) []byte {
		out, err := v.broker.CLI(t.Context(), "rabbitmqctl", arguments...)
		if errors.Is(err, brokertest.ErrUnsupported) {
			t.Skip("rabbitmqctl: the broker was not started by the tests")
		}
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	// To where the broker is.
	file := "/tmp/" + url.PathEscape(v.name) + ".json"
	ctl("eval", fmt.Sprintf("ok = file:write_file(%q, base64:decode(%q)).", file,
		base64.StdEncoding.EncodeToString([]byte(definitions))))
	defer ctl("eval", fmt.Sprintf("ok = file:delete(%q).", file))
	ctl("import_definitions", file)
}

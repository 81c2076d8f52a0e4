package acceptance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// What fails over AMQP, and not over the management API, says what it was, where, and what to do. The words of the
// broker differ between its versions.
func TestAccErrorsOverAMQP(t *testing.T) {
	t.Parallel()
	const sending, limited = `Could not send a message through exchange "t.delay-02" in vhost %[1]q: `,
		" Close or delete unneeded objects, or raise the limit: rabbitmqctl set_vhost_limits -p <vhost>, rabbitmqctl " +
			"set_user_limits <user>, or the broker's configuration."
	for name, is := range map[string]struct {
		// change makes something wrong, and returns what the probe is to go by.
		change func(v *harness.Vhost) (b brokertest.Broker, entry string)
		// says are parts of the one error, with the vhost and the user.
		says []string
	}{
		"a message that does not come back": {
			func(v *harness.Vhost) (brokertest.Broker, string) {
				v.Do(plan.DeleteQueue{Queue: topology.Queue{Name: "t.delay-00"}})
				return *v.Broker, "t.delay-02"
			},
			[]string{
				"RabbitMQ: message has not arrived",
				`Could not receive the message that was sent through exchange "t.delay-02" in vhost %[1]q: the ` +
					"broker took it, and it has not arrived after 2 s. Terraform plan shows missing and damaged " +
					"objects. The message itself is late, lost, or parked as unroutable, with the type " +
					"rabbitmqdelay.probe.",
			},
		},
		"a level in the middle": {
			func(v *harness.Vhost) (brokertest.Broker, string) { return *v.Broker, "t.delay-01" },
			[]string{"Not the entry of a cascade", `Could not probe exchange "t.delay-01" in vhost %[1]q: the keys ` +
				`of its bindings skip 1 word, so it is a level in the middle of a cascade; the entry of the ` +
				`cascade there is exchange "t.delay-02". Give that.`},
		},
		"a wrong password in the URI": {
			func(v *harness.Vhost) (brokertest.Broker, string) {
				b := *v.Broker
				b.AMQPURI = "amqp://guest:not-the-password@" + hostAndPort(b.AMQPURI)
				return b, "t.delay-02"
			},
			[]string{
				"RabbitMQ: authentication failed",
				sending + "open an AMQP connection to ", `as user "guest": Exception (403) Reason: "ACCESS_REFUSED - ` +
					"Login was refused using authentication mechanism PLAIN. For details see the broker logfile.\". " +
					"The AMQP URI (amqp_uri or RABBITMQ_AMQP_URI) has a user and a " +
					"password of its own. " +
					"Correct them there. Or leave them out: then AMQP takes username and password, too.",
			},
		},
		"a vhost without connections": {
			func(v *harness.Vhost) (brokertest.Broker, string) {
				v.Request("PUT", []byte(`{"value":0}`), "vhost-limits", v.Name, "max-connections")
				return v.User("management", &everything), "t.delay-02"
			},
			[]string{"RabbitMQ: limit reached", `NOT_ALLOWED - access to vhost '%[1]s' refused for user '%[2]s': ` +
				`connection limit (0) is reached".` + limited},
		},
		"a vhost without queues": {
			func(v *harness.Vhost) (brokertest.Broker, string) {
				v.Request("PUT", []byte(`{"value":0}`), "vhost-limits", v.Name, "max-queues")
				return v.User("management", &everything), "t.delay-02"
			},
			[]string{"RabbitMQ: limit reached", sending + `PRECONDITION_FAILED - cannot declare queue 'amq.gen-`,
				`queue limit in vhost '%[1]s' (0) is reached.` + limited},
		},
		"a user without connections": {
			func(v *harness.Vhost) (brokertest.Broker, string) {
				b := v.User("management", &everything)
				v.Request("PUT", []byte(`{"value":0}`), "user-limits", b.Username, "max-connections")
				return b, "t.delay-02"
			},
			[]string{"RabbitMQ: limit reached", `NOT_ALLOWED - connection refused for user '%[2]s': user connection ` +
				`limit (0) is reached".` + limited},
		},
		"a user without channels": {
			func(v *harness.Vhost) (brokertest.Broker, string) {
				b := v.User("management", &everything)
				v.Request("PUT", []byte(`{"value":0}`), "user-limits", b.Username, "max-channels")
				return b, "t.delay-02"
			},
			[]string{"RabbitMQ: limit reached", sending + "NOT_ALLOWED - number of channels opened for user '",
				"' has reached the maximum allowed user limit of ", limited},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := harness.NewVhost(t)
			own := harness.Expand(t, delay.Config{Name: "t", Vhost: v.Name, Levels: 3, CreateDeliveryExchange: true,
				StrictKeys: true, ParkUnroutable: true})
			v.Do(plan.Repair(own, topology.New()).Steps()...)
			b, entry := is.change(v)
			var steps []resource.TestStep
			for _, says := range is.says {
				steps = append(steps, resource.TestStep{
					Config: harness.WithProvider(&b,
						"data \"rabbitmqdelay_probe\" \"t\" {\n  vhost = %s\n  entry_exchange = %q\n "+
							" delay = \"1s\"\n  tolerance = \"1s\"\n}\n", harness.Quote(v.Name), entry),
					ExpectError: harness.Saying(strings.NewReplacer("%[1]q", fmt.Sprintf("%q", v.Name), "%[1]s", v.Name,
						"%[2]s", b.Username).Replace(says)),
				})
			}
			resource.Test(t, resource.TestCase{ProtoV6ProviderFactories: harness.Providers, Steps: steps})
		})
	}
}

// A declaration over a limit says so as well.
func TestQueueLimit(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	v.Request("PUT", []byte(`{"value":0}`), "vhost-limits", v.Name, "max-queues")
	p := harness.NewProtocol(t, v.Broker, nil)
	mustFail(t, "create", []string{
		"RabbitMQ: limit reached", `declare queue "t.`, "queue limit in vhost '" + v.Name + "' (0) is reached",
		"raise the limit: rabbitmqctl set_vhost_limits",
	}, func() []*tfprotov6.Diagnostic {
		return p.Apply(t.Context(), p.Plan(t.Context(), harness.Attributes{"vhost": v.Name, "name": "t", "levels": 4}))
	})
	v.MustHold(topology.New())
}

// A destroy that may open no connection or channel goes by the counts of the management API. It is refused where the
// address for AMQP is given.
func TestDestroyAtALimit(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]func(v *harness.Vhost, user string){
		"connections of the vhost": func(v *harness.Vhost, _ string) {
			v.Request("PUT", []byte(`{"value":0}`), "vhost-limits", v.Name, "max-connections")
		},
		"connections of the user": func(v *harness.Vhost, user string) {
			v.Request("PUT", []byte(`{"value":0}`), "user-limits", user, "max-connections")
		},
		"channels of the user": func(v *harness.Vhost, user string) {
			v.Request("PUT", []byte(`{"value":0}`), "user-limits", user, "max-channels")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := harness.NewVhost(t)
			b := v.User("management", &everything)
			p := harness.NewProtocol(t, &b, nil)
			p.MustApply(harness.Attributes{"vhost": v.Name, "name": "t", "levels": 3})
			limit(v, b.Username)
			before := v.Objects()
			text := harness.ErrorText(p.Apply(t.Context(), p.Plan(t.Context(), nil)))
			harness.MustSay(t, "the destroy", text, "RabbitMQ: limit reached", "The address is given, by amqp_uri or "+
				"RABBITMQ_AMQP_URI")
			v.MustHold(before)
			p = p.With(harness.WithDerivedAMQP(t, &b), nil)
			if text := harness.ErrorText(p.Apply(t.Context(), p.Plan(t.Context(), nil))); text != "" {
				t.Errorf("got %s", text)
			}
		})
	}
}

// A time that has passed before anything begins is an error in the plan, for every resource.
func TestTimeoutsOfNothing(t *testing.T) {
	for typeName, configuration := range map[string]harness.Attributes{
		harness.CascadeType:     {"name": "t", "levels": 4},
		harness.LadderType:      {"name": "t", "delays": harness.TextList("1s")},
		harness.DestinationType: {"delivery_exchange": "t.delivery", "levels": 4, "address": "o", "queue": "q"},
	} {
		for _, operation := range []string{"create", "read", "update", "delete"} {
			for given, says := range map[string]string{
				"0s":  `is "0s"; it has to be positive, such as "90s"; leave it out for the default.`,
				"-1s": `is "-1s"; it has to be positive`,
				"soon": `is "soon"; write a number and its unit, w, d, h, m, s or ms, such as "7d", "1h30m" or ` +
					`"500ms".`,
			} {
				p := harness.NewServerOf(t, typeName)
				typ, ok := p.Resource.AttributeTypes["timeouts"].(tftypes.Object)
				if !ok {
					t.Fatalf("timeouts are of type %s", p.Resource.AttributeTypes["timeouts"])
				}
				diagnostics := p.Plan(t.Context(),
					configuration.With(harness.Attributes{"timeouts": harness.NewObject(t, typ,
						harness.Attributes{operation: given})})).Diagnostics
				if text := harness.ErrorText(diagnostics); len(diagnostics) != 1 || !strings.Contains(text, "timeouts."+
					operation+" "+says) {
					t.Errorf("%s with timeouts.%s = %q: %s", typeName, operation, given, text)
				}
			}
		}
	}
}

// An import that says nothing, or not enough, gets an example of what it has to say.
func TestImportOfNothing(t *testing.T) {
	for typeName, example := range map[string]string{
		harness.CascadeType: "it has to be <vhost>/<entry exchange>, each part percent-encoded, such as " +
			"%2F/orders.d.h.m.s.",
		harness.LadderType: "it has to be <vhost>/<entry exchange>, each part percent-encoded, such as " +
			"%2F/retry.entry.",
		harness.DestinationType: "it has to be <vhost>/<delivery exchange>/queue/<queue>/<routing key>, or with " +
			"exchange in " +
			"place of queue",
	} {
		for _, id := range []string{"", "retry.entry", "/", "%2F/", "/retry.entry", "%zz/retry.entry", "a/b/c"} {
			diagnostics := harness.NewServerOf(t, typeName).ImportState(t.Context(), id)
			text := harness.ErrorText(diagnostics)
			if len(diagnostics) != 1 || !strings.Contains(text, fmt.Sprintf("the import ID is %q; %s", id, example)) {
				t.Errorf("the import of %s with ID %q: %s", typeName, id, text)
			}
		}
	}
	for _, typeName := range []string{harness.CascadeType, harness.LadderType} {
		for _, id := range [][2]string{{"", "retry.entry"}, {"/", ""}} {
			diagnostics := harness.NewServerOf(t, typeName).ImportIdentity(t.Context(), id[0], id[1])
			if text := harness.ErrorText(diagnostics); len(diagnostics) != 1 ||
				!strings.Contains(text, "vhost and entry_exchange, and neither may be empty") {
				t.Errorf("the import of %s with identity %q: %s", typeName, id, text)
			}
		}
	}
}

// A fault of the state is not shown on a line of the configuration.
func TestInvalidState(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	v.DeclareExchange("d", "topic")
	v.DeclareQueue("orders", nil)
	for name, is := range map[string]invalidState{
		"cascade": {harness.CascadeType, harness.Attributes{"name": "c", "levels": 3}, harness.Attributes{"levels": 40},
			"levels is 40; at a resolution of 1s it can be 1 to 29"},
		"cascade with units": {harness.CascadeType, harness.Attributes{"name": "u", "max_delay": "2s"},
			harness.Attributes{"units": harness.TextList("1s", "1d")}, "units have 1d behind 1s"},
		"ladder": {harness.LadderType, harness.Attributes{"name": "l", "delays": harness.TextList("1s")},
			harness.Attributes{"delays": harness.TextList("1 s")}, `delays has "1 s", which is not a duration`},
		"destination": {harness.DestinationType, harness.Attributes{"delivery_exchange": "d", "levels": 3,
			"address": "o", "queue": "orders"}, harness.Attributes{"levels": 40}, "levels is 40"},
	} {
		t.Run(name, func(t *testing.T) {
			refuseState(t, v, is)
		})
	}
}

type invalidState struct {
	typeName              string
	configuration, broken harness.Attributes
	says                  string
}

// refuseState gives the provider a state that it did not write.
func refuseState(t *testing.T, v *harness.Vhost, is invalidState) {
	p := harness.NewProtocolOf(t, is.typeName, v.Broker, nil)
	configuration := is.configuration.With(harness.Attributes{"vhost": v.Name})
	p.MustApply(configuration)
	sound := p.State
	values := harness.Fields(t, sound)
	for name, value := range is.broken {
		if already, ok := value.(tftypes.Value); ok {
			values[name] = already
		} else {
			values[name] = tftypes.NewValue(p.Resource.AttributeTypes[name], value)
		}
	}
	broken := tftypes.NewValue(p.Resource, values)
	for operation, do := range map[string]func() []*tfprotov6.Diagnostic{
		"refresh": func() []*tfprotov6.Diagnostic { return p.Refresh(t.Context()) },
		"destroy": func() []*tfprotov6.Diagnostic { return p.Apply(t.Context(), p.Plan(t.Context(), nil)) },
	} {
		p.State = broken
		diagnostics := do()
		text := harness.ErrorText(diagnostics)
		onAttribute := func(d *tfprotov6.Diagnostic) bool { return d.Attribute != nil }
		for _, says := range []string{"Invalid value in the state", is.says, "The configuration is not " +
			"to blame", "terraform state rm", "import {", "terraform import rabbitmqdelay_"} {
			if len(diagnostics) != 1 || !strings.Contains(text, says) || slices.ContainsFunc(diagnostics,
				onAttribute) {
				t.Errorf("the %s does not say %q, once and on no attribute: %s", operation, says, text)
			}
		}
	}
	p.State = sound
	p.MustBeSettled(configuration)
}

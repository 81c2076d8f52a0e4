package rabbit_test

import (
	"regexp"
	"slices"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Each permission that RabbitMQ asks for is found missing, each once. An expression that cannot be read misses nothing.
func TestLacking(t *testing.T) {
	all := topology.New()
	all.Exchanges["e"] = topology.Exchange{Name: "e", Arguments: topology.Arguments{"alternate-exchange": "other"}}
	all.Exchanges["plain"] = topology.Exchange{Name: "plain"}
	all.Queues["q"] = topology.Queue{Name: "q", Arguments: topology.Arguments{"x-dead-letter-exchange": "next"}}
	all.Bindings.Add(topology.Binding{Source: "e", DestinationType: topology.ToQueue, Destination: "q"})
	all.Bindings.Add(topology.Binding{Source: "plain", DestinationType: topology.ToExchange, Destination: "e"})
	anything, nothing := regexp.MustCompile(".*"), regexp.MustCompile("^$")
	for name, is := range map[string]struct {
		has  rabbit.Permissions
		want []string
	}{
		"all":            {rabbit.Permissions{Configure: anything, Write: anything, Read: anything}, nil},
		"cannot be read": {rabbit.Permissions{}, nil},
		"no configure": {rabbit.Permissions{Configure: nothing, Write: anything, Read: anything}, []string{
			`configure on exchange "e"`, `configure on exchange "plain"`, `configure on queue "q"`}},
		"no write": {rabbit.Permissions{Configure: anything, Write: nothing, Read: anything}, []string{
			`write on exchange "e"`, `write on exchange "next"`, `write on exchange "other"`, `write on queue "q"`}},
		"no read": {rabbit.Permissions{Configure: anything, Write: anything, Read: nothing}, []string{
			`read on exchange "e"`, `read on exchange "plain"`, `read on queue "q"`}},
		"of one name": {rabbit.Permissions{Configure: regexp.MustCompile("^(e|q)$"), Write: anything, Read: anything},
			[]string{`configure on exchange "plain"`}},
	} {
		if got := is.has.Lacking(all); !slices.Equal(got, is.want) {
			t.Errorf("%s: it lacks %q, not %q", name, got, is.want)
		}
	}
}

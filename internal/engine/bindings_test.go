package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// A destination whose time is over while another one works on its binding has none.
func TestDestinationWaitsInVain(t *testing.T) {
	client, err := rabbit.New(rabbit.Config{Endpoint: "http://127.0.0.1:1", Username: "u", Password: "p"})
	if err != nil {
		t.Fatal(err)
	}
	b := topology.Binding{Source: "d", RoutingKey: "*.a", DestinationType: topology.ToQueue, Destination: "q"}
	of := topology.Topology{Bindings: topology.NewBindings(b)}
	for name, c := range map[string]Change{"create": {After: of}, "update": {Before: of, After: of},
		"destroy": {Before: of}} {
		e := New(client)
		end, err := e.turns.Begin(t.Context(), "/", []string{topology.BindingObject(b)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		c.Kind, c.Vhost = "the destination", "/"
		result, err := e.Apply(ctx, c)
		if end(); !errors.Is(err, context.Canceled) || result.There != nil {
			t.Errorf("the %s has %v: %v", name, result.There, err)
		}
	}
}

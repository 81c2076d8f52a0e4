package recognize

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

func TestRecognizeDestinationErrors(t *testing.T) {
	for _, key := range []string{"", "orders", "*", "#", "*.", "#.", "*.*", "#.#", "#.*.orders", "*.#.orders", "*.eu.*",
		"eu.#", strings.Repeat("*.", 40) + "orders"} {
		b := topology.Binding{Source: "d", RoutingKey: key, DestinationType: topology.ToQueue, Destination: "q"}
		if d, err := Destination("/", b); err == nil || !strings.Contains(err.Error(),
			fmt.Sprintf("%q", key)) {
			t.Errorf("%q is recognized as %+v (%v)", key, d, err)
		}
	}
	b := topology.Binding{Source: "d", RoutingKey: "*.orders", DestinationType: topology.ToQueue, Destination: "q",
		Arguments: `{"x":1}`}
	if d, err := Destination("/", b); err == nil || !strings.Contains(err.Error(), `{"x":1}`) {
		t.Errorf("%+v is recognized as %+v (%v)", b, d, err)
	}
}

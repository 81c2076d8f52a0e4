package connection

import (
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Whichever comes second is told of the other one. Bindings of other queues and vhosts have nothing to do with it.
func TestHandovers(t *testing.T) {
	b := topology.Binding{Source: "d", RoutingKey: "*.a", DestinationType: topology.ToQueue, Destination: "q"}
	other := b
	other.Destination = "other"
	var releasedFirst, takenFirst Handovers
	if releasedFirst.Release("/", b) || releasedFirst.Take("/", other) || releasedFirst.Take("v", b) ||
		!releasedFirst.Take("/", b) {
		t.Error("released first")
	}
	if takenFirst.Take("/", b) || takenFirst.Release("/", other) ||
		!takenFirst.Release("/", b) {
		t.Error("taken first")
	}
	if takenFirst.Made("/", b); takenFirst.Release("/", b) {
		t.Error("made before it is released")
	}
}

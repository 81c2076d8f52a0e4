package recognize

import (
	"fmt"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Destination is the one that consists of the binding, whoever made it.
func Destination(vhost string, b topology.Binding) (delay.Destination, error) {
	d, ok := delay.ParseDestinationKey(b.RoutingKey)
	if !ok {
		return delay.Destination{}, fmt.Errorf("its key %q is neither one \"*\" for each level nor \"#\", and then "+
			"an address without either", b.RoutingKey)
	}
	if b = b.Plain(); b.Arguments != "" {
		return delay.Destination{}, fmt.Errorf("it has the arguments %s, and a destination has none", b.Arguments)
	}
	d.Vhost, d.DeliveryExchange = vhost, b.Source
	if b.DestinationType == topology.ToExchange {
		d.Exchange = b.Destination
	} else {
		d.Queue = b.Destination
	}
	if _, err := d.Binding(); err != nil {
		return delay.Destination{}, err
	}
	return d, nil
}

package deploy

import (
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/broker"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// checkDelivery makes sure of a delivery exchange that the topology does not own.
func (d *Deployment) checkDelivery(state *broker.State) error {
	anyType := d.Desired.DeliveryType == ""
	switch {
	case ownsDelivery(d.Desired):
		return nil
	case !state.DeliveryExists:
		return &DeliveryError{Exchange: d.Desired.Delivery, Missing: true, AnyType: anyType}
	case state.DeliveryExchange.Type != d.Desired.DeliveryType && !anyType:
		return &DeliveryError{Exchange: d.Desired.Delivery, Type: state.DeliveryExchange.Type}
	}
	return nil
}

// checkExisting refuses to touch what is there already, unless it is to be adopted and is exactly right.
func (d *Deployment) checkExisting(state *broker.State, adopt bool) error {
	equal, different := d.sortPresent(state)
	if len(different) > 0 || len(equal) > 0 && !adopt {
		return &ExistsError{equal, different}
	}
	return nil
}

// sortPresent lists what is there of the desired topology, exactly as it is to be or different. A delivery exchange
// that is as it is to be does not count: others may use it.
func (d *Deployment) sortPresent(state *broker.State) (equal, different []string) {
	for _, object := range topology.Existing(d.Desired, state.Topology) {
		switch {
		case len(object.Differences) > 0:
			different = append(different, object.String())
		case object.Name != topology.ExchangeObject(d.Desired.Delivery):
			equal = append(equal, object.String())
		}
	}
	return equal, different
}

// checkTakeover refuses a delivery exchange that is to become part of the topology and is not as desired.
func (d *Deployment) checkTakeover(state *broker.State) error {
	want, have := topology.New(), topology.New()
	want.Exchanges[d.Desired.Delivery] = d.Desired.Exchanges[d.Desired.Delivery]
	if state.DeliveryExists {
		have.Exchanges[d.Desired.Delivery] = state.DeliveryExchange
	}
	for _, object := range topology.Existing(want, have) {
		if len(object.Differences) > 0 {
			return &TakeoverError{object}
		}
	}
	return nil
}

package engine

import (
	"context"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
)

// destroy removes the objects, unless messages wait in them, or others have taken them over.
func (o *operation) destroy(ctx context.Context) (result Result, err error) {
	own := o.before.of(o.change.Before).own()
	result.TakenOver = o.claim.Taken(own)
	if len(result.TakenOver) == len(own) {
		return result, nil
	}
	guard := o.change.Options.Guard
	if err := o.before.remove(ctx, guard); err != nil && !rabbit.IsKind(err, rabbit.VhostNotFound) {
		return result, err
	}
	result.Users, err = o.before.deleteDelivery(ctx, guard.Force)
	if err != nil && !rabbit.IsKind(err, rabbit.VhostNotFound) {
		return result, &DeliveryLeftError{failure{err}, o.before.wanted.Delivery}
	}
	return result, nil
}

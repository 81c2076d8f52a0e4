package engine

import (
	"context"
	"errors"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
)

// destroy removes the objects, unless messages wait in them. It leaves what others own.
func (o *operation) destroy(ctx context.Context) (result Result, err error) {
	err = o.remove(ctx, o.before)
	if others, is := errors.AsType[*OwnerError](err); is {
		o.problems = append(o.problems, Problem{OthersOwn, others})
		return result, nil
	}
	if err != nil && !rabbit.IsKind(err, rabbit.VhostNotFound) {
		return result, err
	}
	result.Users, err = o.before.deleteDelivery(ctx, o.change.Options.Guard.Force)
	if err != nil && !rabbit.IsKind(err, rabbit.VhostNotFound) {
		return result, &DeliveryLeftError{failure{err}, o.before.wanted.Delivery}
	}
	return result, nil
}

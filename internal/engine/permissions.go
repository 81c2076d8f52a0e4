package engine

import (
	"context"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// previewPermissions says which permissions it takes to make all of a topology that the user has not. RabbitMQ tells
// administrators alone. Others learn it when they write.
func previewPermissions(ctx context.Context, vhost *rabbit.Vhost, t topology.Topology) (refusal, err error) {
	has, err := vhost.Permissions(ctx)
	if err != nil || has == nil {
		return nil, err
	}
	if lacks := has.Lacking(t); len(lacks) > 0 {
		return &PermissionsError{has.User, lacks}, nil
	}
	return nil, nil
}

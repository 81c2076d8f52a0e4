package broker

import (
	"context"
	"fmt"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/policy"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// policies are those of the vhost. Every user with the tag management may list them (3.10.8 to 4.3.6,
// TestPolicyAtOnce), where one policy by its name takes policymaker or administrator. A gateway may not pass the
// lists on: that is no error.
func (c *Client) policies(ctx context.Context, vhost string) (policy.Declared, error) {
	lists, err := each(ctx, []string{"policies", "operator-policies"},
		func(ctx context.Context, kind string) (policy.Policies, error) { return c.policyList(ctx, vhost, kind) })
	return policy.Declared{Users: lists[0], Operators: lists[1]}, err
}

// policyList is nil if it cannot be read.
func (c *Client) policyList(ctx context.Context, vhost, kind string) (policy.Policies, error) {
	var list []struct {
		Name       string                `json:"name"`
		Pattern    string                `json:"pattern"`
		ApplyTo    string                `json:"apply-to"`
		Priority   float64               `json:"priority"`
		Definition loose[map[string]any] `json:"definition"`
	}
	err := c.get(ctx, &list, "", kind, vhost)
	if isNotFound(err) {
		return nil, nil
	}
	if err != nil {
		if err = c.failed(fmt.Sprintf("list the %s of vhost %q", kind, vhost), err); IsKind(err, Forbidden) {
			err = nil
		}
		return nil, err
	}
	policies := make(policy.Policies, len(list))
	for i, p := range list {
		policies[i] = policy.New(p.Name, p.Pattern, p.ApplyTo, p.Priority,
			topology.NormalizeArguments(p.Definition.value))
	}
	return policies, nil
}

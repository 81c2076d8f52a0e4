package broker

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

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

// MaySet fails if the user may set no policy, which takes a tag. Where nobody tells which tags there are, RabbitMQ says
// it when the policy is set.
func (c *Client) MaySet(ctx context.Context, vhost string, p topology.Policy) error {
	var who struct {
		// Tags are a text before 3.9.
		Tags loose[[]string] `json:"tags"`
	}
	if err := c.get(c.logging(ctx), &who, "", "whoami"); err != nil || len(who.Tags.value) == 0 ||
		slices.Contains(who.Tags.value, "policymaker") || slices.Contains(who.Tags.value, "administrator") {
		return nil //nolint:nilerr // see above
	}
	return &Error{Forbidden, fmt.Sprintf("set policy %q in vhost %q", p.Name, vhost),
		fmt.Sprintf("user %q has no tag for that, but %s", c.username, strings.Join(who.Tags.value, ", ")),
		policymakerHint}
}

const policymakerHint = "the user needs the tag policymaker: rabbitmqctl set_user_tags <user> management policymaker"

func (v *vhostAPI) setPolicy(call *call, p topology.Policy) (int, error) {
	return status(v.management(call).PutPolicy(v.vhost, p.Name, rabbithole.Policy{
		Pattern: p.Pattern, ApplyTo: p.ApplyTo, Priority: int(p.Priority),
		Definition: rabbithole.PolicyDefinition(p.Definition),
	}))
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

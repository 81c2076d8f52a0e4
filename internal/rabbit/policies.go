package rabbit

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/policy"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit/transport"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// DeclaredPolicies are those of the vhost. Every user with the tag management may list them (3.10.8 to 4.3.6,
// TestPolicyAtOnce), where one policy by its name takes policymaker or administrator. A gateway may not pass the
// lists on: that is no error.
func (v *Vhost) DeclaredPolicies(ctx context.Context) (policy.Declared, error) {
	lists, err := AskAll(ctx, []string{"policies", "operator-policies"}, v.policies)
	return policy.Declared{Users: lists[0], Operators: lists[1]}, err
}

// MaySet fails if the user may set no policy, which takes a tag. Where nobody tells which tags there are, RabbitMQ says
// it when the policy is set.
func (v *Vhost) MaySet(ctx context.Context, p topology.Policy) error {
	tags := v.tags(ctx)
	if len(tags) == 0 || slices.Contains(tags, "policymaker") || slices.Contains(tags, "administrator") {
		return nil
	}
	return &Error{Forbidden, fmt.Sprintf("set policy %q in vhost %q", p.Name, v.name),
		fmt.Sprintf("user %q has no tag for that, but %s", v.client.username, strings.Join(tags, ", ")),
		policymakerHint}
}

// policies are nil if they cannot be read.
func (v *Vhost) policies(ctx context.Context, kind string) (policy.Policies, error) {
	var list []struct {
		Name       string                `json:"name"`
		Pattern    string                `json:"pattern"`
		ApplyTo    string                `json:"apply-to"`
		Priority   float64               `json:"priority"`
		Definition loose[map[string]any] `json:"definition"`
	}
	err := v.get(ctx, &list, "", kind, v.name)
	if transport.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		if err = v.client.failed(fmt.Sprintf("list the %s of vhost %q", kind, v.name), err); IsKind(err, Forbidden) {
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

package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plans"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// vhostAPI is the management API of one vhost: it writes what steps name, and counts messages.
type vhostAPI struct {
	*Client
	vhost string
}

// write runs a step that takes no more than the management API. It tells whether that had an effect, or may have had
// one.
func (v *vhostAPI) write(ctx context.Context, step plans.Step) (effect bool, err error) {
	call := v.newCall(ctx)
	var code int
	switch s := step.(type) {
	case plans.DeclareExchange:
		code, err = v.declareExchange(call, s.Exchange)
	case plans.DeclareQueue: // of a VerifyAllowed; Runner.once declares those of a plan
		code, err = v.declareQueue(call, s.Queue)
	case plans.Bind:
		code, err = status(v.management(call).DeclareBinding(v.vhost, bindingInfo(s.Binding)))
	case plans.Unbind:
		return v.unbind(ctx, s)
	case plans.DeleteExchange:
		query := ""
		if s.IfUnused {
			query = "?if-unused=true"
		}
		code, err = v.request(call, http.MethodDelete, apiPath("exchanges", v.vhost, s.Name)+query, nil, nil)
	case plans.SetPolicy:
		code, err = v.setPolicy(call, s.Policy)
	case plans.DeletePolicy:
		code, err = status(v.management(call).DeletePolicy(v.vhost, s.Name))
	case plans.VerifyAlone:
		return false, v.verifyAlone(ctx, s)
	case plans.VerifyAllowed:
		return false, v.verifyAllowed(ctx, s)
	default:
		panic(fmt.Sprintf("unknown step %T", step))
	}
	return v.effect(ctx, step, call, code, err)
}

// declarationBody has every property in it: RabbitMQ's default is not durable, and rabbit-hole leaves
// out auto_delete and internal.
type declarationBody struct {
	Type       string             `json:"type,omitempty"`
	Durable    bool               `json:"durable"`
	AutoDelete bool               `json:"auto_delete"`
	Internal   *bool              `json:"internal,omitempty"`
	Arguments  topology.Arguments `json:"arguments"`
}

func (v *vhostAPI) declareExchange(call *call, e topology.Exchange) (int, error) {
	return v.request(call, http.MethodPut, apiPath("exchanges", v.vhost, e.Name),
		declarationBody{Type: e.Type, Durable: e.Durable, AutoDelete: e.AutoDelete, Internal: &e.Internal,
			Arguments: e.Arguments}, nil)
}

func (v *vhostAPI) declareQueue(call *call, q topology.Queue) (int, error) {
	return v.request(call, http.MethodPut, apiPath("queues", v.vhost, q.Name),
		declarationBody{Durable: q.Durable, AutoDelete: q.AutoDelete, Arguments: q.Arguments}, nil)
}

func bindingInfo(b topology.Binding) rabbithole.BindingInfo {
	return rabbithole.BindingInfo{
		Source: b.Source, RoutingKey: b.RoutingKey,
		DestinationType: string(b.DestinationType), Destination: b.Destination,
		Arguments: argumentsOf(b),
	}
}

// unbind deletes a binding by what the management API calls its properties key. That of a binding
// without arguments is the routing key; that of another has a hash in it and is looked up.
func (v *vhostAPI) unbind(ctx context.Context, step plans.Unbind) (bool, error) {
	info := bindingInfo(step.Binding)
	info.PropertiesKey = propertiesKey(step.Binding.RoutingKey)
	if step.Binding.Arguments != "" {
		call := v.newCall(ctx)
		found, err := v.bindingsBetween(call, info)
		if err != nil {
			if isNotFound(err) {
				return false, v.confirm(ctx, v.vhost)
			}
			return v.effect(ctx, step, call, 0, err)
		}
		i := slices.IndexFunc(found, func(b rabbithole.BindingInfo) bool { return binding(b) == step.Binding })
		if i < 0 {
			return false, nil
		}
		info.PropertiesKey = found[i].PropertiesKey
	}
	call := v.newCall(ctx)
	code, err := status(v.management(call).DeleteBinding(v.vhost, info))
	return v.effect(ctx, step, call, code, err)
}

func (v *vhostAPI) bindingsBetween(call *call, info rabbithole.BindingInfo) ([]rabbithole.BindingInfo, error) {
	if info.DestinationType == string(topology.ToQueue) {
		return listed(v.management(call).ListQueueBindingsBetween(v.vhost, info.Source, info.Destination))
	}
	return listed(v.management(call).ListExchangeBindingsBetween(v.vhost, info.Source, info.Destination))
}

// propertiesKey is how the management API encodes a routing key: a tilde separates it from a hash
// of arguments and stands for the empty key. rabbit-hole encodes it once more for the path.
func propertiesKey(routingKey string) string {
	if routingKey == "" {
		return "~"
	}
	return strings.ReplaceAll(url.QueryEscape(routingKey), "~", "%7E")
}

// argumentsOf decodes the arguments that the binding carries as text.
func argumentsOf(b topology.Binding) map[string]any {
	if b.Arguments == "" {
		return nil
	}
	var arguments map[string]any
	decoder := json.NewDecoder(strings.NewReader(b.Arguments))
	decoder.UseNumber() // 134217728000 has to stay an integer on the wire
	if err := decoder.Decode(&arguments); err != nil {
		panic(err) // see topology.Binding: it is the text of arguments that were read or expanded
	}
	return arguments
}

// verifyAlone looks at the bindings of an exchange beside one.
func (v *vhostAPI) verifyAlone(ctx context.Context, step plans.VerifyAlone) error {
	bindings, err := v.bindingsFrom(ctx, v.vhost, step.Binding.Source)
	switch {
	case err != nil:
		return err
	case len(bindings) == 0:
		if err := v.confirm(ctx, v.vhost); err != nil {
			return err
		}
		return &Error{NotFound, fmt.Sprintf("%s in vhost %q", step, v.vhost), "somebody else has removed it just now",
			""}
	case len(bindings) > 1 || bindings[0] != step.Binding:
		return v.exists(step)
	}
	return nil
}

// verifyAllowed repeats one step that is done already: only a lack of permission counts.
func (v *vhostAPI) verifyAllowed(ctx context.Context, step plans.VerifyAllowed) error {
	if set, sets := step.Step.(plans.SetPolicy); sets {
		return v.MaySet(WithoutRetries(ctx), v.vhost, set.Policy)
	}
	_, err := v.write(WithoutRetries(ctx), step.Step)
	if e, is := errors.AsType[*Error](err); is && e.Kind == Forbidden {
		return &Error{Forbidden, fmt.Sprintf("%s in vhost %q", step, v.vhost), e.Reason, e.Hint}
	}
	return nil
}

// effect tells whether a call had an effect. It had none if the broker refused it, if it never reached the broker, or
// if things were so already at the first attempt.
func (v *vhostAPI) effect(ctx context.Context, step plans.Step, call *call, code int, err error) (bool, error) {
	if err == nil && code == http.StatusNotFound {
		// Either the object to delete is gone already, or nothing is found.
		return call.attempts.Load() > 1, v.confirm(ctx, v.vhost)
	}
	if err == nil {
		wasSo := code == http.StatusNoContent && isDeclaration(step)
		retried := call.attempts.Load() > 1 // the first answer may have been lost
		if wasSo && !retried && plans.MustBeNew(step) {
			err = v.exists(step)
		}
		return !wasSo || retried, err
	}
	refused, isAnswered := errors.AsType[*refusal](err)
	lost := call.sent.Load() && (!isAnswered || refused.status >= 500 || call.attempts.Load() > 1)
	if isNotFound(err) {
		// Either an object that the step needs is missing, or everything.
		if confirmed := v.confirm(ctx, v.vhost); confirmed != nil {
			return lost, confirmed
		}
		if missing, unknown := v.missing(ctx, step); unknown != nil {
			return lost, unknown
		} else if !missing {
			return lost, errStarting
		}
	}
	err = v.failed(fmt.Sprintf("%s in vhost %q", step, v.vhost), err)
	if IsKind(err, Forbidden) {
		// The permissions of a vhost that is being deleted may go before it.
		if gone := v.confirm(ctx, v.vhost); isBarred(gone) || IsKind(gone, VhostNotFound) {
			return lost, gone
		}
	}
	return lost, withHint(err, needs(step))
}

func isDeclaration(step plans.Step) bool {
	switch step.(type) {
	case plans.DeclareExchange, plans.DeclareQueue:
		return true
	}
	return false
}

// exists is for what somebody else has made, and nobody had seen before.
func (v *vhostAPI) exists(step plans.Step) error {
	return &Error{Exists, fmt.Sprintf("%s in vhost %q", step, v.vhost), "somebody else has declared it just now", ""}
}

// missing tells whether something is missing that the step needs beside the vhost.
func (v *vhostAPI) missing(ctx context.Context, step plans.Step) (bool, error) {
	bind, binds := step.(plans.Bind)
	if !binds {
		return !isDeclaration(step), nil
	}
	look := v.Lookup(v.vhost)
	_, exists, err := look.Exchange(ctx, bind.Binding.Source)
	switch {
	case err != nil || !exists:
	case bind.Binding.DestinationType == topology.ToQueue:
		_, exists, err = look.Queue(ctx, bind.Binding.Destination)
	default:
		_, exists, err = look.Exchange(ctx, bind.Binding.Destination)
	}
	return !exists, err
}

// withHint says which permissions were needed, if the broker refused something and nothing else is known of why.
func withHint(err error, permissions string) error {
	if failure, is := errors.AsType[*Error](err); is && failure.Kind == Forbidden && failure.Hint == "" {
		failure.Hint = permissions
	}
	return err
}

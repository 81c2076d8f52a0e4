package rabbit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit/transport"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// write describes a request that writes.
type write struct {
	// op is the action and its object.
	op string
	// needs are the permissions that this takes. The broker's answer does not name them (3.10 to 4.3).
	needs string
	// declares is set for a declaration, and isNew for one that must not find its object.
	declares, isNew bool
	// binding is set for a binding to be made.
	binding *topology.Binding
	// makeSure, if there is one, has to succeed before each attempt.
	makeSure func() error
}

// DeclareExchange declares an exchange. An equal one is left as it is, or refused if the exchange has to be new. Like
// all writes, it tells whether it changed something, or may have, because an answer got lost.
func (v *Vhost) DeclareExchange(ctx context.Context, e topology.Exchange, isNew bool) (changed bool, err error) {
	w := write{op: "declare " + topology.ExchangeObject(e.Name), declares: true, isNew: isNew,
		needs: takes(declarationNeeds(topology.ToExchange, e.Name, e.AlternateExchange()))}
	return v.write(ctx, w, func(call *transport.Call) (int, error) {
		return call.Do(http.MethodPut, transport.Path("exchanges", v.name, e.Name),
			declarationBody{Type: e.Type, Durable: e.Durable, AutoDelete: e.AutoDelete, Internal: &e.Internal,
				Arguments: e.Arguments}, nil)
	})
}

// DeclareQueue declares a queue likewise. It asks, after a second attempt, whether the queue is served: an attempt that
// broke off may have left a queue without replicas.
func (v *Vhost) DeclareQueue(
	ctx context.Context, q topology.Queue, isNew bool, isServed func() error,
) (changed bool, err error) {
	w := write{op: "declare " + topology.QueueObject(q.Name), declares: true, isNew: isNew,
		needs: takes(declarationNeeds(topology.ToQueue, q.Name, q.DeadLetterExchange()))}
	return v.write(ctx, w, func(call *transport.Call) (int, error) {
		code, err := call.Do(http.MethodPut, transport.Path("queues", v.name, q.Name),
			declarationBody{Durable: q.Durable, AutoDelete: q.AutoDelete, Arguments: q.Arguments}, nil)
		if err == nil && call.IsRepeated() {
			err = isServed()
		}
		return code, err
	})
}

// Bind makes a binding.
func (v *Vhost) Bind(ctx context.Context, b topology.Binding) (changed bool, err error) {
	w := write{op: "bind " + b.Describe(), needs: takes(bindingNeeds(b)), binding: &b}
	return v.write(ctx, w, func(call *transport.Call) (int, error) {
		return status(v.client.management(call).DeclareBinding(v.name, bindingInfo(b)))
	})
}

// Unbind deletes a binding by what the management API calls its properties key. That of a binding
// without arguments is the routing key; that of another has a hash in it and is looked up.
func (v *Vhost) Unbind(ctx context.Context, b topology.Binding) (changed bool, err error) {
	w := write{op: "unbind " + b.Describe(), needs: takes(bindingNeeds(b))}
	info := bindingInfo(b)
	info.PropertiesKey = propertiesKey(b.RoutingKey)
	if b.Arguments != "" {
		info.PropertiesKey, err = again(ctx, v.client, func() (string, error) { return v.hashedKey(ctx, w, b) })
		if err != nil || info.PropertiesKey == "" {
			return false, err
		}
	}
	return v.write(ctx, w, func(call *transport.Call) (int, error) {
		return status(v.client.management(call).DeleteBinding(v.name, info))
	})
}

// hashedKey is the properties key of a binding with arguments, empty if the binding does not exist.
func (v *Vhost) hashedKey(ctx context.Context, w write, b topology.Binding) (string, error) {
	found, err := v.bindingsBetween(v.client.http.Call(ctx), bindingInfo(b))
	switch {
	case transport.IsNotFound(err):
		return "", v.confirm(ctx)
	case err != nil:
		return "", v.notWritten(ctx, w, err)
	}
	i := slices.IndexFunc(found, func(info rabbithole.BindingInfo) bool { return binding(info) == b })
	if i < 0 {
		return "", nil
	}
	return found[i].PropertiesKey, nil
}

// DeleteExchange deletes an exchange. IfUnused has RabbitMQ refuse that while anything is bound to it as its source.
func (v *Vhost) DeleteExchange(ctx context.Context, name string, ifUnused bool) (changed bool, err error) {
	w := write{op: "delete " + topology.ExchangeObject(name),
		needs: takes(fmt.Sprintf("configure on exchange %q", name))}
	query := ""
	if ifUnused {
		query = "?if-unused=true"
	}
	return v.write(ctx, w, func(call *transport.Call) (int, error) {
		return call.Do(http.MethodDelete, transport.Path("exchanges", v.name, name)+query, nil, nil)
	})
}

// DeleteQueue deletes a queue, if makeSure, where there is one, succeeds before each attempt. IfEmpty has RabbitMQ
// refuse to delete one with messages: see IsNotEmpty.
func (v *Vhost) DeleteQueue(
	ctx context.Context, name string, ifEmpty bool, makeSure func() error,
) (changed bool, err error) {
	w := write{op: "delete " + topology.QueueObject(name), needs: takes(fmt.Sprintf("configure on queue %q", name)),
		makeSure: makeSure}
	options := rabbithole.QueueDeleteOptions{IfEmpty: ifEmpty}
	changed, err = v.write(ctx, w, func(call *transport.Call) (int, error) {
		return status(v.client.management(call).DeleteQueue(v.name, name, options))
	})
	return changed && !IsNotEmpty(err), err
}

// IsNotEmpty tells whether RabbitMQ refused to delete a queue because it holds messages.
func IsNotEmpty(err error) bool {
	refused, is := errors.AsType[*Error](err)
	return is && refused.Kind == Refused && notEmptyReason.MatchString(refused.Reason)
}

// SetPolicy sets a policy, whatever there is under its name.
func (v *Vhost) SetPolicy(ctx context.Context, p topology.Policy) (changed bool, err error) {
	w := write{op: "set " + topology.PolicyObject(p.Name), needs: policymakerHint}
	return v.write(ctx, w, func(call *transport.Call) (int, error) {
		return status(v.client.management(call).PutPolicy(v.name, p.Name, rabbithole.Policy{
			Pattern: p.Pattern, ApplyTo: p.ApplyTo, Priority: int(p.Priority),
			Definition: rabbithole.PolicyDefinition(p.Definition),
		}))
	})
}

// DeletePolicy deletes a policy.
func (v *Vhost) DeletePolicy(ctx context.Context, name string) (changed bool, err error) {
	w := write{op: "delete " + topology.PolicyObject(name), needs: policymakerHint}
	return v.write(ctx, w, func(call *transport.Call) (int, error) {
		return status(v.client.management(call).DeletePolicy(v.name, name))
	})
}

// write sends a request. It tells whether that changed something, or may have, because an answer got lost.
func (v *Vhost) write(
	ctx context.Context, w write, send func(*transport.Call) (status int, err error),
) (changed bool, err error) {
	if err := v.client.identify(ctx); err != nil {
		return false, err
	}
	return again(ctx, v.client, func() (bool, error) {
		call := v.client.http.Call(ctx)
		var unsure error
		if w.makeSure != nil {
			call.MakeSure = func() error {
				unsure = w.makeSure()
				return unsure
			}
			if err := call.MakeSure(); err != nil {
				return changed, err
			}
		}
		code, err := send(call)
		if unsure != nil {
			return changed || call.IsSent(), unsure
		}
		had, err := v.effect(ctx, w, call, code, err)
		changed = changed || had
		return changed, err
	})
}

// inVhost says where something is done.
func (v *Vhost) inVhost(op string) string { return fmt.Sprintf("%s in vhost %q", op, v.name) }

// declarationBody has every property in it: RabbitMQ's default is not durable, and rabbit-hole leaves
// out auto_delete and internal.
type declarationBody struct {
	Type       string             `json:"type,omitempty"`
	Durable    bool               `json:"durable"`
	AutoDelete bool               `json:"auto_delete"`
	Internal   *bool              `json:"internal,omitempty"`
	Arguments  topology.Arguments `json:"arguments"`
}

func bindingInfo(b topology.Binding) rabbithole.BindingInfo {
	return rabbithole.BindingInfo{
		Source: b.Source, RoutingKey: b.RoutingKey,
		DestinationType: string(b.DestinationType), Destination: b.Destination,
		Arguments: argumentsOf(b),
	}
}

func (v *Vhost) bindingsBetween(call *transport.Call, info rabbithole.BindingInfo) ([]rabbithole.BindingInfo, error) {
	if info.DestinationType == string(topology.ToQueue) {
		return listed(v.client.management(call).ListQueueBindingsBetween(v.name, info.Source, info.Destination))
	}
	return listed(v.client.management(call).ListExchangeBindingsBetween(v.name, info.Source, info.Destination))
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

// VerifyAlone fails if an exchange has other bindings than this one.
func (v *Vhost) VerifyAlone(ctx context.Context, op string, b topology.Binding) error {
	bindings, err := v.BindingsFrom(ctx, b.Source)
	switch {
	case err != nil:
		return err
	case len(bindings) == 0:
		return &Error{NotFound, v.inVhost(op), "somebody else has removed it just now", ""}
	case len(bindings) > 1 || bindings[0] != b:
		return v.exists(op)
	}
	return nil
}

// effect tells whether a call had an effect. It had none if the broker refused it, if it never reached the broker, or
// if things were so already at the first attempt.
func (v *Vhost) effect(ctx context.Context, w write, call *transport.Call, code int, err error) (bool, error) {
	retried := call.IsRepeated() // the first answer may have been lost
	if err == nil && code == http.StatusNotFound {
		// Either the object to delete is gone already, or nothing is found.
		return retried, v.confirm(ctx)
	}
	if err == nil {
		wasSo := code == http.StatusNoContent && w.declares
		if wasSo && !retried && w.isNew {
			err = v.exists(w.op)
		}
		return !wasSo || retried, err
	}
	refused, isAnswered := errors.AsType[*transport.Refusal](err)
	lost := call.IsSent() && (!isAnswered || refused.Status >= 500 || retried)
	if transport.IsNotFound(err) {
		// Either an object that is needed is missing, or everything.
		if confirmed := v.confirm(ctx); confirmed != nil {
			return lost, confirmed
		}
		if missing, unknown := v.missing(ctx, w); unknown != nil {
			return lost, unknown
		} else if !missing {
			return lost, errStarting
		}
	}
	return lost, v.notWritten(ctx, w, err)
}

// notWritten is for a write that failed, or that could not be sent.
func (v *Vhost) notWritten(ctx context.Context, w write, err error) error {
	err = v.client.failed(v.inVhost(w.op), err)
	failure, is := errors.AsType[*Error](err)
	if !is || failure.Kind != Forbidden {
		return err
	}
	// The permissions of a vhost that is being deleted may go before it.
	if gone := v.confirm(ctx); IsBarred(gone) || IsKind(gone, VhostNotFound) {
		return gone
	}
	failure.Hint = cmp.Or(failure.Hint, w.needs)
	return err
}

// exists is for what somebody else has made, and nobody had seen before.
func (v *Vhost) exists(op string) error {
	return &Error{Exists, v.inVhost(op), "somebody else has declared it just now", ""}
}

// missing tells whether something is missing that the write needs beside the vhost.
func (v *Vhost) missing(ctx context.Context, w write) (bool, error) {
	if w.binding == nil {
		return !w.declares, nil
	}
	look := v
	_, exists, err := look.Exchange(ctx, w.binding.Source)
	switch {
	case err != nil || !exists:
	case w.binding.DestinationType == topology.ToQueue:
		_, exists, err = look.Queue(ctx, w.binding.Destination)
	default:
		_, exists, err = look.Exchange(ctx, w.binding.Destination)
	}
	return !exists, err
}

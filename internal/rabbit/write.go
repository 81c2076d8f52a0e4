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
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit/transport"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// writing describes a request that writes.
type writing struct {
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
	w := writing{op: "declare " + topology.ExchangeObject(e.Name), declares: true, isNew: isNew,
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
	w := writing{op: "declare " + topology.QueueObject(q.Name), declares: true, isNew: isNew,
		needs: takes(declarationNeeds(topology.ToQueue, q.Name, nextOf(q)))}
	return v.write(ctx, w, func(call *transport.Call) (int, error) {
		code, err := call.Do(http.MethodPut, transport.Path("queues", v.name, q.Name),
			declarationBody{Durable: q.Durable, AutoDelete: q.AutoDelete, Arguments: q.Arguments}, nil)
		if err == nil && call.IsUnsure() {
			err = isServed()
		}
		return code, err
	})
}

// Bind makes a binding.
func (v *Vhost) Bind(ctx context.Context, b topology.Binding) (changed bool, err error) {
	w := writing{op: "bind " + b.Plain().Describe(), needs: takes(bindingNeeds(b)), binding: &b}
	return v.write(ctx, w, func(call *transport.Call) (int, error) {
		return statusOf(v.client.management(call).DeclareBinding(v.name, bindingInfo(b)))
	})
}

// Unbind deletes a binding by what the management API calls its properties key. That of a binding
// without arguments is the routing key; that of another has a hash in it and is looked up.
func (v *Vhost) Unbind(ctx context.Context, b topology.Binding) (changed bool, err error) {
	w := writing{op: "unbind " + b.Plain().Describe(), needs: takes(bindingNeeds(b))}
	info := bindingInfo(b)
	info.PropertiesKey = propertiesKey(b.RoutingKey)
	if b.Arguments != "" {
		info.PropertiesKey, err = v.hashedKey(ctx, w, b)
		if err != nil || info.PropertiesKey == "" {
			return false, err
		}
	}
	return v.write(ctx, w, func(call *transport.Call) (int, error) {
		return statusOf(v.client.management(call).DeleteBinding(v.name, info))
	})
}

// hashedKey is the properties key of a binding with arguments, empty if the binding does not exist.
func (v *Vhost) hashedKey(ctx context.Context, w writing, b topology.Binding) (string, error) {
	var found []rabbithole.BindingInfo
	err := v.ask(ctx, func(call *transport.Call) (err error) {
		list := v.client.management(call).ListExchangeBindingsBetween
		if b.DestinationType == topology.ToQueue {
			list = v.client.management(call).ListQueueBindingsBetween
		}
		found, err = listed(list(v.name, b.Source, b.Destination))
		return err
	})
	if err != nil && !transport.IsNotFound(err) {
		return "", v.notWritten(w, err)
	}
	i := slices.IndexFunc(found, func(info rabbithole.BindingInfo) bool { return binding(info) == b })
	if i < 0 {
		return "", nil
	}
	return found[i].PropertiesKey, nil
}

// DeleteExchange deletes an exchange. IfUnused has RabbitMQ refuse that while anything is bound to it as its source.
func (v *Vhost) DeleteExchange(ctx context.Context, name string, ifUnused bool) (changed bool, err error) {
	w := writing{op: "delete " + topology.ExchangeObject(name),
		needs: takes(fmt.Sprintf("configure on exchange %q", name))}
	query := ""
	if ifUnused {
		query = "?if-unused=true"
	}
	return v.write(ctx, w, func(call *transport.Call) (int, error) {
		return call.Do(http.MethodDelete, transport.Path("exchanges", v.name, name)+query, nil, nil)
	})
}

// DeleteQueue deletes a queue with its messages, if makeSure, where there is one, succeeds before each attempt.
func (v *Vhost) DeleteQueue(ctx context.Context, name string, makeSure func() error) (changed bool, err error) {
	return v.deleteQueue(ctx, name, rabbithole.QueueDeleteOptions{}, makeSure)
}

// DeleteEmptyQueue deletes a classic queue. RabbitMQ refuses to delete one with messages: see IsNotEmpty.
func (v *Vhost) DeleteEmptyQueue(ctx context.Context, name string) (changed bool, err error) {
	changed, err = v.deleteQueue(ctx, name, rabbithole.QueueDeleteOptions{IfEmpty: true}, nil)
	return changed && !IsNotEmpty(err), err
}

func (v *Vhost) deleteQueue(
	ctx context.Context, name string, options rabbithole.QueueDeleteOptions, makeSure func() error,
) (changed bool, err error) {
	w := writing{op: "delete " + topology.QueueObject(name), needs: takes(fmt.Sprintf("configure on queue %q", name)),
		makeSure: makeSure}
	return v.write(ctx, w, func(call *transport.Call) (int, error) {
		return statusOf(v.client.management(call).DeleteQueue(v.name, name, options))
	})
}

// IsNotEmpty tells whether RabbitMQ refused to delete a queue because it holds messages.
func IsNotEmpty(err error) bool {
	refused, is := errors.AsType[*Error](err)
	return is && refused.Kind == Refused && notEmptyReason.MatchString(refused.Reason)
}

// SetPolicy sets a policy, whatever there is under its name.
func (v *Vhost) SetPolicy(ctx context.Context, p topology.Policy) (changed bool, err error) {
	w := writing{op: "set " + topology.PolicyObject(p.Name), needs: policymakerHint}
	return v.write(ctx, w, func(call *transport.Call) (int, error) {
		return statusOf(v.client.management(call).PutPolicy(v.name, p.Name, rabbithole.Policy{
			Pattern: p.Pattern, ApplyTo: p.ApplyTo, Priority: int(p.Priority),
			Definition: rabbithole.PolicyDefinition(p.Definition),
		}))
	})
}

// DeletePolicy deletes a policy.
func (v *Vhost) DeletePolicy(ctx context.Context, name string) (changed bool, err error) {
	w := writing{op: "delete " + topology.PolicyObject(name), needs: policymakerHint}
	return v.write(ctx, w, func(call *transport.Call) (int, error) {
		return statusOf(v.client.management(call).DeletePolicy(v.name, name))
	})
}

// write sends a request. It tells whether that changed something, or may have, because an answer got lost.
func (v *Vhost) write(
	ctx context.Context, w writing, send func(*transport.Call) (status int, err error),
) (changed bool, err error) {
	if err := v.client.identify(ctx); err != nil {
		return false, err
	}
	if w.makeSure != nil {
		if err := w.makeSure(); err != nil {
			return false, err
		}
	}
	call := v.client.http.Call(ctx)
	call.MakeSure = w.makeSure
	call.Judge = func(r *transport.Refusal) (time.Duration, error) { return w.judge(ctx, v, r) }
	code, err := send(call)
	switch {
	case err != nil:
		return call.IsUnsure(), v.notWritten(w, err)
	case code == http.StatusNotFound: // the object to delete is gone already
		return call.IsUnsure(), nil
	case code != http.StatusNoContent || !w.declares || call.IsUnsure():
		return true, nil
	case w.isNew:
		return false, v.exists(w.op)
	}
	return false, nil
}

// notWritten is for a write that failed, or that could not be sent.
func (v *Vhost) notWritten(w writing, err error) error {
	isRefused := transport.Wraps[*transport.Refusal](err)
	err = v.client.failed(v.inVhost(w.op), err)
	if failure, is := errors.AsType[*Error](err); is && isRefused && failure.Kind == Forbidden {
		failure.Hint = cmp.Or(failure.Hint, w.needs)
	}
	return err
}

// judge is the judge of a write. An answer 404 is that of a starting broker where nothing is missing.
func (w writing) judge(ctx context.Context, v *Vhost, r *transport.Refusal) (worth time.Duration, err error) {
	switch {
	case v.bars(r):
		return startingTime, nil
	case r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden:
		// The permissions of a vhost that is being deleted may go before it.
		if _, gone := v.Confirm(ctx); IsBarred(gone) || IsKind(gone, VhostNotFound) {
			return 0, gone
		}
		return 0, nil
	case r.Status != http.StatusNotFound:
		return 0, nil
	}
	starts, err := v.Confirm(ctx)
	if err == nil && !starts {
		starts, err = w.hasAll(ctx, v)
	}
	if err == nil && starts {
		return v.client.retryTimeout, errStarting
	}
	return 0, err
}

// hasAll tells whether all is there that the write needs.
func (w writing) hasAll(ctx context.Context, v *Vhost) (has bool, err error) {
	if w.binding == nil {
		return w.declares, nil
	}
	if _, has, err = v.Exchange(ctx, w.binding.Source); err != nil || !has {
		return has, err
	}
	return v.HasDestination(ctx, *w.binding)
}

// exists is for what somebody else has made, and nobody had seen before.
func (v *Vhost) exists(op string) error {
	return &Error{Exists, v.inVhost(op), "another application has declared it just now", ""}
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

// statusOf turns the result of a rabbit-hole method into a status code.
func statusOf(response *http.Response, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	_ = response.Body.Close()
	return response.StatusCode, nil
}

package broker

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
	"sync"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// undoTime limits an undo, which goes on when the operation has been canceled. Without AMQP, that of a rebuild of 28
// levels takes half a minute, and several times as long beside much else.
const undoTime = 3 * time.Minute

// Run runs a plan, see [Runner.Run].
func (c *Client) Run(ctx context.Context, vhost string, plan topology.Plan) (done []topology.Step, err error) {
	r := c.Begin(vhost)
	defer r.Close()
	return r.Run(ctx, plan)
}

// Runner runs plans in one vhost, all over one AMQP connection where they need one.
type Runner struct {
	*Client
	vhost string
	session
	ahead *lookAhead
	proof proof
	// closed is when exchanges were last deleted or unbound, by their names, and next are the phases after the one that runs.
	closed map[string]time.Time
	next   topology.Plan
	// filled has the queues in which AMQP has counted messages: so it reaches the broker that has them.
	filled sync.Map
}

// Begin is for several plans, and for one that is yet to be made: see [Runner.Connect] and [Runner.Look].
func (c *Client) Begin(vhost string) *Runner {
	return &Runner{Client: c, vhost: vhost, closed: map[string]time.Time{}}
}

// Run runs the phases of the plan one after the other, and the steps of a phase at the same time.
// If a step fails, those that run are finished, no other begins, and the phase's undo runs.
//
// Done are the steps that had an effect, or may have had one because the answer got lost. That is
// so with an error, too. A declaration that found its object there is not among them. The error is
// an *Error, a *NotEmptyError, an *UndoError or *LeftOutError around one of these, or Refusals.
func (r *Runner) Run(ctx context.Context, plan topology.Plan) (done []topology.Step, err error) {
	ctx = r.logging(ctx)
	if slices.ContainsFunc(plan, func(phase topology.Phase) bool { return bindsMany(phase.Steps) }) {
		r.openAMQP(ctx, true, bindingChannels) // while the phases before run
	}
	var refused Refusals
	left := map[string]bool{}
	for i, phase := range plan {
		if left[phase.Recreates] {
			continue
		}
		if slices.ContainsFunc(phase.Needs, func(object string) bool { return left[object] }) {
			refused[len(refused)-1] = &LeftOutError{Err: refused[len(refused)-1], Left: phase.Steps}
			continue
		}
		if !slices.ContainsFunc(plan[i:], usesAMQP) {
			r.Release()
		}
		r.next = plan[i+1:]
		changed, err := r.phase(ctx, phase.Steps)
		done = append(done, changed...)
		if err == nil {
			continue
		}
		err = r.undo(ctx, phase.Undo, err)
		if phase.Recreates == "" || !isRefusal(err) {
			return done, refused.and(err)
		}
		left[phase.Recreates] = true
		refused = append(refused, err)
	}
	return done, refused.and(nil)
}

// isRefusal tells whether the broker is well and only keeps a step from losing something.
func isRefusal(err error) bool {
	if _, ok := err.(*NotEmptyError); ok { //nolint:errorlint // an *UndoError around one is more than that
		return true
	}
	e, ok := err.(*Error) //nolint:errorlint // likewise
	return ok && e.Kind == InUse
}

// undo runs the plan of the undo, and returns the failure with what could not be undone.
func (r *Runner) undo(ctx context.Context, plan topology.Plan, failure error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	for i, phase := range plan {
		if left, err := r.asFarAsPossible(ctx, phase.Steps); err != nil {
			return &UndoError{Err: failure, Undo: err, Left: append(left, plan[i+1:].Steps()...)}
		}
	}
	return failure
}

// asFarAsPossible runs steps at the same time, and those that a failure has kept from it one by one, if the broker still does what it can. Left are those
// that are not done, and the error is that of the first of them.
func (r *Runner) asFarAsPossible(ctx context.Context, steps []topology.Step) (left []topology.Step, err error) {
	done, err := r.phase(ctx, steps)
	var e *Error
	if err == nil {
		return nil, nil
	} else if !errors.As(err, &e) || !slices.Contains([]Kind{NotFound, Forbidden, Conflict, Refused}, e.Kind) {
		return slices.DeleteFunc(slices.Clone(steps), func(step topology.Step) bool {
			return slices.ContainsFunc(done, func(d topology.Step) bool { return d.String() == step.String() })
		}), err
	}
	err = nil
	for _, step := range steps {
		if _, failure := r.phase(ctx, []topology.Step{step}); failure != nil {
			left = append(left, step)
			err = cmp.Or(err, failure)
		}
	}
	return left, err
}

// phase runs steps at the same time: over HTTP, and as soon as there is a connection for it, what openFor names over AMQP.
func (r *Runner) phase(ctx context.Context, steps []topology.Step) (done []topology.Step, err error) {
	if slices.ContainsFunc(steps, changes) {
		r.endLook() // what moved unseen at that time may have come in since
		r.proof = r.proof.without(steps)
		if r.looksLater() {
			defer r.keepProof(ctx)()
		}
	}
	defer r.noteClosed(steps)
	effects := make([]bool, len(steps))
	for begun := 0; begun < len(steps) && err == nil; {
		if session, channels := r.openFor(steps[begun:]); session == nil {
			var n int
			n, err = r.overHTTP(ctx, steps[begun:], effects[begun:])
			begun += n
		} else if r.overAMQP(ctx, session, channels, steps[begun:], effects[begun:]) {
			break
		}
	}
	for i, step := range steps {
		if effects[i] {
			done = append(done, step)
		}
	}
	return done, err
}

// overHTTP runs steps at the same time, as many as there may be requests and as the broker can take. It tells how many
// it has begun with, which are all unless one fails or the others can be made over AMQP. If several fail, the error is that of the first.
func (r *Runner) overHTTP(ctx context.Context, steps []topology.Step, effects []bool) (begun int, err error) {
	var (
		mutex    sync.Mutex
		workers  sync.WaitGroup
		failedAt int
	)
	take := func() (int, bool) {
		mutex.Lock()
		defer mutex.Unlock()
		if err != nil || begun == len(steps) {
			return 0, false
		}
		if session, _ := r.openFor(steps[begun:]); session != nil {
			return 0, false
		}
		begun++
		return begun - 1, true
	}
	for range r.parallel(ctx, steps) {
		workers.Go(func() {
			for i, ok := take(); ok; i, ok = take() {
				effect, failure := r.step(ctx, steps[i])
				mutex.Lock()
				effects[i] = effects[i] || effect
				if failure != nil && (err == nil || i < failedAt) {
					err, failedAt = failure, i
				}
				mutex.Unlock()
			}
		})
	}
	workers.Wait()
	return begun, err
}

// parallel is how many of the steps may run at the same time. Exchanges that are bound to each other are deleted one
// after the other where they are kept in Mnesia, before 4.3: 3.10.8 keeps some although it says that it deleted
// them, and 4.0.5 answers with an internal error (TestTeardownIsComplete).
func (r *Runner) parallel(ctx context.Context, steps []topology.Step) int {
	if deletesExchanges(steps) && !deletesTogether(r.version(ctx)) {
		return 1
	}
	return min(cap(r.http.slots), len(steps))
}

// deletesTogether tells whether a broker can delete exchanges at the same time.
func deletesTogether(version string) bool { return isAtLeast(version, 4, 3) }

// version is that of the broker, empty if it cannot be found out. AMQP tells it without a further request.
func (r *Runner) version(ctx context.Context) string {
	if session := r.open(); session != nil {
		return session.version()
	}
	o, err := r.overview(r.newCall(ctx))
	if err != nil {
		return ""
	}
	return o.Version
}

// isAtLeast compares the first two numbers of a version.
func isAtLeast(version string, major, minor int) bool {
	var have, next int
	if _, err := fmt.Sscanf(version, "%d.%d", &have, &next); err != nil {
		return false
	}
	return have > major || have == major && next >= minor
}

// step runs one step and tells whether it had an effect, or may have had one.
func (r *Runner) step(ctx context.Context, step topology.Step) (effect bool, err error) {
	return again(func() (bool, error) {
		had, err := r.once(ctx, step)
		effect = effect || had
		return effect, err
	})
}

func (r *Runner) once(ctx context.Context, step topology.Step) (effect bool, err error) {
	call := r.newCall(ctx)
	m := r.management(call)
	var code int
	switch s := step.(type) {
	case topology.DeclareExchange:
		code, err = r.declareExchange(call, s.Exchange)
	case topology.DeclareQueue:
		code, err = r.declareQueue(call, s.Queue)
		if err == nil && call.attempts.Load() > 1 {
			err = r.verifyServed(ctx, s)
		}
	case topology.Bind:
		code, err = status(m.DeclareBinding(r.vhost, bindingInfo(s.Binding)))
	case topology.Unbind:
		return r.unbind(ctx, s)
	case topology.DeleteExchange:
		if s.IfUnused {
			code, err = r.request(call, http.MethodDelete, apiPath("exchanges", r.vhost, s.Name)+"?if-unused=true", nil, nil)
		} else {
			code, err = status(m.DeleteExchange(r.vhost, s.Name))
		}
	case topology.DeleteQueue:
		return r.deleteQueue(ctx, s)
	case topology.VerifyAlone:
		return false, r.verifyAlone(ctx, s)
	case topology.VerifyEmpty:
		return false, r.verifyEmpty(ctx, s)
	default:
		panic(fmt.Sprintf("unknown step %T", step))
	}
	return r.effect(ctx, step, call, code, err)
}

// effect tells what a call has done: nothing if the broker refused it, if it never reached the
// broker, or if things were so already at the first attempt.
func (r *Runner) effect(ctx context.Context, step topology.Step, call *call, code int, err error) (bool, error) {
	if err == nil && code == http.StatusNotFound {
		// Either what was to be deleted is gone already, or nothing is found.
		return call.attempts.Load() > 1, r.confirm(ctx, r.vhost)
	}
	if err == nil {
		wasSo := code == http.StatusNoContent && isDeclaration(step)
		retried := call.attempts.Load() > 1 // the first answer may have been lost
		if wasSo && !retried && topology.MustBeNew(step) {
			err = r.exists(step)
		}
		return !wasSo || retried, err
	}
	var refused *refusal
	lost := call.sent.Load() && (!errors.As(err, &refused) || refused.status >= 500 || call.attempts.Load() > 1)
	if isNotFound(err) {
		// Either an object that the step needs is missing, or everything.
		if confirmed := r.confirm(ctx, r.vhost); confirmed != nil {
			return lost, confirmed
		}
		if missing, unknown := r.missing(ctx, step); unknown != nil {
			return lost, unknown
		} else if !missing {
			return lost, errStarting
		}
	}
	return lost, withHint(r.failed(fmt.Sprintf("%s in vhost %q", step, r.vhost), err), needs(step))
}

// exists is for what somebody else has made, and nobody had seen before.
func (r *Runner) exists(step topology.Step) error {
	return &Error{Exists, fmt.Sprintf("%s in vhost %q", step, r.vhost), "somebody else has declared it just now", ""}
}

// verifyAlone looks at what is bound to an exchange beside one binding.
func (r *Runner) verifyAlone(ctx context.Context, step topology.VerifyAlone) error {
	bindings, err := r.bindingsFrom(ctx, r.vhost, step.Binding.Source)
	if err == nil && (len(bindings) != 1 || bindings[0] != step.Binding) {
		err = r.exists(step)
	}
	return err
}

// withHint says which permissions were needed, if the broker refused something and nothing else is known of why.
func withHint(err error, permissions string) error {
	var failure *Error
	if errors.As(err, &failure) && failure.Kind == Forbidden && failure.Hint == "" {
		failure.Hint = permissions
	}
	return err
}

// missing tells whether something is missing that the step needs beside the vhost.
func (r *Runner) missing(ctx context.Context, step topology.Step) (bool, error) {
	bind, binds := step.(topology.Bind)
	if !binds {
		return !isDeclaration(step), nil
	}
	look := r.Lookup(r.vhost)
	_, exists, err := look.Exchange(ctx, bind.Binding.Source)
	if err != nil || !exists {
		return true, err
	}
	if bind.Binding.DestinationType == topology.ToQueue {
		_, exists, err = look.Queue(ctx, bind.Binding.Destination)
	} else {
		_, exists, err = look.Exchange(ctx, bind.Binding.Destination)
	}
	return !exists, err
}

func isDeclaration(step topology.Step) bool {
	switch step.(type) {
	case topology.DeclareExchange, topology.DeclareQueue:
		return true
	}
	return false
}

// declaration has every property in it: RabbitMQ's default is not durable, and rabbit-hole leaves
// out auto_delete and internal.
type declaration struct {
	Type       string             `json:"type,omitempty"`
	Durable    bool               `json:"durable"`
	AutoDelete bool               `json:"auto_delete"`
	Internal   *bool              `json:"internal,omitempty"`
	Arguments  topology.Arguments `json:"arguments"`
}

func (r *Runner) declareExchange(call *call, e topology.Exchange) (int, error) {
	return r.request(call, http.MethodPut, apiPath("exchanges", r.vhost, e.Name),
		declaration{Type: e.Type, Durable: e.Durable, AutoDelete: e.AutoDelete, Internal: &e.Internal, Arguments: orEmpty(e.Arguments)}, nil)
}

func (r *Runner) declareQueue(call *call, q topology.Queue) (int, error) {
	return r.request(call, http.MethodPut, apiPath("queues", r.vhost, q.Name),
		declaration{Durable: q.Durable, AutoDelete: q.AutoDelete, Arguments: orEmpty(q.Arguments)}, nil)
}

// verifyServed fails for a queue without replicas: an attempt that was cut off may have left one, and RabbitMQ says of it that it
// is there, or only does not answer.
func (r *Runner) verifyServed(ctx context.Context, step topology.DeclareQueue) error {
	_, err := r.readyNow(ctx, step.Queue)
	var e *Error
	if errors.As(err, &e) && (e.Kind == Unavailable || e.Kind == Timeout && ctx.Err() == nil) {
		return &Error{Unavailable, fmt.Sprintf("%s in vhost %q", step, r.vhost), e.Reason, halfDone}
	}
	return err
}

func orEmpty(arguments topology.Arguments) topology.Arguments {
	if arguments == nil {
		return topology.Arguments{}
	}
	return arguments
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
func (r *Runner) unbind(ctx context.Context, step topology.Unbind) (bool, error) {
	info := bindingInfo(step.Binding)
	info.PropertiesKey = propertiesKey(step.Binding.RoutingKey)
	if step.Binding.Arguments != "" {
		call := r.newCall(ctx)
		found, err := r.bindingsBetween(call, info)
		if err != nil {
			if isNotFound(err) {
				return false, r.confirm(ctx, r.vhost)
			}
			return r.effect(ctx, step, call, 0, err)
		}
		i := slices.IndexFunc(found, func(b rabbithole.BindingInfo) bool { return binding(b) == step.Binding })
		if i < 0 {
			return false, nil
		}
		info.PropertiesKey = found[i].PropertiesKey
	}
	call := r.newCall(ctx)
	code, err := status(r.management(call).DeleteBinding(r.vhost, info))
	return r.effect(ctx, step, call, code, err)
}

func (r *Runner) bindingsBetween(call *call, info rabbithole.BindingInfo) ([]rabbithole.BindingInfo, error) {
	if info.DestinationType == string(topology.ToQueue) {
		return listed(r.management(call).ListQueueBindingsBetween(r.vhost, info.Source, info.Destination))
	}
	return listed(r.management(call).ListExchangeBindingsBetween(r.vhost, info.Source, info.Destination))
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

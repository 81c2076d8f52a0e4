package rabbit

import (
	"encoding/json"
	"fmt"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/health"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/policy"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit/transport"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// exchangeInfo and queueInfo are the fields that are needed, with the columns that ask for them.
type exchangeInfo struct {
	Name       string                `json:"name"`
	Type       string                `json:"type"`
	Durable    loose[bool]           `json:"durable"`
	AutoDelete loose[bool]           `json:"auto_delete"`
	Internal   loose[bool]           `json:"internal"`
	Arguments  loose[map[string]any] `json:"arguments"`
	Policy     loose[string]         `json:"policy"`
}

const exchangeQuery = "?columns=name,type,durable,auto_delete,internal,arguments,policy"

func (e exchangeInfo) exchange() topology.Exchange {
	return topology.Exchange{
		Name: e.Name, Type: e.Type, Durable: e.Durable.value, AutoDelete: e.AutoDelete.value,
		Internal:  e.Internal.value,
		Arguments: topology.NormalizeArguments(e.Arguments.value),
	}
}

type queueInfo struct {
	Name           string                `json:"name"`
	Type           loose[string]         `json:"type"`
	Durable        loose[bool]           `json:"durable"`
	AutoDelete     loose[bool]           `json:"auto_delete"`
	Exclusive      loose[bool]           `json:"exclusive"`
	Arguments      loose[map[string]any] `json:"arguments"`
	Messages       count                 `json:"messages"`
	Ready          count                 `json:"messages_ready"`
	Delayed        loose[int64]          `json:"messages_delayed"`
	Consumers      count                 `json:"consumers"`
	Leader         loose[string]         `json:"leader"`
	Members        loose[[]string]       `json:"members"`
	Online         loose[[]string]       `json:"online"`
	State          loose[string]         `json:"state"`
	Policy         loose[string]         `json:"policy"`
	OperatorPolicy loose[string]         `json:"operator_policy"`
	// Effective is nil until RabbitMQ has it: for up to eight seconds after the declaration (3.10 to 4.3).
	Effective *loose[map[string]any] `json:"effective_policy_definition"`
	// NextDelayed and LastDelayed are in milliseconds since 1970, and missing if there are none (4.3.6).
	NextDelayed loose[int64] `json:"next_delayed_at"`
	LastDelayed loose[int64] `json:"last_delayed_at"`
	Reductions  count        `json:"reductions"`
}

const queueQuery = "?columns=name,durable,auto_delete,exclusive,arguments,messages,messages_ready,messages_delayed," +
	"consumers,leader,members,online,state,last_delayed_at,policy,operator_policy,effective_policy_definition"

// receiverQuery asks whether a queue takes messages. The statistics of a queue that is down stay as they were, and
// RabbitMQ 4.3.6 looks at it only for its totals.
const receiverQuery = "?disable_stats=true&enable_queue_totals=true&columns=name,type,arguments,messages," +
	"messages_ready,leader,members,online,state,policy,operator_policy"

func (q queueInfo) queue() topology.Queue {
	return topology.Queue{
		Name: q.Name, Durable: q.Durable.value, AutoDelete: q.AutoDelete.value, Exclusive: q.Exclusive.value,
		Arguments: topology.NormalizeArguments(q.Arguments.value),
	}
}

// status has what the queue itself says of policies.
func (q queueInfo) status() health.QueueStatus {
	status := health.QueueStatus{
		Messages: q.Messages.value, Ready: q.Ready.value, Delayed: q.Delayed.value,
		LastDelayed: sinceEpoch(q.LastDelayed), Consumers: q.Consumers.value, State: q.State.value,
		Leader: q.Leader.value, Members: len(q.Members.value), Online: len(q.Online.value),
		Applied: policy.Applied{Policy: q.Policy.value, Operator: q.OperatorPolicy.value, Unknown: q.Effective == nil},
	}
	if q.Effective != nil {
		status.Applied.Definition = topology.NormalizeArguments(q.Effective.value)
	}
	return status
}

func (q queueInfo) count() *QueueCount {
	return &QueueCount{
		IsCounted: q.Messages.value != nil, Messages: orZero(q.Messages), Ready: orZero(q.Ready),
		Consumers: orZero(q.Consumers), Reductions: q.Reductions.value, Delayed: q.Delayed.value,
		NextDelayed: sinceEpoch(q.NextDelayed), LastDelayed: sinceEpoch(q.LastDelayed),
		Members: len(q.Members.value), Online: len(q.Online.value),
	}
}

func orZero(c count) int64 {
	if c.value == nil {
		return 0
	}
	return *c.value
}

// sinceEpoch is a time that may be missing.
func sinceEpoch(millis loose[int64]) time.Time {
	if millis.value == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis.value)
}

// about makes sure that an answer is about the object in the question.
func about(asked, answered string) error {
	if asked == answered {
		return nil
	}
	return transport.Unlike(fmt.Sprintf("the request for %q", asked), fmt.Errorf("it is about %q", answered))
}

func binding(b rabbithole.BindingInfo) topology.Binding {
	return topology.Binding{
		Source: b.Source, RoutingKey: b.RoutingKey,
		DestinationType: topology.DestinationType(b.DestinationType), Destination: b.Destination,
		Arguments: topology.NormalizeArguments(b.Arguments).JSON(),
	}
}

// apart tells owner's marks from all other bindings.
func apart(all []rabbithole.BindingInfo) (bindings, marks []topology.Binding) {
	for _, each := range all {
		if b := binding(each); b.Owner() != "" {
			marks = append(marks, b)
		} else {
			bindings = append(bindings, b)
		}
	}
	return bindings, marks
}

// loose is a field that has its zero value if RabbitMQ sends another type. Erlang may write [] for {}, null for any
// value, and "undefined" or "" for a number or boolean.
type loose[T any] struct{ value T }

func (l *loose[T]) UnmarshalJSON(text []byte) error {
	var value T
	if json.Unmarshal(text, &value) == nil {
		l.value = value
	}
	return nil
}

// count is a number that RabbitMQ may leave out. It is nil then.
type count = loose[*int64]

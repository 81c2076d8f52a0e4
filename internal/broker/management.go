package broker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/health"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/policy"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// newCall begins one call of an operation.
func (c *Client) newCall(ctx context.Context) *call { return &call{ctx: ctx, transport: c.http} }

// get reads what rabbit-hole cannot: with a query for columns, and without failing on what an unhealthy queue
// puts into fields that nobody asked for.
func (c *Client) get(ctx context.Context, result any, query string, path ...string) error {
	_, err := c.request(c.newCall(ctx), http.MethodGet, apiPath(path...)+query, nil, result)
	return err
}

// request makes a request that rabbit-hole has no method for.
func (c *Client) request(call *call, method, pathAndQuery string, body, result any) (status int, err error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return 0, err
		}
		content = strings.NewReader(string(text))
	}
	request, err := http.NewRequestWithContext(call.ctx, method, c.endpoint.String()+"/api/"+pathAndQuery, content)
	if err != nil {
		return 0, err
	}
	request.SetBasicAuth(c.username, c.password)
	request.Header.Set("Content-Type", "application/json")
	response, err := call.RoundTrip(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	if result != nil {
		if err := json.NewDecoder(response.Body).Decode(result); err != nil {
			return response.StatusCode, &notManagement{request.URL.EscapedPath(), err}
		}
	}
	return response.StatusCode, nil
}

// listed finds out whether it was the answer that rabbit-hole could not read.
func listed(bindings []rabbithole.BindingInfo, err error) ([]rabbithole.BindingInfo, error) {
	if err != nil && !wraps[*url.Error](err) {
		return nil, &notManagement{"a list of bindings", err}
	}
	return bindings, err
}

// notManagement is an answer that no management API gives.
type notManagement struct {
	path string
	err  error
}

func (e *notManagement) Error() string {
	if large, is := errors.AsType[*tooLarge](e.err); is {
		return fmt.Sprintf("the answer of %s %s", e.path, large)
	}
	return fmt.Sprintf("the answer of %s is not what RabbitMQ sends: %s", e.path, e.err)
}

// apiPath escapes each segment once.
func apiPath(segments ...string) string {
	escaped := make([]string, len(segments))
	for i, s := range segments {
		escaped[i] = url.PathEscape(s)
	}
	return strings.Join(escaped, "/")
}

// status turns the result of a rabbit-hole method into a status code.
func status(response *http.Response, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	_ = response.Body.Close()
	return response.StatusCode, nil
}

// overview is who the broker is.
type overview struct {
	Version   string     `json:"rabbitmq_version"`
	Listeners []listener `json:"listeners"`
	// DisableStats is set where nothing is collected for the statistics.
	DisableStats bool `json:"disable_stats"`
}

type listener struct {
	Protocol string `json:"protocol"`
	Port     int    `json:"port"`
}

func (c *Client) overview(call *call) (overview, error) {
	var result overview
	if _, err := c.request(call, http.MethodGet, "overview?columns=rabbitmq_version,listeners,disable_stats", nil,
		&result); err != nil {
		return overview{}, err
	}
	if result.Version == "" {
		return overview{}, &notManagement{"/api/overview", errors.New("it names no RabbitMQ version")}
	}
	return result, nil
}

// everywhere is an exchange that every vhost has and that cannot be deleted.
const everywhere = "amq.direct"

// confirm makes sure that the answer 404 means a missing object. The answer also comes for a wrong base path and for a
// vhost that does not exist. Since 4.3 it also comes for a vhost that the user may not use.
func (c *Client) confirm(ctx context.Context, vhost string) error {
	const confirming = "confirm that the endpoint is a RabbitMQ management API"
	var exchange struct{ Name string }
	err := c.get(ctx, &exchange, "?columns=name", "exchanges", vhost, everywhere)
	if err == nil {
		err = about(everywhere, exchange.Name)
	}
	if err == nil {
		return nil
	}
	if !isNotFound(err) {
		return c.failed(fmt.Sprintf("look at vhost %q", vhost), err)
	}
	overview := c.newCall(ctx)
	overview.patient = true
	if _, err := c.overview(overview); isNotFound(err) {
		return c.failed(confirming, &notManagement{"/api/overview", err})
	} else if err != nil {
		return c.failed(confirming, err)
	} else if overview.attempts.Load() > 1 {
		return errStarting
	}
	var r *refusal
	// RabbitMQ's words for a vhost that does not exist (TestPermissions)
	if errors.As(err, &r) && r.code != "" && r.code != "Object Not Found" {
		return &Error{Forbidden, fmt.Sprintf("look at vhost %q", vhost),
			fmt.Sprintf("user %q may not use it, or it does not exist: %s", c.username, r.reason), vhostHint}
	}
	if r != nil && r.code == "" {
		return c.losesSlash(vhost, r.Error()+", and RabbitMQ does not say it")
	}
	if strings.Contains(vhost, "/") {
		if vhosts, err := c.Vhosts(ctx); err != nil || slices.Contains(vhosts, vhost) {
			return cmp.Or(err, c.losesSlash(vhost, "it is in the list of vhosts, and is not found"))
		}
	}
	return &Error{VhostNotFound, fmt.Sprintf("find vhost %q", vhost), fmt.Sprintf("%s has no such vhost", c.endpoint),
		"create it before, or check the attribute vhost"}
}

// losesSlash is for a gateway that does not find a vhost which may be there.
func (c *Client) losesSlash(vhost, reason string) error {
	hint := c.endpointHint()
	if strings.Contains(vhost, "/") {
		hint = "a gateway before the management API has to pass on %2F in a path as it is. nginx does with a " +
			"proxy_pass of a host alone. Apache httpd does with AllowEncodedSlashes NoDecode and ProxyPass nocanon"
	}
	return &Error{NotManagementAPI, fmt.Sprintf("look at vhost %q", vhost), c.http.secrets.clean(reason), hint}
}

// errStarting is for a broker that answered 404 to everything, and then no longer did. It does so for some moments when
// it starts and stops (TestRestart).
var errStarting = &Error{Unavailable, "read from the management API", "RabbitMQ is starting or stopping", "try again"}

// again repeats work that a start or stop of the broker, or the deletion of the vhost, has interrupted. Meanwhile
// RabbitMQ answers for the vhost as for one that the user may not use (3.10 to 4.3, TestVhostIsDeletedMeanwhile).
func again[T any](ctx context.Context, c *Client, do func() (T, error)) (T, error) {
	began := time.Now()
	return repeat(ctx, c, do, func(err error) bool {
		return errors.Is(err, errStarting) || isBarred(err) && time.Since(began) < startingTime
	})
}

// isBarred tells whether the user may not use the vhost at all.
func isBarred(err error) bool {
	e, is := errors.AsType[*Error](err)
	return is && e.Kind == Forbidden && e.Hint == vhostHint
}

// repeat does something until it is no longer worth repeating, or the time for retries is over.
func repeat[T any](ctx context.Context, c *Client, do func() (T, error), isWorthIt func(error) bool) (T, error) {
	deadline := time.Now().Add(c.http.retryTimeout)
	for n := 0; ; n++ {
		result, err := do()
		if err == nil || !isWorthIt(err) || isHasty(ctx) || !time.Now().Add(backoff(n)).Before(deadline) {
			return result, err
		}
		select {
		case <-time.After(backoff(n)):
		case <-ctx.Done():
			return result, c.failed("wait for RabbitMQ to start", ctx.Err())
		}
	}
}

func isNotFound(err error) bool {
	r, is := errors.AsType[*refusal](err)
	return is && r.status == http.StatusNotFound
}

// exchangeInfo, queueInfo and bindingInfo are the fields that are needed, with the columns that
// ask for them.
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
	Consumers      count                 `json:"consumers"`
	Leader         loose[string]         `json:"leader"`
	Members        loose[[]string]       `json:"members"`
	Online         loose[[]string]       `json:"online"`
	State          loose[string]         `json:"state"`
	Policy         loose[string]         `json:"policy"`
	OperatorPolicy loose[string]         `json:"operator_policy"`
	// Effective is nil until RabbitMQ has it: for up to eight seconds after the declaration (3.10 to 4.3).
	Effective *loose[map[string]any] `json:"effective_policy_definition"`
}

const queueQuery = "?columns=name,durable,auto_delete,exclusive,arguments,messages,consumers,leader,members,online," +
	"state,policy,operator_policy,effective_policy_definition"

func (q queueInfo) queue() topology.Queue {
	return topology.Queue{
		Name: q.Name, Durable: q.Durable.value, AutoDelete: q.AutoDelete.value, Exclusive: q.Exclusive.value,
		Arguments: topology.NormalizeArguments(q.Arguments.value),
	}
}

// status has what the queue itself says of policies.
func (q queueInfo) status() health.QueueStatus {
	status := health.QueueStatus{
		Messages: q.Messages.n, Consumers: q.Consumers.n,
		Leader: q.Leader.value, Members: len(q.Members.value), Online: len(q.Online.value),
		Down:    q.State.value == "down",
		Applied: policy.Applied{Policy: q.Policy.value, Operator: q.OperatorPolicy.value, Unknown: q.Effective == nil},
	}
	if q.Effective != nil {
		status.Applied.Definition = topology.NormalizeArguments(q.Effective.value)
	}
	return status
}

func binding(b rabbithole.BindingInfo) topology.Binding {
	return topology.Binding{
		Source: b.Source, RoutingKey: b.RoutingKey,
		DestinationType: topology.DestinationType(b.DestinationType), Destination: b.Destination,
		Arguments: topology.NormalizeArguments(b.Arguments).JSON(),
	}
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

// count is a number that RabbitMQ may leave out. It is nil then, and where RabbitMQ sends another type.
type count struct{ n *int64 }

func (c *count) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, &c.n) != nil {
		c.n = nil
	}
	return nil
}

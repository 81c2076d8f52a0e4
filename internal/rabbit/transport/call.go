package transport

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/terraform-plugin-log/tflog"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
)

// Call is one request of an operation, with all its attempts. rabbit-hole makes requests through it, which knows
// neither contexts nor kept-alive connections, and drops the reason of a 401.
type Call struct {
	// Judge, if there is one, says for how long an answer is worth another attempt, 0 for none. It is asked about an
	// answer that is neither a success nor a failure that may pass at any broker. An error is the outcome when there is
	// no further attempt.
	Judge func(*Refusal) (worth time.Duration, err error)
	// MakeSure, if there is one, has to succeed before each further attempt.
	MakeSure func() error

	transport *Transport
	ctx       context.Context
	// failing is when the requests began to fail that this one waits with, and failure is what its last attempt came
	// to.
	failing time.Time
	failure error
	// refusal is the last answer, unless that is a success.
	refusal *Refusal

	attempts atomic.Int32
	isSent   atomic.Bool
	isUnsure bool
}

// Call begins a call.
func (t *Transport) Call(ctx context.Context) *Call {
	return &Call{ctx: t.Logging(ctx), transport: t}
}

// IsRepeated tells whether there was more than one attempt.
func (c *Call) IsRepeated() bool { return c.attempts.Load() > 1 }

// IsUnsure tells whether an attempt may have reached the broker whose outcome nobody knows.
func (c *Call) IsUnsure() bool { return c.isUnsure }

// Path escapes each segment once.
func Path(segments ...string) string {
	return plaintext.Join(segments, "/", url.PathEscape)
}

// Do makes a request. Body and result are JSON, nil for none.
func (c *Call) Do(method, pathAndQuery string, body, result any) (status int, err error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return 0, err
		}
		content = strings.NewReader(string(text))
	}
	config := c.transport.config
	request, err := http.NewRequestWithContext(c.ctx, method, config.Endpoint.String()+"/api/"+pathAndQuery, content)
	if err != nil {
		return 0, err
	}
	request.SetBasicAuth(config.Username, config.Password)
	request.Header.Set("Content-Type", "application/json")
	response, err := c.RoundTrip(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	if result != nil {
		if err := json.NewDecoder(response.Body).Decode(result); err != nil {
			return response.StatusCode, &NotManagement{request.URL.EscapedPath(), err}
		}
	}
	return response.StatusCode, nil
}

type callKey struct{}

// callOf is the call that the context of a request carries.
func callOf(ctx context.Context) *Call {
	c, ok := ctx.Value(callKey{}).(*Call)
	if !ok {
		panic("a request that did not come through Call.RoundTrip")
	}
	return c
}

// RoundTrip makes the request. It fails for all but a success, and the deletion of an object that is gone.
func (c *Call) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(context.WithValue(c.ctx, callKey{}, c))
	request.Close = false
	response, err := c.transport.retry.RoundTrip(request)
	if err != nil {
		if response != nil {
			_ = response.Body.Close()
		}
		return nil, c.waitedInVain(err)
	}
	if response.StatusCode < 300 || request.Method == http.MethodDelete && response.StatusCode == http.StatusNotFound {
		if err := isAnswer(request, response); err != nil {
			_ = response.Body.Close()
			return nil, err
		}
		return response, nil
	}
	_ = response.Body.Close()
	return nil, c.refusal
}

// isAnswer fails for a success that is not one of RabbitMQ's, which answers a write with 201 or 204. A gateway that
// asks people to sign in says 200, and has done nothing.
func isAnswer(request *http.Request, response *http.Response) error {
	switch response.StatusCode {
	case http.StatusCreated, http.StatusNoContent, http.StatusNotFound:
		return nil
	}
	if request.Method == http.MethodGet {
		return nil
	}
	return &NotManagement{request.URL.EscapedPath(), fmt.Errorf(
		"to %s it says %d %s", request.Method, response.StatusCode, http.StatusText(response.StatusCode))}
}

// longestReason is more than RabbitMQ ever says, and less than a gateway may repeat of a request.
const longestReason = 1000

func (t *Transport) refusal(request *http.Request, response *http.Response) *Refusal {
	var body struct{ Error, Reason any }
	_ = json.NewDecoder(response.Body).Decode(&body)
	clean := func(text string) string {
		text = t.Clean(text)
		if runes := []rune(text); len(runes) > longestReason {
			return string(runes[:longestReason]) + " …"
		}
		return text
	}
	code, _ := body.Error.(string)
	reason, _ := body.Reason.(string)
	return &Refusal{method: request.Method, path: request.URL.EscapedPath(), Status: response.StatusCode,
		Code: clean(code), Reason: clean(cmp.Or(reason, code)), Location: clean(response.Header.Get("Location"))}
}

// worthRetrying is true for a failure that a further attempt may mend, while there is time for it. All our requests do
// the same when they are repeated.
func (t *Transport) worthRetrying(ctx context.Context, response *http.Response, err error) (bool, error) {
	call := callOf(ctx)
	call.refusal = nil
	if err == nil && response.StatusCode >= 300 {
		call.refusal = t.refusal(response.Request, response)
	}
	passes := mayPass(response, err)
	if call.isSent.Load() && (passes || err != nil || response.StatusCode >= 500) {
		call.isUnsure = true
	}
	if err == nil && !passes {
		t.outage.end()
	}
	if ctx.Err() != nil && (err != nil || call.refusal != nil) {
		return false, ctx.Err()
	}
	worth, outcome := time.Duration(0), error(nil)
	switch {
	case passes:
		worth = t.config.RetryTimeout
	case call.refusal != nil && call.Judge != nil:
		worth, outcome = call.Judge(call.refusal)
		worth = min(worth, t.config.RetryTimeout)
	}
	if worth == 0 || IsHasty(ctx) {
		return false, outcome
	}
	if call.failure = err; err == nil {
		call.failure = fmt.Errorf("it answers %d %s", response.StatusCode, http.StatusText(response.StatusCode))
	}
	now := time.Now()
	switch {
	case !call.failing.IsZero():
	case passes:
		call.failing = t.outage.begin(now)
	default:
		call.failing = now
	}
	if !now.Add(backoff(int(call.attempts.Load()) - 1)).Before(call.failing.Add(worth)) {
		return false, outcome
	}
	if passes && t.outage.isNews() {
		tflog.SubsystemWarn(ctx, subsystem,
			fmt.Sprintf("RabbitMQ does not answer as it should; what fails is tried again for up to %s",
				plaintext.Duration(worth)),
			map[string]any{"endpoint": t.config.Endpoint.String(), "error": call.failure.Error()})
	}
	return true, nil
}

// waitedInVain adds to the end of an operation what it was waiting for. Whoever interrupts it does not want the undo
// to wait for that either.
func (c *Call) waitedInVain(err error) error {
	if c.failure == nil || !errors.Is(err, c.ctx.Err()) {
		return err
	}
	// not because of what became of another request, see errgroup
	if errors.Is(context.Cause(c.ctx), context.Canceled) {
		c.transport.outage.giveUp()
	}
	return &WaitedInVain{err, c.failure}
}

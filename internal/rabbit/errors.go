package rabbit

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"syscall"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit/transport"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Kind is what went wrong, for those who decide on it.
type Kind string

// The kinds of errors.
const (
	Unauthorized     Kind = "authentication failed"
	EndsEarly        Kind = "credentials end too early"
	Forbidden        Kind = "permission denied"
	VhostNotFound    Kind = "vhost not found"
	NotFound         Kind = "object not found"
	NotManagementAPI Kind = "not a RabbitMQ management API"
	LavinMQ          Kind = "the broker is LavinMQ"
	Unreachable      Kind = "broker not reachable"
	NotSecure        Kind = "no secure connection"
	Timeout          Kind = "broker does not answer"
	Unavailable      Kind = "broker not available"
	Conflict         Kind = "object exists with other properties"
	InUse            Kind = "object in use"
	LimitReached     Kind = "limit reached"
	NotArrived       Kind = "message has not arrived"
	// Exists is for a declaration that finds what it was to make, see plan.Create.
	Exists   Kind = "object exists"
	Refused  Kind = "request refused"
	Canceled Kind = "canceled"
)

// Summary is an error of the kind in a few words.
func (k Kind) Summary() string { return "RabbitMQ: " + string(k) }

// IsKind tells whether the error is, or wraps, an *Error of one of the kinds.
func IsKind(err error, kinds ...Kind) bool {
	e, is := errors.AsType[*Error](err)
	return is && slices.Contains(kinds, e.Kind)
}

// IsBarred tells whether the user may not use the vhost at all.
func IsBarred(err error) bool {
	e, is := errors.AsType[*Error](err)
	return is && e.Kind == Forbidden && e.Hint == vhostHint
}

// IsOfConnection tells whether each request of the provider meets this error, whatever it is about. The endpoint
// answers, but is the wrong one, or refuses the user.
func IsOfConnection(err error) bool {
	e, is := errors.AsType[*Error](err)
	return is && (slices.Contains([]Kind{Unauthorized, NotManagementAPI, NotSecure}, e.Kind) ||
		e.Kind == Forbidden && e.Hint == managementHint)
}

// SameCause tells whether two errors, of an operation and of its undo, are both that the broker does not answer.
func SameCause(err, other error) bool {
	isAway := func(err error) bool { return IsKind(err, Unreachable, NotSecure, Timeout, Unavailable) }
	return isAway(err) && isAway(other)
}

// Error is a failed operation on a broker.
type Error struct {
	Kind Kind
	// Op is the action and its object.
	Op string
	// Reason is why it failed, in the broker's own words where it said something.
	Reason string
	// Hint is what to do, empty if Reason says it all.
	Hint string
}

func (e *Error) Error() string {
	text := e.Op + ": " + e.Reason
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

// Summary is the error in a few words.
func (e *Error) Summary() string { return e.Kind.Summary() }

// Detail is the error with all that is known.
func (e *Error) Detail() string {
	text := Sentence("Could not " + e.Op + ": " + e.Reason)
	if e.Hint != "" {
		text += "\n\n" + Sentence(e.Hint)
	}
	return text
}

// Sentence makes a sentence of a text.
func Sentence(text string) string {
	text = strings.TrimSpace(text)
	if text == "" || strings.HasSuffix(text, ".") {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// Described is an error for people. All errors of this package and of drain are, and some of engine.
type Described interface {
	error
	Summary() string
	Detail() string
}

// Describe is an error in the words of this package.
func Describe(err error) Described {
	if d, is := errors.AsType[Described](err); is {
		return d
	}
	return &Error{Kind: Refused, Op: "talk to RabbitMQ", Reason: err.Error()}
}

// Interrupted is for an operation whose context has ended.
func (c *Client) Interrupted(op string, err error) error { return c.failed(op, err) }

// failed turns the outcome of a request into an *Error. Op is the action and its object.
func (c *Client) failed(op string, err error) error {
	if described, is := errors.AsType[Described](err); is {
		return described
	}
	if r, is := errors.AsType[*transport.Refusal](err); is {
		return c.refused(op, r)
	}
	if not, is := errors.AsType[*transport.NotManagement](err); is {
		return &Error{NotManagementAPI, op, c.http.Clean(not.Error()), c.endpointHint()}
	}
	if decoding, is := errors.AsType[*url.Error](err); is { // its text repeats the URL
		err = decoding.Err
	}
	return c.unreached(op, err)
}

func (c *Client) endpointHint() string {
	return fmt.Sprintf("endpoint is %s; it has to be the base URL of the management API, without /api, by default on "+
		"port 15672", c.endpoint)
}

// refused is for an answer that is not a success.
func (c *Client) refused(op string, r *transport.Refusal) error {
	reason := cmp.Or(r.Reason, r.Error())
	switch {
	case limit.MatchString(r.Reason):
		return &Error{LimitReached, op, reason, limitHint}
	case r.Status == http.StatusUnauthorized && !permission.MatchString(r.Reason):
		return &Error{Unauthorized, op, fmt.Sprintf("%s refused user %q: %s", c.endpoint, c.username, reason),
			"check username and password, or RABBITMQ_USERNAME and RABBITMQ_PASSWORD; the user guest is only let in " +
				"from the broker's own host"}
	case r.Status == http.StatusUnauthorized, r.Status == http.StatusForbidden:
		return &Error{Forbidden, op, fmt.Sprintf("user %q may not do this: %s", c.username, reason),
			permissionHint(reason)}
	case r.Status == http.StatusProxyAuthRequired:
		return &Error{Unreachable, op, r.Error(), proxyHint(r.Status)}
	case r.Location != "" && r.Status >= 300 && r.Status < 400:
		return &Error{NotManagementAPI, op, fmt.Sprintf("%s redirects to %s", c.endpoint,
			withoutCredentials(r.Location)), c.endpointHint()}
	case deadLettering.MatchString(r.Reason):
		return &Error{Unavailable, op, "this node has lost its at-least-once dead-lettering",
			"that is a bug of RabbitMQ (rabbitmq-server issue 16652), and lasts until the node is restarted. No " +
				"message is lost by it"}
	case r.Status == http.StatusTooManyRequests, r.Status >= 500:
		return &Error{Unavailable, op, r.Error(), "the broker or a proxy before it is overloaded or not ready. Look " +
			"at its log, and try again"}
	case r.Reason == "":
		return &Error{NotManagementAPI, op, r.Error(), c.endpointHint()}
	case r.Status == http.StatusNotFound:
		return &Error{NotFound, op, reason, ""}
	case inequivalent.MatchString(r.Reason):
		return &Error{Conflict, op, reason, "an object of this name exists with other properties, which cannot " +
			"be changed"}
	case inUse.MatchString(r.Reason):
		return &Error{InUse, op, reason, "something is bound to it. If that came while this ran, try again"}
	}
	return &Error{Refused, op, reason, ""}
}

// The broker's words, seen on 3.10.8, 4.0.5 and 4.3.6.
var (
	permission   = regexp.MustCompile(`(?i)access|not (management|administrator|monitor\w*|policymaker) user`)
	inequivalent = regexp.MustCompile(`(?i)inequivalent`)
	inUse        = regexp.MustCompile(`(?i)in use`)
	// limit is for those of a vhost, a user, a node and the cluster, on connections, channels, queues and exchanges.
	limit = regexp.MustCompile(`(?i)\blimit\b.*\breached\b|\breached\b.*\blimit\b`)

	// deadLettering is the supervisor of the processes that dead-letter at least once. After many failures within a
	// second it is gone for good, and every queue that needs it fails (3.10.8 to 4.2). The deletion of a queue that has
	// just got a leader causes such failures.
	deadLettering = regexp.MustCompile(`rabbit_fifo_dlx_sup`)

	notEmptyReason = regexp.MustCompile(`(?i)not empty`)
)

const limitHint = "close or delete unneeded objects, or raise the limit: rabbitmqctl set_vhost_limits -p <vhost>, " +
	"rabbitmqctl set_user_limits <user>, or the broker's configuration"

const vhostHint = "the user needs permissions in this vhost: rabbitmqctl set_permissions -p <vhost> <user> " +
	"<configure> <write> <read>"

const managementHint = "the user needs the tag management: rabbitmqctl set_user_tags <user> management"

func permissionHint(reason string) string {
	lower := strings.ToLower(reason)
	switch {
	case strings.Contains(lower, "management user"):
		return managementHint
	case strings.Contains(lower, "policymaker user"):
		return policymakerHint
	case strings.Contains(lower, "virtual host"):
		return vhostHint
	}
	return ""
}

const policymakerHint = "the user needs the tag policymaker: rabbitmqctl set_user_tags <user> management policymaker"

// notConnected is for an AMQP connection that could not be opened.
func (c *Client) notConnected(ctx context.Context, op string, err error) *Error {
	reason := c.http.Mask(err.Error())
	var closed *amqp.Error
	var known *Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(ctx.Err(), context.Canceled):
		return &Error{Canceled, op, "the operation was canceled", ""}
	case !errors.As(err, &closed) || errors.Is(err, amqp.ErrSASL):
	case isLimit(err):
		return &Error{LimitReached, op, reason, limitHint}
	case closed.Code == amqp.AccessRefused && c.amqpURI != nil && c.amqpURI.User != nil:
		return &Error{Unauthorized, op, reason,
			"the AMQP URI (amqp_uri or RABBITMQ_AMQP_URI) has a user and a password of its own. " +
				"Correct them there. Or leave them out: then AMQP takes username and password, too. In a URI, a " +
				"space is %20, and not +"}
	case closed.Code == amqp.AccessRefused:
		return &Error{Unauthorized, op, reason, "the management API accepts this user and password. Check that AMQP " +
			"does, too, for this user and from this host. amqp_uri or RABBITMQ_AMQP_URI can have another " +
			"user and password"}
	case closed.Code == amqp.NotAllowed:
		return &Error{Forbidden, op, reason, vhostHint}
	}
	return &Error{Unreachable, op, reason, "this takes AMQP: check amqp_uri or RABBITMQ_AMQP_URI, and the user's " +
		"access to the vhost"}
}

// isLimit tells whether AMQP was refused because of a limit.
func isLimit(err error) bool {
	closed, is := errors.AsType[*amqp.Error](err)
	return is && limit.MatchString(closed.Reason)
}

// takes names the permissions that a write takes. The broker's answer does not (3.10 to 4.3).
func takes(permissions string) string {
	return fmt.Sprintf("this takes %s, and RabbitMQ does not name the missing permission. The guide to permissions "+
		"has the expressions for rabbitmqctl set_permissions", permissions)
}

// declarationNeeds is for an object from which messages go on to another exchange.
func declarationNeeds(kind topology.DestinationType, name, next string) string {
	if next == "" {
		return fmt.Sprintf("configure on %s %q", kind, name)
	}
	return fmt.Sprintf("configure and read on %s %q and write on exchange %q", kind, name, next)
}

func bindingNeeds(b topology.Binding) string {
	return fmt.Sprintf("write on %s and read on exchange %q, where topic permissions, if there are any, have to "+
		"include the key %q", b.DestinationObject(), b.Source, b.RoutingKey)
}

func withoutCredentials(location string) string {
	u, err := url.Parse(location)
	if err != nil {
		return "another address"
	}
	u.User, u.RawQuery = nil, ""
	return u.String()
}

// unreached is for a request without an answer.
func (c *Client) unreached(op string, err error) error {
	var (
		timeout  transport.AttemptTimeout
		inVain   *transport.WaitedInVain
		invalid  x509.CertificateInvalidError
		proxy    *transport.ProxyRefusal
		network  *net.OpError
		netError net.Error
	)
	fail := func(kind Kind, reason, hint string) error {
		return &Error{kind, op, fmt.Sprintf("%s: %s", c.endpoint, c.http.Clean(reason)), hint}
	}
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		meanwhile := ""
		if errors.As(err, &inVain) {
			meanwhile = fmt.Sprintf(" while it waited for %s: %s", c.endpoint,
				c.http.Mask(inVain.Failure.Error()))
		}
		if errors.Is(err, context.Canceled) {
			return &Error{Canceled, op, "the operation was canceled" + meanwhile, ""}
		}
		return &Error{Timeout, op, "the operation's time was over" + meanwhile, "in a resource, the attribute " +
			"timeouts gives it more"}
	case errors.As(err, &timeout):
		return fail(Timeout, timeout.Error(), "check that the broker is well; request_timeout allows for more time")
	case errors.As(err, &proxy):
		return fail(Unreachable, proxy.Error(), proxyHint(proxy.Status))
	case transport.Wraps[x509.UnknownAuthorityError](err):
		return fail(NotSecure, err.Error(), "give the certificate of the authority that issued the broker's with "+
			"cacert_file or RABBITMQ_CACERT")
	case transport.Wraps[x509.HostnameError](err):
		return fail(NotSecure, err.Error(), "use a host name in endpoint for which the broker's certificate is valid")
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fail(NotSecure, err.Error(), "the broker's certificate has to be renewed, or the clock of this "+
			"machine set")
	case transport.IsAMQP(err):
		return &Error{NotManagementAPI, op, fmt.Sprintf("%s is a port for AMQP", c.endpoint), c.endpointHint()}
	case errors.Is(err, http.ErrSchemeMismatch):
		return fail(NotSecure, err.Error(), "endpoint begins with https://, but http:// is spoken there")
	case transport.IsTLS(err):
		return fail(NotSecure, err.Error(), tlsHint(err))
	case transport.IsUnknownHost(err):
		return fail(Unreachable, err.Error(), "check the host name in endpoint")
	case errors.As(err, &network) && network.Op == "proxyconnect":
		return fail(Unreachable, err.Error(), proxyHint(0))
	case errors.Is(err, syscall.ECONNREFUSED):
		return fail(Unreachable, err.Error(), "check that the broker runs, that its management plugin is enabled, "+
			"and the port in endpoint; the default is 15672")
	case errors.As(err, &netError) && netError.Timeout():
		return fail(Timeout, err.Error(), "check the host and port in endpoint, and the firewalls on the way")
	}
	return fail(Unreachable, err.Error(), "check endpoint; an https port closes connections that speak http")
}

func proxyHint(status int) string {
	if status == http.StatusProxyAuthRequired {
		return "the proxy asks for a user name and a password, which belong into proxy: " +
			"http://user:password@proxy.example.com:3128"
	}
	return "check proxy or RABBITMQ_PROXY, or else HTTP_PROXY, HTTPS_PROXY and NO_PROXY"
}

func tlsHint(err error) string {
	if transport.Wraps[tls.AlertError](err) || strings.Contains(err.Error(), "remote error") {
		return "the broker did not accept the connection; if it asks for a client certificate, give clientcert_file " +
			"and clientkey_file"
	}
	return "check endpoint, cacert_file and the broker's certificate"
}

package transport

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
)

// Refusal is an answer that is not a success.
type Refusal struct {
	method, path string
	Status       int
	// Code and Reason are in the broker's words, empty if the answer is not that of a management API.
	Code, Reason string
	// Location is where a redirect leads.
	Location string
}

func (r *Refusal) Error() string {
	text := fmt.Sprintf("%s %s was answered %d %s", r.method, r.path, r.Status, http.StatusText(r.Status))
	if r.Reason != "" {
		text += ": " + r.Reason
	}
	return text
}

// IsNotFound tells whether the answer was 404.
func IsNotFound(err error) bool {
	r, is := errors.AsType[*Refusal](err)
	return is && r.Status == http.StatusNotFound
}

// Unlike is a *NotManagement that says what the request asked for.
func Unlike(what string, err error) error { return &NotManagement{what, err} }

// NotManagement is an answer that no management API gives.
type NotManagement struct {
	what string
	err  error
}

func (e *NotManagement) Error() string {
	if large, is := errors.AsType[*tooLarge](e.err); is {
		return fmt.Sprintf("the answer of %s %s", e.what, large)
	}
	return fmt.Sprintf("the answer of %s is not what RabbitMQ sends: %s", e.what, e.err)
}

// ProxyRefusal is the answer of a proxy that does not connect to the broker.
type ProxyRefusal struct {
	proxy  string
	Status int
}

func (e *ProxyRefusal) Error() string {
	return fmt.Sprintf("the proxy at %s answered %d %s", e.proxy, e.Status, http.StatusText(e.Status))
}

// WaitedInVain is the end of an operation's context while a request waited for its next attempt.
type WaitedInVain struct{ ended, Failure error }

func (e *WaitedInVain) Error() string {
	return fmt.Sprintf("%s, while it waited for RabbitMQ: %s", e.ended, e.Failure)
}

// Unwrap gives the context's error alone.
func (e *WaitedInVain) Unwrap() error { return e.ended }

// Wraps tells whether the error is, or wraps, one of the type.
func Wraps[T error](err error) bool {
	_, found := errors.AsType[T](err)
	return found
}

// IsTLS tells whether the two sides did not agree on a secure connection.
func IsTLS(err error) bool {
	network, isNetwork := errors.AsType[*net.OpError](err)
	return Wraps[*tls.CertificateVerificationError](err) || Wraps[tls.AlertError](err) ||
		Wraps[tls.RecordHeaderError](err) || errors.Is(err, http.ErrSchemeMismatch) ||
		isNetwork && network.Op == "remote error" // how crypto/tls reports the other side's alert
}

// isRefusedByProxy tells whether a proxy would not connect, whatever is behind it.
func isRefusedByProxy(err error) bool {
	proxy, is := errors.AsType[*ProxyRefusal](err)
	return is && proxy.Status < 500
}

// IsUnknownHost tells whether there is no such host.
func IsUnknownHost(err error) bool {
	dns, is := errors.AsType[*net.DNSError](err)
	return is && dns.IsNotFound
}

// IsAMQP tells whether the endpoint speaks AMQP, which answers anything else with its own header.
func IsAMQP(err error) bool { return strings.Contains(err.Error(), `malformed HTTP response "AMQP`) }

package rabbit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit/transport"
)

// Vhost is one vhost of a broker: its objects are read in read.go, written in write.go, and counted in count.go.
type Vhost struct {
	client *Client
	name   string
}

// Vhost is the vhost of this name. It makes no request.
func (c *Client) Vhost(name string) *Vhost { return &Vhost{client: c, name: name} }

// Name is that of the vhost.
func (v *Vhost) Name() string { return v.name }

// Client is the broker that has the vhost.
func (v *Vhost) Client() *Client { return v.client }

// everywhere is an exchange that every vhost has and that cannot be deleted.
const everywhere = "amq.direct"

// confirm makes sure that the answer 404 means a missing object. The answer also comes for a wrong base path and for a
// vhost that does not exist. Since 4.3 it also comes for a vhost that the user may not use.
func (v *Vhost) confirm(ctx context.Context) error {
	const confirming = "confirm that the endpoint is a RabbitMQ management API"
	var exchange struct{ Name string }
	err := v.client.get(ctx, &exchange, "?columns=name", "exchanges", v.name, everywhere)
	if err == nil {
		err = about(everywhere, exchange.Name)
	}
	if err == nil {
		return nil
	}
	if !transport.IsNotFound(err) {
		return v.client.failed(v.looking(), err)
	}
	overview := v.client.http.Call(ctx)
	overview.Patient = true
	if _, err := v.client.overview(overview); transport.IsNotFound(err) {
		return v.client.failed(confirming, transport.Unlike("/api/overview", err))
	} else if err != nil {
		return v.client.failed(confirming, err)
	} else if overview.IsRepeated() {
		return errStarting
	}
	var r *transport.Refusal
	// RabbitMQ's words for a vhost that does not exist (TestPermissions)
	if errors.As(err, &r) && r.Code != "" && r.Code != "Object Not Found" {
		return &Error{Forbidden, v.looking(),
			fmt.Sprintf("user %q may not use it, or it does not exist: %s", v.client.username, r.Reason), vhostHint}
	}
	if r != nil && r.Code == "" {
		return v.losesSlash(r.Error() + ", and RabbitMQ does not say it")
	}
	if strings.Contains(v.name, "/") {
		if vhosts, err := v.client.Vhosts(ctx); err != nil || slices.Contains(vhosts, v.name) {
			return cmp.Or(err, v.losesSlash("it is in the list of vhosts, and is not found"))
		}
	}
	return &Error{VhostNotFound, fmt.Sprintf("find vhost %q", v.name),
		fmt.Sprintf("%s has no such vhost", v.client.endpoint), "create it before, or check the attribute vhost"}
}

// losesSlash is for a gateway that does not find a vhost which may be there.
func (v *Vhost) losesSlash(reason string) error {
	hint := v.client.endpointHint()
	if strings.Contains(v.name, "/") {
		hint = "a gateway before the management API has to pass on %2F in a path as it is. nginx does with a " +
			"proxy_pass of a host alone. Apache httpd does with AllowEncodedSlashes NoDecode and ProxyPass nocanon"
	}
	return &Error{NotManagementAPI, v.looking(), v.client.http.Clean(reason), hint}
}

func (v *Vhost) looking() string { return fmt.Sprintf("look at vhost %q", v.name) }

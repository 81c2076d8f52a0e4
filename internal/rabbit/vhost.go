package rabbit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit/transport"
)

// everywhere is an exchange that every vhost has and that cannot be deleted.
const everywhere = "amq.direct"

// Confirm makes sure that the vhost is there, so that the answer 404 means a missing object. It waits until the broker
// has started, and tells whether it did so only now. The answer also comes for a wrong base path and for a vhost that
// does not exist. Since 4.3 it also comes for a vhost that the user may not use. While RabbitMQ deletes a vhost, it
// waits some seconds for the end.
func (v *Vhost) Confirm(ctx context.Context) (starts bool, err error) {
	call := v.client.http.Call(ctx)
	call.Judge = func(r *transport.Refusal) (worth time.Duration, err error) {
		if r.Status != http.StatusNotFound {
			return v.whileBarred(r)
		}
		if starts, err = v.verifyManagement(ctx); err != nil {
			return 0, err
		}
		if starts {
			return v.client.retryTimeout, errStarting
		}
		if err = v.absent(ctx, r); IsBarred(err) && !v.isListed {
			return startingTime, err
		}
		return 0, err
	}
	var exchange struct{ Name string }
	_, err = call.Do(http.MethodGet, transport.Path("exchanges", v.name, everywhere)+"?columns=name", nil, &exchange)
	if err == nil {
		err = about(everywhere, exchange.Name)
	}
	if err != nil {
		return false, v.client.failed(v.looking(), err)
	}
	return call.IsRepeated(), nil
}

// verifyManagement makes sure that the endpoint is a management API, and tells whether it starts now.
func (v *Vhost) verifyManagement(ctx context.Context) (starts bool, err error) {
	overview := v.client.http.Call(ctx)
	overview.Judge = patient
	if _, err = v.client.overview(overview); transport.IsNotFound(err) {
		err = transport.Unlike("/api/overview", err)
	}
	if err != nil {
		return false, v.client.failed("confirm that the endpoint is a RabbitMQ management API", err)
	}
	return overview.IsRepeated(), nil
}

// absent is why the vhost is not found at a management API.
func (v *Vhost) absent(ctx context.Context, r *transport.Refusal) error {
	// RabbitMQ's words for a vhost that does not exist (TestPermissions)
	if r.Code != "" && r.Code != "Object Not Found" {
		return &Error{Forbidden, v.looking(),
			fmt.Sprintf("user %q may not use it, or it does not exist: %s", v.client.username, r.Reason), vhostHint}
	}
	if r.Code == "" {
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

// Vhosts are the names of the vhosts that the user is told of, sorted. A user with the tag monitoring is told of all of
// them, those included that the user may not look into.
func (c *Client) Vhosts(ctx context.Context) ([]string, error) {
	call := c.http.Call(ctx)
	call.Judge = patient
	type vhost struct{ Name string }
	var vhosts []vhost
	_, err := call.Do(http.MethodGet, "vhosts?columns=name", nil, &vhosts)
	if transport.IsNotFound(err) || err == nil && vhosts == nil {
		err = transport.Unlike("/api/vhosts", errors.Join(errors.New("it is no list of vhosts"), err))
	}
	if err != nil {
		return nil, c.failed("list the vhosts", err)
	}
	names := plaintext.Texts(vhosts, func(v vhost) string { return v.Name })
	slices.Sort(names)
	return names, nil
}

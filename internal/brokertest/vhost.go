package brokertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"
)

// NewVhost makes a vhost whose name begins as given, in which the broker's user may do everything. It returns the
// function that removes the vhost with all that is in it.
func (b *Broker) NewVhost(
	ctx context.Context, prefix string,
) (name string, remove func(context.Context) error, err error) {
	name = fmt.Sprintf("%.60s-%06x", prefix, rand.IntN(1<<24))
	vhost := "/api/vhosts/" + url.PathEscape(name)
	if err = b.put(ctx, vhost, struct{}{}); err != nil {
		return "", nil, fmt.Errorf("create vhost %q: %w", name, err)
	}
	remove = func(ctx context.Context) error {
		var err error
		for range 5 {
			var refused *statusError
			err = b.api(ctx, http.MethodDelete, vhost, nil, nil)
			if err == nil || errors.As(err, &refused) && refused.status == http.StatusNotFound {
				// now or by an earlier attempt, which took too long to say so: thousands of queues take more than a
				// minute
				return nil
			}
			if errors.As(err, &refused) {
				if refused.status < http.StatusInternalServerError {
					break
				}
				time.Sleep(time.Second) // RabbitMQ 3.10.8 says 500 now and then while queues of the vhost are busy
			}
		}
		return fmt.Errorf("delete vhost %q: %w", name, err)
	}
	everything := map[string]string{"configure": ".*", "write": ".*", "read": ".*"}
	permissions := "/api/permissions/" + url.PathEscape(name) + "/" + url.PathEscape(b.Username)
	if err := b.put(ctx, permissions, everything); err != nil {
		return "", nil, fmt.Errorf("grant user %q permissions in vhost %q: %w", b.Username, name, err)
	}
	return name, remove, nil
}

// put writes to the management API, again where a busy machine has ended the connection before its answer.
func (b *Broker) put(ctx context.Context, path string, body any) (err error) {
	for range 3 {
		if err = b.api(ctx, http.MethodPut, path, body, nil); !errors.Is(err, io.EOF) {
			break
		}
	}
	return err
}

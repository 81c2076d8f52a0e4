package rabbit

import (
	"context"
	"net/http"
	"net/url"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	"golang.org/x/sync/errgroup"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit/transport"
)

// get reads what rabbit-hole cannot: with a query for columns, and without failing on what an unhealthy queue puts into
// fields that nobody asked for.
func (v *Vhost) get(ctx context.Context, result any, query string, path ...string) error {
	return v.ask(ctx, func(call *transport.Call) error {
		_, err := call.Do(http.MethodGet, transport.Path(path...)+query, nil, result)
		return err
	})
}

// listed finds out whether it was the answer that rabbit-hole could not read.
func listed(bindings []rabbithole.BindingInfo, err error) ([]rabbithole.BindingInfo, error) {
	if err != nil && !transport.Wraps[*url.Error](err) {
		return nil, transport.Unlike("a list of bindings", err)
	}
	return bindings, err
}

// ask asks about objects of the vhost. One is missing only if the answer is 404 once more after the vhost was seen to
// be there. Meanwhile it makes sure that the broker is RabbitMQ.
func (v *Vhost) ask(ctx context.Context, question func(*transport.Call) error) error {
	other := make(chan error, 1)
	go func() { other <- v.client.identify(ctx) }()
	err := v.askThere(ctx, question)
	if transport.IsNotFound(err) {
		if _, err = v.Confirm(ctx); err == nil {
			err = v.askThere(ctx, question)
		}
	}
	if refused := <-other; refused != nil {
		return refused
	}
	return err
}

// askThere asks where the vhost has just been there: an object that is not found is missing.
func (v *Vhost) askThere(ctx context.Context, question func(*transport.Call) error) error {
	call := v.client.http.Call(ctx)
	call.Judge = v.whileBarred
	return question(call)
}

// AskAll asks for all at the same time, and begins with them in their order.
func AskAll[Q, A any](ctx context.Context, all []Q, ask func(context.Context, Q) (A, error)) ([]A, error) {
	answers := make([]A, len(all))
	group, ctx := errgroup.WithContext(ctx)
	for i, one := range all {
		group.Go(func() (err error) {
			answers[i], err = ask(ctx, one)
			return err
		})
	}
	return answers, group.Wait()
}

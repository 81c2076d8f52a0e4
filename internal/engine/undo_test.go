package engine

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology/topologytest"
)

// An undo does all that it can. It does nothing more after a look that finds messages or a broker that does not answer.
// It deletes an exchange again that lacks a binding.
func TestUndo(t *testing.T) {
	look := plan.VerifyEmpty{Why: "a deletion", Queues: []topology.Queue{{Name: "q"}}}
	exchange := func(name string) plan.Step { return plan.DeclareExchange{Exchange: topology.Exchange{Name: name}} }
	bind := func(source, key string) plan.Step { return plan.Bind{Binding: topologytest.ToQueue(source, key, "q")} }
	bindsX := plan.Phase{Steps: []plan.Step{bind("x", "a"), bind("x", "b")}, Undo: func([]plan.Step) plan.Plan {
		return plan.Plan{{Steps: []plan.Step{plan.DeleteExchange{Name: "x"}}}}
	}}
	back := plan.Plan{{Steps: []plan.Step{exchange("x"), exchange("y")}},
		{Steps: []plan.Step{look}}, bindsX, {Steps: []plan.Step{bind("y", "c")}},
		{Steps: []plan.Step{bind("z", "d")}, Needs: []string{`exchange "x"`}}}
	a, b := bind("x", "a").String(), bind("x", "b").String()
	type failing = map[string]rabbit.Kind
	slow, inUse, conflict := rabbit.Timeout, rabbit.InUse, rabbit.Conflict
	words := strings.NewReplacer("declare exchange", "+", "bind exchange ", "", `"`, "",
		` to queue "q" with key "`, "")
	for name, test := range map[string]struct {
		fails      failing
		done, left string
		deletes    bool
	}{
		"all is undone":         {nil, "", "", false},
		"a binding is not made": {failing{b: inUse}, "+ y, yc", "+ x, xa, xb, zd", true},
		"nor is it taken back": {failing{b: inUse, `delete exchange "x"`: conflict}, "+ x, + y, xa, yc",
			"xb, zd", true},
		"none is made":          {failing{a: inUse, b: inUse}, "+ y, yc", "+ x, xa, xb, zd", true},
		"a look finds messages": {failing{look.String(): conflict}, "+ x, + y", "xa, xb, yc, zd", false},
		"no answer":             {failing{`declare exchange "y"`: slow}, "+ x", "+ y, xa, xb, yc, zd", false},
		"no answer at the end":  {failing{b: slow}, "+ x, + y, xa", "xb, yc, zd", false},
		"an exchange is missing": {failing{`declare exchange "x"`: inUse}, "+ y, xa, xb, yc", "+ x, zd",
			false},
	} {
		failure, deletes := errors.New("it fails"), false
		_, err := RunOn(t.Context(), func(s plan.Step) (bool, error) {
			if s.String() == `declare queue "new"` {
				return false, failure
			}
			_, isDeletion := s.(plan.DeleteExchange)
			deletes = deletes || isDeletion
			if kind, fails := test.fails[s.String()]; fails {
				return false, &rabbit.Error{Kind: kind}
			}
			return true, nil
		}, plan.Plan{{Steps: []plan.Step{plan.DeclareQueue{Queue: topology.Queue{Name: "new"}}},
			Undo: func([]plan.Step) plan.Plan { return back }}})
		var undo UndoError
		if found, is := errors.AsType[*UndoError](err); is {
			undo = *found
		}
		text := func(steps []plan.Step) string {
			return words.Replace(plaintext.Join(steps, ", ", plan.Step.String))
		}
		done, left := text(slices.DeleteFunc(undo.Done, onlyLooks)), text(undo.Left)
		if done != test.done || left != test.left ||
			deletes != test.deletes || !errors.Is(err, failure) {
			t.Errorf("%s: done is %q, left is %q, something is deleted: %t: %v", name, done, left, deletes, err)
		}
	}
}

// A plan that waits for messages wants a password that lasts, and only a plan that proves something looks at AMQP. New
// queues are left alone until they survive a kill of their node, unless the user does not want that.
func TestTargetPrepares(t *testing.T) {
	encode := base64.RawURLEncoding.EncodeToString
	token := fmt.Sprintf("%s.%s.%s", encode([]byte("{}")), encode(fmt.Appendf(nil, `{"exp":%d}`,
		time.Now().Unix())), encode([]byte("x")))
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	deletion := plan.DeleteQueue{Queue: topology.Queue{Name: "q"}}
	look := plan.VerifyEmpty{Queues: []topology.Queue{deletion.Queue}}
	waits, proves := look, deletion
	waits.Wait, proves.IfEmpty = time.Minute, true
	for name, test := range map[string]struct {
		password string
		step     plan.Step
		want     rabbit.Kind
	}{
		"waits": {token, waits, rabbit.EndsEarly}, "waits, lasting": {"p", waits, rabbit.Unreachable},
		"proves": {token, proves, rabbit.Unreachable}, "neither": {token, deletion, ""},
	} {
		client, err := rabbit.New(rabbit.Config{Endpoint: "http://127.0.0.1:1", Username: "u", Password: test.password,
			AMQPURI: "amqp://u:p@127.0.0.1:1", RetryTimeout: time.Nanosecond})
		if err != nil {
			t.Fatal(err)
		}
		err = newTarget(client.Vhost("/")).prepare(ctx, plan.Plan{{Steps: []plan.Step{test.step, deletion}}})
		if (err == nil) != (test.want == "") || err != nil && !rabbit.IsKind(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, atOnce := range []bool{false, true} {
		client, err := rabbit.New(rabbit.Config{Endpoint: "http://127.0.0.1:1", Username: "u", Password: "p",
			BindsAtOnce: atOnce})
		if err != nil {
			t.Fatal(err)
		}
		err = newTarget(client.Vhost("/")).AwaitDurable(over(t), plan.AwaitDurable{})
		if (err == nil) != atOnce {
			t.Errorf("binds at once: %t: %v", atOnce, err)
		}
	}
}

// RabbitMQ 4.3 deletes exchanges at the same time, and no earlier one.
func TestParallelDeletions(t *testing.T) {
	for version, want := range map[string]int{"4.2.9": 1, "4.3.0": 2} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"rabbitmq_version":%q}`, version)
		}))
		client, err := rabbit.New(rabbit.Config{Endpoint: server.URL, Username: "u", Password: "p"})
		if err != nil {
			t.Fatal(err)
		}
		steps := []plan.Step{plan.DeleteExchange{Name: "x"}, plan.DeleteExchange{Name: "y"}}
		if got := newTarget(client.Vhost("/")).parallel(t.Context(), steps); got != want {
			t.Errorf("%s: %d at the same time", version, got)
		}
		server.Close()
	}
}

// A phase that goes on does so when its operation was canceled. It does not ask a broker again that is away.
func TestGoOn(t *testing.T) {
	steps := []plan.Step{plan.Bind{Binding: topologytest.ToQueue("x", "a", "q")}}
	for name, test := range map[string]struct {
		cancels bool
		kind    rabbit.Kind
		asks    int
	}{
		"canceled": {true, rabbit.Canceled, 2}, "away": {false, rabbit.Unreachable, 1},
		"refused": {false, rabbit.Conflict, 2},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		asks := 0
		r := &runner{parallel: func(context.Context, []plan.Step) int { return 1 },
			do: func(ctx context.Context, _ plan.Step) (bool, error) {
				if asks++; asks > 1 {
					return true, ctx.Err()
				}
				if test.cancels {
					cancel()
				}
				return false, &rabbit.Error{Kind: test.kind}
			}}
		done, err := r.Run(ctx, plan.Plan{{Steps: steps, GoesOn: true}})
		if asks != test.asks || (err == nil) != (asks == 2) || len(done) != asks-1 {
			t.Errorf("%s: asked %d times, %d done, %v", name, asks, len(done), err)
		}
	}
}

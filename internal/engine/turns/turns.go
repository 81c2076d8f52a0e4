// Package turns makes changes of the same objects wait for each other. Terraform makes several changes at a time, and
// tells none of the others. The names of objects come in: call New once, Begin before a change, and what that returns
// after it.
package turns

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// Turns are those of all changes of one run. They are safe for use by several at a time.
type Turns struct {
	mutex sync.Mutex
	busy  map[object]bool
	// ended is closed, and made anew, whenever a change ends.
	ended chan struct{}
}

// object is an exchange, queue, policy or binding of a vhost, in words.
type object struct{ vhost, name string }

// New has nobody at work.
func New() *Turns { return &Turns{busy: map[object]bool{}, ended: make(chan struct{})} }

// Begin waits until no other change works on any of the objects. End lets others work on them. An error is that of the
// context.
func (t *Turns) Begin(ctx context.Context, vhost string, names []string) (end func(), err error) {
	isBusy := func(name string) bool { return t.busy[object{vhost, name}] }
	for {
		t.mutex.Lock()
		if !slices.ContainsFunc(names, isBusy) {
			for _, name := range names {
				t.busy[object{vhost, name}] = true
			}
			t.mutex.Unlock()
			return func() { t.end(vhost, names) }, nil
		}
		ended := t.ended
		t.mutex.Unlock()
		select {
		case <-ended:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for another resource that works on the same objects: %w", ctx.Err())
		}
	}
}

func (t *Turns) end(vhost string, names []string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	for _, name := range names {
		delete(t.busy, object{vhost, name})
	}
	close(t.ended)
	t.ended = make(chan struct{})
}

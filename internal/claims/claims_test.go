package claims

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

func objects(names ...string) []Object {
	var all []Object
	for _, name := range names {
		all = append(all, Object{"/", name})
	}
	return all
}

func begin(t *testing.T, table *Table, who string, names ...string) *Operation {
	t.Helper()
	o, err := table.Begin(t.Context(), who, objects(names...))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// Each claim replaces the one before, and is what others see.
func TestClaims(t *testing.T) {
	table := New()
	a := begin(t, table, "a", "x", "y")
	a.Take(objects("x"))
	a.FailFor(objects("y"))
	a.End()
	b := begin(t, table, "b", "x", "y", "z")
	if held := b.Held(objects("x", "y", "z")); len(held) != 1 || held[Object{"/", "x"}] != "a" {
		t.Errorf("held: %v", held)
	}
	if vain := b.AskedInVain(objects("x", "y", "z")); len(vain) != 1 || vain[Object{"/", "y"}] != "a" {
		t.Errorf("asked for in vain: %v", vain)
	}
	if held := b.Held([]Object{{"other", "x"}}); len(held) != 0 {
		t.Errorf("held in another vhost: %v", held)
	}
	b.Keep(objects("x", "y"))
	b.Release(objects("x", "z"))
	held := b.Held(objects("x", "y", "z"))
	if len(held) != 2 || held[Object{"/", "x"}] != "a" || held[Object{"/", "y"}] != "b" {
		t.Errorf("held: %v", held)
	}
	if taken, vain := b.Taken(objects("x", "y")), b.AskedInVain(objects("y")); len(taken) != 1 || len(vain) != 0 {
		t.Errorf("taken: %v, asked for in vain: %v", taken, vain)
	}
	b.Release(objects("y"))
	if held := b.Held(objects("y")); len(held) != 0 {
		t.Errorf("held after it was let go: %v", held)
	}
	b.End()
}

// Operations with an object in common never run at the same time, and all of them get their turn.
func TestOperationsWait(t *testing.T) {
	table := New()
	var working [4]atomic.Int64
	var all sync.WaitGroup
	for i := range 200 {
		first := i % len(working)
		second := (first + 1 + rand.IntN(len(working)-1)) % len(working) //nolint:gosec // any will do
		all.Go(func() {
			o, err := table.Begin(t.Context(), "", objects(fmt.Sprint(first), fmt.Sprint(second)))
			if err != nil {
				t.Error(err)
				return
			}
			for _, each := range []int{first, second} {
				if n := working[each].Add(1); n != 1 {
					t.Errorf("%d operations on object %d", n, each)
				}
			}
			working[first].Add(-1)
			working[second].Add(-1)
			o.End()
		})
	}
	all.Wait()
}

// Who gives up waiting gets the context's error.
func TestBeginIsCanceled(t *testing.T) {
	table := New()
	defer begin(t, table, "a", "x").End()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := table.Begin(ctx, "b", objects("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("error: %v", err)
	}
}

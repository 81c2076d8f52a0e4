package turns_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine/turns"
)

// Changes with an object in common never run at the same time, and all of them get their turn.
func TestTurns(t *testing.T) {
	all := turns.New()
	var working [4]atomic.Int64
	var changes sync.WaitGroup
	for i := range 200 {
		first := i % len(working)
		second := (first + 1 + rand.IntN(len(working)-1)) % len(working) //nolint:gosec // any will do
		changes.Go(func() {
			end, err := all.Begin(t.Context(), "/", []string{fmt.Sprint(first), fmt.Sprint(second)})
			if err != nil {
				t.Error(err)
				return
			}
			for _, each := range []int{first, second} {
				if n := working[each].Add(1); n != 1 {
					t.Errorf("%d changes of object %d", n, each)
				}
			}
			working[first].Add(-1)
			working[second].Add(-1)
			end()
		})
	}
	changes.Wait()
}

// The same name in another vhost is another object.
func TestTurnsOfVhosts(t *testing.T) {
	all := turns.New()
	for _, vhost := range []string{"/", "other"} {
		end, err := all.Begin(t.Context(), vhost, []string{"x"})
		if err != nil {
			t.Fatal(err)
		}
		defer end()
	}
}

package engine

import (
	"context"
	"sync"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
)

// phase is an attempt of which only the steps that had an effect count.
func (r *runner) phase(ctx context.Context, steps []plan.Step) (done []plan.Step, err error) {
	done, _, err = r.attempt(ctx, steps)
	return done, err
}

// attempt runs steps at the same time, as many as there may be requests and as the broker can take. If one fails, those
// that run are finished, and no other begins. If several fail, the error is that of the first. Done are the steps that
// had an effect, or may have had one, and finished those that ended without an error.
func (r *runner) attempt(ctx context.Context, steps []plan.Step) (done, finished []plan.Step, err error) {
	var (
		mutex    sync.Mutex
		workers  sync.WaitGroup
		begun    int
		failedAt int
	)
	effects := make([]bool, len(steps))
	take := func() (int, bool) {
		mutex.Lock()
		defer mutex.Unlock()
		if err != nil || begun == len(steps) {
			return 0, false
		}
		begun++
		return begun - 1, true
	}
	for range r.parallel(ctx, steps) {
		workers.Go(func() {
			for i, ok := take(); ok; i, ok = take() {
				changed, failure := r.do(ctx, steps[i])
				mutex.Lock()
				effects[i] = changed
				if failure == nil {
					finished = append(finished, steps[i])
				} else if err == nil || i < failedAt {
					err, failedAt = failure, i
				}
				mutex.Unlock()
			}
		})
	}
	workers.Wait()
	for i, step := range steps {
		if effects[i] {
			done = append(done, step)
		}
	}
	return done, finished, err
}

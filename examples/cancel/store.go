package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"
)

// store has the jobs that are wanted, each with its times. It is opened for each step, so that
// commands and a worker on one machine can share it. On several machines, take the database of the
// application.
type store struct{ path string }

var bucket = []byte("jobs")

// change reads the times of a job, and writes those that change returns. A job without any is gone.
func (s store) change(id string, change func(times []int64) ([]int64, error)) error {
	db, err := bolt.Open(s.path, 0o600, &bolt.Options{Timeout: 10 * time.Second})
	if err != nil {
		return fmt.Errorf("open %s: %w", s.path, err)
	}
	defer db.Close()
	return db.Update(func(tx *bolt.Tx) error {
		jobs, err := tx.CreateBucketIfNotExists(bucket)
		if err != nil {
			return err
		}
		var times []int64
		if text := jobs.Get([]byte(id)); text != nil {
			if err := json.Unmarshal(text, &times); err != nil {
				return err
			}
		}
		if times, err = change(times); err != nil {
			return err
		}
		if len(times) == 0 {
			return jobs.Delete([]byte(id))
		}
		text, err := json.Marshal(times)
		if err != nil {
			return err
		}
		return jobs.Put([]byte(id), text)
	})
}

// add is for a new job, or again for one that is there.
func (s store) add(id string, due int64, again bool) error {
	return s.change(id, func(times []int64) ([]int64, error) {
		switch {
		case again && times == nil:
			return nil, fmt.Errorf("job %q is done, or was cancelled", id)
		case !again && times != nil:
			return nil, fmt.Errorf("there is a job %q: reschedule it", id)
		}
		return append(times, due), nil
	})
}

// keepOnly forgets the other times. A job that is done meanwhile stays so.
func (s store) keepOnly(id string, due int64) error {
	return s.change(id, func(times []int64) ([]int64, error) {
		return slices.DeleteFunc(times, func(other int64) bool { return other != due }), nil
	})
}

func (s store) cancel(id string) error {
	return s.change(id, func(times []int64) ([]int64, error) {
		if times == nil {
			return nil, fmt.Errorf("job %q is done, or was cancelled", id)
		}
		return nil, nil
	})
}

// isWanted tells whether a job is to be done at that time.
func (s store) isWanted(id string, due int64) (wanted bool, err error) {
	err = s.change(id, func(times []int64) ([]int64, error) {
		wanted = slices.Contains(times, due)
		return times, nil
	})
	return wanted, err
}

func (s store) done(id string) error {
	return s.change(id, func([]int64) ([]int64, error) { return nil, nil })
}

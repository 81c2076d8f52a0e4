// Package claims keeps what the resources of one Terraform run have done with the objects of one broker. Terraform
// calls the resources in any order and tells none of the others. The package makes operations on the same object wait
// for each other. It remembers which objects were taken, asked for in vain, or kept by a refused destroy.
//
// The objects of an operation come in, and the names of resources that have or want them go out. Call [New] for a run,
// [Table.Begin] before an operation, and [Operation.End] after it. It is in memory: it never talks to a broker.
package claims

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// Object is an exchange, queue or binding of a broker.
type Object struct {
	Vhost string
	// Name is the object in words, such as `queue "tasks.delay-03"`.
	Name string
}

// Table holds the claims of one run. It is safe for use by several operations at a time.
type Table struct {
	mutex sync.Mutex
	busy  map[Object]bool
	// ended is closed, and made anew, whenever an operation ends.
	ended chan struct{}
	// By whom an object is taken, was asked for in vain, or is kept. An object is in one of them at the most.
	taken, vain, kept map[Object]string
}

// New returns a table without claims.
func New() *Table {
	return &Table{
		busy: map[Object]bool{}, ended: make(chan struct{}),
		taken: map[Object]string{}, vain: map[Object]string{}, kept: map[Object]string{},
	}
}

// Operation is a create, update or destroy that is under way.
type Operation struct {
	table   *Table
	who     string
	objects []Object
}

// Begin waits until no other operation works on any of the objects. Who names the resource in the errors of others. An
// error is that of the context.
func (t *Table) Begin(ctx context.Context, who string, objects []Object) (*Operation, error) {
	for {
		t.mutex.Lock()
		if !slices.ContainsFunc(objects, func(o Object) bool { return t.busy[o] }) {
			for _, o := range objects {
				t.busy[o] = true
			}
			t.mutex.Unlock()
			return &Operation{t, who, objects}, nil
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

// End lets others work on the objects.
func (o *Operation) End() {
	o.table.mutex.Lock()
	defer o.table.mutex.Unlock()
	for _, object := range o.objects {
		delete(o.table.busy, object)
	}
	close(o.table.ended)
	o.table.ended = make(chan struct{})
}

// Held are those of the objects that another resource has taken in this run, with the name of that resource. They
// include those that it keeps because its destroy or update was refused.
func (o *Operation) Held(objects []Object) map[Object]string {
	return o.among(objects, o.table.taken, o.table.kept)
}

// Taken are those of the objects that another resource has taken in this run, with its name.
func (o *Operation) Taken(objects []Object) map[Object]string { return o.among(objects, o.table.taken) }

// AskedInVain are those of the objects that another resource has asked for in vain in this run, with its name.
func (o *Operation) AskedInVain(objects []Object) map[Object]string {
	return o.among(objects, o.table.vain)
}

func (o *Operation) among(objects []Object, claims ...map[Object]string) map[Object]string {
	o.table.mutex.Lock()
	defer o.table.mutex.Unlock()
	found := map[Object]string{}
	for _, object := range objects {
		for _, by := range claims {
			if who, claimed := by[object]; claimed {
				found[object] = who
			}
		}
	}
	return found
}

// Take notes that the resource has the objects from now on.
func (o *Operation) Take(objects []Object) { o.note(objects, o.table.taken) }

// FailFor notes that the resource has asked for the objects in vain.
func (o *Operation) FailFor(objects []Object) { o.note(objects, o.table.vain) }

// Keep notes that the resource still has the objects, because it could not let go of them. What another one has taken
// stays taken.
func (o *Operation) Keep(objects []Object) { o.note(o.notTaken(objects), o.table.kept) }

// Release notes that nobody has the objects any more, but for what another one has taken.
func (o *Operation) Release(objects []Object) { o.note(o.notTaken(objects), nil) }

func (o *Operation) notTaken(objects []Object) []Object {
	taken := o.Taken(objects)
	return slices.DeleteFunc(slices.Clone(objects), func(object Object) bool {
		_, is := taken[object]
		return is
	})
}

func (o *Operation) note(objects []Object, claims map[Object]string) {
	o.table.mutex.Lock()
	defer o.table.mutex.Unlock()
	for _, object := range objects {
		delete(o.table.taken, object)
		delete(o.table.vain, object)
		delete(o.table.kept, object)
		if claims != nil {
			claims[object] = o.who
		}
	}
}

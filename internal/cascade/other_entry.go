package cascade

import (
	"context"
	"fmt"
)

// OtherEntryError says that an exchange is not the entry that was asked for, and which entry was
// recognized in its place.
type OtherEntryError struct {
	Kind, Entry string
	reason      error
}

func (e *OtherEntryError) Error() string {
	return fmt.Sprintf("%s; the entry of the %s there is exchange %q", e.reason, e.Kind, e.Entry)
}

// What an exchange can be the entry of.
const (
	KindCascade = "cascade"
	KindLadder  = "ladder"
)

// otherEntry adds to the reason why the exchange is no entry of the kind what it belongs to, where that can be found.
func (r *recognizer) otherEntry(ctx context.Context, kind, name string, reason error) error {
	if !isNotThis(reason) {
		return reason
	}
	if kind == KindCascade {
		_, err := r.other().recognizeLadder(ctx, name)
		switch {
		case err == nil:
			return &OtherEntryError{KindLadder, name, reason}
		case !isNotThis(err):
			return err
		}
	}
	owner, err := r.ownerOf(ctx, kind, name)
	switch {
	case err != nil:
		return err
	case owner != "":
		return &OtherEntryError{KindCascade, owner, reason}
	}
	return reason
}

// other looks for a cascade or ladder whose entry shows what it is.
func (r *recognizer) other() *recognizer {
	return &recognizer{look: r.look, vhost: r.vhost, hopsOnly: true}
}

// ownerOf finds the entry of the cascade that an exchange is a level of, or would be by its name. It is
// empty if there is none.
func (r *recognizer) ownerOf(ctx context.Context, kind, name string) (string, error) {
	if hops, stars := hopsOf(r.bindings); len(hops) > 0 {
		if stars == 0 && kind == KindCascade {
			return "", nil // it was refused itself
		}
		return r.entryAbove(ctx, name, stars)
	}
	for level := MaxLevels - 1; level > 0; level-- {
		formats := formatsOf(name, level)
		for below := level - 1; below >= 0; below-- {
			for _, lower := range names(formats, below) {
				if entry, err := r.entryByHops(ctx, lower); err != nil || entry != "" {
					return entry, err
				}
			}
		}
	}
	return "", nil
}

// entryByHops finds the entry of the cascade that the bindings of an exchange show it to be a level of.
func (r *recognizer) entryByHops(ctx context.Context, name string) (string, error) {
	bindings, err := r.look.BindingsFrom(ctx, name)
	hops, stars := hopsOf(bindings)
	if err != nil || len(hops) == 0 {
		return "", err
	}
	return r.entryAbove(ctx, name, stars)
}

// entryAbove finds the entry of the cascade of which the exchange is so many levels below.
func (r *recognizer) entryAbove(ctx context.Context, name string, stars int) (string, error) {
	for level := range MaxLevels - stars {
		for _, entry := range names(formatsOf(name, level), level+stars) {
			c, err := r.other().cascade(ctx, entry)
			switch {
			case err == nil && c.Levels == level+stars+1 && c.Exchange(level) == name:
				return entry, nil
			case err != nil && !isNotThis(err):
				return "", err
			}
		}
	}
	return "", nil
}

package cascade

import (
	"context"
	"errors"
	"fmt"
)

// What an exchange can be the entry of.
const (
	KindCascade = "cascade"
	KindLadder  = "ladder"
)

// ElsewhereError says that an exchange is not the entry that was asked for, and which entry was
// recognized in its place.
type ElsewhereError struct {
	Kind, Entry string
	reason      error
}

func (e *ElsewhereError) Error() string {
	return fmt.Sprintf("%s; the entry of the %s there is exchange %q", e.reason, e.Kind, e.Entry)
}

// elsewhere adds to the reason why the exchange is no entry of the kind what it belongs to, where that can be found.
func (r *recognizer) elsewhere(ctx context.Context, kind, name string, reason error) error {
	var refused notThis
	if !errors.As(reason, &refused) {
		return reason
	}
	if kind == KindCascade {
		_, err := r.other().recognizeLadder(ctx, name)
		switch {
		case err == nil:
			return &ElsewhereError{KindLadder, name, reason}
		case !errors.As(err, &refused):
			return err
		}
	}
	owner, err := r.ownerOf(ctx, kind, name)
	switch {
	case err != nil:
		return err
	case owner != "":
		return &ElsewhereError{KindCascade, owner, reason}
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
		return r.owner(ctx, name, stars)
	}
	for level := MaxLevels - 1; level > 0; level-- {
		formats := formatsOf(name, level)
		for below := level - 1; below >= 0; below-- {
			for _, lower := range names(formats, below) {
				bindings, err := r.look.BindingsFrom(ctx, lower)
				if err != nil {
					return "", err
				}
				hops, stars := hopsOf(bindings)
				if len(hops) == 0 {
					continue
				}
				if owner, err := r.owner(ctx, lower, stars); err != nil || owner != "" {
					return owner, err
				}
			}
		}
	}
	return "", nil
}

// owner finds the entry of the cascade of which the exchange is so many levels below.
func (r *recognizer) owner(ctx context.Context, name string, stars int) (string, error) {
	for level := range MaxLevels - stars {
		for _, entry := range names(formatsOf(name, level), level+stars) {
			c, err := r.other().cascade(ctx, entry)
			var refused notThis
			switch {
			case err == nil && c.Levels == level+stars+1 && c.exchange(level) == name:
				return entry, nil
			case err != nil && !errors.As(err, &refused):
				return "", err
			}
		}
	}
	return "", nil
}

package drain

import "time"

// Ticks finds out how old the statistics of a quorum queue are, which carry no time.
//
// At a tick the queue notes its counts and its reductions, the work that its process has done (handle_tick in
// rabbit_quorum_queue.erl). Each tick is work, so each has other reductions. The management API takes over the last
// note at intervals of its own, every five seconds by default. So a change says that it has taken over another note,
// which may have been written before the question about the one before. Only the change after that is certain to be of
// a later tick.
//
// A process has ever more reductions. Fewer are in the old answer of another node, which says nothing, or those of a
// new leader. Fewer that move on are taken for those of a leader.
type Ticks struct{ before, last, fewer note }

// note is what a queue has noted at a tick.
type note struct {
	reductions int64
	// asked is when it was last asked for, and after a time that it was written after, zero if none is known.
	asked, after time.Time
}

// NoNote stands for the reductions of a queue that has not noted anything yet.
const NoNote int64 = -1

// Read adds the answer to a question that was asked at a time. It tells a time that the counts in it are not older
// than, zero if none is known. In the first answer with a note the counts may still be those of the note before:
// RabbitMQ takes over one after the other.
func (t *Ticks) Read(asked time.Time, reductions int64) (asOf time.Time) {
	switch isFewer := reductions < t.last.reductions && !t.last.asked.IsZero(); {
	case !isFewer:
		t.fewer = note{}
	case reductions == NoNote:
		return time.Time{}
	case t.fewer.asked.IsZero() || reductions == t.fewer.reductions:
		t.fewer = note{reductions: reductions, asked: asked}
		return time.Time{}
	default:
		*t = Ticks{last: t.fewer}
	}
	if t.last.asked.IsZero() || t.last.reductions != reductions {
		t.before, t.last = t.last, note{reductions: reductions, asked: asked, after: t.before.asked}
		return time.Time{}
	}
	t.last.asked = asked
	if reductions == NoNote {
		return time.Time{}
	}
	return t.last.after
}

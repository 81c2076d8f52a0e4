package harness

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Frame is a kind of frame of AMQP 0-9-1: a method, or what comes before the body of a message.
type Frame struct {
	ToBroker      bool
	Class, Method uint16
}

// The frames of clients that publish and consume. A content header has a 0 where a method has its number.
var (
	Publishes    = Frame{true, 60, 40}
	Content      = Frame{true, 60, 0}
	Confirms     = Frame{false, 60, 80}
	Acknowledges = Frame{true, 60, 80}
	PutsBack     = Frame{true, 60, 120}

	prefetchSet = Frame{false, 60, 11}
)

// FrameRelay passes AMQP connections on, frame by frame. It counts the frames, and can do something before one of them.
type FrameRelay struct {
	net.Listener

	mutex  sync.Mutex // nothing is written without it, so that nothing passes a relay that breaks off
	links  []*frameLink
	passed map[Frame]int
	at     Frame
	nth    int
	do     func() // nil once it has begun
}

// frameLink is a connection from end to end.
type frameLink struct {
	client, broker net.Conn
	isCut          bool
	acknowledges   []byte // the channel that it does so on
	isDone         chan struct{}
}

// NewFrameRelay starts a relay to an address.
func NewFrameRelay(t testing.TB, address string) *FrameRelay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &FrameRelay{Listener: listener, passed: map[Frame]int{}}
	t.Cleanup(func() { _ = r.Close() })
	go func() {
		for {
			client, err := r.Accept()
			if err != nil {
				return
			}
			broker, err := net.Dial("tcp", address)
			if err != nil {
				_ = client.Close()
				continue
			}
			l := &frameLink{client: client, broker: broker, isDone: make(chan struct{}, 1)}
			r.mutex.Lock()
			r.links = append(r.links, l)
			r.mutex.Unlock()
			go r.pass(l, true)
			go r.pass(l, false)
		}
	}()
	return r
}

// Before has the relay do something before it passes on the nth frame of a kind. Meanwhile the connection's frames wait
// that go the same way. The count begins now.
func (r *FrameRelay) Before(nth int, at Frame, do func()) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.passed, r.at, r.nth, r.do = map[Frame]int{}, at, nth, do
}

// Passed is how many frames of a kind have been passed on since the last Before.
func (r *FrameRelay) Passed(f Frame) int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.passed[f]
}

// HasBegun tells whether the frame of Before has come.
func (r *FrameRelay) HasBegun() bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.do == nil
}

// BreakOff breaks off all connections, as the end of a client's process does. No frame is passed on any more. It waits
// until the broker has done what earlier frames ask for: an end of the connection could overtake an acknowledgement.
func (r *FrameRelay) BreakOff() {
	r.mutex.Lock()
	links := r.links
	r.links = nil
	for _, l := range links {
		l.isCut = true
	}
	r.mutex.Unlock()
	for _, l := range links {
		if l.acknowledges != nil && l.setPrefetch() == nil {
			select {
			case <-l.isDone:
			case <-time.After(Patience):
			}
		}
		_ = l.client.Close()
		_ = l.broker.Close()
	}
}

// setPrefetch asks for what changes nothing and has an answer. A channel does one thing after the other.
func (l *frameLink) setPrefetch() error {
	request := []byte{1, l.acknowledges[0], l.acknowledges[1], 0, 0, 0, 11, 0, 60, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0xCE}
	_, err := l.broker.Write(request)
	return err
}

// pass passes on what comes from one end, until that or the other one is gone.
func (r *FrameRelay) pass(l *frameLink, toBroker bool) {
	from, to := l.broker, l.client
	if toBroker {
		from, to = to, from
	}
	defer func() { _ = to.Close() }()
	reader := bufio.NewReader(from)
	if toBroker { // the client says first which protocol that is
		if _, err := io.CopyN(to, reader, 8); err != nil {
			return
		}
	}
	for {
		frame, kind, err := readFrame(reader, toBroker)
		if err != nil {
			return
		}
		r.meet(kind)
		if r.write(l, to, frame, kind) != nil {
			return
		}
	}
}

func (r *FrameRelay) meet(kind Frame) {
	r.mutex.Lock()
	do := r.do
	if is := do != nil && kind == r.at && r.passed[kind]+1 == r.nth; !is {
		r.mutex.Unlock()
		return
	}
	r.do = nil
	r.mutex.Unlock()
	do()
}

// write passes a frame on, unless the connection is cut.
func (r *FrameRelay) write(l *frameLink, to net.Conn, frame []byte, kind Frame) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if l.isCut {
		if kind == prefetchSet {
			l.isDone <- struct{}{}
		}
		return nil
	}
	if kind == Acknowledges {
		l.acknowledges = frame[1:3]
	}
	r.passed[kind]++
	_, err := to.Write(frame)
	return err
}

// readFrame reads a frame: its type, its channel, the length of what follows, that, and an end.
func readFrame(reader *bufio.Reader, toBroker bool) (frame []byte, kind Frame, err error) {
	const head, end, method, header = 7, 1, 1, 2
	begin, err := reader.Peek(head)
	if err != nil {
		return nil, kind, err
	}
	frame = make([]byte, head+binary.BigEndian.Uint32(begin[3:])+end)
	if _, err := io.ReadFull(reader, frame); err != nil {
		return nil, kind, err
	}
	kind.ToBroker = toBroker
	if is := frame[0]; is == method || is == header {
		kind.Class, kind.Method = binary.BigEndian.Uint16(frame[head:]), binary.BigEndian.Uint16(frame[head+2:])
	}
	return frame, kind, nil
}

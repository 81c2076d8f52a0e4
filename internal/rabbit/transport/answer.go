package transport

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
)

// How large answers may be. The management API's answer about one object, or to a write, has some thousand bytes. A
// list has 150 to 400 bytes for each object: with 50,000 objects it is 20 MB. The second limit is for all answers in
// memory at the same time. So any number of endless answers takes no more than that.
const (
	longestAnswer  = 1 << 20
	longestAnswers = 48 << 20
)

// answers counts the bytes of those that are being read or decoded.
type answers struct{ held atomic.Int64 }

// answer is a body in pieces: to copy it into one would take twice the memory.
type answer struct {
	io.Reader
	of   *answers
	held int64
}

// Close lets go of what the answer takes in memory.
func (a *answer) Close() error {
	a.Reader = http.NoBody
	a.of.held.Add(-a.held)
	a.held = 0
	return nil
}

// read reads a whole body of at most so many bytes. The error is a *tooLarge if there is more of it.
func (a *answers) read(body io.Reader, limit int64) (*answer, error) {
	var pieces []io.Reader
	read := &answer{of: a}
	for size := int64(4 << 10); ; size = min(2*size, 256<<10) {
		piece := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
		n, err := io.CopyN(piece, body, size)
		pieces = append(pieces, piece)
		read.held += n
		if all := a.held.Add(n); read.held > limit || all > longestAnswers {
			_ = read.Close()
			return nil, &tooLarge{limit}
		}
		switch {
		case err == io.EOF: //nolint:errorlint // a body that is cut off ends in io.ErrUnexpectedEOF
			read.Reader = io.MultiReader(pieces...)
			return read, nil
		case err != nil:
			_ = read.Close()
			return nil, err
		}
	}
}

// limitOf is how large the answer to a request may be, whose path follows the base path of the management API.
func limitOf(method, path string) int64 {
	isOfOne := strings.Count(path, "/") == 2 // such as queues/<vhost>/<name>
	if method != http.MethodGet || isOfOne {
		return longestAnswer
	}
	return longestAnswers
}

// tooLarge is an answer that is larger than any that RabbitMQ gives.
type tooLarge struct{ limit int64 }

func (e *tooLarge) Error() string {
	return fmt.Sprintf("is larger than %d MiB: is that the management API?", e.limit>>20)
}

package policy

import (
	"regexp"
	"strings"
	"time"

	"github.com/dlclark/regexp2/v2"
)

// certainty is the knowledge of a condition that RabbitMQ decides.
type certainty int

const (
	no certainty = iota
	perhaps
	yes
)

// pattern is a regular expression as Erlang's module re reads it: in PCRE's syntax, byte by byte. Go's package regexp
// has no lookaround, as in `^(?!amq\.)`, nor references; what it takes means the same to both. The other expressions go
// to regexp2, which has them, but is written after .NET. It is nil if neither knows the syntax.
type pattern func(name string) (bool, error)

// longestMatch is how long an extended pattern may look at one name: it may go back again and again.
const longestMatch = 100 * time.Millisecond

func compile(text string) pattern {
	text = bytewise(text)
	if usual, err := regexp.Compile(text); err == nil {
		return func(name string) (bool, error) { return usual.MatchString(name), nil }
	}
	// .NET reads these in another way: classes of POSIX, and one class within another.
	if strings.Contains(text, "[[:") || strings.Contains(text, "-[") {
		return nil
	}
	extended, err := regexp2.Compile(text)
	if err != nil {
		return nil
	}
	extended.MatchTimeout = longestMatch
	return extended.MatchString
}

func (p pattern) matches(name string) certainty {
	if p == nil {
		return perhaps
	}
	matches, err := p(bytewise(name))
	switch {
	case err != nil:
		return perhaps
	case matches:
		return yes
	}
	return no
}

// bytewise has a character for each byte of a text, so that `.` stands for one byte.
func bytewise(text string) string {
	characters := make([]rune, len(text))
	for i := range len(text) {
		characters[i] = rune(text[i])
	}
	return string(characters)
}

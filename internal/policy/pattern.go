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
// to regexp2, which has them, but is written after .NET.
type pattern struct {
	usual    *regexp.Regexp  // nil if Go does not know the syntax
	extended *regexp2.Regexp // nil if that is not needed, or does not know the syntax either
}

// longestMatch is how long an extended pattern may look at one name: it may go back again and again.
const longestMatch = 100 * time.Millisecond

func compile(text string) pattern {
	text = bytewise(text)
	if usual, err := regexp.Compile(text); err == nil {
		return pattern{usual: usual}
	}
	// .NET reads these in another way: classes of POSIX, and one class within another.
	if strings.Contains(text, "[[:") || strings.Contains(text, "-[") {
		return pattern{}
	}
	extended, err := regexp2.Compile(text)
	if err != nil {
		return pattern{}
	}
	extended.MatchTimeout = longestMatch
	return pattern{extended: extended}
}

func (p pattern) matches(name string) certainty {
	name = bytewise(name)
	switch {
	case p.usual != nil && p.usual.MatchString(name):
		return yes
	case p.usual != nil:
		return no
	case p.extended == nil:
		return perhaps
	}
	matches, err := p.extended.MatchString(name)
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

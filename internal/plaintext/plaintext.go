// Package plaintext has text shown as text. Nothing in it moves a cursor, turns the direction of reading or begins a
// line. Nothing is a command to a CI system that reads the log. It never leaves anything out: what it changes stays
// readable.
//
// A text of somebody else comes in, and one to be shown goes out: call Line or Lines. Duration and Count write figures
// as people say them. Join and List make one text of many.
package plaintext

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Line is a text that somebody else has written, in one line. What cannot be seen is written as in a Go string, such as
// \x1b.
func Line(text string) string { return escape(text, -1) }

// Lines is the same for a text that may have several lines.
func Lines(text string) string { return escape(text, '\n') }

func escape(text string, stays rune) string {
	if isPlain(text, stays) {
		return text
	}
	var shown strings.Builder
	for i, r := range text {
		switch _, size := utf8.DecodeRuneInString(text[i:]); {
		case r == utf8.RuneError && size == 1:
			quoted := strconv.Quote(text[i : i+1])
			shown.WriteString(quoted[1 : len(quoted)-1])
		case r == stays || strconv.IsPrint(r):
			shown.WriteRune(r)
		default:
			quoted := strconv.QuoteRune(r)
			shown.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	text = atBeginning.ReplaceAllString(shown.String(), `$1\$2`)
	return anywhere.ReplaceAllString(text, `#\$1`)
}

// isPlain spares most texts the work.
func isPlain(text string, stays rune) bool {
	return !strings.Contains(text, "::") && !strings.Contains(text, "##") && utf8.ValidString(text) &&
		!strings.ContainsFunc(text, func(r rune) bool { return r != stays && !strconv.IsPrint(r) })
}

// What CI systems obey in the log of a job. GitHub obeys ::error:: at the beginning of a line, which a blank can be
// where Terraform wraps its output. Wherever they stand, GitHub obeys ##[error], Azure ##vso[…] and TeamCity
// ##teamcity[…].
var (
	atBeginning = regexp.MustCompile(`(?m)(^|\s)(::[a-zA-Z])`)
	anywhere    = regexp.MustCompile(`#(#\w*\[)`)
)

package plaintext_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
)

func TestLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                            "",
		`queue "tâches" in vhost '/'`: `queue "tâches" in vhost '/'`,
		"clears\x1b[2Jthe screen":     `clears\x1b[2Jthe screen`,
		"C1 \u009b2J, DEL \x7f\x00":   `C1 \u009b2J, DEL \x7f\x00`,
		"a\r\nb\tc\u2028d\u0085e":     `a\r\nb\tc\u2028d\u0085e`,
		"\u202egnp.exe\u2066\u200b":   `\u202egnp.exe\u2066\u200b`,
		"no UTF-8: \xff\xfe":          `no UTF-8: \xff\xfe`,
		"said: \uFFFD":                "said: \uFFFD",
		"x\n::error::y":               `x\n::error::y`,
		"::error file=a::y":           `\::error file=a::y`,
		"wrapped ::error::y":          `wrapped \::error::y`,
		"##[error]y":                  `#\#[error]y`,
		"x##vso[task.complete]":       `x#\#vso[task.complete]`,
		"###teamcity[x]":              `##\#teamcity[x]`,
		"[::1]:15672 and a::b ## c":   "[::1]:15672 and a::b ## c",
		"from ::1":                    "from ::1",
	} {
		if got := plaintext.Line(text); got != want {
			t.Errorf("%q becomes %q, not %q", text, got, want)
		}
		if got := plaintext.Line(want); got != want {
			t.Errorf("%q does not stay as it is, but becomes %q", want, got)
		}
	}
	if got, want := plaintext.Lines("a\n  b\x1b\r\n::error::c"), `a`+"\n"+`  b\x1b\r`+"\n"+`\::error::c`; got != want {
		t.Errorf("several lines become %q, not %q", got, want)
	}
}

func FuzzLine(f *testing.F) {
	f.Add("\x1b[2J\u202e\n::error::x##vso[y]\xff")
	f.Fuzz(func(t *testing.T, text string) {
		line := plaintext.Line(text)
		if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) && r != ' ' }) {
			t.Errorf("%q becomes %q", text, line)
		}
		if strings.HasPrefix(line, "::e") || strings.Contains(line, " ::e") || strings.Contains(line, "##vso[") {
			t.Errorf("%q becomes %q", text, line)
		}
		if again := plaintext.Line(line); again != line {
			t.Errorf("%q becomes %q, and that %q", text, line, again)
		}
	})
}

func TestCommonPrefix(t *testing.T) {
	t.Parallel()
	for want, texts := range map[string][]string{
		"t.":    {"t.one", "t.two"},
		"":      {"a", "b"},
		"alone": {"alone"},
		"tä":    {"tä€", "tä₭"}, // which begin with the same byte
	} {
		if got := plaintext.CommonPrefix(texts); got != want {
			t.Errorf("%q have %q in common, not %q", texts, got, want)
		}
	}
}

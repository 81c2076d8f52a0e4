package topology

import (
	"slices"
	"strings"
	"testing"
)

func TestTopicKey(t *testing.T) {
	for _, test := range []struct {
		pattern, key string
		want         bool
	}{
		{"1.#", "1", true},
		{"1.#", "1.0.billing.eu", true},
		{"1.#", "10.billing", false},
		{"*.*.billing", "1.0.billing", true},
		{"*.*.billing", "1.0.billing.eu", false},
		{"*.*.billing", "1.billing", false},
		{"#.billing", "billing", true},
		{"#.billing", "1.0.billing", true},
		{"#.billing.#", "1.0.billing.eu", true},
		{"#.billing.#", "1.0.shipping", false},
		{"#", "", true},
		{"", "", true},
		{"", "a", false},
		{"*", "", false},
		{"*", ".", false},
		{"*.*", ".", true},
		{"a.*.b", "a..b", true},
		{"#.*", "", false},
		{"#.*", "a.b.c", true},
		{"*.#.*", "a", false},
		{"#.a.#.b.#", "x.a.y.z.b", true},
		{"#.a.#.b.#", "x.b.y.z.a", false},
	} {
		if got := ParseTopicKey(test.pattern).Matches(ParseTopicKey(test.key)); got != test.want {
			t.Errorf("%q takes %q: %t", test.pattern, test.key, got)
		}
	}
}

// More keys than one match a wildcard, which is a whole word.
func TestIsPattern(t *testing.T) {
	for key, want := range map[string]bool{"": false, "a.b": false, "a*.#b": false, "*": true, "a.#": true} {
		if ParseTopicKey(key).IsPattern() != want {
			t.Errorf("%q is a pattern: %t", key, !want)
		}
	}
}

func TestTopicKeysMeet(t *testing.T) {
	for _, test := range []struct {
		one, other string
		want       bool
	}{
		{"", "", true},
		{"", "#", true},
		{"", "*", false},
		{"a", "a", true},
		{"a", "b", false},
		{"*", "b", true},
		{"*.*.order.created", "order.created", false},
		{"*.*.order.created", "#.order.created", true},
		{"*.*.order.created", "*.order.created", false},
		{"*.*.order.created", "*.*.order.*", true},
		{"*.*.order.created", "0.1.order.created", true},
		{"*.*.order.created", "0.1.order.paid", false},
		{"*.*.order.created", "#", true},
		{"#.created", "order.created", true},
		{"#.created", "order.#", true},
		{"#.created", "created", true},
		{"#.created", "order.*", true},
		{"#.created", "order.paid", false},
		{"a.#.b", "#.c.#", true},
		{"a.#.b", "*.c", false},
		{"a.#", "#.b", true},
		{"#.a.#", "b.b", false},
	} {
		one, other := ParseTopicKey(test.one), ParseTopicKey(test.other)
		if one.Meets(other) != test.want || other.Meets(one) != test.want {
			t.Errorf("%q and %q meet: %t, and the other way round: %t", test.one, test.other, one.Meets(other),
				other.Meets(one))
		}
	}
}

// A word of digits is taken by a word that begins with a digit, and by wildcards.
func TestDigitsMeet(t *testing.T) {
	keys := TopicKey{Digits, Digits, "order"}
	for key, want := range map[string]bool{
		"0.1.order": true, "9.10.order": true, "a1.1.order": false, "30s.1h.order": true, "*.*.order": true,
		"#.order": true, "*.1.#": true, "#": true,
		"order.*.order": false, "order.#": false, "*.order.order": false, "a.b.order": false, ".1.order": false,
		"0.order": false, "": false,
	} {
		if got := keys.Meets(ParseTopicKey(key)); got != want {
			t.Errorf("%q has a key in common: %t", key, got)
		}
		isKey := !strings.ContainsAny(key, "*#")
		if got := keys.Matches(ParseTopicKey(key)); isKey && got != want {
			t.Errorf("%q is taken: %t", key, got)
		}
	}
}

// FuzzTopicKeysMeet compares with a look at all short keys: two patterns meet in a key that is no longer than both.
func FuzzTopicKeysMeet(f *testing.F) {
	f.Add("*.*.a", "#.a")
	f.Add("#.a.#", "a.1.*")
	f.Add("..a", "1.#")
	f.Add("#.#", "#.1.#")
	f.Fuzz(func(t *testing.T, one, other string) {
		p, q := shortPattern(one), shortPattern(other)
		want := false
		for key := range shortKeys(len(p) + len(q)) {
			want = want || p.Matches(key) && q.Matches(key)
		}
		if got := p.Meets(q); got != want {
			t.Errorf("%q and %q meet: %t", p, q, got)
		}
	})
}

// shortPattern is a pattern of up to four words that a text stands for.
func shortPattern(text string) TopicKey {
	words := []string{"a", "1", "*", "#", Digits}
	var pattern TopicKey
	for i := range min(len(text), 4) {
		pattern = append(pattern, words[int(text[i])%len(words)])
	}
	return pattern
}

// shortKeys are all keys of up to so many words.
func shortKeys(most int) func(yield func(TopicKey) bool) {
	return func(yield func(TopicKey) bool) {
		keys := []TopicKey{nil}
		for {
			for _, key := range keys {
				if !yield(key) {
					return
				}
			}
			if len(keys[0]) == most {
				return
			}
			var longer []TopicKey
			for _, key := range keys {
				longer = append(longer, append(slices.Clone(key), "a"), append(slices.Clone(key), "1"))
			}
			keys = longer
		}
	}
}

package topology

import "testing"

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

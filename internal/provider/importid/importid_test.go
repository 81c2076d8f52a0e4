package importid

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// An import ID leads to one cascade, and from there back to the same ID's meaning; anything else is refused.
func FuzzParseImportID(f *testing.F) {
	for _, id := range []string{"%2F/tasks.delay-16", "v/e", "", "/", "//", "a/b/c", "%/x", "%zz/x", "v/%00", "%ff/x",
		"v/e?x#y", "+/ ", "v%2Fw/a%2Fb", "é/日"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		vhost, entry, err := ParseEntry(id, "t.entry")
		if err != nil {
			if !strings.Contains(err.Error(), "<vhost>/<entry exchange>") {
				t.Fatalf("the error does not say what an ID is: %v", err)
			}
			return
		}
		if vhost == "" || entry == "" || !utf8.ValidString(vhost+entry) {
			t.Fatalf("%q leads to vhost %q, exchange %q", id, vhost, entry)
		}
		if v, e, err := ParseEntry(Entry(vhost, entry), "t.entry"); v != vhost || e != entry || err != nil {
			t.Fatalf("%q leads to %q and %q; their ID %q to %q and %q: %v", id, vhost, entry, Entry(vhost, entry), v,
				e, err)
		}
	})
}

// Every cascade has an import ID that leads to it.
func FuzzImportID(f *testing.F) {
	f.Add("/", "tasks.delay-16")
	f.Add("a/b%", "c d+e?f#g")
	f.Add("..", "é\x00")
	f.Fuzz(func(t *testing.T, vhost, entry string) {
		if vhost == "" || entry == "" || !utf8.ValidString(vhost+entry) {
			t.Skip("RabbitMQ knows no such names")
		}
		id := Entry(vhost, entry)
		if v, e, err := ParseEntry(id, "t.entry"); v != vhost || e != entry || err != nil {
			t.Fatalf("the ID %q of %q and %q leads to %q and %q: %v", id, vhost, entry, v, e, err)
		}
		if strings.ContainsAny(id, "'\" \n") {
			t.Fatalf("%q cannot stand in a shell's quotes", id)
		}
	})
}

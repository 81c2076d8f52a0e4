package diagnose

import (
	"strings"
	"testing"
)

// Paragraphs are one blank line apart. Two objects of a plan need not have two addresses.
func TestConflictsReadWell(t *testing.T) {
	one, other, objects := OfEntry("cascade", "/", "t"), OfEntry("ladder", "/", "u"), []string{`exchange "x"`}
	for name, said := range map[string]string{
		"declared twice": one.DeclaredTwice(other, objects).Detail(),
		"let go":         one.WouldDelete(other, objects).Detail(),
		"left":           one.LeavesToOthers(other, objects).Detail(),
	} {
		if strings.Contains(said, "\n\n\n") || strings.HasSuffix(said, "\n") {
			t.Errorf("%s: there are blank lines: %q", name, said)
		}
		if !strings.Contains(said, "elsewhere in this plan") || strings.Contains(said, "of this configuration") {
			t.Errorf("%s: the other one is at an address: %q", name, said)
		}
	}
}

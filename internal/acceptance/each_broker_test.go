package acceptance

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fakeDocker has one image of a name that is given, and can pull another one. It writes down what it is asked to pull.
const fakeDocker = `#!/bin/sh
case "$1 $2" in
version*) exit 0 ;;
image*) [ "$3" = "$HAS" ] ;;
pull*) echo "$3" >> "$PULLED"; [ "$3" = "$GETS" ] ;;
esac
`

// TestEachBroker runs the tool that goes through versions of RabbitMQ. An entry may be an image, with whatever name.
func TestEachBroker(t *testing.T) {
	t.Parallel()
	tool, err := filepath.Abs("../tools/each-broker")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		entries, has, gets string
		ran, pulled        string // the images
		fails              bool
	}{
		"a version": {entries: "4.3", has: "rabbitmq:4.3-management", ran: "rabbitmq:4.3-management"},
		"a version to pull": {entries: "4.4", gets: "rabbitmq:4.4-management", ran: "rabbitmq:4.4-management",
			pulled: "rabbitmq:4.4-management"},
		"an image": {entries: "example.org/team/rabbitmq:4.4.1", has: "example.org/team/rabbitmq:4.4.1",
			ran: "example.org/team/rabbitmq:4.4.1"},
		"an image to pull": {entries: "mine:rc", gets: "mine:rc", ran: "mine:rc", pulled: "mine:rc"},
		"a version and an image": {entries: "4.3 mine:rc", has: "rabbitmq:4.3-management", gets: "mine:rc",
			ran: "rabbitmq:4.3-management mine:rc", pulled: "mine:rc"},
		"an image that is not there": {entries: "mine:rc", pulled: "mine:rc", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			directory := t.TempDir()
			file := func(name string) string { return filepath.Join(directory, name) }
			if err := os.WriteFile(file("docker"), []byte(fakeDocker), 0o700); err != nil { //nolint:gosec // a program
				t.Fatal(err)
			}
			command := exec.CommandContext(t.Context(), tool, test.entries, "sh", "-c",
				`echo "$RABBITMQ_IMAGE" >> "$RAN"`)
			command.Env = append(os.Environ(), "PATH="+directory+":"+os.Getenv("PATH"), "HAS="+test.has,
				"GETS="+test.gets, "PULLED="+file("pulled"), "RAN="+file("ran"), "TESTED=", "SUMMARY=", "BEST_EFFORT=")
			out, err := command.CombinedOutput()
			if fails := err != nil; fails != test.fails {
				t.Errorf("%v\n%s", err, out)
			}
			for name, want := range map[string]string{"ran": test.ran, "pulled": test.pulled} {
				images, err := os.ReadFile(file(name))
				if err != nil && !os.IsNotExist(err) {
					t.Fatal(err)
				}
				if got := strings.Join(strings.Fields(string(images)), " "); got != want {
					t.Errorf("%s is %q, not %q\n%s", name, got, want, out)
				}
			}
		})
	}
}

package docstest

import (
	"os"
	"path/filepath"
	"testing"
)

const (
	// Checkout is the repository, as the tests see it.
	Checkout = "../.."
	// Registry is where the pages of docs/ are published, each without its .md.
	Registry = "https://registry.terraform.io/providers/rabbitmqdelay/rabbitmqdelay/latest/docs/"
)

// ReadPage reads a page of the repository.
func ReadPage(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(Checkout, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Examples is the directory of the examples, as the tests see it.
const Examples = "../../examples"

// ExampleFiles are the names of the files in each directory of examples.
func ExampleFiles(t testing.TB) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	err := filepath.WalkDir(Examples, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			directory, err := filepath.Rel(Examples, filepath.Dir(path))
			found[directory] = append(found[directory], entry.Name())
			return err
		}
		return err
	})
	if err != nil || len(found) == 0 {
		t.Fatalf("%d directories of examples: %v", len(found), err)
	}
	return found
}

// ReadExample reads a file of an example.
func ReadExample(t testing.TB, directory, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(Examples, directory, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// WriteExample writes a file of a configuration.
func WriteExample(t testing.TB, directory, file, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(directory, file), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

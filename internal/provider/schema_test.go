package provider_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider"
)

// schemas are the recorded schemas, a file for each release.
const schemas = "testdata/schema"

// TestSchemasOfReleases compares the schemas with those of each release. All that a release has is still there, with
// the same type and version. Nothing that was optional is required, and nothing that is new. Before a release,
// UPDATE_SCHEMA=0.2.0 records its schemas.
func TestSchemasOfReleases(t *testing.T) {
	present := readSchemas(t)
	if release := os.Getenv("UPDATE_SCHEMA"); release != "" {
		text := strings.Join(slices.Sorted(maps.Keys(lines(present))), "")
		if err := os.WriteFile(filepath.Join(schemas, release+".txt"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(schemas, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no schemas are recorded: %v", err)
	}
	for _, file := range files {
		recorded := readRecord(t, file)
		for name, was := range recorded {
			is, found := present[name]
			switch {
			case !found:
				t.Errorf("%s has %s: it is gone", file, name)
			case is.typ != was.typ:
				t.Errorf("%s has %s of type %s: it is %s now", file, name, was.typ, is.typ)
			case is.role == required && was.role != required, is.role == computed && was.role != computed,
				was.role != required && was.role != optional && is.role == optional:
				t.Errorf("%s has %s as %s: it is %s now", file, name, was.role, is.role)
			}
		}
		for name, is := range present {
			block, _, _ := strings.Cut(name, ".")
			_, was := recorded[name]
			if _, of := recorded[block]; !was && of && is.role == required {
				t.Errorf("%s has no %s: it cannot be required now", file, name)
			}
		}
	}
}

// TestRecordIsNewest fails where an attribute is in no recorded release: that of the next release lacks it. Until 0.1.0
// is tagged, its record follows each change.
func TestRecordIsNewest(t *testing.T) {
	recorded := map[string]bool{}
	files, _ := filepath.Glob(filepath.Join(schemas, "*.txt"))
	for _, file := range files {
		maps.Copy(recorded, lines(readRecord(t, file)))
	}
	for line := range lines(readSchemas(t)) {
		if !recorded[line] {
			t.Errorf("not recorded: %s", line)
		}
	}
}

// What the configuration says of an attribute.
const (
	required = "required"
	optional = "optional"
	computed = "computed"
	either   = "optional, computed"
)

// attribute is a line of a record.
type attribute struct{ typ, role string }

func lines(of map[string]attribute) map[string]bool {
	all := map[string]bool{}
	for name, a := range of {
		all[fmt.Sprintf("%s | %s | %s\n", name, a.typ, a.role)] = true
	}
	return all
}

func readRecord(t *testing.T, file string) map[string]attribute {
	t.Helper()
	text, err := os.ReadFile(file) //nolint:gosec // of this repository
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]attribute{}
	for line := range strings.Lines(string(text)) {
		parts := strings.Split(strings.TrimSuffix(line, "\n"), " | ")
		all[parts[0]] = attribute{parts[1], parts[2]}
	}
	return all
}

// readSchemas are the schemas of this code: each attribute by its block and its name.
func readSchemas(t *testing.T) map[string]attribute {
	t.Helper()
	server := provider.NewServer("")
	got, err := server.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		t.Fatal(err)
	}
	identities, err := server.GetResourceIdentitySchemas(t.Context(), &tfprotov6.GetResourceIdentitySchemasRequest{})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]attribute{}
	add := func(kind, name string, s *tfprotov6.Schema) {
		block := strings.TrimSpace(kind + " " + name)
		all[block] = attribute{fmt.Sprintf("version %d", s.Version), computed}
		addAttributes(all, block, s.Block.Attributes)
	}
	add("provider", "", got.Provider)
	for name, s := range got.ResourceSchemas {
		add("resource", name, s)
	}
	for name, s := range got.DataSourceSchemas {
		add("data", name, s)
	}
	for name, s := range got.ListResourceSchemas {
		add("list", name, s)
	}
	for name, s := range got.ActionSchemas {
		add("action", name, s.Schema)
	}
	for name, s := range identities.IdentitySchemas {
		block := "identity " + name
		all[block] = attribute{fmt.Sprintf("version %d", s.Version), computed}
		for _, a := range s.IdentityAttributes {
			role := optional
			if a.RequiredForImport {
				role = required
			}
			all[block+"."+a.Name] = attribute{typeText(a.Type), role}
		}
	}
	for name, f := range got.Functions {
		parameters := ""
		for _, p := range f.Parameters {
			parameters += typeText(p.Type) + ", "
		}
		if f.VariadicParameter != nil {
			parameters += typeText(f.VariadicParameter.Type) + " ..., "
		}
		all["function "+name] = attribute{"(" + strings.TrimSuffix(parameters, ", ") + ") " + typeText(f.Return.Type),
			computed}
	}
	return all
}

func addAttributes(all map[string]attribute, of string, attributes []*tfprotov6.SchemaAttribute) {
	for _, a := range attributes {
		role := computed
		switch {
		case a.Required:
			role = required
		case a.Optional && a.Computed:
			role = either
		case a.Optional:
			role = optional
		}
		name := of + "." + a.Name
		if a.NestedType == nil {
			all[name] = attribute{typeText(a.Type), role}
			continue
		}
		all[name] = attribute{"nested " + strings.ToLower(a.NestedType.Nesting.String()), role}
		addAttributes(all, name, a.NestedType.Attributes)
	}
}

func typeText(typ fmt.Stringer) string {
	return strings.ReplaceAll(typ.String(), "tftypes.", "")
}

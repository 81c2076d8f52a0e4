package resource

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// A value that its type does not take is an error on the attribute, not a value that is left out.
func TestInvalidValues(t *testing.T) {
	schema := cascades.schema()
	for name, wrong := range map[string]tftypes.Value{
		"drain_timeout": tftypes.NewValue(tftypes.String, "5 minutes"),
		"levels":        tftypes.NewValue(tftypes.Number, 1.5),
	} {
		raw := map[string]tftypes.Value{}
		for each, attribute := range schema.Attributes {
			raw[each] = tftypes.NewValue(attribute.GetType().TerraformType(t.Context()), nil)
		}
		raw[name] = wrong
		_, diags := valuesOf(t.Context(), tfsdk.State{Schema: schema,
			Raw: tftypes.NewValue(schema.Type().TerraformType(t.Context()), raw)})
		if len(diags) != 1 {
			t.Errorf("%s is %s: %v", name, wrong, diags)
			continue
		}
		if at, ok := diags[0].(diag.DiagnosticWithPath); !ok || !at.Path().Equal(path.Root(name)) {
			t.Errorf("%s is %s: %v", name, wrong, diags)
		}
	}
}

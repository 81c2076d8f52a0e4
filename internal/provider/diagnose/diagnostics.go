// Package diagnose has the texts of all errors and warnings. An error of another package goes in, or what a refresh has
// found, and diagnostics come out. Call the methods of a Subject, which is a cascade or ladder, or of a Destination.
// Overhaul is for a replacement or rebuild in a plan. What concerns none of them is a function, such as Failed.
package diagnose

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
)

// Failed has the kind in its summary, and what exactly it concerns in its detail.
func Failed(verb, kind, what string, err error) diag.Diagnostic {
	var described rabbit.Described
	if errors.As(err, &described) {
		return diag.NewErrorDiagnostic(described.Summary(), fmt.Sprintf("Could not %s the %s.\n\n%s", verb, what,
			described.Detail()))
	}
	return diag.NewErrorDiagnostic(fmt.Sprintf("Could not %s the %s", verb, kind), fmt.Sprintf("%s: %s", what, err))
}

// withMore adds to what an error says.
func withMore(d diag.Diagnostic, text string) diag.Diagnostic {
	return diag.NewErrorDiagnostic(d.Summary(), d.Detail()+"\n\n"+text)
}

// notTakenBack is said of an error after which more is there than before. The cause of both is said once.
func notTakenBack(err, undo error) string {
	if rabbit.SameCause(err, undo) {
		return isNotTakenBack + "."
	}
	return fmt.Sprintf("%s: %s.", isNotTakenBack, undo)
}

const isNotTakenBack = "Some of the new objects could not be taken back"

// NotConfigured is for a provider whose configuration is not known yet.
func NotConfigured() diag.Diagnostic {
	return diag.NewErrorDiagnostic("Provider not configured", "The provider's configuration holds values that are "+
		"not known, so that the broker cannot be reached.")
}

// NotReadable is the answer of a data source: what it returns has to be known, so Terraform has to ask later.
func NotReadable() diag.Diagnostic {
	return diag.NewErrorDiagnostic("Provider not configured", "The provider's configuration holds values that are "+
		"not known before the apply, so that nothing can be read in the plan. "+
		"Add depends_on to the data source, with the resources that these values come from: Terraform then reads it "+
		"in the apply.")
}

// NotImportable is the answer to an import.
func NotImportable(kind string) diag.Diagnostic {
	return diag.NewErrorDiagnostic("Provider not configured", fmt.Sprintf("The provider's configuration holds values "+
		"that are not known, so that the %s cannot be read for the import.", kind))
}

// NotRefreshed warns in a refresh.
func NotRefreshed(kind string) diag.Diagnostic {
	return diag.NewWarningDiagnostic(Title(kind)+" not refreshed", fmt.Sprintf("The provider's configuration is not "+
		"known yet, so the %s was not read and the plan is made from the state.", kind))
}

// ConfigErrors turns the faults of a configuration into errors on the attributes.
func ConfigErrors(err error) diag.Diagnostics {
	var diags diag.Diagnostics
	var errs delay.Errors
	if !errors.As(err, &errs) {
		diags.AddError("Invalid configuration", err.Error())
		return diags
	}
	for _, e := range errs {
		diags.AddAttributeError(path.Root(e.Attribute), "Invalid "+e.Attribute, e.Error()+".")
	}
	return diags
}

// OfState takes the errors that are meant for the state off the attributes: Terraform would show their lines in the
// configuration, which may be right.
func OfState(diags diag.Diagnostics) diag.Diagnostics {
	var moved diag.Diagnostics
	for _, d := range diags {
		if on, ok := d.(diag.DiagnosticWithPath); ok && d.Severity() == diag.SeverityError {
			d = diag.NewErrorDiagnostic("Invalid value in the state", fmt.Sprintf("In the state, the attribute %s has "+
				"no valid value: %s\n\n"+
				"The configuration is not to blame: something else than this version of the provider wrote the state. "+
				"Take the resource out of the state with terraform state rm, which leaves the broker as it is. Then "+
				"import it again, by the ID that the page of the resource describes:\n\n%s", on.Path(), d.Detail(),
				WaysToImport("<type>", "<import ID>")))
		}
		moved.Append(d)
	}
	return moved
}

// mostObjects is how many objects a message lists.
const mostObjects = 10

// AtMost leaves out the surplus lines and says how many they are.
func AtMost(lines []string) []string {
	if more := len(lines) - mostObjects; more > 0 {
		return append(slices.Clone(lines[:mostObjects]), fmt.Sprintf("and %d more", more))
	}
	return lines
}

// Title is the kind at the beginning of a sentence.
func Title(kind string) string { return strings.ToUpper(kind[:1]) + kind[1:] }

// WaysToImport are the block and the command that import something. An ID holds nothing that has to be escaped in
// either.
func WaysToImport(kind, id string) string {
	to := fmt.Sprintf("rabbitmqdelay_%s.<name in your configuration>", kind)
	return fmt.Sprintf("  import {\n    to = %s\n    id = \"%s\"\n  }\n\nor, as a command:\n\n  terraform "+
		"import %s '%s'", to, id, to, id)
}

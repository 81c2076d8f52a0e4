// Package diagnose has the texts of all errors and warnings. An error of another package goes in, or what a refresh has
// found, and diagnostics come out. Call the methods of a Subject, which is a cascade or ladder, or of a Destination.
// Overhaul is for a replacement or rebuild in a plan. What concerns none of them is a function, such as Error.
package diagnose

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/health"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
)

// Error is an error, with the detail as a format. Nothing in it is a command to a terminal or to a CI system. Names are
// quoted, and a broker's words are plain before. This is for a place where that was forgotten, and for names that
// Terraform may put at the beginning of a line.
func Error(summary, detail string, args ...any) diag.Diagnostic {
	return diag.NewErrorDiagnostic(wash(summary, detail, args))
}

// ErrorOn is an error on an attribute.
func ErrorOn(attribute, summary, detail string, args ...any) diag.Diagnostic {
	return diag.WithPath(path.Root(attribute), Error(summary, detail, args...))
}

// Warning is likewise a warning.
func Warning(summary, detail string, args ...any) diag.Diagnostic {
	return diag.NewWarningDiagnostic(wash(summary, detail, args))
}

// WarningOn is a warning on an attribute.
func WarningOn(attribute, summary, detail string, args ...any) diag.Diagnostic {
	return diag.WithPath(path.Root(attribute), Warning(summary, detail, args...))
}

// about is the summary of a warning: what it says, and what it says it of. Terraform shows one of several warnings that
// have the same summary, and counts the others.
func about(text, what, vhost string) string {
	return fmt.Sprintf("%s: %s in vhost %q", text, what, vhost)
}

func wash(summary, detail string, args []any) (string, string) {
	return plaintext.Line(summary), plaintext.Lines(fmt.Sprintf(detail, args...))
}

// explain turns each error into the first words that fit, else into the words for all other errors.
func explain(err error, otherwise func(error) diag.Diagnostic, all ...words) diag.Diagnostics {
	if err == nil {
		return nil
	}
	var diags diag.Diagnostics
	if list, ok := errors.AsType[engine.Errors](err); ok {
		for _, each := range list {
			diags.Append(explain(each, otherwise, all...)...)
		}
		return diags
	}
	for _, words := range all {
		if diags = words(err); len(diags) > 0 {
			return diags
		}
	}
	return diag.Diagnostics{otherwise(err)}
}

// words are the texts for errors of one type, none if an error is of another.
type words func(error) diag.Diagnostics

func when[E error](say func(E) diag.Diagnostic) words {
	return whenever(func(e E) diag.Diagnostics {
		if d := say(e); d != nil {
			return diag.Diagnostics{d}
		}
		return nil
	})
}

// whenever is for an error that takes several diagnostics.
func whenever[E error](say func(E) diag.Diagnostics) words {
	return func(err error) diag.Diagnostics {
		if e, ok := errors.AsType[E](err); ok {
			return say(e)
		}
		return nil
	}
}

// Invalid is for a value that an attribute cannot have. The error is a sentence without its end.
func Invalid(attribute path.Path, err error) diag.Diagnostic {
	return diag.WithPath(attribute, Error(fmt.Sprintf("Invalid %s", attribute), "%s.", err))
}

// failed has the kind in its summary, and what exactly it concerns in its detail.
func failed(verb, kind, what string, err error) diag.Diagnostic {
	if described, is := errors.AsType[rabbit.Described](err); is {
		return Error(described.Summary(), "Could not %s the %s.\n\n%s", verb, what, described.Detail())
	}
	return Error(fmt.Sprintf("Could not %s the %s", verb, kind), "%s: %s", what, err)
}

// withMore adds a paragraph to what an error says.
func withMore(d diag.Diagnostic, text string, args ...any) diag.Diagnostic {
	return Error(d.Summary(), "%s\n\n%s", d.Detail(), fmt.Sprintf(text, args...))
}

// notTakenBack is said of an error after which more is there than before. The cause of both is said once.
func notTakenBack(err, undo error) string {
	if rabbit.SameCause(err, undo) {
		return isNotTakenBack + "."
	}
	return fmt.Sprintf("%s: %s.", isNotTakenBack, undo)
}

const isNotTakenBack = "Some of the new objects could not be taken back"

// NotConfigured is for a provider whose configuration is not known yet, and what therefore cannot be.
func NotConfigured(therefore string, args ...any) diag.Diagnostic {
	return Error("Provider not configured",
		"The provider's configuration holds values that are not known, so that %s.", fmt.Sprintf(therefore, args...))
}

// NotReadable is the answer of a data source: what it returns has to be known, so Terraform has to ask later.
func NotReadable() diag.Diagnostic {
	return Error("Provider not configured",
		"The provider's configuration holds values that are not known before the apply, so that nothing can be read "+
			"in the plan. Add depends_on to the data source, with the resources that these values come from: "+
			"Terraform then reads it in the apply.")
}

// NotListed says what could not be listed, in a vhost or at all.
func NotListed(kind, vhost string, err error) diag.Diagnostic {
	what := kind + "s"
	if vhost != "" {
		what += fmt.Sprintf(" of vhost %q", vhost)
	}
	return failed("list", kind+"s", what, err)
}

// NotListable is for an attribute of a list resource whose value is not known yet.
func NotListable(kind, attribute string) diag.Diagnostic {
	return Error(title(strings.ReplaceAll(attribute, "_", " "))+" not known",
		"The value of %s is not known yet, so that no %ss can be listed.", attribute, kind)
}

// AMQPNotUsable warns in a plan of a given address for AMQP that does not work.
func AMQPNotUsable(err error) diag.Diagnostics {
	if err == nil {
		return nil
	}
	return diag.Diagnostics{Warning("amqp_uri does not work", "%s\n\nThe apply will fail where it destroys, replaces "+
		"or rebuilds something, unless that has force_destroy = true.", rabbit.Describe(err).Detail())}
}

// WithWayOut adds to errors of a broker that cannot be reached what to do if it is gone for good.
func WithWayOut(diags diag.Diagnostics) diag.Diagnostics {
	for i, d := range diags {
		isAway := d.Summary() == rabbit.Unreachable.Summary() || d.Summary() == rabbit.Timeout.Summary()
		if isAway && d.Severity() == diag.SeverityError {
			diags[i] = withMore(d, "If the broker is gone for good, take the resource out of the state. A removed "+
				"block with destroy = false does that, or terraform state rm.")
		}
	}
	return diags
}

// NotRefreshed warns in a refresh.
func NotRefreshed(kind string) diag.Diagnostic {
	return Warning(title(kind)+" not refreshed",
		"The provider's configuration is not known yet, so the %s was not read and the plan is made from the state.",
		kind)
}

// ConfigErrors turns the faults of a configuration into errors on the attributes.
func ConfigErrors(err error) diag.Diagnostics {
	errs, ok := errors.AsType[delay.Errors](err)
	if !ok {
		return diag.Diagnostics{Error("Invalid configuration", "%s", err)}
	}
	var diags diag.Diagnostics
	for _, e := range errs {
		diags.Append(Invalid(path.Root(e.Attribute), e))
	}
	return diags
}

// OfState takes the errors that are meant for the state off the attributes: Terraform would show their lines in the
// configuration, which may be right.
func OfState(diags diag.Diagnostics) diag.Diagnostics {
	var moved diag.Diagnostics
	for _, d := range diags {
		if on, ok := d.(diag.DiagnosticWithPath); ok && d.Severity() == diag.SeverityError {
			d = Error("Invalid value in the state",
				"In the state, the attribute %s has no valid value: %s\n\nThe configuration is not to blame: "+
					"something else than this version of the provider wrote the state. Take the resource out of the "+
					"state with terraform state rm, which leaves the broker as it is. Then import it again, by the "+
					"ID that the page of the resource describes:\n\n%s", on.Path(), d.Detail(),
				WaysToImport("<type>", "<import ID>"))
		}
		moved.Append(d)
	}
	return moved
}

// ifAny leaves out a diagnostic that has nothing to list.
func ifAny[T any](things []T, d diag.Diagnostic) diag.Diagnostics {
	if len(things) == 0 {
		return nil
	}
	return diag.Diagnostics{d}
}

// listed are lines of a list.
func listed(lines []string) string { return strings.Join(lines, "\n  ") }

// mostObjects is how many objects a message lists.
const mostObjects = 10

// atMost leaves out the surplus lines and says how many they are.
func atMost(lines []string) []string {
	if more := len(lines) - mostObjects; more > 0 {
		return append(slices.Clone(lines[:mostObjects]), fmt.Sprintf("and %d more", more))
	}
	return lines
}

// title is the kind at the beginning of a sentence.
func title(kind string) string { return strings.ToUpper(kind[:1]) + kind[1:] }

// WaysToImport are the block and the command that import something. An ID holds nothing that has to be escaped in
// either.
func WaysToImport(kind, id string) string {
	to := fmt.Sprintf("rabbitmqdelay_%s.<name in your configuration>", kind)
	return fmt.Sprintf("  import {\n    to = %s\n    id = \"%s\"\n  }\n\nor, as a command:\n\n  terraform "+
		"import %s '%s'", to, id, to, id)
}

// past is the past participle of a verb.
func past(verb string) string { return strings.TrimSuffix(verb, "e") + "ed" }

// changing is for findings, which a policy mostly has on many queues.
func changing(summary, what string, findings []health.Finding) diag.Diagnostics {
	type finding struct{ cause, effect string }
	var causes []string
	of, objects := map[string][]finding{}, map[finding][]string{}
	for _, f := range findings {
		found := finding{f.Cause, f.Effect}
		if of[f.Cause] == nil {
			causes = append(causes, f.Cause)
		}
		if objects[found] == nil {
			of[f.Cause] = append(of[f.Cause], found)
		}
		objects[found] = append(objects[found], f.Object)
	}
	var lines []string
	for _, cause := range causes {
		var effects []string
		for _, found := range of[cause] {
			on := strings.Join(atMost(objects[found]), ", ")
			effects = append(effects, fmt.Sprintf("%s on %s: %s", cause, on, found.effect))
		}
		lines = append(lines, atMost(effects)...)
	}
	return ifAny(lines, Warning(summary, "The %s has findings that no apply repairs:\n\n  %s", what,
		listed(lines)))
}

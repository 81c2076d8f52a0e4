package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/health"
)

// Words for the drift that a refresh finds: the objects that are not as declared, the effect on messages, and what the
// next apply does. A refresh does not know whether a plan follows, which may well be one that changes nothing but the
// state.

// Drift is nil if all is as declared.
func (s Subject) Drift(damages []health.Damage) diag.Diagnostics {
	text := ""
	if slices.ContainsFunc(damages, func(d health.Damage) bool { return d.Redeclares }) {
		text = "\n\nAn application that declares such a queue or exchange as it is now will not start after that " +
			"apply: RabbitMQ answers 406 PRECONDITION_FAILED."
	}
	return drifted(s.about, s.String(), atMost(health.Sentences(damages)), text)
}

// Gone is for all of it.
func (s Subject) Gone(err error) diag.Diagnostics {
	again := "The next apply creates it again."
	if err != nil {
		again = fmt.Sprintf("The vhost is gone, too: declare it again, and the next apply creates the %s.", s.Kind)
	}
	return drifted(s.about, s.String(), []string{s.isGone() + " " + again}, "")
}

func (s Subject) isGone() string {
	return fmt.Sprintf("The %s is gone. Publishers get an error. Any messages that waited in it are lost.", s.Kind)
}

// unplanned is for the damages that an apply has found, and its plan did not know.
func (s Subject) unplanned(err *engine.DamagedError, repaired bool) diag.Diagnostic {
	found := health.Found(err.Damages)
	if err.Gone {
		found = []string{s.isGone()}
	}
	return unplanned(s.about(unplannedSummary), s.String(), found, repaired)
}

// driftSummary is a text that the program of the guide to checks knows.
const driftSummary = "Objects are not as declared"

func drifted(about func(string) string, what string, sentences []string, then string) diag.Diagnostics {
	// Terraform wraps a line unless it begins with a blank.
	return ifAny(sentences, Warning(about(driftSummary),
		"The %s was changed outside Terraform, was imported like this, or an apply broke off:\n\n- %s%s",
		what, strings.Join(sentences, "\n- "), then))
}

const unplannedSummary = "Damages after the plan"

// unplanned has the words for an apply.
func unplanned(summary, what string, sentences []string, repaired bool) diag.Diagnostic {
	then := "The apply has repaired this:"
	if !repaired {
		then = "The apply broke off. The next plan shows the rest of this:"
	}
	return Warning(summary, "The apply has found the %s damaged, and its plan does not say so. %s\n\n- %s", what, then,
		strings.Join(atMost(sentences), "\n- "))
}

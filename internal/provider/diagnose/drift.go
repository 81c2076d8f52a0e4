package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/health"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Words for the drift that a refresh finds: the objects that are not as declared, the effect on messages, and what the
// next apply does. A refresh does not know whether a plan follows, which may well be one that changes nothing but the
// state.

// Drift is nil if all is as declared.
func (s Subject) Drift(damages []health.Damage) diag.Diagnostics {
	sentences := atMost(health.Sentences(damages))
	text := ""
	if slices.ContainsFunc(damages, func(d health.Damage) bool { return d.Redeclares }) {
		text = "\n\nAn application that declares such a queue as it is now will not start after that apply: RabbitMQ " +
			"answers 406 PRECONDITION_FAILED."
	}
	return drifted(s.about, s.String(), sentences, text)
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

// Gone is for the binding that a destination stands for. Others may bring its messages all the same.
func (d Destination) Gone(there topology.Bindings) diag.Diagnostics {
	return drifted(d.about, "destination", []string{d.isGone(there) + " The next apply makes it again."}, "")
}

func (d Destination) isGone(there topology.Bindings) string {
	text := fmt.Sprintf("The %s is gone. Messages for the address %q ", d, d.address())
	if lines := d.replacements(there); len(lines) > 0 {
		return text + "get there by " + strings.Join(lines, ", and ") + "."
	}
	return text + fmt.Sprintf("do not get to %s %q.", d.Binding.DestinationType, d.Binding.Destination)
}

// wasGone is for a binding that an apply has found gone and made again, and its plan did not know.
func (d Destination) wasGone(err *engine.GoneError) diag.Diagnostic {
	d.Binding = err.Binding
	return unplanned(d.about(unplannedSummary), "destination", []string{d.isGone(err.There)}, true)
}

// driftSummary is a text that the program of the guide to checks knows.
const driftSummary = "Objects are not as declared"

func drifted(about func(string) string, what string, sentences []string, then string) diag.Diagnostics {
	if len(sentences) == 0 {
		return nil
	}
	// Terraform wraps a line unless it begins with a blank.
	return diag.Diagnostics{Warning(about(driftSummary),
		"The %s was changed outside Terraform, or an apply broke off:\n\n- %s%s", what,
		strings.Join(sentences, "\n- "), then)}
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

package diagnose

import (
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/health"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Words for the drift that a refresh finds: the objects that are not as declared, the effect on messages, and what the
// next apply does. A refresh does not know whether a plan follows, which may well be one that changes nothing but the
// state.

// Drift is nil if all is as declared.
func (s Subject) Drift(state *rabbit.State) diag.Diagnostics {
	return drifted(s.about, s.String(), health.Sentences(health.Damages(s.Desired, state.Topology, state.Status)))
}

// Gone is for all of it.
func (s Subject) Gone(err error) diag.Diagnostics {
	again := "The next apply creates it again."
	if err != nil {
		again = fmt.Sprintf("The vhost is gone, too: declare it again, and the next apply creates the %s.", s.Kind)
	}
	return drifted(s.about, s.String(), []string{fmt.Sprintf("The %s is gone. Publishers get an error. Any messages "+
		"that waited in it are lost. %s", s.Kind, again)})
}

// Gone is for the binding that a destination stands for. Others may bring its messages all the same.
func (d Destination) Gone(there topology.Bindings) diag.Diagnostics {
	text := fmt.Sprintf("The %s is gone. Messages for the address %q ", d, d.address())
	if lines := d.replacements(there); len(lines) > 0 {
		text += "get there by " + strings.Join(lines, ", and ")
	} else {
		text += fmt.Sprintf("do not get to %s %q", d.Binding.DestinationType, d.Binding.Destination)
	}
	return drifted(d.about, "destination", []string{text + ". The next apply makes it again."})
}

// driftSummary begins a summary, and is a text that the program of the guide to checks knows.
const driftSummary = "Objects are not as declared"

func drifted(about func(string) string, what string, sentences []string) diag.Diagnostics {
	if len(sentences) == 0 {
		return nil
	}
	// Terraform wraps a line unless it begins with a blank.
	return diag.Diagnostics{Warning(about(driftSummary),
		"The %s was changed outside Terraform, or an apply broke off:\n\n- %s", what,
		strings.Join(atMost(sentences), "\n- "))}
}

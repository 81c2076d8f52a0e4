package transport

import (
	"context"
	"strings"

	"github.com/hashicorp/terraform-plugin-log/tflog"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
)

const subsystem = "rabbitmq"

// Clean is what errors say of a text that somebody else has written: without secrets, and in one line that nothing
// obeys.
func (t *Transport) Clean(text string) string { return plaintext.Line(t.Mask(text)) }

// Mask replaces secrets in a text.
func (t *Transport) Mask(text string) string {
	for _, secret := range t.config.Secrets {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return text
}

// Logging makes the context of an operation one that requests can log to.
func (t *Transport) Logging(ctx context.Context) context.Context {
	ctx = tflog.NewSubsystem(ctx, subsystem)
	ctx = tflog.SubsystemMaskMessageStrings(ctx, subsystem, t.config.Secrets...)
	return tflog.SubsystemMaskAllFieldValuesStrings(ctx, subsystem, t.config.Secrets...)
}

// Warn writes a warning to the log.
func (t *Transport) Warn(ctx context.Context, text string, err error) {
	tflog.SubsystemWarn(t.Logging(ctx), subsystem, text, map[string]any{"error": plaintext.Line(err.Error())})
}

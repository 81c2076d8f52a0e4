package delay

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
)

// Errors lists the faults of a configuration: one entry for every attribute that is wrong.
type Errors []AttributeError

// AttributeError is the fault of one attribute or parameter, and its remedy.
type AttributeError struct {
	// Attribute is the name of the resource's attribute or of the function's parameter in Terraform.
	Attribute string
	// Message continues a sentence that begins with the attribute's name.
	Message string
}

func (e Errors) Error() string {
	return plaintext.Join(e, "\n", AttributeError.Error)
}

func (e AttributeError) Error() string { return e.Attribute + " " + e.Message }

func (e *Errors) add(attribute, format string, args ...any) {
	e.append(attributeError(attribute, format, args...))
}

// append adds an AttributeError, unless there is one on the attribute: the first is the one to mend.
func (e *Errors) append(err error) {
	wrong, is := errors.AsType[AttributeError](err)
	known := func(other AttributeError) bool { return other.Attribute == wrong.Attribute }
	if is && !slices.ContainsFunc(*e, known) {
		*e = append(*e, wrong)
	}
}

func attributeError(attribute, format string, args ...any) AttributeError {
	for i, arg := range args {
		if d, ok := arg.(time.Duration); ok {
			args[i] = DurationText(d)
		}
	}
	return AttributeError{attribute, fmt.Sprintf(format, args...)}
}

func orList[T ~string](values []T) string {
	return plaintext.Join(values, " or ", func(value T) string { return fmt.Sprintf("%q", value) })
}

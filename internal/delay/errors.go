package delay

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
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
	lines := make([]string, len(e))
	for i, each := range e {
		lines[i] = each.Error()
	}
	return strings.Join(lines, "\n")
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
	quoted := make([]string, len(values))
	for i, value := range values {
		quoted[i] = fmt.Sprintf("%q", value)
	}
	return strings.Join(quoted, " or ")
}

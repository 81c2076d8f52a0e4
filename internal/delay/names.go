package delay

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// object is a name that the broker gets to see, and the attribute that it comes from.
type object struct{ attribute, kind, name string }

// origin is the attribute to blame for a name: the name of the whole unless its own attribute is given.
func origin(attribute, given string) string {
	if given == "" {
		return "name"
	}
	return attribute
}

// IsDefaultExchange tells whether a name is that of the default exchange, which takes no bindings. The management API
// calls it amq.default, and AMQP gives it an empty name.
func IsDefaultExchange(name string) bool { return name == "" || name == "amq.default" }

// ReservedPrefix begins the names that only the broker itself may declare.
const ReservedPrefix = "amq."

func checkVhost(errs *Errors, name string) {
	if hidesFromURLs(name) {
		errs.add("vhost", "is %q, which the management API cannot reach; use another vhost", name)
	}
}

// checkReference checks the name of an object that may be anybody's.
func checkReference(errs *Errors, o object) (ok bool) {
	switch {
	case hidesFromURLs(o.name):
		errs.add(o.attribute, "gives the %s name %q, which the management API cannot reach; use another name", o.kind,
			o.name)
	case !utf8.ValidString(o.name):
		errs.add(o.attribute, "gives the %s name %q, which is not valid UTF-8", o.kind, o.name)
	case len(o.name) > MaxKeyBytes:
		errs.add(o.attribute, "gives the %s name %q of %d bytes; RabbitMQ allows %d", o.kind, o.name, len(o.name),
			MaxKeyBytes)
	case strings.ContainsFunc(o.name, unicode.IsControl):
		errs.add(o.attribute, "gives the %s name %q with a control character. RabbitMQ drops some of them, and the "+
			"object would have another name. Use a name without", o.kind, o.name)
	default:
		return true
	}
	return false
}

// hidesFromURLs tells whether a segment of a URL's path would get lost. RabbitMQ's web server (Cowboy) takes these out
// of a path, percent-encoded too (3.10 to 4.3).
func hidesFromURLs(name string) bool { return name == "." || name == ".." }

// Package importid writes and reads the IDs by which resources are imported. Entry and ParseEntry are for a cascade or
// ladder, Binding and ParseBinding for a destination.
package importid

import (
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Binding is the import ID: "<vhost>/<delivery exchange>/<queue or exchange>/<its name>/<routing key>" with each
// part percent-encoded, but for the "*" of keys, which need it neither in a URL nor within quotes.
func Binding(vhost string, b topology.Binding) string {
	parts := []string{vhost, b.Source, string(b.DestinationType), b.Destination, b.RoutingKey}
	return plaintext.Join(parts, "/",
		func(part string) string { return strings.ReplaceAll(url.PathEscape(part), "%2A", "*") })
}

// Bindings are the IDs of several.
func Bindings(vhost string, bindings []topology.Binding) []string {
	return plaintext.Texts(bindings, func(b topology.Binding) string { return Binding(vhost, b) })
}

// ParseBinding reads what Binding has written.
func ParseBinding(id string) (vhost string, b topology.Binding, err error) {
	parts, ok := split(id, 5)
	if !ok || parts[2] != string(topology.ToQueue) && parts[2] != string(topology.ToExchange) {
		return "", b, fmt.Errorf("the import ID is %q; it has to be <vhost>/<delivery "+
			"exchange>/queue/<queue>/<routing key>, or with exchange in place of queue, each part percent-encoded, "+
			"such as %s",
			id, Binding("/", topology.Binding{Source: "tasks.delivery", DestinationType: topology.ToQueue,
				Destination: "orders", RoutingKey: "*.*.*.*.orders"}))
	}
	return parts[0], topology.Binding{Source: parts[1], DestinationType: topology.DestinationType(parts[2]),
		Destination: parts[3], RoutingKey: parts[4]}, nil
}

// Entry is "<vhost>/<entry exchange>" with each part percent-encoded.
func Entry(vhost, entry string) string {
	return url.PathEscape(vhost) + "/" + url.PathEscape(entry)
}

// ParseEntry has the name of an entry for its example.
func ParseEntry(id, example string) (vhost, entry string, err error) {
	parts, ok := split(id, 2)
	if !ok {
		return "", "", fmt.Errorf("the import ID is %q; it has to be <vhost>/<entry exchange>, each part "+
			"percent-encoded, such as %s", id, Entry("/", example))
	}
	return parts[0], parts[1], nil
}

// split decodes the parts of an import ID. Not ok is one with another number of parts, or in which one is empty.
func split(id string, n int) (parts []string, ok bool) {
	parts = strings.Split(id, "/")
	for i, part := range parts {
		decoded, err := url.PathUnescape(part)
		if err != nil || decoded == "" || !utf8.ValidString(decoded) {
			return nil, false
		}
		parts[i] = decoded
	}
	return parts, len(parts) == n
}

// Package version compares versions of RabbitMQ, as the broker tells them: call AtLeast or Before. It is pure.
package version

import "fmt"

// AtLeast tells whether a version is known, and not older than another one.
func AtLeast(version string, major, minor int) bool {
	known, newer := compare(version, major, minor)
	return known && newer
}

// Before tells whether a version is known, and older than another one.
func Before(version string, major, minor int) bool {
	known, newer := compare(version, major, minor)
	return known && !newer
}

// compare looks at the first two numbers.
func compare(version string, major, minor int) (known, atLeast bool) {
	var have, next int
	if _, err := fmt.Sscanf(version, "%d.%d", &have, &next); err != nil {
		return false, false
	}
	return true, have > major || have == major && next >= minor
}

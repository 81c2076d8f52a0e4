package brokertest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
)

// loopback is where a broker's ports are, but for those of a cluster's members.
const loopback = "127.0.0.1"

// ports are a broker's own ports on a loopback address.
type ports struct {
	address                                  string
	amqp, amqpTLS, management, managementTLS int
	metrics                                  int
	distribution, epmd                       int // of a private node only
}

// freePorts picks ports below those that the system gives to outgoing connections (from 32768 on Linux, from 49152
// elsewhere). So nobody takes them by chance while a broker restarts. They are free on all of the addresses; the first
// is that of the result.
func freePorts(addresses ...string) (ports, error) {
	p := ports{address: addresses[0]}
	taken := map[int]bool{}
	for _, port := range []*int{&p.amqp, &p.amqpTLS, &p.management, &p.managementTLS, &p.metrics, &p.distribution,
		&p.epmd} {
		for range 1000 {
			candidate := 20000 + rand.IntN(12000)
			if !taken[candidate] && !slices.ContainsFunc(addresses,
				func(a string) bool { return !isFree(a, candidate) }) {
				*port = candidate
				break
			}
		}
		if *port == 0 {
			return ports{}, fmt.Errorf("no free port on %v between 20000 and 32000", addresses)
		}
		taken[*port] = true
	}
	return p, nil
}

func (p ports) areFree() bool {
	return !slices.ContainsFunc([]int{p.amqp, p.amqpTLS, p.management, p.managementTLS, p.metrics, p.distribution,
		p.epmd}, func(port int) bool { return !isFree(p.address, port) })
}

func isFree(address string, port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", address, port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

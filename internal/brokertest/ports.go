package brokertest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// ports are a broker's own loopback ports.
type ports struct {
	amqp, amqpTLS, management, managementTLS int
	distribution, epmd                       int // of a private node only
}

// freePorts picks ports below those that the system gives to outgoing connections (from 32768 on Linux,
// from 49152 elsewhere): nobody takes them by chance while a broker restarts.
func freePorts() (ports, error) {
	var p ports
	taken := map[int]bool{}
	for _, port := range []*int{&p.amqp, &p.amqpTLS, &p.management, &p.managementTLS, &p.distribution, &p.epmd} {
		for range 1000 {
			candidate := 20000 + rand.IntN(12000)
			if !taken[candidate] && isFree(candidate) {
				*port = candidate
				break
			}
		}
		if *port == 0 {
			return ports{}, errors.New("no free port on 127.0.0.1 between 20000 and 32000")
		}
		taken[*port] = true
	}
	return p, nil
}

func (p ports) areFree() bool {
	return isFree(p.amqp) && isFree(p.amqpTLS) && isFree(p.management) && isFree(p.managementTLS) &&
		isFree(p.distribution) && isFree(p.epmd)
}

func isFree(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

package acceptance

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// clusterHost is a name for all nodes of a cluster.
const clusterHost = "cluster.test"

// names is a domain name system with several addresses for clusterHost.
type names struct {
	resolver  *net.Resolver
	mutex     sync.Mutex
	addresses []netip.Addr
}

func newNames(t *testing.T) *names {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &names{resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", server.LocalAddr().String())
	}}}
	var serving sync.WaitGroup
	serving.Go(func() { n.serve(server) })
	t.Cleanup(func() {
		_ = server.Close()
		serving.Wait()
	})
	return n
}

// set puts the addresses in the order in which they are tried.
func (n *names) set(addresses ...string) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.addresses = nil
	for _, a := range addresses {
		n.addresses = append(n.addresses, netip.MustParseAddr(a))
	}
}

func (n *names) serve(server net.PacketConn) {
	packet := make([]byte, 512)
	for {
		length, from, err := server.ReadFrom(packet)
		if err != nil {
			return // it is closed
		}
		var question dnsmessage.Message
		if question.Unpack(packet[:length]) == nil && len(question.Questions) == 1 {
			answer := n.answer(question)
			if text, err := answer.Pack(); err == nil {
				_, _ = server.WriteTo(text, from) // who asks asks again
			}
		}
	}
}

func (n *names) answer(question dnsmessage.Message) dnsmessage.Message {
	answer := dnsmessage.Message{
		Header: dnsmessage.Header{ID: question.ID, Response: true, Authoritative: true,
			RCode: dnsmessage.RCodeNameError},
		Questions: question.Questions,
	}
	asked := question.Questions[0]
	if strings.TrimSuffix(asked.Name.String(), ".") != clusterHost {
		return answer
	}
	answer.RCode = dnsmessage.RCodeSuccess
	if asked.Type != dnsmessage.TypeA {
		return answer
	}
	n.mutex.Lock()
	defer n.mutex.Unlock()
	for _, a := range n.addresses {
		answer.Answers = append(answer.Answers, dnsmessage.Resource{
			Header: dnsmessage.ResourceHeader{Name: asked.Name, Class: dnsmessage.ClassINET, Type: dnsmessage.TypeA},
			Body:   &dnsmessage.AResource{A: a.As4()},
		})
	}
	return answer
}

// A name of which nothing is known fails, and one with several addresses has them in this order.
func TestNames(t *testing.T) {
	n := newNames(t)
	n.set("127.0.0.3", "127.0.0.2")
	if found, err := n.resolver.LookupHost(t.Context(), clusterHost); err != nil ||
		fmt.Sprint(found) != "[127.0.0.3 127.0.0.2]" {
		t.Errorf("found %v, %v", found, err)
	}
	if found, err := n.resolver.LookupHost(t.Context(), "other.test"); err == nil {
		t.Errorf("found %v", found)
	}
}

package brokertest

import (
	"fmt"
	"path"
	"strings"
)

// conf returns the lines of rabbitmq.conf that the options ask for, with the files of [options.files] in dir.
func (o options) conf(dir string) []string {
	// A broker that logs each connection keeps a machine with two cores busier than the connections do.
	lines := append([]string{"log.console.level = warning", "log.file.level = warning"}, o.config...)
	if o.pathPrefix != "" {
		lines = append(lines, "management.path_prefix = "+o.pathPrefix)
	}
	if o.loads != nil {
		lines = append(lines, "load_definitions = "+path.Join(dir, definitionsFile))
	}
	if o.tls == nil {
		return lines
	}
	verify := "verify_none"
	if o.tls.RequireClientCert {
		verify = "verify_peer"
	}
	for _, listener := range []string{"ssl_options", "management.ssl"} {
		lines = append(lines,
			fmt.Sprintf("%s.cacertfile = %s", listener, path.Join(dir, caFile)),
			fmt.Sprintf("%s.certfile = %s", listener, path.Join(dir, certFile)),
			fmt.Sprintf("%s.keyfile = %s", listener, path.Join(dir, keyFile)),
			fmt.Sprintf("%s.verify = %s", listener, verify),
			fmt.Sprintf("%s.fail_if_no_peer_cert = %t", listener, o.tls.RequireClientCert),
		)
	}
	return lines
}

const (
	caFile   = "brokertest-ca.pem"
	certFile = "brokertest-cert.pem"
	keyFile  = "brokertest-key.pem"

	definitionsFile = "brokertest-definitions.json"
)

func (o options) files() map[string][]byte {
	files := map[string][]byte{}
	if o.tls != nil {
		files[caFile], files[certFile], files[keyFile] = o.tls.CA, o.tls.Cert, o.tls.Key
	}
	if o.loads != nil {
		files[definitionsFile] = o.loads
	}
	if len(o.plugins) > 0 {
		files["enabled_plugins"] = fmt.Appendf(nil, "[rabbitmq_management,%s].\n", strings.Join(o.plugins, ","))
	}
	return files
}

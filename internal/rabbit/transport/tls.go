package transport

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
)

// TLS is the configuration of secure connections. The certificates are in PEM format, and those of authorities replace
// the system's. Insecure skips the verification of the broker's certificate. An error is a *ConfigError.
func TLS(authorities, clientCert, clientKey []byte, insecure bool) (*tls.Config, error) {
	result := &tls.Config{InsecureSkipVerify: insecure} //nolint:gosec // what the attribute insecure is for
	if authorities != nil {
		result.RootCAs = x509.NewCertPool()
		read, err := certificates("cacert_pem", authorities)
		if err != nil {
			return nil, err
		}
		for _, authority := range read {
			result.RootCAs.AddCert(authority)
		}
	}
	switch {
	case clientCert == nil && clientKey == nil:
		return result, nil
	case clientKey == nil:
		return nil, &ConfigError{"clientkey_file", "is missing; clientcert_file needs the key that belongs to it"}
	case clientCert == nil:
		return nil, &ConfigError{"clientcert_file", "is missing; clientkey_file needs the certificate that " +
			"belongs to it"}
	}
	if _, err := certificates("clientcert_file", clientCert); err != nil {
		return nil, err
	}
	if err := checkKey("clientkey_file", clientKey); err != nil {
		return nil, err
	}
	certificate, err := tls.X509KeyPair(clientCert, clientKey)
	if err != nil {
		return nil, &ConfigError{"clientkey_file", "is not the key of the certificate in clientcert_file: " +
			strings.TrimPrefix(err.Error(), "tls: ")}
	}
	result.Certificates = []tls.Certificate{certificate}
	return result, nil
}

// certificates takes a broken certificate for an error, even if there are good ones beside it.
func certificates(attribute string, text []byte) ([]*x509.Certificate, error) {
	var result []*x509.Certificate
	for _, block := range blocks(text) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, &ConfigError{attribute, fmt.Sprintf("has a certificate, number %d, that cannot be read: %s",
				len(result)+1, strings.TrimPrefix(err.Error(), "x509: "))}
		}
		result = append(result, certificate)
	}
	if len(result) == 0 {
		return nil, &ConfigError{attribute, "contains no certificate in PEM format"}
	}
	if begun := bytes.Count(text, []byte("-----BEGIN CERTIFICATE-----")); begun != len(result) {
		return nil, &ConfigError{attribute, fmt.Sprintf("has %d certificates, of which %d are damaged: the text "+
			"between BEGIN and END is no PEM", begun, begun-len(result))}
	}
	return result, nil
}

func checkKey(attribute string, text []byte) error {
	isKey := func(block *pem.Block) bool { return strings.HasSuffix(block.Type, "PRIVATE KEY") }
	found := blocks(text)
	i := slices.IndexFunc(found, isKey)
	if i < 0 {
		return &ConfigError{attribute, "contains no private key in PEM format"}
	}
	if found[i].Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(found[i].Headers["Proc-Type"], "ENCRYPTED") {
		return &ConfigError{attribute, "is encrypted, and no attribute takes the passphrase. Give a decrypted key: " +
			"openssl pkey -in <file> -out <file> writes one"}
	}
	return nil
}

func blocks(text []byte) []*pem.Block {
	var result []*pem.Block
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		result = append(result, block)
	}
	return result
}

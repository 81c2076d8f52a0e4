package rabbit

import (
	"cmp"
	"encoding/base64"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
)

// secrets are the texts that must not be in a log line or an error. It has them as they go over the wire and as a
// quotation shows them. A gateway may repeat a request in its answer, and an error quotes that.
type secrets []string

func (config Config) secrets() secrets {
	var found secrets
	found.addCredentials(config.Username, config.Password)
	for _, text := range []string{config.AMQPURI, config.Proxy} {
		if u, err := url.Parse(text); err == nil && u.User != nil {
			password, _ := u.User.Password()
			found.addCredentials(u.User.Username(), password)
		}
	}
	for _, value := range config.Headers {
		found.add(value)
	}
	// The longest first: one may be part of another.
	slices.SortFunc(found, func(x, y string) int { return cmp.Or(len(y)-len(x), strings.Compare(x, y)) })
	return slices.Compact(found)
}

// addCredentials leaves out a password that is the user's name: that is no secret.
func (s *secrets) addCredentials(username, password string) {
	if password != username {
		s.add(password)
		s.add(base64.StdEncoding.EncodeToString([]byte(username + ":" + password)))
	}
}

func (s *secrets) add(secret string) {
	if secret != "" {
		_, inUserinfo, _ := strings.Cut(url.UserPassword("", secret).String(), ":")
		quotation := strconv.Quote(secret)
		*s = append(*s, secret, url.QueryEscape(secret), url.PathEscape(secret), inUserinfo,
			quotation[1:len(quotation)-1])
	}
}

// clean is what errors say of a text that somebody else has written: without secrets, and in one line that nothing
// obeys.
func (s secrets) clean(text string) string { return plaintext.Line(s.mask(text)) }

// mask replaces secrets in a text.
func (s secrets) mask(text string) string {
	for _, secret := range s {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return text
}

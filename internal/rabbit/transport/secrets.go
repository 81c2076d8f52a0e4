package transport

import (
	"cmp"
	"encoding/base64"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Secrets are the texts that must not be in a log line or an error. It has them as they go over the wire and as a
// quotation shows them. A gateway may repeat a request in its answer, and an error quotes that.
type Secrets []string

// SecretsOf are the passwords of users, and other texts.
func SecretsOf(users []*url.Userinfo, texts []string) Secrets {
	var found Secrets
	for _, user := range users {
		// A password that is the user's name is no secret.
		if password, _ := user.Password(); password != user.Username() {
			found.add(password)
			found.add(base64.StdEncoding.EncodeToString([]byte(user.Username() + ":" + password)))
		}
	}
	for _, text := range texts {
		found.add(text)
	}
	// The longest first: one may be part of another.
	slices.SortFunc(found, func(x, y string) int { return cmp.Or(len(y)-len(x), strings.Compare(x, y)) })
	return slices.Compact(found)
}

func (s *Secrets) add(secret string) {
	if secret != "" {
		_, inUserinfo, _ := strings.Cut(url.UserPassword("", secret).String(), ":")
		quotation := strconv.Quote(secret)
		*s = append(*s, secret, url.QueryEscape(secret), url.PathEscape(secret), inUserinfo,
			quotation[1:len(quotation)-1])
	}
}

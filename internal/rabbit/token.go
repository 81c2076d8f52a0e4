package rabbit

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// VerifyLasting fails if a password is a token that ends before the time of the operation does.
func (c *Client) VerifyLasting(ctx context.Context) error {
	until, isLimited := ctx.Deadline()
	inURI := ""
	if c.amqpURI != nil {
		inURI, _ = c.amqpURI.User.Password()
	}
	for _, credential := range []struct{ attribute, password string }{{"password", c.password}, {"amqp_uri", inURI}} {
		ends, is := expiry(credential.password)
		if !is || !isLimited || !ends.Before(until) {
			continue
		}
		return &Error{EndsEarly, "close the entry and wait until the queues are empty",
			fmt.Sprintf("the token in %s ends at %s, and the operation may take until %s", credential.attribute,
				ends.UTC().Format(time.RFC3339), until.UTC().Format(time.RFC3339)),
			"if the token ended meanwhile, the entry would stay closed. Give one that lasts longer, or less time: " +
				"a shorter drain_timeout, or a shorter time in timeouts"}
	}
	return nil
}

// expiry is when a password ends that is a token of OAuth 2.0: a JWT with the claim exp. Its signature is RabbitMQ's
// business.
func expiry(password string) (ends time.Time, is bool) {
	parts := strings.Split(password, ".")
	if len(parts) != 3 {
		return time.Time{}, false
	}
	var decoded [3][]byte
	for i, part := range parts {
		var err error
		if decoded[i], err = base64.RawURLEncoding.DecodeString(part); err != nil {
			return time.Time{}, false
		}
	}
	claims := struct {
		Exp float64 `json:"exp"`
	}{never}
	if json.Unmarshal(decoded[1], &claims) != nil || claims.Exp < 0 || claims.Exp >= never {
		return time.Time{}, false
	}
	return time.Unix(int64(claims.Exp), 0), true
}

// never is the end of the year 9999, in seconds. A token that has no end, or a later one, counts as a password.
const never = 253_402_300_800

package rabbit_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
)

// token is a JWT with a payload.
func token(payload string) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"RS256"}`)) + "." + encode([]byte(payload)) + "." + encode([]byte("\xff\xfe"))
}

// TestVerifyLasting has passwords that are tokens, and an operation with an hour.
func TestVerifyLasting(t *testing.T) {
	t.Parallel()
	ends := func(in time.Duration) string {
		return token(fmt.Sprintf(`{"sub":"u","exp":%d}`, time.Now().Add(in).Unix()))
	}
	for name, test := range map[string]struct {
		password, inURI string
		says            string
	}{
		"a password":                {password: "secret.of.somebody"},
		"two dots and no base64":    {password: "a.b$.c"},
		"no JSON":                   {password: token("exp")},
		"no object":                 {password: token("[1]")},
		"no end":                    {password: token(`{"sub":"u"}`)},
		"an end that is null":       {password: token(`{"exp":null}`)},
		"an end that is a text":     {password: token(`{"exp":"1"}`)},
		"an end that is no time":    {password: token(`{"exp":1e300}`)},
		"four parts":                {password: ends(time.Minute) + ".x"},
		"long enough":               {password: ends(2 * time.Hour)},
		"too short":                 {password: ends(59 * time.Minute), says: "the token in password ends at 2"},
		"over":                      {password: ends(-time.Minute), says: "the token in password ends at 2"},
		"a fraction":                {password: token(`{"exp":1.5e9}`), says: "ends at 2017-07-14T02:40:00Z"},
		"in the URI":                {inURI: ends(time.Minute), says: "the token in amqp_uri ends at 2"},
		"in the URI, long enough":   {inURI: ends(2 * time.Hour)},
		"long enough and too short": {password: ends(2 * time.Hour), inURI: ends(time.Minute), says: "in amqp_uri"},
	} {
		t.Run(name, func(t *testing.T) {
			err := verifyLasting(t, test.password, test.inURI)
			if test.says == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			says(t, err, rabbit.EndsEarly, test.says, "drain_timeout")
			if strings.Contains(err.Error(), "eyJ") {
				t.Errorf("it tells the token: %v", err)
			}
		})
	}
}

// verifyLasting looks whether credentials last for an hour. An operation without a limit asks for nothing.
func verifyLasting(t *testing.T, password, inURI string) error {
	t.Helper()
	config := rabbit.Config{Endpoint: "http://h", Username: "u", Password: password}
	if inURI != "" {
		config.AMQPURI = (&url.URL{Scheme: "amqp", Host: "h", User: url.UserPassword("u", inURI)}).String()
	}
	client, err := rabbit.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.VerifyLasting(t.Context()); err != nil {
		t.Errorf("without a limit: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	return client.VerifyLasting(ctx)
}

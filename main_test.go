package main

import (
	"os"
	"testing"
)

func TestKeepQuiet(t *testing.T) {
	for _, test := range []struct{ log, provider, sdk, want string }{
		{"", "", "", "OFF"},
		{"off", "", "", "OFF"},
		{"debug", "", "", ""},
		{"", "trace", "", ""},
		{"", "", "warn", "warn"},
	} {
		t.Setenv("TF_LOG", test.log)
		t.Setenv("TF_LOG_PROVIDER", test.provider)
		t.Setenv("TF_LOG_SDK", test.sdk)
		t.Setenv("TF_LOG_PROVIDER_RABBITMQDELAY", "")
		keepQuiet()
		if got := os.Getenv("TF_LOG_SDK"); got != test.want {
			t.Errorf("%+v: TF_LOG_SDK is %q", test, got)
		}
	}
}

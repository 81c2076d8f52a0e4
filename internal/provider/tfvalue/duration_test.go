package tfvalue_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr/xattr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
)

// read is the value that an attribute has of what Terraform sends.
func read(t *testing.T, raw any) tfvalue.Duration {
	t.Helper()
	value, err := tfvalue.DurationType{}.ValueFromTerraform(t.Context(), tftypes.NewValue(tftypes.String, raw))
	if err != nil {
		t.Fatal(err)
	}
	given, ok := value.(tfvalue.Duration)
	if !ok || !given.Type(t.Context()).Equal(tfvalue.DurationType{}) {
		t.Fatalf("%v is read as %T", raw, value)
	}
	return given
}

func faults(t *testing.T, v tfvalue.Duration) diag.Diagnostics {
	t.Helper()
	var resp xattr.ValidateAttributeResponse
	v.ValidateAttribute(t.Context(), xattr.ValidateAttributeRequest{Path: path.Root("max_delay")}, &resp)
	return resp.Diagnostics
}

func TestDurationsAreRead(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"7d": 7 * day, "1w": 7 * day, "1w2d": 9 * day, "1.5d": 36 * time.Hour, "1d12h": 36 * time.Hour,
		"36h": 36 * time.Hour, "90m": 90 * time.Minute, "0.5s": 500 * time.Millisecond, "0": 0, "-1d": -day,
	} {
		given := read(t, text)
		if got := tfvalue.DurationOf(given); got != want || faults(t, given) != nil {
			t.Errorf("%q is %s, want %s: %v", text, got, want, faults(t, given))
		}
		if given.ValueString() != text {
			t.Errorf("%q is kept as %q", text, given.ValueString())
		}
	}
	for _, none := range []any{nil, tftypes.UnknownValue} {
		given := read(t, none)
		if got := tfvalue.DurationOf(given); got != 0 || faults(t, given) != nil {
			t.Errorf("%v is %s: %v", none, got, faults(t, given))
		}
	}
	unknown := tfvalue.Unknown(tfvalue.DurationType{})
	if !read(t, nil).Equal(tfvalue.Duration{}) || !read(t, tftypes.UnknownValue).Equal(unknown) {
		t.Error("null and unknown are not read as such")
	}
}

func TestWrongDurationsSayHowToWriteOne(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "1", "1.5", "soon", "1 d", "7days", "1y", "200000d"} {
		wrong := faults(t, read(t, text))
		want := fmt.Sprintf(`max_delay is %q; write a number and its unit, w, d, h, m, s or ms, such as "7d", "1h30m" `+
			`or "500ms"`, text)
		if len(wrong) != 1 || !strings.Contains(wrong[0].Detail(), want) {
			t.Errorf("%q gives %v, want %s", text, wrong, want)
			continue
		}
		if at, ok := wrong[0].(diag.DiagnosticWithPath); !ok || !at.Path().Equal(path.Root("max_delay")) {
			t.Errorf("%q gives an error on another attribute: %v", text, wrong[0])
		}
	}
}

func TestDurationsInOtherWordsAreTheSame(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		one, other string
		same       bool
	}{
		{"24h", "1d", true}, {"1w", "7d", true}, {"36h", "1.5d", true}, {"60s", "1m", true},
		{"1s500ms", "1500ms", true}, {"1d", "1d", true}, {"1d", "-1d", false}, {"1d", "1d1ms", false},
		{"7d", "8d", false}, {"soon", "later", false},
		{"0s", "soon", false}, {"soon", "0s", false},
	} {
		one, other := read(t, test.one), read(t, test.other)
		if same, diags := one.StringSemanticEquals(t.Context(), other); same != test.same || diags.HasError() {
			t.Errorf("%q and %q: the same is %t, %v", test.one, test.other, same, diags)
		}
		if one.Equal(other) != (test.one == test.other) {
			t.Errorf("%q and %q: the same text is %t", test.one, test.other, one.Equal(other))
		}
	}
	if same, _ := read(t, "1d").StringSemanticEquals(t.Context(), types.StringValue("1d")); same {
		t.Error("a text is a duration")
	}
}

func TestDurationValueIsWrittenAsEverywhere(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0s", 36 * time.Hour: "1d12h", 720 * time.Hour: "30d", 1500 * time.Millisecond: "1s500ms",
	} {
		if got := tfvalue.DurationValue(d); !got.Equal(read(t, want)) {
			t.Errorf("%s is %s, want %q", d, got, want)
		}
	}
}

// Texts of no duration, and durations of zero or less, are errors on the attribute.
func TestTimeoutsHaveDays(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"24h": "", "90s": "", "1d": "", "1w": "", "1d12h": "",
		"1y":  `is "1y"; write a number and its unit, w, d, h, m, s or ms, such as "7d", "1h30m" or "500ms"`,
		"1 d": `is "1 d"; write a number and its unit`, "": `is ""; write a number and its unit`,
		"0d":  `is "0d"; it has to be positive`,
		"0s":  `is "0s"; it has to be positive`,
		"-1h": `is "-1h"; it has to be positive`,
	} {
		var resp validator.StringResponse
		tfvalue.PositiveDuration{}.ValidateString(t.Context(), validator.StringRequest{
			Path: path.Root("timeouts").AtName("create"), ConfigValue: types.StringValue(text)}, &resp)
		if want == "" && len(resp.Diagnostics) > 0 {
			t.Errorf("%q gives %v", text, resp.Diagnostics)
		} else if want != "" && (len(resp.Diagnostics) != 1 ||
			!strings.Contains(resp.Diagnostics[0].Detail(), "timeouts.create "+want)) {
			t.Errorf("%q gives %v, want %s", text, resp.Diagnostics, want)
		}
	}
}

package plaintext

import (
	"math"
	"strconv"
	"strings"
	"time"
)

const (
	day = 24 * time.Hour
	// year is one in four leap years.
	year = 365*day + 6*time.Hour
	// longest leaves room for rounding.
	longest = math.MaxInt64 - day
)

// Duration is a duration as people say it: "36 h 24 min 31 s", "12 days 3 h", "8 years 185 days". From a year on, it is
// rounded to days. Attributes take another form, see delay.DurationText.
func Duration(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + Duration(-max(d, -longest))
	case d < time.Second:
		return decimal(d, time.Millisecond) + " ms"
	case d < 2*day:
		return clock(d)
	}
	var parts []string
	if d = min(d, longest); d >= year-day/2 {
		years := (d + day/2) / year
		parts = append(parts, Count(int(years), "year"))
		d = ((d+day/2)%year - day/2).Round(day)
	}
	if days := d / day; days > 0 {
		parts = append(parts, Count(int(days), "day"))
	}
	if rest := d % day; rest > 0 {
		parts = append(parts, clock(rest))
	}
	return strings.Join(parts, " ")
}

// clock is a duration in hours, minutes and seconds, without those that are zero.
func clock(d time.Duration) string {
	var parts []string
	if hours := d / time.Hour; hours > 0 {
		parts = append(parts, strconv.FormatInt(int64(hours), 10)+" h")
	}
	if minutes := d % time.Hour / time.Minute; minutes > 0 {
		parts = append(parts, strconv.FormatInt(int64(minutes), 10)+" min")
	}
	if seconds := d % time.Minute; seconds > 0 {
		parts = append(parts, decimal(seconds, time.Second)+" s")
	}
	return strings.Join(parts, " ")
}

// Count is a number of things: "1 day", "2 days".
func Count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return strconv.Itoa(n) + " " + thing
}

func decimal(d, unit time.Duration) string {
	return strconv.FormatFloat(float64(d)/float64(unit), 'f', -1, 64)
}

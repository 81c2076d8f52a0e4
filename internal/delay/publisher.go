package delay

import "time"

// PublisherScale is the scale of the milliseconds that publishers know. These are the units of the words, and the
// longest delay that has a key. An error is of type AttributeError and names the one of the two that is wrong.
func PublisherScale(unitsMS []int64, maxDelayMS int64) (Scale, error) {
	if len(unitsMS) == 0 {
		return Scale{}, attributeError("units_ms", "is empty; give a number of milliseconds for each word of the key")
	}
	if err := checkUnits("units_ms", unitsMS, 1, MaxLevels); err != nil {
		return Scale{}, err
	}
	var s Scale
	for _, unit := range unitsMS {
		s.Units = append(s.Units, time.Duration(unit)*time.Millisecond)
	}
	most, first, last := MaxTTL.Milliseconds(), unitsMS[0], unitsMS[len(unitsMS)-1]
	switch {
	case maxDelayMS < 1 || maxDelayMS%last != 0:
		return Scale{}, attributeError("max_delay_ms", "is %d, which has no key; give a multiple of %d, the last of "+
			"units_ms", maxDelayMS, last)
	case maxDelayMS-maxDelayMS%first > most:
		return Scale{}, attributeError("max_delay_ms", "is %d; give less than %d, since RabbitMQ accepts no longer "+
			"TTL than %d", maxDelayMS, most-most%first+first, most)
	}
	s.Longest = time.Duration(maxDelayMS) * time.Millisecond
	return s, nil
}

package delay

import "time"

// PublisherScale is the scale of the milliseconds that publishers know. These are the units of the words, and the
// longest delay that has a key. An error is of type AttributeError and names the one of the two that is wrong.
func PublisherScale(unitsMS []int64, maxDelayMS int64) (Scale, error) {
	most := MaxTTL.Milliseconds()
	switch {
	case len(unitsMS) == 0:
		return Scale{}, attributeError("units_ms", "is empty; give a number of milliseconds for each word of the key")
	case len(unitsMS) > MaxLevels:
		return Scale{}, attributeError("units_ms", "has %d numbers; give at most %d", len(unitsMS), MaxLevels)
	}
	var s Scale
	for i, unit := range unitsMS {
		switch {
		case unit < 1 || unit > most:
			return Scale{}, attributeError("units_ms", "has %d; give 1 to %d, the longest TTL that RabbitMQ accepts",
				unit, most)
		case i > 0 && unit >= unitsMS[i-1]:
			return Scale{}, attributeError("units_ms", "has %d behind %d; give the largest first, and each once", unit,
				unitsMS[i-1])
		case i > 0 && unitsMS[i-1]%unit != 0:
			return Scale{}, attributeError("units_ms", "has %d before %d; each has to be a multiple of the next",
				unitsMS[i-1], unit)
		}
		s.Units = append(s.Units, time.Duration(unit)*time.Millisecond)
	}
	first, last := unitsMS[0], unitsMS[len(unitsMS)-1]
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

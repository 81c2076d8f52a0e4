package delay

import (
	"reflect"
	"strings"
)

// DerivedName is the name from which the default names would be those that are given, empty if there is none.
func (given Config) DerivedName() string {
	exchange, queue := Cascade(given).defaultNames()
	return derivedName([][2]string{{string(given.ExchangeName), exchange}, {string(given.QueueName), queue},
		{Escape(given.DeliveryExchange), defaultDelivery}})
}

// DerivedName is the name from which the default names would be those that are given, empty if there is none.
func (given LadderConfig) DerivedName() string {
	return derivedName([][2]string{{string(given.QueueName), defaultRung},
		{Escape(given.EntryExchange), defaultEntryName}, {Escape(given.DeliveryExchange), defaultDelivery}})
}

// derivedName cuts the suffix off the first format that ends with its own.
func derivedName(formats [][2]string) string {
	for _, each := range formats {
		if name, ok := strings.CutSuffix(each[0], each[1]); ok {
			return strings.ReplaceAll(name, "%%", "%")
		}
	}
	return ""
}

// AsPresets is the cascade as each of the presets that fix all that it has, apart from the further arguments of its
// queues.
func (c Cascade) AsPresets() []Cascade {
	var all []Cascade
	for _, name := range Presets() {
		prefix, is := cutPrefix(string(c.ExchangeName), presets[name].names)
		if !is {
			continue
		}
		like := c
		like.Preset, like.Prefix, like.QueueArguments = name, prefix, presets[name].arguments
		fixed, err := Config{Vhost: c.Vhost, Preset: name, Prefix: prefix, Name: c.Name,
			CreateDeliveryExchange: c.CreateDeliveryExchange}.Resolve()
		if err == nil && reflect.DeepEqual(like, fixed) {
			all = append(all, like)
		}
	}
	return all
}

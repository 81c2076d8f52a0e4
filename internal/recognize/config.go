package recognize

import (
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
)

// complete is the cascade that the candidate has turned out to be, with what is around it.
func (c *candidate) complete(lookahead int, strict bool) (cascade.Cascade, error) {
	shows := c.objects.exchange(c.exchanges.Name(c.levels - 1))
	if shows.Name == "" {
		shows = c.objects.exchange(c.exchanges.Name(c.highest)) // which has the same alternate exchange
	}
	name, parks := c.objects.parking(shows)
	given := cascade.Config{
		Vhost: c.objects.vhost, Name: name, Base: c.agreed.base, Levels: c.levels, Resolution: c.agreed.resolution,
		ExchangeName: c.exchanges, QueueName: c.queues.format,
		DeliveryExchange: c.delivery,
		QueueType:        c.agreed.queueType, QuorumOptions: c.agreed.QuorumOptions,
		Lookahead: lookahead, StrictKeys: strict, ParkUnroutable: parks,
	}
	if !parks {
		given.Name = given.DerivedName()
	}
	resolved, err := withDelivery(c.objects, func(creates bool) (cascade.Cascade, error) {
		given.CreateDeliveryExchange = creates
		return given.Resolve()
	})
	if err != nil {
		return cascade.Cascade{}, notThisf("its objects do not make a valid cascade: %s", err)
	}
	if preset, ok := c.preset(resolved); ok {
		return preset, nil
	}
	resolved.InternalLevels = c.hasInternalLevels()
	return resolved, nil
}

// hasInternalLevels tells whether an exchange below the entry is internal, or none is there.
func (c *candidate) hasInternalLevels() bool {
	none := true
	for level := c.levels - 2; level >= 0; level-- {
		e := c.objects.exchange(c.exchanges.Name(level))
		if e.Internal {
			return true
		}
		none = none && e.Name == ""
	}
	return none
}

// preset is the cascade as that of a preset, in two cases. Without one, it would lack the arguments of the queues, or it
// would not park by an existing policy.
func (c *candidate) preset(plain cascade.Cascade) (cascade.Cascade, bool) {
	q := c.first
	for _, name := range cascade.Presets() {
		want, err := cascade.Config{Vhost: plain.Vhost, Preset: name, Name: plain.Name,
			CreateDeliveryExchange: plain.CreateDeliveryExchange}.Resolve()
		like := plain
		like.Preset = name
		if err != nil || like != want || !q.Equal(like.Expand().Queues[q.Name]) {
			continue
		}
		if parking, parks := c.objects.parkingByPolicy(like); parks {
			return parking, true
		}
		if !q.Equal(plain.Expand().Queues[q.Name]) {
			return like, true
		}
	}
	return plain, false
}

// parkingByPolicy is the cascade with the name that is behind one of the policies, if that is the one by which it
// parks. It may have been altered, if it has the usual name, or a name of the user's and the pattern. Then its exchange
// and its queue have to be there.
func (o *objects) parkingByPolicy(c cascade.Cascade) (parking cascade.Cascade, parks bool) {
	var altered []cascade.Cascade
	for _, p := range o.policies() {
		name, ours := cascade.ParkingFor(p.Name)
		if !ours {
			continue
		}
		parking = c
		parking.ParkUnroutable = true
		if parking.Expand().Parking() != p.Name {
			parking.Name = name
		}
		want := parking.Expand().Policies[p.Name]
		if p.Equal(want) {
			return parking, true
		}
		if parking.Name == "" || p.Pattern == want.Pattern {
			altered = append(altered, parking)
		}
	}
	for _, parking := range altered {
		name := parking.Expand().Parking()
		if o.exchange(name).Equal(cascade.ParkingExchange(name)) && o.queue(name).Name != "" {
			return parking, true
		}
	}
	return c, false
}

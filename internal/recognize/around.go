package recognize

import (
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// complete is the cascade that the candidate has turned out to be, with parking, delivery exchange and preset.
func (c *candidate) complete(lookahead int, strict bool) (delay.Cascade, error) {
	agreed := c.agreed()
	shows := c.objects.exchange(c.Exchange(c.Levels - 1))
	if shows.Name == "" {
		shows = c.objects.exchange(c.Exchange(c.highest())) // which has the same alternate exchange
	}
	name, parks := c.objects.nameByParking(shows)
	given := delay.Config{
		Vhost: c.objects.vhost, Name: name, Units: c.Units, Base: agreed.base, Levels: c.Levels,
		Resolution:   agreed.resolution,
		ExchangeName: c.ExchangeName, QueueName: c.QueueName, DeliveryExchange: c.end(),
		QueueType: agreed.queueType, QuorumOptions: agreed.QuorumOptions,
		QueueArguments: delay.QueueArgumentsOf(c.objects.queue(c.queue(agreed.by[0]))),
		Lookahead:      lookahead, StrictKeys: strict, ParkUnroutable: parks,
	}
	if !c.IsUniform() {
		given.MaxDelay = c.ttl(c.longest())
	}
	if !parks {
		given.Name = given.DerivedName()
	}
	resolved, err := withDelivery(c.objects, func(creates bool) (delay.Cascade, error) {
		given.CreateDeliveryExchange = creates
		return given.Resolve()
	})
	if err != nil {
		return delay.Cascade{}, notThisf("its objects do not make a valid cascade: %s", err)
	}
	if preset, ok := c.preset(resolved); ok {
		return preset, nil
	}
	resolved.InternalLevels = c.hasInternalLevels()
	return resolved, nil
}

// nameByParking is the name of the cascade or ladder, as the alternate exchange of one of its own shows it. Not ok is
// an alternate exchange that would not be declared like this: it is somebody else's.
func (o *objects) nameByParking(of topology.Exchange) (name string, ok bool) {
	alternate := of.AlternateExchange()
	name, ok = delay.ParkingFor(alternate)
	if !ok {
		return "", false
	}
	if e := o.exchange(alternate); e.Name != "" && !e.Equal(delay.ParkingExchange(alternate)) {
		return "", false
	}
	return name, true
}

// withDelivery resolves a cascade or ladder with its delivery exchange, unless somebody else has declared that. A
// missing one has to be brought back.
func withDelivery[T interface{ Expand() topology.Topology }](
	o *objects, resolve func(creates bool) (T, error),
) (T, error) {
	own, err := resolve(true)
	if err == nil {
		declared := own.Expand()
		e := o.exchange(declared.Delivery)
		if e.Name == "" || e.Equal(declared.Exchanges[declared.Delivery]) {
			return own, nil
		}
	}
	return resolve(false)
}

// hasInternalLevels tells whether an exchange below the entry is internal.
func (c *candidate) hasInternalLevels() bool {
	return slices.ContainsFunc(exchangesOf(c.Cascade)[:c.Levels-1],
		func(name string) bool { return c.objects.exchange(name).Internal })
}

// preset is the cascade as that of a preset, in two cases. Its queues have other arguments than those of a cascade
// that gives none, or it parks by an existing policy.
func (c *candidate) preset(plain delay.Cascade) (delay.Cascade, bool) {
	q := c.objects.queue(c.queue(c.agreed().by[0]))
	for _, like := range plain.AsPresets() {
		if !q.Equal(like.Expand().Queues[q.Name]) {
			continue
		}
		if parking, parks := c.objects.parkingByPolicy(like); parks {
			return parking, true
		}
		if !plain.HasUsualArguments() {
			return like, true
		}
	}
	return plain, false
}

// parkingByPolicy is the cascade with the name that is behind one of the policies, if that is the one by which it
// parks. It may have been altered, if it has the usual name, or a name of the user's and the pattern. Then its exchange
// and its queue have to be there.
func (o *objects) parkingByPolicy(c delay.Cascade) (parking delay.Cascade, parks bool) {
	var altered []delay.Cascade
	for _, p := range o.policies() {
		name, ours := delay.ParkingFor(p.Name)
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
		if o.exchange(name).Equal(delay.ParkingExchange(name)) && o.queue(name).Name != "" {
			return parking, true
		}
	}
	return c, false
}

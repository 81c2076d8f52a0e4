using System;
using System.Collections.Generic;
using System.Text;

public static class RoutingKey
{
    /// <summary>
    /// A number for each unit, the largest unit first, then the address. The delay is rounded up to the last unit so that
    /// no message is early.
    /// </summary>
    public static string Of(TimeSpan delay, IReadOnlyList<long> unitsMillis, long maxDelayMillis, string address)
    {
        if (delay < TimeSpan.Zero || delay > TimeSpan.FromMilliseconds(maxDelayMillis))
        {
            throw new ArgumentOutOfRangeException(
                nameof(delay), $"a delay of {delay} is not within 0 to {maxDelayMillis} ms");
        }
        long last = unitsMillis[unitsMillis.Count - 1];
        long rest = (delay.Ticks + TimeSpan.TicksPerMillisecond - 1) / TimeSpan.TicksPerMillisecond;
        rest = (rest + last - 1) / last * last;
        string key = "";
        foreach (long unit in unitsMillis)
        {
            key += $"{rest / unit}.";
            rest %= unit;
        }
        key += address;
        if (address.Length == 0 || Encoding.UTF8.GetByteCount(key) > 255)
        {
            throw new ArgumentException($"the address '{address}' is empty or too long", nameof(address));
        }
        return key;
    }
}

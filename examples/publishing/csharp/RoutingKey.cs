using System;
using System.Text;

public static class RoutingKey
{
    /// <summary>
    /// The delay in steps of the resolution, then the address. The delay is rounded up so that no message is early. It
    /// is written in the base with one digit for each level.
    /// </summary>
    public static string Of(TimeSpan delay, int levels, TimeSpan resolution, string address, int toBase = 2)
    {
        if (toBase < 2 || toBase > 10)
        {
            throw new ArgumentOutOfRangeException(nameof(toBase), $"the base is {toBase}, not one of 2 to 10");
        }
        long steps = delay.Ticks / resolution.Ticks + (delay.Ticks % resolution.Ticks > 0 ? 1 : 0);
        string key = address;
        for (int level = 0; level < levels; level++)
        {
            key = $"{steps % toBase}.{key}";
            steps /= toBase;
        }
        if (delay < TimeSpan.Zero || steps > 0)
        {
            throw new ArgumentOutOfRangeException(
                nameof(delay), $"a delay of {delay} does not fit {levels} levels of {resolution} in base {toBase}");
        }
        if (address.Length == 0 || Encoding.UTF8.GetByteCount(key) > 255)
        {
            throw new ArgumentException($"the address '{address}' is empty or too long", nameof(address));
        }
        return key;
    }
}

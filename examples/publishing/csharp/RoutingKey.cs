using System;
using System.Text;

public static class RoutingKey
{
    /// <summary>
    /// The delay in steps of the resolution, rounded up so that no message is early, in binary with one digit for
    /// each level, then the destination.
    /// </summary>
    public static string Of(TimeSpan delay, int levels, TimeSpan resolution, string destination)
    {
        long steps = delay.Ticks / resolution.Ticks + (delay.Ticks % resolution.Ticks > 0 ? 1 : 0);
        if (delay < TimeSpan.Zero || steps >= 1L << levels)
        {
            throw new ArgumentOutOfRangeException(nameof(delay), $"a delay of {delay} does not fit {levels} levels of {resolution}");
        }
        string digits = Convert.ToString(steps, 2).PadLeft(levels, '0');
        string key = string.Join(".", digits.ToCharArray()) + "." + destination;
        if (destination.Length == 0 || Encoding.UTF8.GetByteCount(key) > 255)
        {
            throw new ArgumentException($"the destination '{destination}' is empty or too long", nameof(destination));
        }
        return key;
    }
}

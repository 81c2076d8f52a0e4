using System;
using System.Linq;
using System.Text.Json;
using System.Text.Json.Serialization;

/// <summary>What publishers have to know of a cascade.</summary>
public sealed class Cascade
{
    [JsonPropertyName("entry_exchange")]
    public string EntryExchange { get; set; } = "";

    [JsonPropertyName("units_ms")]
    public long[] UnitsMillis { get; set; } = Array.Empty<long>();

    [JsonPropertyName("max_delay_ms")]
    public long MaxDelayMillis { get; set; }

    /// <summary>Reads the JSON in the environment variable PUBLISHER. Ends the program if that is not right.</summary>
    public static Cascade FromEnvironment()
    {
        try
        {
            var cascade = JsonSerializer.Deserialize<Cascade>(Environment.GetEnvironmentVariable("PUBLISHER") ?? "");
            if (!string.IsNullOrEmpty(cascade?.EntryExchange) && cascade.UnitsMillis?.Length > 0 &&
                cascade.UnitsMillis.Min() > 0 && cascade.MaxDelayMillis > 0)
            {
                return cascade;
            }
        }
        catch (JsonException)
        {
            // The line below names the right form.
        }
        Console.Error.WriteLine("set the environment variable PUBLISHER to JSON with a text entry_exchange, " +
            "a list units_ms of positive integers, and a positive integer max_delay_ms");
        Environment.Exit(2);
        throw new InvalidOperationException();
    }
}

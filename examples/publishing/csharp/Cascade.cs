using System;
using System.Text.Json;
using System.Text.Json.Serialization;

/// <summary>What publishers have to know of a cascade.</summary>
public sealed class Cascade
{
    [JsonPropertyName("entry_exchange")]
    public string EntryExchange { get; set; } = "";

    [JsonPropertyName("base")]
    public int Base { get; set; }

    [JsonPropertyName("levels")]
    public int Levels { get; set; }

    [JsonPropertyName("resolution_ms")]
    public long ResolutionMillis { get; set; }

    /// <summary>Reads the JSON in the environment variable PUBLISHER. Ends the program if that is not right.</summary>
    public static Cascade FromEnvironment()
    {
        try
        {
            var cascade = JsonSerializer.Deserialize<Cascade>(Environment.GetEnvironmentVariable("PUBLISHER") ?? "");
            if (!string.IsNullOrEmpty(cascade?.EntryExchange) &&
                cascade.Base > 0 && cascade.Levels > 0 && cascade.ResolutionMillis > 0)
            {
                return cascade;
            }
        }
        catch (JsonException)
        {
            // The line below names the right form.
        }
        Console.Error.WriteLine("set the environment variable PUBLISHER to JSON with a text entry_exchange " +
            "and positive integers base, levels and resolution_ms");
        Environment.Exit(2);
        throw new InvalidOperationException();
    }
}

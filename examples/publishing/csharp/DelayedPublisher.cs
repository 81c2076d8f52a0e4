using System;
using System.Linq;
using System.Threading.Tasks;
using RabbitMQ.Client;
using RabbitMQ.Client.Events;

/// <summary>For RabbitMQ.Client 7.</summary>
public sealed class DelayedPublisher
{
    private readonly Cascade cascade = Cascade.FromEnvironment();
    private readonly IChannel channel;

    private DelayedPublisher(IChannel channel) => this.channel = channel;

    public static async Task<DelayedPublisher> OpenAsync(IConnection connection) =>
        new DelayedPublisher(await connection.CreateChannelAsync(new CreateChannelOptions(
            publisherConfirmationsEnabled: true, publisherConfirmationTrackingEnabled: true)));

    /// <summary>
    /// Completes when the broker has taken responsibility for the message, without what harms it or others in a
    /// cascade. Throws PublishException if the broker refuses the message or no binding takes the key.
    /// </summary>
    public async Task PublishAsync(TimeSpan delay, string address, ReadOnlyMemory<byte> body, BasicProperties properties)
    {
        string key = RoutingKey.Of(delay, cascade.UnitsMillis, cascade.MaxDelayMillis, address);
        properties.Persistent = true;
        properties.ClearPriority();
        properties.ClearExpiration();
        properties.Headers = properties.Headers?
            .Where(header => !IsHarmful(header.Key))
            .ToDictionary(header => header.Key, header => header.Value);
        await channel.BasicPublishAsync(
            cascade.EntryExchange, key, mandatory: true, basicProperties: properties, body: body);
    }

    /// <summary>
    /// Sends a received message again, later. Acknowledge it afterwards and not before: in doubt it is delivered
    /// twice, never lost.
    /// </summary>
    public Task RetryAsync(BasicDeliverEventArgs delivery, TimeSpan delay)
    {
        var properties = new BasicProperties(delivery.BasicProperties);
        properties.ClearUserId(); // the broker refuses that of another user
        int words = cascade.UnitsMillis.Length;
        string address = delivery.RoutingKey.Split('.', words + 1)[words];
        return PublishAsync(delay, address, delivery.Body, properties);
    }

    // Further keys, which RabbitMQ uses again at every level, and the headers that it wrote during
    // the delay. RabbitMQ 3 takes a message with such headers for one that goes in circles, lost or
    // stuck. RabbitMQ 4.4 would hold one until x-opt-delivery-time.
    private static bool IsHarmful(string header) =>
        header == "CC" || header == "BCC" || header == "x-death" || header == "x-opt-delivery-time" ||
        header.StartsWith("x-first-death-") || header.StartsWith("x-last-death-");
}

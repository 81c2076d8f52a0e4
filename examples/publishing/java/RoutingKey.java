import java.nio.charset.StandardCharsets;
import java.util.List;

final class RoutingKey {
    private RoutingKey() {}

    /**
     * A number for each unit, the largest unit first, then the address. The delay is rounded up to the last unit so that no
     * message is early.
     */
    static String of(long delayMillis, List<Long> unitsMillis, long maxDelayMillis, String address) {
        if (delayMillis < 0 || delayMillis > maxDelayMillis) {
            throw new IllegalArgumentException(
                "a delay of " + delayMillis + " ms is not within 0 to " + maxDelayMillis + " ms");
        }
        long last = unitsMillis.get(unitsMillis.size() - 1);
        long rest = (delayMillis + last - 1) / last * last;
        StringBuilder words = new StringBuilder();
        for (long unit : unitsMillis) {
            words.append(rest / unit).append('.');
            rest %= unit;
        }
        String key = words.append(address).toString();
        if (address.isEmpty() || key.getBytes(StandardCharsets.UTF_8).length > 255) {
            throw new IllegalArgumentException("the address '" + address + "' is empty or too long");
        }
        return key;
    }
}

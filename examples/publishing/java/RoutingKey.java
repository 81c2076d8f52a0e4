import java.nio.charset.StandardCharsets;

final class RoutingKey {
    private RoutingKey() {}

    /**
     * The delay in steps of the resolution, rounded up so that no message is early, in binary with one digit for each level, then
     * the destination. The type is long because an int ends at 31 levels.
     */
    static String of(long delayMillis, int levels, long resolutionMillis, String destination) {
        long steps = delayMillis / resolutionMillis + (delayMillis % resolutionMillis > 0 ? 1 : 0);
        if (delayMillis < 0 || steps >= 1L << levels) {
            throw new IllegalArgumentException(
                "a delay of " + delayMillis + " ms does not fit " + levels + " levels of " + resolutionMillis + " ms");
        }
        StringBuilder key = new StringBuilder();
        for (int level = levels - 1; level >= 0; level--) {
            key.append(steps >> level & 1).append('.');
        }
        key.append(destination);
        if (destination.isEmpty() || key.toString().getBytes(StandardCharsets.UTF_8).length > 255) {
            throw new IllegalArgumentException("the destination '" + destination + "' is empty or too long");
        }
        return key.toString();
    }
}

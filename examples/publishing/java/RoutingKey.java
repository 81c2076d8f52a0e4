import java.nio.charset.StandardCharsets;

final class RoutingKey {
    private RoutingKey() {}

    /**
     * The delay in steps of the resolution, then the address. The delay is rounded up so that no message is early. It is
     * written in the base with one digit for each level. The type is long because an int ends at 31 levels of base 2.
     */
    static String of(long delayMillis, int levels, long resolutionMillis, String address, int base) {
        if (base < 2 || base > 10) {
            throw new IllegalArgumentException("the base is " + base + ", not one of 2 to 10");
        }
        long steps = delayMillis / resolutionMillis + (delayMillis % resolutionMillis > 0 ? 1 : 0);
        String key = address;
        for (int level = 0; level < levels; level++) {
            key = steps % base + "." + key;
            steps /= base;
        }
        if (delayMillis < 0 || steps > 0) {
            throw new IllegalArgumentException("a delay of " + delayMillis + " ms does not fit " + levels + " levels of "
                + resolutionMillis + " ms in base " + base);
        }
        if (address.isEmpty() || key.getBytes(StandardCharsets.UTF_8).length > 255) {
            throw new IllegalArgumentException("the address '" + address + "' is empty or too long");
        }
        return key;
    }
}

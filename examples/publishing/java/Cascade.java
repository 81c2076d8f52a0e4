import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Objects;

/**
 * What publishers have to know of a cascade. The JDK reads no JSON; this takes Jackson 2 (jackson-databind, in Debian the package
 * libjackson2-databind-java).
 */
record Cascade(String entryExchange, List<Long> unitsMillis, long maxDelayMillis) {
    /** Reads the JSON in the environment variable PUBLISHER. Ends the program if that is not right. */
    static Cascade fromEnvironment() {
        try {
            JsonNode json = new ObjectMapper().enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
                .readTree(Objects.requireNonNullElse(System.getenv("PUBLISHER"), ""));
            String entryExchange = Objects.requireNonNullElse(json.path("entry_exchange").textValue(), "");
            JsonNode units = json.path("units_ms");
            List<Long> unitsMillis = new ArrayList<>();
            units.forEach(unit -> unitsMillis.add(wholeOrZero(unit)));
            long maxDelayMillis = wholeOrZero(json.path("max_delay_ms"));
            if (!entryExchange.isEmpty() && maxDelayMillis > 0
                && units.isArray() && !units.isEmpty() && Collections.min(unitsMillis) > 0) {
                return new Cascade(entryExchange, unitsMillis, maxDelayMillis);
            }
        } catch (JsonProcessingException e) {
            // The line below names the right form.
        }
        System.err.println("set the environment variable PUBLISHER to JSON with a text entry_exchange, "
            + "a list units_ms of positive integers, and a positive integer max_delay_ms");
        System.exit(2);
        throw new IllegalStateException();
    }

    private static long wholeOrZero(JsonNode number) {
        return number.isIntegralNumber() && number.canConvertToLong() ? number.longValue() : 0;
    }
}

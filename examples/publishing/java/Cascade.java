import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Objects;

/**
 * What publishers have to know of a cascade. The JDK reads no JSON; this takes Jackson 2 (jackson-databind, in Debian the package
 * libjackson2-databind-java).
 */
record Cascade(String entryExchange, int base, int levels, long resolutionMillis) {
    /** Reads the JSON in the environment variable PUBLISHER. Ends the program if that is not right. */
    static Cascade fromEnvironment() {
        try {
            JsonNode json = new ObjectMapper().enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
                .readTree(Objects.requireNonNullElse(System.getenv("PUBLISHER"), ""));
            JsonNode entryExchange = json.path("entry_exchange");
            JsonNode base = json.path("base");
            JsonNode levels = json.path("levels");
            JsonNode resolution = json.path("resolution_ms");
            if (entryExchange.isTextual() && !entryExchange.textValue().isEmpty()
                && base.isInt() && base.intValue() > 0 && levels.isInt() && levels.intValue() > 0
                && (resolution.isInt() || resolution.isLong()) && resolution.longValue() > 0) {
                return new Cascade(entryExchange.textValue(), base.intValue(), levels.intValue(), resolution.longValue());
            }
        } catch (JsonProcessingException e) {
            // The line below names the right form.
        }
        System.err.println("set the environment variable PUBLISHER to JSON with a text entry_exchange "
            + "and positive integers base, levels and resolution_ms");
        System.exit(2);
        throw new IllegalStateException();
    }
}

<?php

declare(strict_types=1);

/** What publishers have to know of a cascade. */
final class Cascade
{
    /** @param list<int> $unitsMs */
    public function __construct(
        public readonly string $entryExchange,
        public readonly array $unitsMs,
        public readonly int $maxDelayMs
    ) {
        $wrong = array_filter([...$unitsMs, $maxDelayMs], fn ($number) => !is_int($number) || $number < 1);
        if ($entryExchange === '' || $unitsMs === [] || !array_is_list($unitsMs) || $wrong !== []) {
            throw new ValueError('the entry exchange has no name, or a number is not positive');
        }
    }

    /** Reads the JSON in the environment variable PUBLISHER. Ends the program if that is not right. */
    public static function fromEnvironment(): self
    {
        try {
            $json = json_decode((string) getenv('PUBLISHER'), true, 512, JSON_THROW_ON_ERROR);
            return new self(
                $json['entry_exchange'] ?? null,
                $json['units_ms'] ?? null,
                $json['max_delay_ms'] ?? null
            );
        } catch (JsonException | TypeError | ValueError) {
            fwrite(STDERR, 'set the environment variable PUBLISHER to JSON with a text entry_exchange, '
                . "a list units_ms of positive integers, and a positive integer max_delay_ms\n");
            exit(2);
        }
    }
}

<?php

declare(strict_types=1);

/** What publishers have to know of a cascade. */
final class Cascade
{
    public function __construct(
        public readonly string $entryExchange,
        public readonly int $base,
        public readonly int $levels,
        public readonly int $resolutionMs
    ) {
        if ($entryExchange === '' || min($base, $levels, $resolutionMs) < 1) {
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
                $json['base'] ?? null,
                $json['levels'] ?? null,
                $json['resolution_ms'] ?? null
            );
        } catch (JsonException | TypeError | ValueError) {
            fwrite(STDERR, 'set the environment variable PUBLISHER to JSON with a text entry_exchange '
                . "and positive integers base, levels and resolution_ms\n");
            exit(2);
        }
    }
}

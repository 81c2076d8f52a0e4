<?php

declare(strict_types=1);

/**
 * A number for each unit, the largest unit first, then the address. The delay is rounded up to the last unit so that
 * no message is early.
 */
function routingKey(int $delayMs, array $unitsMs, int $maxDelayMs, string $address): string
{
    if ($delayMs < 0 || $delayMs > $maxDelayMs) {
        throw new RangeException("a delay of $delayMs ms is not within 0 to $maxDelayMs ms");
    }
    $last = $unitsMs[count($unitsMs) - 1];
    $rest = intdiv($delayMs + $last - 1, $last) * $last;
    $key = '';
    foreach ($unitsMs as $unitMs) {
        $key .= intdiv($rest, $unitMs) . '.';
        $rest %= $unitMs;
    }
    $key .= $address;
    if ($address === '' || strlen($key) > 255) {
        throw new RangeException("the address '$address' is empty or too long");
    }
    return $key;
}

<?php

declare(strict_types=1);

/**
 * The delay in steps of the resolution, then the address. The delay is rounded up so that no message is early.
 * It is written in the base with one digit for each level.
 */
function routingKey(int $delayMs, int $levels, int $resolutionMs, string $address, int $base = 2): string
{
    if ($base < 2 || $base > 10) {
        throw new RangeException("the base is $base, not one of 2 to 10");
    }
    $steps = intdiv($delayMs, $resolutionMs) + ($delayMs % $resolutionMs > 0 ? 1 : 0);
    $key = $address;
    for ($level = 0; $level < $levels; $level++) {
        $key = $steps % $base . '.' . $key;
        $steps = intdiv($steps, $base);
    }
    if ($delayMs < 0 || $steps > 0) {
        throw new RangeException(
            "a delay of $delayMs ms does not fit $levels levels of $resolutionMs ms in base $base"
        );
    }
    if ($address === '' || strlen($key) > 255) {
        throw new RangeException("the address '$address' is empty or too long");
    }
    return $key;
}

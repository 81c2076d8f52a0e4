<?php

declare(strict_types=1);

/**
 * The delay in steps of the resolution, rounded up so that no message is early, in binary with one digit for
 * each level, then the destination.
 */
function routingKey(int $delayMs, int $levels, int $resolutionMs, string $destination): string
{
    $steps = intdiv($delayMs, $resolutionMs) + ($delayMs % $resolutionMs > 0 ? 1 : 0);
    if ($delayMs < 0 || $steps >= 2 ** $levels) {
        throw new RangeException("a delay of $delayMs ms does not fit $levels levels of $resolutionMs ms");
    }
    $digits = str_pad(decbin($steps), $levels, '0', STR_PAD_LEFT);
    $key = implode('.', str_split($digits)) . '.' . $destination;
    if ($destination === '' || strlen($key) > 255) {
        throw new RangeException("the destination '$destination' is empty or too long");
    }
    return $key;
}

<?php
// Prints who is calling. Needs PHP 8.1 with its curl extension. docs/clients.md lists the exit codes.
//   CALLERID_URL=http://127.0.0.1:8000 CALLERID_TOKEN=... php callerid.php 493023125555
declare(strict_types=1);

const ATTEMPTS = 3, ATTEMPT_S = 2.0, TOTAL_S = 4.0, PAUSE_S = 0.2;
const EXIT_CODES = [401 => 3, 403 => 4, 429 => 5, 503 => 7];

/** @return array{int, string} the exit code, and what to print */
function search(string $url, string $token, string $number): array
{
    $deadline = now() + TOTAL_S;
    $key = bin2hex(random_bytes(16));
    $retryAfter = null;
    $curl = curl_init(rtrim($url, '/') . '/callerid/search');
    curl_setopt_array($curl, [
        CURLOPT_RETURNTRANSFER => true,
        CURLOPT_POSTFIELDS => json_encode(['api_key' => $token, 'query' => $number], JSON_THROW_ON_ERROR),
        // The same key with each attempt: none is charged twice.
        CURLOPT_HTTPHEADER => ['Content-Type: application/json', "Idempotency-Key: $key"],
        CURLOPT_HEADERFUNCTION => function ($curl, string $line) use (&$retryAfter): int {
            if (preg_match('/^Retry-After: *(\d{1,9})\s*$/i', $line, $match)) {
                $retryAfter = (float) $match[1];
            }
            return strlen($line);
        },
    ]);
    for ($attempt = 1; $attempt <= ATTEMPTS; $attempt++) {
        $retryAfter = null;
        $timeoutMs = (int) ceil(1000 * min(ATTEMPT_S, $deadline - now()));
        curl_setopt($curl, CURLOPT_TIMEOUT_MS, max(1, $timeoutMs)); // 0 is no limit
        $body = curl_exec($curl);
        $status = curl_getinfo($curl, CURLINFO_RESPONSE_CODE);
        $answer = json_decode((string) $body, true);
        if ($status === 200 && isset($answer['data'])) {
            return [0, describe($answer['data'])];
        }
        if ($body === false || $status === 200) { // also for a 200 that is not JSON
            [$outcome, $wait] = [[8, 'No response'], PAUSE_S];
        } else {
            $outcome = [EXIT_CODES[$status] ?? ($status >= 500 ? 6 : 1), "$status " . ($answer['detail'] ?? '')];
            if ($status === 429 || $status === 503) {
                $wait = $retryAfter ?? 1.0;
            } elseif ($status >= 500) {
                $wait = PAUSE_S;
            } else {
                return $outcome;
            }
        }
        if ($attempt === ATTEMPTS || now() + $wait >= $deadline) {
            break;
        }
        usleep((int) ($wait * 1e6));
    }
    return $outcome;
}

function describe(array $data): string
{
    ['source_a' => $a, 'source_b' => $b] = $data;
    $spam = isset($b['spam']) ? ($b['spam'] ? 'yes' : 'no') : 'unknown';
    $name = $a['name'] ?? $b['name'] ?? 'unknown';
    $place = $a['location'] ?? 'unknown';
    return "Name:  $name\nPlace: $place\nSpam:  $spam";
}

function now(): float
{
    return hrtime(true) / 1e9;
}

[$url, $token] = [getenv('CALLERID_URL'), getenv('CALLERID_TOKEN')];
if (!$url || !$token || $argc !== 2) {
    fwrite(STDERR, "Usage: CALLERID_URL=... CALLERID_TOKEN=... php $argv[0] NUMBER\n");
    exit(2);
}
[$code, $text] = search($url, $token, $argv[1]);
fwrite($code ? STDERR : STDOUT, "$text\n");
exit($code);

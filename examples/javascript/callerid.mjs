// Prints who is calling. Needs Node.js 18. docs/clients.md lists the exit codes.
//   CALLERID_URL=http://127.0.0.1:8000 CALLERID_TOKEN=... node callerid.mjs 493023125555
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

const ATTEMPTS = 3, ATTEMPT_MS = 2000, TOTAL_MS = 4000, PAUSE_MS = 200;
const EXIT_CODES = { 401: 3, 403: 4, 429: 5, 503: 7 };

/** The exit code, and what to print. */
async function search(url, token, number) {
  const deadline = performance.now() + TOTAL_MS;
  const request = {
    method: "POST",
    // The same key with each attempt: none is charged twice.
    headers: { "Content-Type": "application/json", "Idempotency-Key": randomUUID() },
    body: JSON.stringify({ api_key: token, query: number }),
    redirect: "manual", // a redirect would send the token elsewhere
  };
  let outcome;
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    let waitMs = PAUSE_MS;
    try {
      const timeoutMs = Math.max(0, Math.min(ATTEMPT_MS, deadline - performance.now()));
      const signal = AbortSignal.timeout(Math.ceil(timeoutMs));
      const response = await fetch(`${url.replace(/\/+$/, "")}/callerid/search`, { ...request, signal });
      const text = await response.text();
      const { status } = response;
      if (status === 200) return [0, describe(JSON.parse(text).data)];
      outcome = [EXIT_CODES[status] ?? (status >= 500 ? 6 : 1), `${status} ${detail(text) ?? response.statusText}`];
      if (status === 429 || status === 503) {
        const seconds = response.headers.get("Retry-After");
        waitMs = (/^\d{1,9}$/.test(seconds) ? Number(seconds) : 1) * 1000;
      } else if (status < 500) {
        return outcome;
      }
    } catch (error) {
      // TypeError: no connection, or it broke. TimeoutError: AbortSignal.timeout. SyntaxError: a 200 that is not JSON.
      if (!["TypeError", "TimeoutError", "SyntaxError"].includes(error.name)) throw error;
      outcome = [8, "No response"];
    }
    if (attempt === ATTEMPTS || performance.now() + waitMs >= deadline) break;
    await sleep(waitMs);
  }
  return outcome;
}

function describe({ source_a: a, source_b: b }) {
  const spam = { true: "yes", false: "no", undefined: "unknown" }[b.spam];
  return `Name:  ${a.name ?? b.name ?? "unknown"}\nPlace: ${a.location ?? "unknown"}\nSpam:  ${spam}`;
}

function detail(text) {
  try {
    return JSON.parse(text).detail;
  } catch {
    return undefined; // a proxy's error page
  }
}

const { CALLERID_URL, CALLERID_TOKEN } = process.env;
const [, program, number] = process.argv;
if (!CALLERID_URL || !CALLERID_TOKEN || process.argv.length !== 3) {
  console.error(`Usage: CALLERID_URL=... CALLERID_TOKEN=... node ${program} NUMBER`);
  process.exit(2);
}
const [code, text] = await search(CALLERID_URL, CALLERID_TOKEN, number);
(code ? console.error : console.log)(text);
process.exitCode = code;

// Runs the searches that standard input lists, all at once, and prints the outcome of each as drivers.py describes it.
import { text } from "node:stream/consumers";
import { inspect } from "node:util";
import * as callerid from "../../clients/javascript/index.js";

const snakeCase = (value) =>
  value && typeof value === "object"
    ? Object.fromEntries(Object.entries(value).map(([name, member]) => [
        name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), snakeCase(member),
      ]))
    : value;

async function run({ url, token, number, attempts, attempt_timeout_s, total_timeout_s, idempotency_key, request_id }) {
  const client = new callerid.Client(url, token, {
    attempts, attemptTimeoutMs: attempt_timeout_s * 1000, totalTimeoutMs: total_timeout_s * 1000,
  });
  const options = { idempotencyKey: idempotency_key ?? undefined, requestId: request_id ?? undefined };
  try {
    return { result: snakeCase(await client.search(number, options)) };
  } catch (error) {
    if (!(error instanceof callerid.CallerIdError)) throw error;
    const { name, message, detail, status, requestId, retryAfter } = error;
    const shown = inspect([error, client], { depth: 10, showHidden: true }) + JSON.stringify([error, client]);
    return { error: name, message, detail, status, request_id: requestId, retry_after: retryAfter, shown };
  }
}

console.log(JSON.stringify(await Promise.all(JSON.parse(await text(process.stdin)).map(run))));

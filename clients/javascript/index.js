// JavaScript client of the Caller ID service, for Node.js 18 and newer. index.d.ts describes what it exports.
import { randomUUID } from "node:crypto";
import { STATUS_CODES } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

const VERSION = "1.0.0";
/** Before a retry without `Retry-After`. */
const RETRY_WAIT_MS = 200;
/** Of a response's body. The service's own have less than 2 KiB. */
const MAX_BODY_BYTES = 65_536;
const IDEMPOTENCY_KEY = /^[!-~]{1,255}$/;
const REQUEST_ID = /^[A-Za-z0-9._-]{1,64}$/;

/** The members of a response with their types, as the OpenAPI document has them; `?`: absent when unknown. */
const SEARCH_RESPONSE = {
  success: "boolean",
  data: {
    phone_number: "string",
    source_a: { name: "string?", location: "string?" },
    source_b: { name: "string?", spam: "boolean?" },
    combined: { source_a_available: "boolean", source_b_available: "boolean" },
  },
  credits_remaining: "integer",
};

export class CallerIdError extends Error {
  constructor(detail, { status, requestId, retryAfter, cause } = {}) {
    const message = `${status ? `${status} ` : ""}${detail}${requestId ? ` (request ${requestId})` : ""}`;
    super(message, cause && { cause });
    this.name = new.target.name;
    Object.assign(this, present({ detail, status, requestId, retryAfter }));
  }
}
export class InvalidRequest extends CallerIdError {}
export class InvalidToken extends CallerIdError {}
export class NoCredits extends CallerIdError {}
export class RateLimited extends CallerIdError {}
export class Overloaded extends CallerIdError {}
export class ServiceFailed extends CallerIdError {}
export class Unreachable extends CallerIdError {}
export class InvalidAnswer extends CallerIdError {}

/** Any other status has the class of its hundred. */
const ERRORS = { 401: InvalidToken, 403: NoCredits, 429: RateLimited, 503: Overloaded };
const ERRORS_OF_HUNDRED = { 4: InvalidRequest, 5: ServiceFailed };

export class Client {
  #url;
  #token;
  #attempts;
  #attemptTimeoutMs;
  #totalTimeoutMs;

  constructor(baseUrl, token, { attempts = 3, attemptTimeoutMs = 2000, totalTimeoutMs = 4000 } = {}) {
    this.#url = endpoint(baseUrl);
    if (typeof token !== "string" || !token) throw new TypeError("token must be a string, and not empty");
    const limits = [attemptTimeoutMs, totalTimeoutMs];
    if (!(Number.isInteger(attempts) && attempts >= 1 && limits.every((ms) => ms > 0 && ms < 2 ** 31))) {
      throw new TypeError("attempts must be at least 1, and time limits milliseconds above 0 and below 2 ** 31");
    }
    this.#token = token;
    this.#attempts = attempts;
    this.#attemptTimeoutMs = attemptTimeoutMs;
    this.#totalTimeoutMs = totalTimeoutMs;
  }

  async search(number, { idempotencyKey = randomUUID(), requestId, signal } = {}) {
    const deadline = performance.now() + this.#totalTimeoutMs;
    // One key for all attempts: no attempt is charged twice.
    const request = this.#request(number, idempotencyKey, requestId);
    for (let attempt = 1; ; attempt++) {
      try {
        const timeoutMs = Math.min(this.#attemptTimeoutMs, deadline - performance.now());
        const [response, body] = await send(this.#url, request, timeoutMs, signal);
        return this.#classify(number, response, body);
      } catch (error) {
        const waitMs = error instanceof CallerIdError ? retryWaitMs(error) : undefined;
        const isLast = waitMs === undefined || attempt === this.#attempts;
        if (isLast || performance.now() + waitMs >= deadline) throw error;
        await sleep(waitMs, undefined, { signal }).catch(() => signal.throwIfAborted());
      }
    }
  }

  #request(number, idempotencyKey, requestId) {
    if (!isText(idempotencyKey, IDEMPOTENCY_KEY)) {
      throw new TypeError("idempotencyKey must be 1 to 255 visible ASCII characters");
    }
    const headers = {
      "Accept-Encoding": "identity",
      "Content-Type": "application/json",
      "Idempotency-Key": idempotencyKey,
      "User-Agent": `callerid-client-javascript/${VERSION}`,
    };
    if (requestId !== undefined) {
      if (!isText(requestId, REQUEST_ID)) {
        throw new TypeError("requestId must be 1 to 64 characters of A-Z a-z 0-9 . _ -");
      }
      headers["X-Request-ID"] = requestId;
    }
    // A redirect would send the token elsewhere.
    return { method: "POST", redirect: "manual", headers, body: JSON.stringify({ api_key: this.#token, query: number }) };
  }

  /** The result. Throws the error that the response stands for. */
  #classify(number, { status, headers }, body) {
    // The service echoes neither, but another server might.
    const secrets = [this.#token, String(number)].filter((text) => text.length >= 7);
    const reveals = (text) => secrets.some((secret) => text.includes(secret));
    const id = headers.get("X-Request-ID") ?? "";
    const requestId = REQUEST_ID.test(id) && !reveals(id) ? id : undefined;
    const document = parse(body);
    if (status === 200) {
      try {
        const [, remaining] = headers.get("RateLimit")?.match(/;r=(\d{1,9})/) ?? [];
        const outcomes = [...(headers.get("Server-Timing") ?? "").matchAll(/(source_[ab]);desc="([a-z-]+)"/g)];
        return {
          ...read(SEARCH_RESPONSE, document, "SearchResponse"),
          ...present({ requestId, rateLimitRemaining: remaining && Number(remaining) }),
          replayed: headers.get("Idempotent-Replayed") === "true",
          outcomes: Object.fromEntries(outcomes.map(([, name, outcome]) => [camelCase(name), outcome])),
        };
      } catch (error) {
        throw new InvalidAnswer(`Not a search response: ${error.message}`, { status, requestId });
      }
    }
    const said = document?.detail;
    const detail = typeof said === "string" && !reveals(said) ? said : (STATUS_CODES[status] ?? "Unknown status");
    let retryAfter;
    if (status === 429 || status === 503) {
      const text = headers.get("Retry-After");
      retryAfter = /^\d{1,9}$/.test(text) ? Number(text) : 1;
    }
    const ErrorClass = ERRORS[status] ?? ERRORS_OF_HUNDRED[Math.floor(status / 100)] ?? InvalidAnswer;
    throw new ErrorClass(detail, { status, requestId, retryAfter });
  }
}

function endpoint(baseUrl) {
  try {
    const url = new URL(`${baseUrl.replace(/\/+$/, "")}/callerid/search`);
    if (["http:", "https:"].includes(url.protocol) && !/[?#@\s\\]/.test(baseUrl)) return url;
  } catch {
    // not a URL, or not a string
  }
  throw new TypeError("baseUrl must be like https://callerid.example.org, without user, query and fragment");
}

/** The response and its body, which is empty if it is too large. Rejects with Unreachable. */
async function send(url, request, timeoutMs, signal) {
  signal?.throwIfAborted();
  const controller = new AbortController();
  const abort = () => controller.abort();
  const timer = setTimeout(abort, timeoutMs);
  signal?.addEventListener("abort", abort);
  try {
    const response = await fetch(url, { ...request, signal: controller.signal });
    const chunks = [];
    let length = 0;
    for await (const chunk of response.body ?? []) {
      length += chunk.length;
      if (length > MAX_BODY_BYTES) return [response, Buffer.alloc(0)]; // leaving the loop closes the connection
      chunks.push(chunk);
    }
    return [response, Buffer.concat(chunks)];
  } catch (error) {
    signal?.throwIfAborted();
    if (controller.signal.aborted) throw new Unreachable("No response in time");
    throw new Unreachable(`No response: ${error.cause?.code ?? error.name}`, { cause: error });
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", abort);
  }
}

/** Milliseconds before the next attempt; undefined: there is none, for its response would be the same. */
function retryWaitMs(error) {
  if (error.retryAfter !== undefined) return error.retryAfter * 1000;
  const isTemporary = error instanceof ServiceFailed || error instanceof Unreachable || error.status === 200;
  return isTemporary ? RETRY_WAIT_MS : undefined;
}

function parse(body) {
  try {
    return JSON.parse(body.toString("utf8"));
  } catch {
    return undefined;
  }
}

/** The members of `shape` in a JSON document, with their JavaScript names; others are ignored. Throws TypeError. */
function read(shape, document, path) {
  if (typeof document !== "object" || document === null || Array.isArray(document)) {
    throw new TypeError(`${path} is not an object`);
  }
  const found = {};
  for (const [name, type] of Object.entries(shape)) {
    const value = Object.hasOwn(document, name) ? document[name] : undefined;
    const where = `${path}.${name}`;
    if (typeof type === "object") found[camelCase(name)] = read(type, value, where);
    else if (value === undefined && type.endsWith("?")) continue;
    else if (isA(type.replace("?", ""), value)) found[camelCase(name)] = value;
    else throw new TypeError(`${where} is ${value === undefined ? "missing" : "of another type"}`);
  }
  return found;
}

/** The members that are known; the others are absent, not undefined. */
const present = (members) => Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined));
const isText = (value, pattern) => typeof value === "string" && pattern.test(value);
const isA = (type, value) => (type === "integer" ? Number.isInteger(value) : typeof value === type);
const camelCase = (name) => name.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase());

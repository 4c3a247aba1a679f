// JavaScript client of the Caller ID service, for Node.js 18.17 and newer. index.d.ts describes what it exports.
import { randomUUID } from "node:crypto";
import { setMaxListeners } from "node:events";
import { STATUS_CODES } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

const VERSION = "1.0.0";
/** Before the first retry without `Retry-After`, and at most: the wait doubles, less up to a half of it at random. */
const RETRY_WAIT_MS = 200;
const MAX_RETRY_WAIT_MS = 1000;
/** Of responses that may count towards the token's rate limit; the statuses are those of proxies and of overload. */
const MAX_ANSWERS = 3;
const NO_ANSWER = [undefined, 502, 503, 504];
/** Of a response's body. The service's own have less than 2 KiB. */
const MAX_BODY_BYTES = 65_536;
const IDEMPOTENCY_KEY = /^[!-~]{1,255}$/;
const REQUEST_ID = /^[A-Za-z0-9._-]{1,64}$/;
/** A JWT, with what a file adds around it, such as a newline or a byte order mark. */
const JWT = /^\s*([A-Za-z0-9._~+/=-]+)\s*$/;
/** Spaces, line breaks, control and invisible characters, dashes, and other marks that people write between digits. */
const SEPARATORS = /[\p{Z}\p{Cc}\p{Cf}\p{Pd}\u2212.()]/gu;
const HTTP_DATE = /^[A-Z][a-z]{2,8}, .{1,40} GMT$/;

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

  constructor(baseUrl, token, { attempts = 10, attemptTimeoutMs = 2000, totalTimeoutMs = 4000 } = {}) {
    this.#url = endpoint(baseUrl);
    const [, jwt] = (typeof token === "string" && token.match(JWT)) || [];
    if (!jwt) throw new TypeError("token must be a string such as eyJ….eyJ….…, without other characters within it");
    const limits = [attemptTimeoutMs, totalTimeoutMs];
    if (!(Number.isInteger(attempts) && attempts >= 1 && limits.every((ms) => ms > 0 && ms < 2 ** 31))) {
      throw new TypeError("attempts must be at least 1, and time limits milliseconds above 0 and below 2 ** 31");
    }
    this.#token = jwt;
    this.#attempts = attempts;
    this.#attemptTimeoutMs = attemptTimeoutMs;
    this.#totalTimeoutMs = totalTimeoutMs;
  }

  async search(text, { idempotencyKey = randomUUID(), requestId, signal: signalOfProgram } = {}) {
    const signal = signalOfProgram && derived(signalOfProgram);
    const deadline = performance.now() + this.#totalTimeoutMs;
    const number = digits(text);
    // One key for all attempts: no attempt is charged twice.
    const request = this.#request(number, idempotencyKey, requestId);
    for (let attempt = 1, answers = 0; ; attempt++) {
      try {
        const timeoutMs = Math.min(this.#attemptTimeoutMs, deadline - performance.now());
        const [response, body] = await send(this.#url, request, timeoutMs, signal);
        return this.#classify(number, response, body);
      } catch (error) {
        const waitMs = error instanceof CallerIdError ? retryWaitMs(error, attempt) : undefined;
        if (!NO_ANSWER.includes(error.status)) answers++;
        const isLast = waitMs === undefined || attempt === this.#attempts || answers === MAX_ANSWERS;
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
    const isOfService = typeof said === "string";
    const detail = isOfService && !reveals(said) ? said : (STATUS_CODES[status] ?? "Unknown status");
    if (!isOfService && (status === 401 || status === 403)) {
      // about the login or the rules of a proxy, not about token and credits
      throw new InvalidAnswer(`${detail}, not from the service`, { status, requestId });
    }
    const retryAfter = status === 429 || status === 503 ? retryAfterSeconds(headers) : undefined;
    const ErrorClass = ERRORS[status] ?? ERRORS_OF_HUNDRED[Math.floor(status / 100)] ?? InvalidAnswer;
    throw new ErrorClass(detail, { status, requestId, retryAfter });
  }
}

const derivedSignals = new WeakMap();

/** A signal that aborts with the program's, which any number of searches may share. Each removes its listeners. */
function derived(signal) {
  if (!derivedSignals.has(signal)) {
    const own = AbortSignal.any([signal]);
    setMaxListeners(0, own);
    derivedSignals.set(signal, own);
  }
  return derivedSignals.get(signal);
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

/**
 * `text` without its plus and what people write between digits. What makes another number of it stays, and the service
 * refuses it: the zero of `+49 (0)30 …`, a spreadsheet's `.0`.
 */
function digits(text) {
  if (typeof text !== "string") throw new TypeError("number must be a string");
  if (/\(\s*0\s*\)|^\+?\d+\.\d{1,2}$/.test(text)) return text;
  return text.replace(SEPARATORS, "").replace(/^[+\uff0b]/, "");
}

/** A date is compared with the response's own, because clocks differ. 1 if there is neither date nor seconds. */
function retryAfterSeconds(headers) {
  const text = headers.get("Retry-After") ?? "";
  if (/^\d{1,9}$/.test(text)) return Number(text);
  const [until, now] = [text, headers.get("Date") ?? ""].map((date) => (HTTP_DATE.test(date) ? Date.parse(date) : NaN));
  return Math.max(Math.ceil((until - (now || Date.now())) / 1000) || 1, 1);
}

/** Milliseconds before the next attempt; undefined: there is none, for its response would be the same. */
function retryWaitMs(error, attempt) {
  const isTemporary = error instanceof ServiceFailed || error instanceof Unreachable || error.status === 200;
  if (error.retryAfter === undefined && !isTemporary) return undefined;
  const longestMs = Math.min(RETRY_WAIT_MS * 2 ** (attempt - 1), MAX_RETRY_WAIT_MS);
  return Math.max((error.retryAfter ?? 0) * 1000, longestMs * (0.5 + Math.random() / 2));
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

/** What the first source knows; absent: unknown. `location`: place, free text. */
export interface SourceA {
  readonly name?: string;
  readonly location?: string;
}

/** What the second source knows; absent: unknown. `spam`: true, false or absent, which differ. */
export interface SourceB {
  readonly name?: string;
  readonly spam?: boolean;
}

/** Whether each source returned results. */
export interface Combined {
  readonly sourceAAvailable: boolean;
  readonly sourceBAvailable: boolean;
}

/** What both sources know about `phoneNumber`, the number as it was searched. */
export interface SearchData {
  readonly phoneNumber: string;
  readonly sourceA: SourceA;
  readonly sourceB: SourceB;
  readonly combined: Combined;
}

/** The body of a successful response. `creditsRemaining`: on the token, after this search. */
export interface SearchResponse {
  readonly success: boolean;
  readonly data: SearchData;
  readonly creditsRemaining: number;
}

export type Outcome = "found" | "not-found" | "failed";

/** The body, and what the headers say. */
export interface SearchResult extends SearchResponse {
  /** By which the operator finds the request. */
  readonly requestId?: string;
  /** Requests left in the current minute. */
  readonly rateLimitRemaining?: number;
  /** Whether this is a stored answer, which was charged before. */
  readonly replayed: boolean;
  /** What each source did; empty if they were not called. */
  readonly outcomes: { readonly sourceA?: Outcome; readonly sourceB?: Outcome };
}

export interface ClientOptions {
  /** At most so many attempts; by default 10. The third error that the service itself answers is the last attempt. */
  attempts?: number;
  /** Milliseconds for each attempt; by default 2000. */
  attemptTimeoutMs?: number;
  /** Milliseconds for all attempts, with the waits between them; by default 4000. */
  totalTimeoutMs?: number;
}

export interface SearchOptions {
  /**
   * 1 to 255 visible ASCII characters, such as the call's id. A search with the key and number of one within 24 hours
   * gets the same answer, and is not charged again. By default each search has a new one.
   */
  idempotencyKey?: string;
  /** 1 to 64 characters of `A-Z a-z 0-9 . _ -` by which to find the request in the operator's log. */
  requestId?: string;
  /** Ends the search; it then rejects with the signal's reason. */
  signal?: AbortSignal;
}

/** Searches, for programs on a server: the token is secret, and must not be in a web page or an app. */
export class Client {
  /**
   * @param baseUrl the service's, such as `https://callerid.example.org`
   * @param token a JWT from the service's operator
   * @throws {TypeError} for an argument that cannot be right
   */
  constructor(baseUrl: string, token: string, options?: ClientOptions);

  /**
   * Who `number` is: country code and number. A plus, and what people write between digits, is left out. Rejects with
   * a subclass of CallerIdError after the last attempt, and with a TypeError for an invalid argument.
   */
  search(number: string, options?: SearchOptions): Promise<SearchResult>;
}

/** Base class of the errors below. Neither its message nor a property has the token or the number. */
export class CallerIdError extends Error {
  /** One sentence, the service's own where it answered. */
  readonly detail: string;
  /** Of the response; absent without one. */
  readonly status?: number;
  /** By which the operator finds the request. */
  readonly requestId?: string;
  /** Seconds after which to try again, of RateLimited and Overloaded only; 1 where the response does not say. */
  readonly retryAfter?: number;
  constructor(
    detail: string,
    properties?: { status?: number; requestId?: string; retryAfter?: number; cause?: unknown },
  );
}

/** 400 or another 4xx: the number, the idempotency key or the base URL is wrong. Not retried. */
export class InvalidRequest extends CallerIdError {}
/** The service's 401: the token is wrong, expired or revoked. Not retried. */
export class InvalidToken extends CallerIdError {}
/** The service's 403: the token has no credits left. Not retried. */
export class NoCredits extends CallerIdError {}
/** 429: too many requests with this token within a minute. Retried after `retryAfter` if the time allows. */
export class RateLimited extends CallerIdError {}
/** 503: too many searches at once. Retried after `retryAfter` if the time allows. */
export class Overloaded extends CallerIdError {}
/** 500 or another 5xx: both sources failed, or the service or its proxy did. Retried. */
export class ServiceFailed extends CallerIdError {}
/** No response: the connection failed, or the time limit was reached. Retried. */
export class Unreachable extends CallerIdError {}
/**
 * A 200 whose body is not a search response, which is retried; a 401 or 403 of a proxy or firewall, not the service; or
 * any other status, such as a redirect.
 */
export class InvalidAnswer extends CallerIdError {}

// Compiled with the installed package: what is declared, as a program uses it.
import { CallerIdError, Client, RateLimited, type SearchResult } from "callerid-client";

const client = new Client("https://callerid.example.org", "token", { attempts: 1, totalTimeoutMs: 1000 });
const options = { idempotencyKey: "call-17", signal: AbortSignal.timeout(1000) };
export const result: SearchResult = await client.search("12125550142", options);
export const spam: boolean | undefined = result.data.sourceB.spam;
export const outcome: "found" | "not-found" | "failed" | undefined = result.outcomes.sourceA;
// @ts-expect-error: absent if unknown
export const name: string = result.data.sourceA.name;
// @ts-expect-error: a result does not change
result.creditsRemaining = 0;
// @ts-expect-error: a number is a string
await client.search(12125550142);

export function wait(error: unknown): number | undefined {
  if (error instanceof RateLimited) return error.retryAfter;
  return error instanceof CallerIdError ? error.status : undefined;
}

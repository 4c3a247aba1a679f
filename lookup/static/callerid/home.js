// The form at `/`: sends a search and shows the response. External data is set as text, never as HTML.

const TIMEOUT_MS = 30_000;
const element = (id) => document.getElementById(id);
const form = element("try");
const token = element("token");
const number = element("number");
let searching = false;

/** A number without punctuation. The service refuses anything else that is left. */
function digits(typed) {
  // "(0)" is dialed only within the country. Numbers copied from an address book have invisible format characters.
  return typed.replace("(0)", "").replace(/[\s\p{Pd}\p{Cf}\u2212.()/]/gu, "").replace(/^\+/, "");
}

function pluralize(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

// --- Response headers ----------------------------------------------------------------------------------------------

/** `RateLimit` and `RateLimit-Policy`, such as `"token";r=29;t=60` and `"token";q=30;w=60`; null without them. */
function rateLimitText(headers) {
  const [remaining, wait] = parameters(headers.get("RateLimit"), "r", "t");
  const [limit, window] = parameters(headers.get("RateLimit-Policy"), "q", "w");
  if ([remaining, wait, limit, window].includes(null)) return null;
  const rate = `${pluralize(limit, "request")} per ${pluralize(window, "second")}`;
  return `${rate}; ${remaining} left, next one in ${pluralize(wait, "second")}`;
}

function parameters(header, ...names) {
  return names.map((name) => {
    const found = new RegExp(`;${name}=(\\d+)`).exec(header ?? "");
    return found && Number(found[1]);
  });
}

/** `Server-Timing`, such as `source_a;desc="found";dur=1.2`, as {source_a: {outcome: "found", ms: 1.2}}. */
function timings(headers) {
  const entries = (headers.get("Server-Timing") ?? "").matchAll(/(\w+);desc="([\w-]+)";dur=([\d.]+)/g);
  return Object.fromEntries([...entries].map(([, slot, outcome, ms]) => [slot, { outcome, ms: Number(ms) }]));
}

const SOURCES = { source_a: "Source A", source_b: "Source B" };
const OUTCOMES = { found: "found", "not-found": "not found", failed: "failed" };

function timingText({ outcome, ms }) {
  const time = ms < 1 ? "less than 1 ms" : `${Math.round(ms).toLocaleString("en")} ms`;
  return `${OUTCOMES[outcome] ?? outcome} in ${time}`;
}

// --- The phone -----------------------------------------------------------------------------------------------------

function drawIdle() {
  element("phone").dataset.state = "idle";
  element("phone-status").textContent = "Waiting for a call";
  element("avatar").textContent = "?";
  element("name").textContent = "Who is it?";
  for (const id of ["shown-number", "place", "spam-result", "spam-source"]) element(id).textContent = "";
  element("sources").replaceChildren();
}

/** Shows the result on the phone and returns it as a sentence for screen readers. */
function drawCall({ phone_number, source_a, source_b, combined }, timing) {
  const known = source_a.name ?? source_b.name;
  const name = known ?? "Unknown caller";
  const [state, spamText, spamSource] = {
    true: ["spam", "Spam", "Reported by source B"],
    false: ["fine", "Not spam", "Reported by source B"],
  }[source_b.spam] ?? ["none", "Spam unknown", "No source reports it"];
  element("phone").dataset.state = state;
  element("phone-status").textContent = "Incoming call";
  element("avatar").textContent = known ? [...known][0].toUpperCase() : "?";
  element("name").textContent = name;
  element("shown-number").textContent = `+${phone_number}`;
  element("place").textContent = source_a.location ?? "";
  element("spam-result").textContent = spamText;
  element("spam-source").textContent = spamSource;
  const spam = { true: "spam", false: "not spam" }[source_b.spam];
  fillList(element("sources"), [
    [SOURCES.source_a, sourceText([source_a.name, source_a.location], combined.source_a_available, timing.source_a)],
    [SOURCES.source_b, sourceText([source_b.name, spam], combined.source_b_available, timing.source_b)],
  ]);
  return `${spamText}: ${[name, source_a.location].filter(Boolean).join(", ")}.`;
}

function sourceText(fields, available, timing) {
  if (available) return fields.filter(Boolean).join("\n");
  return timing?.outcome === "failed" ? "Unavailable" : "Not found";
}

function fillList(target, pairs) {
  target.replaceChildren(
    ...pairs.map(([term, text]) => {
      const [row, dt, dd] = ["div", "dt", "dd"].map((tag) => document.createElement(tag));
      [dt.textContent, dd.textContent] = [term, text];
      row.append(dt, dd);
      return row;
    }),
  );
}

// --- The full response ---------------------------------------------------------------------------------------------

function drawResponse(response, text, body, timing) {
  const facts = [["Status", [response.status, STATUSES[response.status]].filter(Boolean).join(" ")]];
  const credits = body?.credits_remaining;
  if (Number.isInteger(credits)) facts.push(["Credits", `${pluralize(credits, "credit")} left`]);
  const limit = rateLimitText(response.headers);
  if (limit) facts.push(["Rate limit", limit]);
  for (const slot of Object.keys(SOURCES)) if (timing[slot]) facts.push([SOURCES[slot], timingText(timing[slot])]);
  if (response.headers.has("X-Request-ID")) facts.push(["Request ID", response.headers.get("X-Request-ID")]);
  fillList(element("facts"), facts);
  element("body").textContent = body === undefined ? text.slice(0, 2000) : JSON.stringify(body, null, 2);
  element("answer").hidden = false;
}

const STATUSES = {
  200: "OK", 400: "Bad request", 401: "Unauthorized", 403: "Forbidden", 429: "Too many requests",
  500: "Internal server error",
};

/** The error and what to do about it, from the response's status, `detail` and Retry-After. */
function errorText(response, detail) {
  const wait = Number(response.headers.get("Retry-After"));
  switch (response.status) {
    case 400:
      return `Invalid request: ${detail}. Nothing was charged.`;
    case 401:
      return "This API token is invalid, expired or revoked.";
    case 403:
      return "This API token has no credits left. Top it up in the console.";
    case 429:
      return `Too many requests. Try again in ${wait ? pluralize(wait, "second") : "a minute"}.`;
    case 500:
      return "The service failed, or neither source is available. Nothing was charged. Try again.";
    default:
      return detail
        ? `The service responded with status ${response.status}: ${detail}`
        : `Unexpected response with status ${response.status}. Check whether a proxy blocks the request.`;
  }
}

// --- Searching -----------------------------------------------------------------------------------------------------

function showError(text, field) {
  element("problem").textContent = text;
  field?.focus();
}

function setSearching(now) {
  searching = now;
  // Not `disabled`, which would remove the keyboard focus.
  element("search").setAttribute("aria-disabled", String(now));
  element("search").textContent = now ? "Searching …" : "Search";
}

async function search() {
  const [api_key, query] = [token.value.trim(), digits(number.value)];
  showError("");
  if (!api_key) return showError("Enter an API token.", token);
  if (!query) return showError("Enter a phone number.", number);
  setSearching(true);
  element("said").textContent = "";
  element("answer").hidden = true;
  drawIdle();
  try {
    const response = await fetch(form.dataset.search, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ api_key, query }),
      // The token alone identifies the client: the session of the console is not sent.
      credentials: "omit",
      cache: "no-store",
      redirect: "error",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    show(response, await response.text());
  } catch {
    showError("The service cannot be reached. Check that it is running and that you are connected.");
  } finally {
    setSearching(false);
  }
}

function show(response, text) {
  let body;
  try {
    body = JSON.parse(text);
  } catch {
    // Not a response of the service: errorText explains it.
  }
  const timing = timings(response.headers);
  drawResponse(response, text, body, timing);
  if (response.status !== 200 || !body?.data) return showError(errorText(response, body?.detail));
  const sentence = drawCall(body.data, timing);
  element("said").textContent = `${sentence} ${pluralize(body.credits_remaining, "credit")} left.`;
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  element("phone").scrollIntoView({ block: "nearest", behavior: calm ? "auto" : "smooth" });
}

function showDigits() {
  const sent = digits(number.value);
  element("sends").textContent = sent ? `Sends ${sent}` : "Spaces and punctuation are removed.";
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (!searching) search();
});
number.addEventListener("input", showDigits);
for (const example of document.querySelectorAll(".example")) {
  example.addEventListener("click", () => {
    number.value = example.dataset.number;
    showDigits();
  });
}
element("show").addEventListener("click", ({ currentTarget }) => {
  const shown = token.type === "password";
  token.type = shown ? "text" : "password";
  currentTarget.setAttribute("aria-pressed", String(shown));
});
showDigits();

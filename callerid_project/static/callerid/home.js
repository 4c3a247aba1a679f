// The form at `/`: asks the search endpoint and draws its answer. What comes from outside is set as text, not as HTML.

const PATIENCE_MS = 30_000;
const element = (id) => document.getElementById(id);
const form = element("try");
const token = element("token");
const number = element("number");
let asking = false;

/** The digits of a number as people write it; anything else that is left, the service refuses. */
function digits(written) {
  // "(0)" is dialled only within the country. Invisible marks come along with numbers copied from an address book.
  return written.replace("(0)", "").replace(/[\s\p{Pd}\p{Cf}\u2212.()/]/gu, "").replace(/^\+/, "");
}

function counted(count, thing) {
  return `${count.toLocaleString("en")} ${thing}${count === 1 ? "" : "s"}`;
}

// --- What the headers say ------------------------------------------------------------------------------------------

/** `RateLimit` and `RateLimit-Policy`, such as `"token";r=29;t=60` and `"token";q=30;w=60`; null without them. */
function limitSays(headers) {
  const [remaining, wait] = parameters(headers.get("RateLimit"), "r", "t");
  const [limit, window] = parameters(headers.get("RateLimit-Policy"), "q", "w");
  if ([remaining, wait, limit, window].includes(null)) return null;
  const most = `At most ${counted(limit, "request")} in any ${counted(window, "second")}`;
  return `${most}: ${remaining} left, another comes free in ${counted(wait, "second")}`;
}

function parameters(header, ...names) {
  return names.map((name) => {
    const found = new RegExp(`;${name}=(\\d+)`).exec(header ?? "");
    return found && Number(found[1]);
  });
}

/** `Server-Timing`, such as `source_a;desc="found";dur=1.2`, as {source_a: {word: "found", ms: 1.2}}. */
function timings(headers) {
  const entries = (headers.get("Server-Timing") ?? "").matchAll(/(\w+);desc="([\w-]+)";dur=([\d.]+)/g);
  return Object.fromEntries([...entries].map(([, slot, word, ms]) => [slot, { word, ms: Number(ms) }]));
}

const SOURCES = { source_a: "Source A", source_b: "Source B" };
const OUTCOMES = { found: "found something", "not-found": "found nothing", failed: "failed" };

function timingSays({ word, ms }) {
  const time = ms < 1 ? "less than 1 ms" : `${Math.round(ms).toLocaleString("en")} ms`;
  return `${OUTCOMES[word] ?? word} in ${time}`;
}

// --- The phone -----------------------------------------------------------------------------------------------------

function drawIdle() {
  element("phone").dataset.state = "idle";
  element("phone-says").textContent = "Waiting for a call";
  element("avatar").textContent = "?";
  element("name").textContent = "Who is it?";
  for (const id of ["shown-number", "place", "verdict", "verdict-says"]) element(id).textContent = "";
  element("sources").replaceChildren();
}

/** Draws an answer and returns it as a sentence for those who hear it. */
function drawCall({ phone_number, source_a, source_b, combined }, timing) {
  const known = source_a.name ?? source_b.name;
  const name = known ?? "Unknown caller";
  const [state, verdict, because] = {
    true: ["spam", "Spam", "So says source B"],
    false: ["fine", "Not spam", "So says source B"],
  }[source_b.spam] ?? ["none", "No verdict", "Nobody says whether it is spam"];
  element("phone").dataset.state = state;
  element("phone-says").textContent = "Incoming call";
  element("avatar").textContent = known ? [...known][0].toUpperCase() : "?";
  element("name").textContent = name;
  element("shown-number").textContent = `+${phone_number}`;
  element("place").textContent = source_a.location ?? "";
  element("verdict").textContent = verdict;
  element("verdict-says").textContent = because;
  const spam = { true: "spam", false: "not spam" }[source_b.spam];
  list(element("sources"), [
    [SOURCES.source_a, sourceSays([source_a.name, source_a.location], combined.source_a_available, timing.source_a)],
    [SOURCES.source_b, sourceSays([source_b.name, spam], combined.source_b_available, timing.source_b)],
  ]);
  return `${verdict}: ${[name, source_a.location].filter(Boolean).join(", ")}.`;
}

function sourceSays(fields, available, timing) {
  if (available) return fields.filter(Boolean).join("\n");
  return timing?.word === "failed" ? "Could not be asked" : "Knows nothing";
}

function list(target, pairs) {
  target.replaceChildren(
    ...pairs.map(([term, says]) => {
      const [row, dt, dd] = ["div", "dt", "dd"].map((tag) => document.createElement(tag));
      [dt.textContent, dd.textContent] = [term, says];
      row.append(dt, dd);
      return row;
    }),
  );
}

// --- The answer in full --------------------------------------------------------------------------------------------

function drawAnswer(response, text, body, timing) {
  const facts = [["Status", [response.status, STATUSES[response.status]].filter(Boolean).join(" ")]];
  const credits = body?.credits_remaining;
  if (Number.isInteger(credits)) facts.push(["Credits", `${counted(credits, "credit")} left`]);
  const limit = limitSays(response.headers);
  if (limit) facts.push(["Limit", limit]);
  for (const slot of Object.keys(SOURCES)) if (timing[slot]) facts.push([SOURCES[slot], timingSays(timing[slot])]);
  if (response.headers.has("X-Request-ID")) facts.push(["Request id", response.headers.get("X-Request-ID")]);
  list(element("facts"), facts);
  element("body").textContent = body === undefined ? text.slice(0, 2000) : JSON.stringify(body, null, 2);
  element("answer").hidden = false;
}

const STATUSES = {
  200: "OK", 400: "Bad request", 401: "Unauthorized", 403: "Forbidden", 429: "Too many requests",
  500: "Internal server error",
};

/** What went wrong and what to do, from an error's status, its `detail` and Retry-After. */
function problemSays(response, detail) {
  const wait = Number(response.headers.get("Retry-After"));
  switch (response.status) {
    case 400:
      return `The service refuses what was sent: ${detail}. Nothing was charged.`;
    case 401:
      return "The service does not know this token: it is mistyped, expired or revoked.";
    case 403:
      return "This token has no credits left. Top it up in the admin.";
    case 429:
      return `Too many requests. Try again in ${wait ? counted(wait, "second") : "a minute"}.`;
    case 500:
      return "The service failed, or neither source could be asked. Nothing was charged; try again.";
    default:
      return detail
        ? `The service answered with status ${response.status}: ${detail}`
        : `What answered with status ${response.status} does not speak as the service does: is a proxy in between?`;
  }
}

// --- Asking --------------------------------------------------------------------------------------------------------

function complain(sentence, field) {
  element("problem").textContent = sentence;
  field?.focus();
}

function setAsking(now) {
  asking = now;
  // Not `disabled`, which would take the keyboard's focus away.
  element("ask").setAttribute("aria-disabled", String(now));
  element("ask").textContent = now ? "Asking …" : "Ask who is calling";
}

async function ask() {
  const [api_key, query] = [token.value.trim(), digits(number.value)];
  complain("");
  if (!api_key) return complain("Paste a token first.", token);
  if (!query) return complain("Enter a phone number first.", number);
  setAsking(true);
  element("said").textContent = "";
  element("answer").hidden = true;
  drawIdle();
  try {
    const response = await fetch(form.dataset.search, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ api_key, query }),
      // The token alone says who asks: a session of the admin's is not sent along.
      credentials: "omit",
      cache: "no-store",
      redirect: "error",
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
    show(response, await response.text());
  } catch {
    complain("The service cannot be reached: is it still running, and is this machine still connected to it?");
  } finally {
    setAsking(false);
  }
}

function show(response, text) {
  let body;
  try {
    body = JSON.parse(text);
  } catch {
    // Not the service's: problemSays tells.
  }
  const timing = timings(response.headers);
  drawAnswer(response, text, body, timing);
  if (response.status !== 200 || !body?.data) return complain(problemSays(response, body?.detail));
  const sentence = drawCall(body.data, timing);
  element("said").textContent = `${sentence} ${counted(body.credits_remaining, "credit")} left.`;
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  element("phone").scrollIntoView({ block: "nearest", behavior: calm ? "auto" : "smooth" });
}

function tellWhatIsSent() {
  const sent = digits(number.value);
  element("sends").textContent = sent ? `Sends ${sent}` : "Spaces and signs are taken out.";
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (!asking) ask();
});
number.addEventListener("input", tellWhatIsSent);
for (const example of document.querySelectorAll(".example")) {
  example.addEventListener("click", () => {
    number.value = example.dataset.number;
    tellWhatIsSent();
  });
}
element("show").addEventListener("click", ({ currentTarget }) => {
  const shown = token.type === "password";
  token.type = shown ? "text" : "password";
  currentTarget.setAttribute("aria-pressed", String(shown));
});
tellWhatIsSent();

// The palette: the search of the console over any page. Ctrl+K or Cmd+K opens it, and "/", which can be turned off
// (WCAG 2.1.4). The text may be a number: it is sent by POST.
document.addEventListener("DOMContentLoaded", () => {
  const SLASH = "console-find-slash";
  const slashIsOn = () => localStorage.getItem(SLASH) !== "off";
  const isTyping = (element) => element.isContentEditable || /^(INPUT|SELECT|TEXTAREA)$/.test(element.tagName);
  const link = document.getElementById("console-find");
  const palette = document.getElementById("palette");

  const slash = document.getElementById("find-slash");
  if (slash) { // the search page
    slash.checked = slashIsOn();
    slash.addEventListener("change", () => localStorage.setItem(SLASH, slash.checked ? "on" : "off"));
    // The count is read first; without results, one types again.
    const results = document.querySelector(".find-group") && document.getElementById("find-count");
    (results || document.getElementById("id_q")).focus();
  }
  if (!link || !palette) return;
  if (/Mac|iPhone|iPad/.test(navigator.platform)) link.querySelector("kbd").replaceChildren("⌘ K");

  const form = palette.querySelector("form");
  const field = document.getElementById("palette-q");
  const results = document.getElementById("palette-results");
  const status = document.getElementById("palette-status");
  let timer, pending; // pending: aborts the request whose results are awaited

  const options = () => [...results.querySelectorAll("[role=option]")];
  const selected = () => results.querySelector("[aria-selected=true]");
  const select = (option) => {
    selected()?.setAttribute("aria-selected", "false");
    option?.setAttribute("aria-selected", "true");
    option?.scrollIntoView({ block: "nearest" });
    if (option) field.setAttribute("aria-activedescendant", option.id);
    else field.removeAttribute("aria-activedescendant");
    field.setAttribute("aria-expanded", String(Boolean(option)));
  };
  const show = (html, text = "") => {
    results.innerHTML = html;
    const found = results.firstElementChild;
    status.textContent = found?.dataset.status ?? text;
    if (found && "refused" in found.dataset) field.value = ""; // a whole token
    options().forEach((option, n) => (option.id = `palette-option-${n}`));
    select(options()[0]);
  };
  const search = async () => {
    const { signal } = (pending = new AbortController());
    const body = new URLSearchParams(new FormData(form));
    body.set("palette", "1");
    try {
      // After the session has ended there is a redirect to the login page.
      const response = await fetch(form.action, { method: "POST", body, redirect: "error", signal });
      if (!response.ok) throw new Error(response.status);
      const html = await response.text();
      if (!signal.aborted) show(html);
    } catch {
      if (!signal.aborted) show("", "The search failed. Reload the page.");
    }
  };
  const reset = () => {
    clearTimeout(timer);
    pending?.abort();
    show("");
  };

  const open = () => {
    if (!palette.open) palette.showModal();
    field.select();
  };
  link.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return; // a new tab
    event.preventDefault();
    open();
  });
  palette.querySelector(".palette-close").addEventListener("click", () => palette.close());
  palette.addEventListener("click", (event) => event.target === palette && palette.close()); // beside it
  palette.addEventListener("close", () => {
    field.value = "";
    reset();
  });
  field.addEventListener("input", () => {
    reset(); // Enter never opens a result of another text
    if (field.value.trim()) timer = setTimeout(search, 200);
  });
  field.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    const all = options();
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && all.length) {
      event.preventDefault();
      select(all.at((all.indexOf(selected()) + step) % all.length));
    } else if (event.key === "Enter" && selected()) {
      event.preventDefault();
      if (selected().href && (event.ctrlKey || event.metaKey)) window.open(selected().href);
      else selected().click();
    }
  });

  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.isComposing) return;
    const withControl = event.key.toLowerCase() === "k" && !event.shiftKey && event.ctrlKey !== event.metaKey;
    const withSlash = event.key === "/" && !event.ctrlKey && !event.metaKey && !isTyping(event.target);
    if (withSlash && !slashIsOn()) event.stopPropagation(); // unfold's shortcut for the search of a list
    // In a list with a search of its own, unfold's shortcut focuses that.
    if (!withControl && !(withSlash && slashIsOn() && !document.getElementById("searchbar"))) return;
    event.preventDefault();
    open();
  });
});

// Swagger UI's dark scheme is a class.
const dark = matchMedia("(prefers-color-scheme: dark)");
const followScheme = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", followScheme);
followScheme();

// Swagger UI's lists have no names. It renders after this script, and again after every click.
const names = { "#servers": "Server", ".examples-select-element": "Example" };
new MutationObserver(() => {
  for (const [selector, name] of Object.entries(names)) {
    for (const list of document.querySelectorAll(`${selector}:not([aria-label])`)) list.setAttribute("aria-label", name);
  }
}).observe(document, { childList: true, subtree: true });

// What unfold's templates lack and have no blocks for.

// Cards on phones leave out values that are not there.
const markMissing = (cells) => {
  for (const cell of cells) {
    if (/^[-–]$/.test(cell.textContent.trim())) cell.classList.add("console-none");
  }
};
// The cells of tables of figures need their headings on phones, where rows are cards (console.css).
const labelFigures = () => {
  for (const table of document.querySelectorAll(".figures-table")) {
    const headings = [...table.querySelectorAll("thead th")];
    if (headings.length < 4 && !table.matches("[data-cards]")) continue;
    table.classList.add("is-cards");
    for (const row of table.querySelectorAll("tbody tr")) {
      [...row.cells].forEach((cell, n) => (cell.dataset.label = headings[n]?.textContent.trim() ?? ""));
    }
    markMissing(table.querySelectorAll("td"));
  }
};
document.addEventListener("figures-loaded", labelFigures); // later.js
// Unfold writes the labels of cards in lower case, or Like Titles.
const capitalizeLabels = () => {
  for (const cell of document.querySelectorAll("#result_list [data-label]")) {
    cell.dataset.label = cell.dataset.label.replace(/^./, (letter) => letter.toUpperCase());
  }
};

document.addEventListener("DOMContentLoaded", () => {
  document.getElementById("main")?.setAttribute("role", "main");
  document.getElementById("content")?.setAttribute("tabindex", "-1"); // so that "Skip to content" moves the focus
  document.querySelector("#nav-sidebar-inner a.shrink-0")?.setAttribute("aria-label", "Home");
  document.getElementById("searchbar-submit")?.setAttribute("aria-label", "Search");
  // On phones the list comes first: 639 pixels as in console.css.
  const filters = document.querySelector(".list-more:not([data-used])");
  if (filters && matchMedia("(max-width: 639px)").matches) filters.open = false;
  markMissing(document.querySelectorAll("#result_list td"));
  labelFigures();
  capitalizeLabels();
  for (const icon of document.querySelectorAll(".material-symbols-outlined")) {
    icon.setAttribute("aria-hidden", !icon.matches("[role=button]"));
    icon.closest("div[title]")?.setAttribute("role", "img"); // a value of a list: its name is the title
  }
});
// Its buttons of the menus are no buttons. Alpine has not read their attributes yet.
document.addEventListener("alpine:init", () => {
  const asButtons = (selector, state, attributes) => {
    for (const element of document.querySelectorAll(`${selector}[x-on\\:click^="${state} ="]`)) {
      for (const [name, value] of Object.entries({
        role: "button",
        tabindex: "0",
        "x-bind:aria-expanded": state,
        "x-on:keydown.enter": "$el.click()",
        "x-on:keydown.space.prevent": "$el.click()",
        ...attributes,
      })) {
        element.setAttribute(name, value);
      }
    }
  };
  asButtons("#header-inner ", "sidebarDesktopOpen", { "aria-label": "Menu" });
  asButtons("#header-inner ", "sidebarMobileOpen", {
    "aria-label": "Menu",
    "x-init": "$watch('sidebarMobileOpen', open => $nextTick(() => (open ? document.getElementById('close-menu') : $el).focus()))",
    "x-on:keydown.escape.window": "sidebarMobileOpen = false",
  });
  asButtons("#nav-sidebar-inner ", "sidebarMobileOpen", { "aria-label": "Close menu", id: "close-menu" });
  asButtons("#nav-sidebar-inner ", "openUserLinks", { "x-on:keydown.escape.window": "openUserLinks = false" });
});

// The focus is where `autofocus` says, on which Chromium gives up in a page that is shown only when Alpine has started. After
// an error that is the first field that has one; without one it is the summary. On load, because Django's scripts focus
// the first field before.
const showError = (element, block = "center") => {
  element?.focus({ preventScroll: true });
  element?.scrollIntoView({ block });
};
addEventListener("load", () => {
  const summary = document.querySelector(".errornote");
  const field = document.querySelector(summary ? "[autofocus][aria-invalid]" : "[autofocus]");
  if (!summary && document.activeElement !== document.body) return;
  const element = field ?? summary;
  if (element === summary) summary?.setAttribute("tabindex", "-1");
  if (summary) showError(element, field ? "center" : "nearest");
  else element?.focus();
});

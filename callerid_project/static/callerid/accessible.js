// What unfold's templates lack and have no blocks for.
document.addEventListener("DOMContentLoaded", () => {
  document.getElementById("main")?.setAttribute("role", "main");
  document.getElementById("content")?.setAttribute("tabindex", "-1"); // so that "Skip to content" moves the focus
  document.getElementById("searchbar-submit")?.setAttribute("aria-label", "Search");
  for (const icon of document.querySelectorAll(".material-symbols-outlined")) {
    icon.setAttribute("aria-hidden", "true");
    icon.closest("div[title]")?.setAttribute("role", "img"); // a value of a list: its name is the title
  }
});

// After a form error the focus moves to the summary: on load, because Django's scripts focus the first field before.
window.addEventListener("load", () => {
  const summary = document.querySelector(".errornote");
  if (!summary) return;
  summary.setAttribute("tabindex", "-1");
  summary.focus();
});

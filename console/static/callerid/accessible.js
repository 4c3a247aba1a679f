// What unfold's templates lack and have no blocks for.
document.addEventListener("DOMContentLoaded", () => {
  document.getElementById("main")?.setAttribute("role", "main");
  document.getElementById("content")?.setAttribute("tabindex", "-1"); // so that "Skip to content" moves the focus
  document.getElementById("searchbar-submit")?.setAttribute("aria-label", "Search");
  // On phones the list comes first: 639 pixels as in console.css.
  const filters = document.querySelector(".list-more:not([data-used])");
  if (filters && matchMedia("(max-width: 639px)").matches) filters.open = false;
  // Cards on phones leave out values that are not there.
  for (const cell of document.querySelectorAll("#result_list td")) {
    if (/^[-–]$/.test(cell.textContent.trim())) cell.classList.add("console-none");
  }
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

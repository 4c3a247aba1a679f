// The shortcuts of the search of the console: Ctrl+K or Cmd+K, and "/", which can be turned off (WCAG 2.1.4).
(() => {
  const SLASH = "console-find-slash";
  const slashIsOn = () => localStorage.getItem(SLASH) !== "off";
  const isTyping = (element) => element.isContentEditable || /^(INPUT|SELECT|TEXTAREA)$/.test(element.tagName);

  document.addEventListener("keydown", (event) => {
    const link = document.getElementById("console-find");
    if (!link || event.altKey || event.isComposing) return;
    const withControl = event.key.toLowerCase() === "k" && !event.shiftKey && event.ctrlKey !== event.metaKey;
    const slash = event.key === "/" && !event.ctrlKey && !event.metaKey && !isTyping(event.target);
    if (slash && !slashIsOn()) event.stopPropagation(); // unfold's shortcut for the search of a list
    // In a list with a search of its own, unfold's shortcut focuses that.
    if (!withControl && !(slash && slashIsOn() && !document.getElementById("searchbar"))) return;
    event.preventDefault();
    const field = location.pathname === link.pathname && document.getElementById("id_q");
    if (field) {
      field.focus();
      field.select();
    } else {
      location.assign(link.href);
    }
  });

  document.addEventListener("DOMContentLoaded", () => {
    if (/Mac|iPhone|iPad/.test(navigator.platform)) {
      document.querySelector("#console-find kbd")?.replaceChildren("⌘ K");
    }
    const slash = document.getElementById("find-slash");
    if (!slash) return;
    slash.checked = slashIsOn();
    slash.addEventListener("change", () => localStorage.setItem(SLASH, slash.checked ? "on" : "off"));
    // The count is read first; without results, one types again.
    const results = document.querySelector(".find-group") && document.getElementById("find-count");
    (results || document.getElementById("id_q")).focus();
  });
})();

// <button data-copy="ID"> copies the text of #ID and reports it in the live region named by aria-describedby.
// <button data-copy-text="TEXT"> copies TEXT, which the element before it shows in part.
const copied = async (text) => {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // without https there is no clipboard, and a browser may refuse access
  }
};

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy], [data-copy-text]");
  if (!button) {
    return;
  }
  const text = button.dataset.copyText;
  const source = text ? button.previousElementSibling : document.getElementById(button.dataset.copy);
  const done = await copied(text || source.textContent);
  if (!done) {
    if (text) {
      source.textContent = text;
    }
    getSelection().selectAllChildren(source);
  }
  const report = done ? "Copied" : "Selected: press Ctrl+C or ⌘C to copy";
  if (text) {
    button.setAttribute("aria-label", report);
    button.title = report;
    button.classList.toggle("is-done", done);
  } else {
    document.getElementById(button.getAttribute("aria-describedby")).textContent = report;
  }
});

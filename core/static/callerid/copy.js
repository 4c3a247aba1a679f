// <button data-copy="ID"> copies the text of #ID and reports it in the live region named by aria-describedby.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) {
    return;
  }
  const source = document.getElementById(button.dataset.copy);
  const status = document.getElementById(button.getAttribute("aria-describedby"));
  try {
    await navigator.clipboard.writeText(source.textContent);
    status.textContent = "Copied";
  } catch {
    // Without https there is no clipboard, and a browser may refuse access: the text is then selected instead.
    getSelection().selectAllChildren(source);
    status.textContent = "Selected: press Ctrl+C or ⌘C to copy";
  }
});

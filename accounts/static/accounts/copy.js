// <button data-copy="ID"> copies the text of #ID and says so in the live region that aria-describedby names.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) {
    return;
  }
  const source = document.getElementById(button.dataset.copy);
  const said = document.getElementById(button.getAttribute("aria-describedby"));
  try {
    await navigator.clipboard.writeText(source.textContent);
    said.textContent = "Copied";
  } catch {
    // Without https there is no clipboard, and a browser may refuse it: then it is marked, ready to be copied.
    getSelection().selectAllChildren(source);
    said.textContent = "Marked: press Ctrl+C or ⌘C to copy";
  }
});

// Loads the figures that take longer than their page may.
document.addEventListener("DOMContentLoaded", () => {
  for (const figure of document.querySelectorAll("[data-later]")) {
    fetch(figure.dataset.later, { redirect: "error", signal: AbortSignal.timeout(45000) })
      .then(async (response) => {
        if (!response.ok) throw new Error(response.statusText);
        figure.innerHTML = await response.text();
        document.dispatchEvent(new Event("figures-loaded"));
      })
      .catch(() => {
        figure.textContent = "Could not be loaded. Reload the page.";
      });
  }
});

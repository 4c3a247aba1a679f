// Loads the figures that take longer than their page may. One that cannot be loaded stays as it is.
document.addEventListener("DOMContentLoaded", () => {
  for (const figure of document.querySelectorAll("[data-later]")) {
    fetch(figure.dataset.later, { redirect: "error", signal: AbortSignal.timeout(45000) })
      .then(async (response) => {
        if (response.ok) figure.innerHTML = await response.text();
      })
      .catch(() => {});
  }
});

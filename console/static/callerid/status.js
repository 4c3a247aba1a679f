// Renews the dashboard's first block every 10 s while its page is visible. It can be paused (WCAG 2.2.2).
document.addEventListener("DOMContentLoaded", () => {
  const block = document.getElementById("status");
  const button = document.getElementById("status-pause");
  const stale = document.getElementById("status-stale");
  if (!block) return;
  let isPaused = false;
  let isWaiting = false;

  const renew = async () => {
    if (isPaused || isWaiting || document.hidden) return;
    isWaiting = true;
    try {
      // After the session has ended there is a redirect to the login page.
      const response = await fetch(block.dataset.url, { redirect: "error", signal: AbortSignal.timeout(9000) });
      if (!response.ok) throw new Error(response.status);
      block.innerHTML = await response.text();
      stale.hidden = true;
    } catch {
      stale.hidden = false;
    } finally {
      isWaiting = false;
    }
  };

  button.hidden = false;
  button.addEventListener("click", () => {
    isPaused = !isPaused;
    button.textContent = isPaused ? "Resume updates" : "Pause updates";
    renew();
  });
  document.addEventListener("visibilitychange", renew);
  setInterval(renew, 10000);
});

// The number of calls that wait for approval, beside their link in the sidebar, is fetched again while the page is
// visible. Without scripts, it stays as it was loaded.
"use strict";
(() => {
  const FRESH_EVERY = 30000;
  let timer = 0;

  async function look(badge) {
    window.clearTimeout(timer);
    if (document.hidden) return; // Shown again, it looks at once.
    try {
      const answer = await fetch(badge.dataset.badge, { headers: { Accept: "application/json" }, redirect: "error" });
      if (answer.status >= 400 && answer.status < 500) return; // Asking again will not help.
      const { number } = await answer.json();
      badge.textContent = number;
      badge.hidden = number === 0;
    } catch {
      // The server restarts, or the network is away.
    }
    next(badge);
  }

  function next(badge) { timer = window.setTimeout(look, FRESH_EVERY, badge); }

  window.addEventListener("load", () => {
    const badge = document.querySelector("[data-badge]");
    if (!badge) return;
    next(badge);
    document.addEventListener("visibilitychange", () => look(badge));
  });
})();

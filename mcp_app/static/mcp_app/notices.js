// Notifies in the browser of what waits for its user, on any open page of the admin. Off until somebody switches it
// on in this browser, on the page Notifications; then one page of the browser listens for all of them.
"use strict";

(() => {
  const script = document.currentScript;
  const socket = script ? new URL(script.dataset.notices ?? script.src, location.href).hash.slice(1) : "";
  if (!socket || document.documentElement.dataset.mcpNotices) return;
  document.documentElement.dataset.mcpNotices = "on";
  const SWITCH = "mcp-notices";
  const TOLD = "mcp-notices-told";
  const MOST_TOLD = 1000;
  // So many at once are told one by one, more in one notification.
  const SINGLY = 3;
  const REFUSED = 4403;
  const LONGEST_PAUSE = 60000;
  const PANEL = "[data-permission]";

  function isOn() {
    return "Notification" in window && Notification.permission === "granted" && localStorage.getItem(SWITCH) === "on";
  }

  function remembered() {
    try { return new Set(JSON.parse(localStorage.getItem(TOLD) || "[]")); } catch { return new Set(); }
  }

  function show(text, tag, url) {
    try {
      const notification = new Notification("Needs attention", { body: text, tag });
      notification.addEventListener("click", () => { window.focus(); window.location.assign(url); });
    } catch {
      // Some browsers of telephones notify from service workers only.
    }
  }

  function tell(needs) {
    const told = remembered();
    const fresh = needs.filter((need) => !told.has(need.key));
    if (fresh.length === 0) return;
    if (fresh.length <= SINGLY) for (const need of fresh) show(need.text, need.key, need.url);
    else show(`${fresh.length} items need your attention`, "mcp-many", fresh[0].url);
    // What waits now is kept whatever else there is.
    const kept = [...needs.map((need) => need.key), ...told];
    localStorage.setItem(TOLD, JSON.stringify([...new Set(kept)].slice(0, MOST_TOLD)));
  }

  function listen(pause = 1000) {
    const address = new URL(socket, window.location.href);
    address.protocol = window.location.protocol === "https:" ? "wss:" : "ws:";
    const connection = new WebSocket(address);
    let next = Math.min(pause * 2, LONGEST_PAUSE);
    connection.addEventListener("open", () => connection.send(JSON.stringify({ watch: "needs" })));
    connection.addEventListener("message", (event) => {
      const frame = JSON.parse(event.data);
      next = 1000;
      if (frame.needs && isOn()) tell(frame.needs.all);
      connection.send(JSON.stringify({ drawn: frame.frame }));
    });
    connection.addEventListener("close", (event) => {
      if (event.code === REFUSED || !isOn()) return;
      window.setTimeout(() => listen(next), next * (0.5 + Math.random() / 2));
    });
  }

  let listening = false;
  function start() {
    if (listening || !isOn()) return;
    listening = true;
    // The page that has the lock listens; when it is closed, the next one gets it.
    const hold = () => { listen(); return new Promise(() => {}); };
    if (navigator.locks) navigator.locks.request(SWITCH, hold);
    else hold();
  }

  function describe(panel) {
    const words = panel.querySelector("[data-permission-words]");
    const button = panel.querySelector("[data-ask]");
    panel.hidden = false;
    if (!("Notification" in window)) {
      button.hidden = true;
      words.textContent = "This browser shows notifications only over https or on this machine.";
    } else if (Notification.permission === "denied") {
      button.hidden = true;
      words.textContent = "Notifications are blocked in this browser. Allow them in its site settings.";
    } else if (isOn()) {
      button.textContent = "Turn off in this browser";
      words.textContent = "On in this browser.";
    } else {
      button.textContent = "Allow notifications in this browser";
      words.textContent = "Off in this browser.";
    }
  }

  async function ask(panel) {
    if (isOn()) {
      localStorage.removeItem(SWITCH);
    } else if (await Notification.requestPermission() === "granted") {
      localStorage.setItem(SWITCH, "on");
      start();
    }
    describe(panel);
  }

  start();
  window.addEventListener("DOMContentLoaded", () => {
    const panel = document.querySelector(PANEL);
    if (!panel) return;
    panel.querySelector("[data-ask]").addEventListener("click", () => ask(panel));
    describe(panel);
  });
})();

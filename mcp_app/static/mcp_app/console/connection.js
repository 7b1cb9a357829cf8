// The live connection of a page: it says what it watches, draws frames and confirms each, and comes back by itself.

import { byId } from "./text.js";

const REFUSED = 4403;
const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 15000;

export class Connection {
  // `watch` gives what to say when the connection is open; `onFrame` draws; `onLost` tells that frames may be missing.
  constructor(address, watch, onFrame, onLost = () => {}) {
    this.address = new URL(address, window.location.href);
    this.address.protocol = window.location.protocol === "https:" ? "wss:" : "ws:";
    [this.watch, this.onFrame, this.onLost] = [watch, onFrame, onLost];
    this.pause = FIRST_PAUSE;
    this.badge = byId("mcp-connection");
    this.ended = "ended" in (this.badge.closest("[data-ended]")?.dataset ?? {});
    this.open();
    window.addEventListener("pagehide", () => this.leave());
    window.addEventListener("pageshow", (event) => { if (event.persisted) this.open(); });
  }

  open() {
    this.left = false;
    this.say("connecting", "plain");
    const socket = new WebSocket(this.address);
    this.socket = socket;
    socket.addEventListener("open", () => this.again());
    socket.addEventListener("message", (event) => this.heard(socket, JSON.parse(event.data)));
    socket.addEventListener("close", (event) => this.closed(socket, event.code));
  }

  // Says anew what is watched, for example after another search.
  again() {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(this.watch()));
  }

  heard(socket, frame) {
    if (frame.watching !== undefined) {
      this.pause = FIRST_PAUSE;
      this.say("live", "good");
    }
    this.onFrame(frame);
    // Confirmed after it was drawn, so that a page that cannot follow is sent less.
    if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ drawn: frame.frame }));
  }

  closed(socket, code) {
    if (socket !== this.socket || this.left) return;
    if (code === REFUSED) {
      this.say("access denied", "bad");
      return;
    }
    this.say("reconnecting", "warn");
    this.onLost();
    window.setTimeout(() => { if (!this.left) this.open(); }, this.pause * (0.5 + Math.random() / 2));
    this.pause = Math.min(this.pause * 2, LONGEST_PAUSE);
  }

  leave() {
    this.left = true;
    this.socket.close();
  }

  // Of a session that has ended nothing more comes, however well its page is connected.
  setEnded(ended) {
    if (ended === this.ended) return;
    this.ended = ended;
    this.say(...this.said);
  }

  say(text, tone) {
    this.said = [text, tone];
    if (this.ended && text !== "access denied") [text, tone] = ["ended", "plain"];
    this.badge.textContent = text;
    this.badge.className = `mcp-badge mcp-badge-${tone}`;
  }
}

// The runs of this entry: those made on this page and those in the message log. Two of them are compared.

import { clock, moment, span } from "../times.js";
import { comparable, essence } from "./contents.js";
import { comparison } from "./comparison.js";
import { element, line } from "./text.js";

const MOST_KEPT = 50;
const TONES = { ok: "good", refused: "warn", cancelled: "warn", "": "plain" };
const WORDS = { ok: "succeeded", tool_error: "failed", error: "failed", asked: "asked for input", "": "no result" };

export class Runs {
  // `load(run)`: put its arguments into the form. `whole(pk)`: resolves to a logged run with its answer.
  constructor({ card, list, comparisonCard, compared, messageUrl, load, whole }) {
    Object.assign(this, { card, list, comparisonCard, compared, messageUrl, load, whole });
    this.chosen = [];
    this.envelope = element("input", { type: "checkbox", "data-bench-envelope": true });
    this.envelope.addEventListener("change", () => this.show());
  }

  add(run, { last = false } = {}) {
    // A time, because a number would belong to another run after the page was loaded again.
    run.name = `run ${clock(Date.parse(run.at))}`;
    run.node = this.row(run);
    if (last) this.list.append(run.node);
    else this.list.prepend(run.node);
    while (this.list.children.length > MOST_KEPT) this.list.lastElementChild.remove();
    this.card.hidden = false;
  }

  row(run) {
    const box = element("input", { type: "checkbox", "aria-label": `Compare ${run.name}` });
    box.addEventListener("change", () => this.choose(run, box));
    run.box = box;
    const said = element("p", { class: "mcp-bench-error", role: "alert", hidden: true });
    const load = element("button", { class: "mcp-button mcp-bench-small", type: "button" }, "Load these arguments");
    load.addEventListener("click", () => this.guarded(said, async () => this.load(await this.complete(run))));
    return element("li", {}, box,
      element("time", { class: "mcp-time", datetime: run.at }, moment(Date.parse(run.at))),
      element("span", { class: `mcp-badge mcp-badge-${TONES[run.outcome] ?? "bad"}` }, WORDS[run.outcome] ?? line(run.outcome)),
      duration(run),
      element("span", { class: "mcp-dim" }, line(run.principal ?? "")),
      element("span", { class: "mcp-spring" }),
      run.message ? element("a", { href: this.messageUrl.replace("/0/", `/${run.message}/`) }, run.name) : element("span", { class: "mcp-dim" }, run.name),
      load, said);
  }

  async guarded(said, act) {
    said.hidden = true;
    try {
      await act();
    } catch (error) {
      said.replaceChildren(line(error.message));
      said.hidden = false;
    }
  }

  // A run with arguments and answer; those of the log are fetched when they are wanted.
  async complete(run) {
    if (run.message && run.arguments === undefined) Object.assign(run, await this.whole(run.message), { name: run.name });
    return run;
  }

  choose(run, box) {
    this.chosen = this.chosen.filter((each) => each !== run);
    if (box.checked) this.chosen.push(run);
    while (this.chosen.length > 2) this.chosen.shift().box.checked = false;
    this.show();
  }

  // Chooses two runs as a person would.
  compare(one, other) {
    for (const run of this.chosen) run.box.checked = false;
    this.chosen = [one, other];
    for (const run of this.chosen) run.box.checked = true;
    this.show();
  }

  async show() {
    // The older one stands left, as what the newer one is compared with.
    const both = [...this.chosen].sort((one, other) => Date.parse(one.at) - Date.parse(other.at));
    this.comparisonCard.hidden = both.length < 2;
    if (both.length < 2) return;
    const said = element("p", { class: "mcp-bench-error", role: "alert", hidden: true });
    this.compared.replaceChildren(said);
    await this.guarded(said, async () => {
      const [one, other] = await Promise.all(both.map((run) => this.complete(run)));
      if (both.some((run) => !this.chosen.includes(run))) return;
      const section = (title, part) => [element("h3", {}, title), comparison([one.name, other.name], comparable(part(one)), comparable(part(other)))];
      const whole = this.envelope.checked;
      const result = (run) => (whole ? answerOf(run.answer) : essence(answerOf(run.answer)));
      const choice = element("label", { class: "mcp-bench-box" }, this.envelope, "Compare metadata and incident numbers");
      this.compared.replaceChildren(choice, ...section("Result", result), ...section("Arguments", (run) => run.arguments));
    });
  }
}

// The page measures the whole round trip of its runs, and the message log the work of the server.
function duration(run) {
  const text = run.milliseconds == null ? "" : `${span(run.milliseconds)}${run.message ? "" : " round trip"}`;
  const [key, title] = run.message ? ["server", "Measured by the server"] : ["round-trip", "Measured by this page, with the network"];
  return element("span", { class: "mcp-time mcp-dim", "data-duration": key, title }, text);
}

// The result or the error of a logged response, whose id differs each time.
function answerOf(answer) {
  if (answer === null || typeof answer !== "object") return answer;
  return answer.result ?? answer.error ?? answer;
}

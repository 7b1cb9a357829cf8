// The page on which operations of an OpenAPI document are chosen: filters, a virtual list, a live total.
"use strict";

function openOperations() {
  const ROW = 44;
  const SPARE = 8;
  const POLL = 1000;
  const page = document.querySelector("[data-operations]");
  if (!page) return;
  const at = (name) => page.querySelector(`[data-op-${name}]`);
  const field = (name) => document.getElementById(`mcp-op-${name}`);
  const list = at("list");
  const names = new Map();
  // Chosen content types by key, of operations whose body can have several.
  const types = new Map();
  let operations = [];
  let shown = [];
  let byKey = new Map();
  let active = -1;
  let limits = { few: 40, many_tokens: 15000 };

  const selected = new Set();
  const isUsable = (each) => !each.refused && !each.state;
  const number = (value) => value.toLocaleString("en-US");

  async function load() {
    const answer = await fetch(page.dataset.operations, { headers: { Accept: "application/json" } });
    const data = await answer.json();
    if (data.state === "reading") {
      const bar = page.querySelector("[data-progress]");
      if (bar) {
        bar.value = data.progress;
        page.querySelector("[data-progress-text]").textContent = `Reading… ${data.progress} %`;
      }
      setTimeout(load, POLL);
      return;
    }
    if (page.dataset.reading) {
      location.reload();
      return;
    }
    if (list) start(data);
  }

  function start(data) {
    limits = data;
    operations = data.operations.map((each) => ({
      ...each,
      text: `${each.key} ${each.name} ${each.id} ${each.summary}`.toLowerCase(),
    }));
    byKey = new Map(operations.map((each) => [each.key, each]));
    const entered = at("selection").dataset.entered;
    // A form with an error keeps the user's own selection and names.
    for (const [key, name] of Object.entries(JSON.parse(entered ?? "{}"))) {
      selected.add(key);
      if (name) names.set(key, name);
    }
    for (const [key, type] of Object.entries(JSON.parse(at("types").value || "{}"))) types.set(key, type);
    options(field("method"), operations.map((each) => each.method));
    options(field("tag"), operations.flatMap((each) => each.tags));
    // As high as all of them need, so that it stays as it is while they are searched.
    list.style.height = `min(26rem, ${operations.length * ROW + 2}px)`;
    page.dataset.loaded = "1";
    filter();
  }

  function options(select, values) {
    const counts = new Map();
    for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
    for (const value of [...counts.keys()].sort()) {
      select.append(new Option(`${value} (${counts.get(value)})`, value));
    }
  }

  function filter() {
    const words = field("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const [method, tag, state] = ["method", "tag", "state"].map((name) => field(name).value);
    const states = {
      "": () => true,
      usable: isUsable,
      selected: (each) => selected.has(each.key),
      noted: (each) => each.notes.length > 0,
      refused: (each) => Boolean(each.refused),
    };
    shown = operations.filter(
      (each) =>
        (!method || each.method === method) &&
        (!tag || each.tags.includes(tag)) &&
        states[state](each) &&
        words.every((word) => each.text.includes(word)),
    );
    active = shown.length ? 0 : -1;
    list.scrollTop = 0;
    draw();
    total();
  }

  function draw() {
    const space = at("space");
    space.style.height = `${shown.length * ROW}px`;
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - SPARE);
    const last = Math.min(shown.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + SPARE);
    const rows = [];
    for (let place = first; place < last; place += 1) rows.push(row(shown[place], place));
    space.replaceChildren(...rows);
    if (active >= first && active < last) list.setAttribute("aria-activedescendant", `mcp-op-${active}`);
    else list.removeAttribute("aria-activedescendant");
    at("shown").textContent = `${number(shown.length)} of ${number(operations.length)} operations`;
    detail();
  }

  function row(each, place) {
    const made = document.createElement("div");
    made.id = `mcp-op-${place}`;
    made.className = place === active ? "mcp-op-row mcp-op-active" : "mcp-op-row";
    made.style.top = `${place * ROW}px`;
    made.dataset.key = each.key;
    made.setAttribute("role", "option");
    made.setAttribute("aria-selected", String(selected.has(each.key)));
    made.setAttribute("aria-setsize", String(shown.length));
    made.setAttribute("aria-posinset", String(place + 1));
    if (!isUsable(each)) made.setAttribute("aria-disabled", "true");
    made.append(
      cell("mcp-op-mark", ""),
      cell("mcp-op-method", each.method),
      cell("mcp-op-path", each.path),
      cell("mcp-op-summary", summary(each)),
      cell("mcp-op-size", size(each)),
    );
    made.title = each.title;
    return made;
  }

  function cell(name, text) {
    const made = document.createElement("span");
    made.className = name;
    made.textContent = text;
    return made;
  }

  // Content types other than JSON are named, because models fill in JSON best.
  function summary(each) {
    const type = /[/+]json\b/.test(each.body) ? "" : each.body;
    return [each.deprecated ? "deprecated" : "", type, each.summary || each.id].filter(Boolean).join(" · ");
  }

  function size(each) {
    if (each.refused) return "cannot be imported";
    if (each.state) return each.state;
    const mark = each.notes.length ? " ⚠" : "";
    return `${number(each.tokens)} tokens${mark}`;
  }

  function detail() {
    const each = shown[active];
    at("detail").hidden = !each;
    if (!each) return;
    at("key").textContent = each.title;
    const facts = [each.id, ...each.tags, each.body, each.deprecated ? "deprecated" : "", ...each.security];
    at("facts").textContent = facts.filter(Boolean).join(" · ");
    at("summary").textContent = each.summary;
    const name = field("name");
    name.value = names.get(each.key) ?? each.name;
    name.disabled = !isUsable(each);
    const body = field("body");
    at("body").hidden = each.bodies.length < 2;
    body.replaceChildren(...each.bodies.map(([type, text]) => new Option(text, type)));
    body.value = types.get(each.key) ?? each.body;
    body.disabled = !isUsable(each);
    const notes = each.refused ? [each.refused] : each.notes;
    at("notes").replaceChildren(
      ...notes.map((note) => {
        const made = document.createElement("li");
        made.textContent = note;
        return made;
      }),
    );
  }

  function total() {
    const chosen = [...selected].map((key) => byKey.get(key)).filter((each) => each && isUsable(each));
    const tokens = chosen.reduce((sum, each) => sum + each.tokens, 0);
    at("total").textContent = `${number(chosen.length)} selected, about ${number(tokens)} tokens in the tool list`;
    const many = chosen.length >= limits.few || tokens >= limits.many_tokens;
    at("many").hidden = !many;
    at("many").textContent = many
      ? `Models make more mistakes with many tools. Up to ${limits.few} tools and ${number(limits.many_tokens)} tokens work well.`
      : "";
    const save = at("save");
    if (save) {
      save.disabled = !chosen.length;
      save.textContent = chosen.length === 1 ? "Save 1 draft" : `Save${chosen.length ? ` ${number(chosen.length)}` : ""} drafts`;
    }
    const picked = Object.fromEntries(chosen.map((each) => [each.key, names.get(each.key) ?? ""]));
    at("selection").value = JSON.stringify(picked);
    at("all").textContent = `Select all shown (${number(shown.filter(isUsable).length)})`;
  }

  function toggle(each) {
    if (!each || !isUsable(each)) return;
    if (selected.has(each.key)) selected.delete(each.key);
    else selected.add(each.key);
    draw();
    total();
  }

  function move(place) {
    if (!shown.length) return;
    active = Math.max(0, Math.min(shown.length - 1, place));
    const top = active * ROW;
    if (top < list.scrollTop) list.scrollTop = top;
    else if (top + ROW > list.scrollTop + list.clientHeight) list.scrollTop = top + ROW - list.clientHeight;
    draw();
  }

  function selectAll() {
    for (const each of shown) if (isUsable(each)) selected.add(each.key);
    draw();
    total();
  }

  function plainHttp() {
    const radio = page.querySelector("input[name=server]:checked");
    const picked = radio?.value ?? "";
    const own = at("own");
    const url = picked === "own" ? own.value : picked;
    // The scheme may be a variable of the server.
    const variables = [...page.querySelectorAll(`[name^="variable:${radio?.dataset.server}:"]`)];
    const isPlain = url.toLowerCase().startsWith("http:") || variables.some((each) => each.value === "http");
    at("http").hidden = !isPlain;
  }

  function listen() {
    const step = () => Math.max(1, Math.floor(list.clientHeight / ROW) - 1);
    const keys = {
      ArrowDown: () => move(active + 1),
      ArrowUp: () => move(active - 1),
      PageDown: () => move(active + step()),
      PageUp: () => move(active - step()),
      Home: () => move(0),
      End: () => move(shown.length - 1),
      " ": () => toggle(shown[active]),
      Enter: () => toggle(shown[active]),
    };
    list.addEventListener("keydown", (event) => {
      const isAll = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "a";
      if (!isAll && (event.ctrlKey || event.metaKey || event.altKey)) return;
      const act = isAll ? selectAll : keys[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    });
    list.addEventListener("scroll", () => requestAnimationFrame(draw), { passive: true });
    list.addEventListener("click", (event) => {
      const place = shown.findIndex((each) => each.key === event.target.closest("[data-key]")?.dataset.key);
      if (place < 0) return;
      active = place;
      if (isUsable(shown[place])) toggle(shown[place]);
      else draw();
    });
    field("search").addEventListener("keydown", (event) => {
      if (event.key !== "ArrowDown" && event.key !== "Enter") return;
      event.preventDefault();
      list.focus();
    });
    field("search").addEventListener("input", filter);
    for (const name of ["method", "tag", "state"]) field(name).addEventListener("change", filter);
    field("name").addEventListener("input", (event) => {
      names.set(shown[active].key, event.target.value);
      total();
    });
    field("body").addEventListener("change", (event) => {
      types.set(shown[active].key, event.target.value);
      at("types").value = JSON.stringify(Object.fromEntries(types));
    });
    at("all").addEventListener("click", selectAll);
    at("none").addEventListener("click", () => {
      selected.clear();
      draw();
      total();
    });
    if (at("own")) {
      for (const each of page.querySelectorAll("input[name=server], [data-op-own], [name^='variable:']")) {
        each.addEventListener("input", plainHttp);
      }
      at("own").addEventListener("input", () => {
        page.querySelector("input[name=server][value=own]").checked = true;
        plainHttp();
      });
      plainHttp();
    }
  }

  if (list) listen();
  load();
}

// The script is in the head of the page.
if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", openOperations);
else openOperations();

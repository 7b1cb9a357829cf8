// Puts the JSON editor above each text area marked with data-json-editor; the text area stays the field that is sent.
// A module of its own instead of an inline script, so that a page may forbid inline scripts.

function isDark() {
  const root = document.documentElement;
  const theme = root.dataset.theme;
  if (root.classList.contains("dark") || theme === "dark") return true;
  return theme === "auto" && window.matchMedia("(prefers-color-scheme: dark)").matches;
}

// The editor hands on what is typed up to 300 ms later. A form that is sent sooner waits for it, or the last edit is lost.
const SETTLES_AFTER = 400;
let lastTouched = -Infinity;

function watch(holder) {
  for (const kind of ["keydown", "input", "paste", "cut", "drop", "click"]) {
    holder.addEventListener(kind, () => { lastTouched = performance.now(); }, true);
  }
}

document.addEventListener("submit", (event) => {
  const wait = lastTouched + SETTLES_AFTER - performance.now();
  if (wait <= 0) return;
  event.preventDefault();
  window.setTimeout(() => { lastTouched = -Infinity; event.target.requestSubmit(event.submitter); }, wait);
}, true);

async function mount(textarea) {
  const { JSONEditor } = await import(textarea.dataset.jsonEditor);
  const hadFocus = document.activeElement === textarea;
  const holder = document.createElement("div");
  holder.className = "mcp-json-editor";
  textarea.before(holder);
  textarea.hidden = true;
  watch(holder);
  const paint = () => holder.classList.toggle("jse-theme-dark", isDark());
  paint();
  new MutationObserver(paint).observe(document.documentElement, { attributes: true, attributeFilter: ["class", "data-theme"] });
  const editor = new JSONEditor({
    target: holder,
    props: {
      mode: "text",
      content: { text: textarea.value },
      mainMenuBar: true,
      navigationBar: false,
      statusBar: true,
      askToFormat: false,
      indentation: 2,
      onChange: (content) => {
        textarea.value = content.text !== undefined ? content.text : JSON.stringify(content.json, null, 2);
        textarea.dispatchEvent(new Event("input", { bubbles: true }));
      },
    },
  });
  // What a script has written is read by a new editor: the old one has its place in a text that is gone.
  textarea.addEventListener("written", () => { editor.destroy(); holder.remove(); start(textarea); }, { once: true });
  name(holder, textarea);
  // Tab goes on to the next field, as from any other: the editor would keep it for itself (WCAG 2.1.2).
  holder.addEventListener("keydown", (event) => { if (event.key === "Tab") event.stopPropagation(); }, true);
  if (hadFocus) holder.querySelector(".cm-content")?.focus();
}

// What types and scrolls in the editor has the name of the field, and can be reached by key.
function name(holder, textarea) {
  const label = document.querySelector(`label[for="${textarea.id}"]`)?.textContent.replace(/[\s:*]+$/, "").trim() ?? "JSON";
  const say = () => {
    for (const typed of holder.querySelectorAll("[role=textbox]")) typed.setAttribute("aria-label", label);
    for (const box of holder.querySelectorAll(".cm-scroller, .jse-contents")) box.tabIndex = 0;
    // Its icons have a role that what else they have contradicts.
    for (const icon of holder.querySelectorAll("svg[role=presentation]")) {
      icon.removeAttribute("role");
      icon.setAttribute("aria-hidden", "true");
    }
  };
  say();
  new MutationObserver(say).observe(holder, { childList: true, subtree: true });
}

function start(textarea) {
  mount(textarea).catch((error) => {
    textarea.hidden = false;
    console.error("The JSON editor could not be started; the plain field works.", error);
  });
}

// It is ten times the rest of the page: it comes when its field comes into sight, and until then the field does.
const coming = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    coming.unobserve(target);
    start(target);
  }
});
for (const textarea of document.querySelectorAll("textarea[data-json-editor]")) coming.observe(textarea);

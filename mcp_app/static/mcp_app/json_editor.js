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
  const holder = document.createElement("div");
  holder.className = "mcp-json-editor";
  textarea.before(holder);
  textarea.hidden = true;
  watch(holder);
  const paint = () => holder.classList.toggle("jse-theme-dark", isDark());
  paint();
  new MutationObserver(paint).observe(document.documentElement, { attributes: true, attributeFilter: ["class", "data-theme"] });
  new JSONEditor({
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
}

for (const textarea of document.querySelectorAll("textarea[data-json-editor]")) {
  mount(textarea).catch((error) => {
    textarea.hidden = false;
    console.error("The JSON editor could not be started; the plain field works.", error);
  });
}

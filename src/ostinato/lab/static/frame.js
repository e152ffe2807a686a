// The frame around the pages: menu, language, theme, state in the address, questions to the server, saving.

import { tell } from "./charts.js";
import { el, rich } from "./dom.js";

const read = (id) => JSON.parse(document.getElementById(id)?.textContent ?? "null");
const about = read("about");
const saved = read("saved"); // in a saved file: {at: address, answers: {url: {kind, body}}}
const THEMES = ["auto", "light", "dark"];
const GLOBAL = ["lang", "theme"];

let texts = {};
let settings = { lang: null, theme: "auto" };
let lab = null; // the page that is shown
let shelf = null; // the runs there were when last looked

/** The address after # as a page and its parameters. */
function parse(hash) {
  const [name, query = ""] = hash.replace(/^#/, "").split("?");
  return { name, parameters: new URLSearchParams(query) };
}

/** Put a value read from the address into the type of the default; one that does not fit is left out. */
function typed(text, preset) {
  if (typeof preset === "number") return text !== "" && Number.isFinite(Number(text)) ? Number(text) : preset;
  if (typeof preset === "boolean") return text === "1";
  return Array.isArray(preset) ? text.split("|").filter(Boolean) : text;
}

const plain = (value) => (Array.isArray(value) ? value.join("|") : value === true ? "1" : value === false ? "0"
  : String(value));

/** What a page is given: its texts, its state, and ways to ask the server. */
class Lab {
  constructor(name, module, parameters, root) {
    this.name = name;
    this.root = root;
    this.defaults = module.defaults ?? {};
    this.state = { ...this.defaults };
    for (const [key, preset] of Object.entries(this.defaults))
      if (parameters.has(key)) this.state[key] = typed(parameters.get(key), preset);
    this.controls = [];
    this.answers = {};
    this.closing = new AbortController();
    this.update = () => {};
  }

  /** The text under a key of this page or of the common ones, {name} filled in; lists are returned as they are. */
  t(key, values = {}) {
    const text = texts[this.name]?.[key] ?? texts.common[key];
    if (text === undefined) throw new Error(`no text ${this.name}.${key}`);
    return typeof text === "string" ? text.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole) : text;
  }

  /** Whether there is a text under a key. */
  has(key) {
    return (texts[this.name]?.[key] ?? texts.common[key]) !== undefined;
  }

  /** Whether this is a saved file, which has no server. */
  get saved() {
    return saved !== null;
  }

  get lang() {
    return settings.lang;
  }

  /** Change the state: controls, address and drawing follow. @param {Object<string, any>} changes */
  set(changes, { push = false } = {}) {
    Object.assign(this.state, changes);
    for (const sync of this.controls) sync();
    this.redraw();
    clearTimeout(this.writing);
    if (push) history.pushState(null, "", this.address());
    else this.writing = setTimeout(() => this.open && history.replaceState(null, "", this.address()), 150);
  }

  /** Draw again at the next frame. */
  redraw() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.open && this.update());
  }

  get open() {
    return !this.closing.signal.aborted;
  }

  /** The address that restores what is shown. */
  address() {
    const parameters = new URLSearchParams();
    for (const [key, value] of Object.entries(this.state))
      if (plain(value) !== plain(this.defaults[key])) parameters.set(key, plain(value));
    for (const key of GLOBAL) if (settings[key] && settings[key] !== "auto") parameters.set(key, settings[key]);
    return `#${this.name}?${parameters}`;
  }

  /** The JSON at an address of this page, `answer("matrix", {size: 8})`. Throws an Error that says what is wrong. */
  async answer(what, parameters = {}) {
    return JSON.parse(new TextDecoder().decode(await this.fetch(what, parameters)));
  }

  /** Arrays at an address of this page: {about, arrays: {name: {data, shape}}}. */
  async arrays(what, parameters = {}) {
    const buffer = await this.fetch(what, parameters);
    const size = Number(new DataView(buffer).getBigUint64(0, true));
    const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, size)));
    const kinds = { F32: Float32Array, F64: Float64Array, I32: Int32Array, U8: Uint8Array };
    const found = {};
    for (const [name, { dtype, shape, data_offsets: [begin, end] = [] }] of Object.entries(header)) {
      if (name === "__metadata__") continue;
      const part = buffer.slice(8 + size + begin, 8 + size + end); // a copy begins where its type may
      found[name] = { data: new kinds[dtype](part), shape };
    }
    return { about: JSON.parse(header.__metadata__?.about ?? "{}"), arrays: found };
  }

  /** The runs that are open, [{name, path}]. */
  async runs() {
    return (await this.answer("/api/shelf")).runs;
  }

  /** The bytes of an answer; they are kept, so that a saved file has what is on the screen. */
  async fetch(what, parameters) {
    const query = new URLSearchParams();
    for (const [key, value] of Object.entries(parameters)) for (const one of [value].flat()) query.append(key, one);
    const url = what.startsWith("/") ? what : `/api/${this.name}/${what}`;
    const whole = [...query].length ? `${url}?${query}` : url;
    if (saved) {
      if (!(whole in saved.answers)) throw new Error(this.t("not_saved"));
      return Uint8Array.from(atob(saved.answers[whole]), (letter) => letter.charCodeAt(0)).buffer;
    }
    const reply = await fetch(whole, { signal: this.closing.signal }).catch((fault) => {
      throw fault.name === "AbortError" ? fault : new Error(this.t("no_server"));
    });
    const buffer = await reply.arrayBuffer();
    if (!reply.ok) throw new Error(JSON.parse(new TextDecoder().decode(buffer)).error ?? reply.statusText);
    delete this.answers[what];
    this.answers[what] = { url: whole, body: buffer }; // the newest of each kind
    return buffer;
  }

  /** Run what may fail and say so on the page. A newer call under the same name makes an older one void. */
  async attempt(name, work) {
    const turn = ((this.turns ??= {})[name] = (this.turns[name] ?? 0) + 1);
    const current = () => this.open && this.turns[name] === turn;
    try {
      await work(current);
      if (current()) this.note.hidden = true;
    } catch (fault) {
      if (fault.name === "AbortError" || !current()) return;
      this.note.hidden = false;
      this.note.replaceChildren(fault.message);
    }
  }

  /**
   * The usual page: title, what to try (with buttons that set the state), controls beside figures, what it shows.
   * @param {{presets?: Object[], controls?: Node[], figures: Node[]}} parts
   */
  layout({ presets = [], controls = [], figures }) {
    this.note = el("p", { class: "note", role: "alert", hidden: true });
    const tries = this.t("try").map((text, place) => el("li", {},
      el("span", {}, rich(text)),
      presets[place] && el("button", { type: "button", onclick: () =>
        this.set({ ...this.defaults, ...presets[place] }, { push: true }) },
        this.t("set"), el("span", { class: "hidden" }, ` ${place + 1}`))));
    this.root.replaceChildren(
      el("h1", {}, this.t("title")),
      el("p", { class: "lede" }, rich(this.t("lede"))),
      el("section", { class: "try", "aria-labelledby": "try" }, el("h2", { id: "try" }, this.t("to_try")), el("ol", {}, tries)),
      el("div", { class: controls.length ? "bench" : "bench wide" },
        controls.length ? el("section", { class: "controls", "aria-label": this.t("controls") }, controls) : null,
        el("div", { class: "figures" }, this.note, figures)),
      el("section", { class: "shows", "aria-labelledby": "shows" }, el("h2", { id: "shows" }, this.t("it_shows")),
        this.t("shows").map((text) => el("p", {}, rich(text)))));
  }

  /** The page where there is nothing to show: the text under `key` says what to do. */
  nothing(key, ...figures) {
    this.layout({ figures });
    this.note.hidden = false;
    this.note.replaceChildren(...rich(this.t(key)));
    return null;
  }

  /** A line that names what is not offered, null if all is. @param {{name: string, kind: string}[]} others */
  leftOut(others) {
    const runs = others.map(({ name, kind }) => this.t("of_kind", { name, kind: this.t(`kind_${kind}`) })).join(this.t("and"));
    return runs ? el("p", { class: "small" }, this.t("others", { runs })) : null;
  }
}

async function load_texts(lang) {
  const all = read("texts");
  return all ? all[lang] : (await fetch(`/i18n/${lang}.json`)).json();
}

/** Show the page that the address names. */
async function open(hash) {
  const { name: asked, parameters } = parse(hash);
  const name = about.pages.some((page) => page.name === asked) ? asked : about.pages[0].name;
  const lang = parameters.get("lang") ?? settings.lang ?? (navigator.language.startsWith("zh") ? "zh" : "en");
  const theme = THEMES.includes(parameters.get("theme")) ? parameters.get("theme") : settings.theme;
  const known = lang === "zh" ? "zh" : "en";
  if (settings.lang !== known) texts = await load_texts(known);
  settings = { lang: known, theme };
  document.documentElement.lang = known === "zh" ? "zh-Hans" : "en";
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  lab?.closing.abort();
  const module = await import(saved ? `pages/${name}.js` : `./pages/${name}.js`);
  const root = document.getElementById("main");
  lab = new Lab(name, module, parameters, root);
  tell.t = (key, values) => lab.t(key, values);
  frame();
  document.title = `${lab.t("title")} · Ostinato lab`;
  const here = lab;
  try {
    here.update = (await module.draw(here)) ?? here.update;
    if (here.open) here.update();
  } catch (fault) {
    if (!here.open) return;
    root.replaceChildren(el("h1", {}, here.t("title")), el("p", { class: "note", role: "alert" }, fault.message));
    if (!saved) throw fault;
  }
  if (!here.open) return;
  document.body.dataset.ready = name;
}

/** The menu and the tools, in the language of the page. */
function frame() {
  const globals = () => new URLSearchParams(Object.entries(settings).filter(([, value]) => value && value !== "auto"));
  document.getElementById("skip").textContent = lab.t("skip");
  document.getElementById("menu").setAttribute("aria-label", lab.t("pages"));
  document.getElementById("menu").replaceChildren(el("ul", {}, about.pages.map(({ name }) => el("li", {},
    el("a", { href: `#${name}?${globals()}`, "aria-current": name === lab.name ? "page" : null }, texts[name].menu)))));
  const change = (changes) => {
    Object.assign(settings, changes);
    const address = lab.address();
    if (settings.theme === "auto") delete document.documentElement.dataset.theme;
    history.replaceState(null, "", address);
    open(address);
  };
  const other = settings.lang === "zh" ? "en" : "zh";
  document.getElementById("tools").replaceChildren(
    el("button", { type: "button", lang: other === "zh" ? "zh-Hans" : "en", onclick: async () => {
      settings.lang = other;
      texts = await load_texts(other);
      change({});
    } }, other === "zh" ? "中文" : "English"),
    el("label", {}, el("span", { class: "hidden" }, lab.t("theme")),
      el("select", { onchange: (event) => change({ theme: event.target.value }) },
      THEMES.map((theme) => el("option", { value: theme, selected: theme === settings.theme }, lab.t(`theme_${theme}`))))),
    saved ? null : el("button", { type: "button", onclick: copy }, lab.t("copy_link")),
    saved ? el("span", { class: "saved" }, lab.t("saved_file"))
      : el("button", { type: "button", onclick: save }, lab.t("save")));
  document.getElementById("footer").replaceChildren(`Ostinato ${about.version} · ${lab.t("local_only")}`);
}

async function copy(event) {
  const button = event.currentTarget;
  history.replaceState(null, "", lab.address());
  const done = await navigator.clipboard.writeText(location.href).then(() => true, () => false);
  button.textContent = lab.t(done ? "copied" : "copy_by_hand");
  setTimeout(() => (button.textContent = lab.t("copy_link")), 1500);
}

/** Save the page with what it was answered as one HTML file. */
async function save() {
  const answers = {};
  for (const { url, body } of Object.values(lab.answers)) answers[url] = await base64(body);
  const content = JSON.stringify({ at: lab.address(), answers }).replaceAll("<", "\\u003c");
  const empty = '<script type="application/json" id="saved">null</script>';
  const page = await (await fetch("/bundle.html")).text();
  const whole = page.replace(empty, () => empty.replace("null", () => content));
  const link = el("a", { href: URL.createObjectURL(new Blob([whole], { type: "text/html" })),
    download: `ostinato-${lab.name}.html` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function base64(buffer) {
  const reader = new FileReader();
  return new Promise((done) => {
    reader.onload = () => done(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.readAsDataURL(new Blob([buffer]));
  });
}

document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("main").focus();
});
/** Open a page of runs again when some have come or gone, unless somebody is typing. */
const look = async () => {
  if (document.hidden || !about.pages.find(({ name }) => name === lab?.name)?.needs_runs) return;
  const now = await fetch("/api/shelf").then((reply) => reply.text()).catch(() => shelf);
  if (document.activeElement?.matches("input, textarea")) return;
  if (shelf !== null && now !== shelf) open(lab.address());
  shelf = now;
};
if (!saved) setInterval(look, 3000);
addEventListener("popstate", () => open(location.hash));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => lab?.redraw());
open(location.hash || saved?.at || "");

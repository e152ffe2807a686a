// A trained model, typed into: the surprise of each token in several runs, what comes next, units at a token.

import { dots, heatMap, plot, tokenStrip } from "../charts.js";
import { choice, several, text } from "../controls.js";
import { el, show } from "../dom.js";
import { begin, MOST_TEXT, pausing, readable, visible } from "../reading.js";

export const defaults = { runs: [], text: "", unit: "bits", one: "", at: -1 };
const MOST = 4; // runs that read if none is chosen
const TOP = 8; // tokens that may come next
const UNITS = { bits: 1 / Math.LN2, nats: 1 };

export async function draw(lab) {
  const { state } = lab;
  const t = lab.t.bind(lab);
  const { names, others } = await readable(lab);
  if (!names.length) return null;
  const chosen = () => {
    const known = state.runs.filter((name) => names.includes(name));
    return known.length ? known : names.slice(0, MOST);
  };
  const sample = await begin(lab, chosen()[0], 120);
  const first = sample.split("\n")[0];
  const words = first.includes(" ") ? first.split(" ") : [...first];
  const kept = (more) => ({ get runs() { return state.runs; }, ...more });
  const cut = el("p", { class: "small", role: "status" });
  const said = el("p", { class: "said", role: "status" });
  const strips = el("div", {});
  const nexts = el("div", { class: "pair" });
  const course = plot({ title: t("course_title"), height: 220 });
  const expected = dots({ title: t("expected_title") });
  const units = heatMap({ title: t("units_title"), cell: 22 });
  const where = el("p", {});
  const detail = el("section", { "aria-labelledby": "there" }, el("h2", { id: "there" }, t("there")), where,
    expected.node, units.node);
  lab.layout({
    presets: [kept({ text: first }), kept({ text: `${first}\n${[...words].reverse().join(first.includes(" ") ? " " : "")}` }),
      kept({ text: `${first}\n${first}` }), { get runs() { return [chosen()[0]]; }, text: first,
        get one() { return chosen()[0]; }, at: Math.min(3, words.length - 1) }],
    controls: [choice(lab, "unit", Object.keys(UNITS)), several(lab, "runs", names, (name) => name, chosen)],
    figures: [text(lab, "text", { rows: 4 }), cut, others, said, strips, el("h2", {}, t("next")), nexts, course.node, detail],
  });
  const views = new Map();
  let found = []; // what each run makes of the text
  let [asked, placed] = ["", ""];
  let there = null; // the token that is looked at

  /** The strip, the total and the next tokens of a run, made once. */
  function view(name) {
    if (!views.has(name)) {
      const strip = tokenStrip({ title: name, onpick: (place) => lab.set({ one: name, at: place }) });
      const total = el("p", { class: "small" });
      const fault = el("p", { class: "note", lang: "en" });
      strip.node.append(total);
      views.set(name, { strip, total, fault, next: dots({ title: name }), node: el("div", {}, strip.node, fault) });
    }
    return views.get(name);
  }

  /** The numbers of a score as a line, the signature below. */
  function line({ perplexity, bits, bits_per_char: characters, nats, count, unknown, per, signature }) {
    const values = { per: t(`per_${per}`), bits: show(bits, 4), nats: show(nats / count, 4), count: show(count),
      unknown: show(unknown), characters: `${unknown ? "≥ " : ""}${show(characters, 4)}` };
    return [el("strong", {}, el("output", { "data-value": perplexity, "aria-label": t("perplexity") }, show(perplexity, 4))), " ",
      t("total", values), el("br"), el("code", { class: "signature" }, signature)];
  }

  function runs() {
    const read = found.filter(({ error }) => !error);
    const top = Math.ceil(Math.log2(Math.max(2, ...read.map(({ outputs }) => outputs)))) * (UNITS[state.unit] / UNITS.bits);
    const surprise = ({ nats }) => nats.map((value) => (value === null ? null : value * UNITS[state.unit]));
    for (const run of found) {
      const { strip, total, fault, next } = view(run.name);
      fault.hidden = !run.error;
      strip.node.hidden = next.node.hidden = Boolean(run.error);
      fault.textContent = run.error ? `${run.name}: ${run.error}` : "";
      if (run.error) continue;
      const unknown = new Set(run.unknown);
      const values = surprise(run);
      strip.draw({ tokens: run.pieces.map((piece, place) => ({ text: piece, value: values[place],
        title: unknown.has(place) ? t("unknown") : "" })), domain: [0, top], label: t(`unit_${state.unit}`),
        selected: run.name === state.one && state.at >= 0 ? state.at : null });
      total.replaceChildren(...(run.score ? line(run.score) : []));
      next.draw({ linear: true, unit: t("probability"), rows: run.next.map(([piece, value]) => ({ name: visible(piece), value })) });
    }
    const order = JSON.stringify(found.map(({ name }) => name));
    if (order !== placed) { // what stays in its place keeps the focus
      placed = order;
      strips.replaceChildren(...found.map(({ name }) => view(name).node));
      nexts.replaceChildren(...found.map(({ name }) => view(name).next.node));
    }
    const alike = read.filter(({ pieces }) => pieces.join("\0") === read[0].pieces.join("\0"));
    course.node.hidden = alike.length < 2;
    course.draw({ xLabel: t("place"), yLabel: t(`unit_${state.unit}`), yDomain: [0, null],
      series: alike.map((run, slot) => ({ name: run.name, slot, marks: true, x: run.pieces.map((_, place) => place + 1),
        y: surprise(run), labels: slot ? null : run.pieces.map(visible) })).map((one) => (one.x.length > innerWidth / 40
        ? { ...one, labels: null, marks: false } : one)) });
    const signatures = new Set(read.filter(({ score }) => score).map(({ score }) => score.signature));
    said.textContent = signatures.size > 1 ? t("apart") : "";
    cut.textContent = state.text.length > MOST_TEXT ? t("cut", { shown: show(MOST_TEXT), total: show(state.text.length) }) : "";
  }

  /** What was expected at the token that was picked, and the units as it was read. */
  function token() {
    const run = found.find(({ name, error }) => name === state.one && !error);
    const open = Boolean(run && there && state.at >= 0);
    detail.hidden = !open;
    if (!open) return;
    const { about, arrays } = there;
    const values = { token: visible(about.token), run: run.name, rank: show(about.rank), probability: show(about.probability) };
    const address = new URLSearchParams({ run: run.name, text: state.text, at: state.at, lang: lab.lang });
    const { parts } = about;
    where.replaceChildren(t("there_is", values), " ", parts.length ? el("a", { href: `#state?${address}` }, t("to_state"))
      : t("no_units", { kind: about.kind }));
    const listed = about.expected.some(([piece]) => piece === about.token) ? about.expected
      : [...about.expected, [about.token, about.probability]];
    expected.draw({ linear: true, unit: t("probability"),
      rows: listed.map(([piece, value]) => ({ name: visible(piece), value, slot: piece === about.token ? 1 : 0 })) });
    units.node.hidden = !parts.length;
    if (!parts.length) return;
    const [layers, columns] = arrays[parts[0]].shape;
    const rows = parts.flatMap((part) => Array.from({ length: layers }, (_, layer) => ({ part, layer })));
    const data = new Float32Array(rows.length * columns);
    rows.forEach(({ part, layer }, row) =>
      data.set(arrays[part].data.subarray(layer * columns, (layer + 1) * columns), row * columns));
    units.draw({ rows: rows.length, columns, data, scale: "diverging", domain: [-1, 1],
      rowLabel: (row) => `${t(`part_${rows[row].part}`)}${layers > 1 ? ` ${rows[row].layer + 1}` : ""}`,
      columnLabel: (unit) => t("unit_is", { unit }) });
  }

  const typed = () => state.text.slice(0, MOST_TEXT);
  const read = pausing(lab, () => lab.attempt("read", async (current) => {
    const question = { run: chosen(), text: typed(), top: TOP };
    if (!found.length) cut.textContent = t("reading"); // the first time models are opened
    const answer = await lab.answer("read", question).finally(() => (cut.textContent = ""));
    if (!current()) return;
    [found, asked] = [answer.runs, JSON.stringify(question)];
    runs();
    look();
  }));

  function look() {
    const run = found.find(({ name, error }) => name === state.one && !error);
    const question = { run: state.one, text: typed(), place: state.at, top: TOP };
    if (!run || state.at < 0 || state.at >= run.pieces.length) there = null;
    else if (JSON.stringify(question) !== there?.asked) {
      lab.attempt("at", async (current) => {
        const answer = await lab.arrays("at", question);
        if (!current()) return;
        there = { ...answer, asked: JSON.stringify(question) };
        token();
      });
      return;
    }
    token();
  }

  return () => {
    if (JSON.stringify({ run: chosen(), text: typed(), top: TOP }) !== asked) return read();
    runs();
    look();
  };
}

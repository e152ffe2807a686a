// Word vectors: neighbours, analogies, similarities and a map of words, of input beside output vectors.

import { beside, dots, plot, wordMatrix } from "../charts.js";
import { choice, number, several, slider, text } from "../controls.js";
import { el, scroll, show, table } from "../dom.js";

export const defaults = { of: "", which: ["input", "output"], word: "", number: 10, restrict: 0, a: "", b: "", c: "",
  method: "3cosadd", pairs: "", words: "" };
const PRESETS = [{ word: "war" }, { a: "mexico", b: "mexican", c: "spain" },
  { words: "january march july november war peace army navy freedom liberty justice taxes debt money dollars" },
  { pairs: "war peace\nwar wars\nfreedom liberty\ndollars freedom" }, { word: "liberti" }];
const MATRICES = ["input", "output", "mean"];
const TYPING = 300; // milliseconds without a key before something is asked
const SEPARATOR = /[\s,，、]+/;

export async function draw(lab) {
  const { state } = lab;
  const t = lab.t.bind(lab);
  const { sets, others } = await lab.answer("sets");
  const left = lab.leftOut(others);
  if (!sets.length) return lab.nothing("none", left);
  const names = sets.map(({ name }) => name);
  const status = el("p", { class: "small", role: "status" });
  const notes = Object.fromEntries(["near", "solved", "alike", "mapped"].map((key) =>
    [key, el("p", { class: "note", role: "alert", hidden: true })]));
  const one = (key, chart, kinds = MATRICES) => Object.fromEntries(kinds.map((kind) =>
    [kind, chart({ title: t(`${key}_title`, { which: t(`which_${kind}`) }), height: 380 })]));
  const near = one("near", dots, [...MATRICES, "beside"]);
  const solved = one("solved", dots);
  const maps = one("map", plot);
  const cosines = one("cosines", wordMatrix);
  const pair = (charts) => el("div", { class: "pair" }, Object.values(charts).map(({ node }) => el("div", {}, node)));
  const matrices = pair(cosines);
  const alike = scroll(t("alike_heading"));
  const solves = el("p", { class: "small" });
  const cut = el("p", { class: "small" });
  const heading = (key) => el("h2", { id: key }, t(`${key}_heading`));
  lab.layout({ presets: PRESETS,
    controls: [choice(lab, "of", names, Object.fromEntries(names.map((name) => [name, name]))),
      several(lab, "which", MATRICES), slider(lab, "number", { min: 1, max: 50 }), number(lab, "restrict", { min: 0 }),
      left],
    figures: [status, heading("near"), text(lab, "word", { rows: 1 }), notes.near, pair(near),
      heading("solved"), el("div", { class: "row" }, ["a", "b", "c"].map((key) => text(lab, key, { rows: 1 }))),
      choice(lab, "method", ["3cosadd", "3cosmul"]), solves, notes.solved, pair(solved),
      heading("map"), text(lab, "words", { rows: 3 }), notes.mapped, cut,
      Object.values(maps).map(({ node }) => el("div", { class: "across-scroll" }, node)), matrices,
      heading("alike"), text(lab, "pairs", { rows: 4 }), notes.alike, alike] });
  alike.hidden = true;
  let opened = null; // {name, words, dimensions, sample}
  const asked = {};

  const which = () => {
    const there = sets.find(({ name }) => name === state.of).matrices;
    const kept = state.which.filter((kind) => there.includes(kind));
    return kept.length ? kept : ["input"];
  };

  /** Say what is wrong in a part, each thing once; nothing hides it. */
  function tell(key, messages) {
    notes[key].hidden = !messages.length;
    notes[key].replaceChildren(...[...new Set(messages)].map((message) => el("div", {}, message)));
  }

  /** Draw the answers of one part in the charts that have one, hide the others. */
  function fill(key, charts, answers, unit) {
    tell(key, answers.filter(({ error }) => error).map(({ error }) => error));
    for (const [kind, chart] of Object.entries(charts)) {
      const found = answers.find((answer) => answer.which === kind)?.found;
      chart.node.parentNode.hidden = !found;
      if (found) chart.draw({ linear: true, unit, rows: found.map(([name, value]) =>
        ({ name, value, slot: Object.keys(charts).indexOf(kind) })) });
    }
  }

  /** Ask again if what it hangs on has changed, once typing has stopped. */
  function part(key, question, work) {
    const now = JSON.stringify(question);
    if (asked[key] === now) return;
    clearTimeout(asked[`${key} waits`]);
    asked[`${key} waits`] = setTimeout(async () => {
      if (!lab.open) return;
      await lab.attempt(key, async (current) => {
        try {
          await work(question, current);
        } catch (fault) {
          if (fault.name === "AbortError") throw fault;
          if (current()) tell(key, [fault.message]);
        }
      });
    }, asked[key] && !lab.saved ? TYPING : 0);
    asked[key] = now;
  }

  async function neighbours(question, current) {
    const { answers } = await lab.answer("neighbors", question);
    if (current()) fill("near", near, answers, t("cosine"));
  }

  async function analogy(question, current) {
    const whole = question.a && question.b && question.c;
    const { answers } = whole ? await lab.answer("analogy", question) : { answers: [] };
    if (!current()) return;
    solves.textContent = whole ? t("asks", question) : t("three");
    fill("solved", solved, answers, t(`score_${question.method}`));
  }

  async function similarities({ pairs, ...question }, current) {
    const { pairs: found } = pairs.length ? await lab.answer("similarity",
      { ...question, left: pairs.map(([word]) => word), right: pairs.map(([, word]) => word) }) : { pairs: [] };
    if (!current()) return;
    tell("alike", found.flatMap(({ cosines: several_ }) => several_.map(({ error }) => error).filter(Boolean)));
    alike.hidden = !found.length;
    alike.replaceChildren(table([t("pair"), ...question.which.map((kind) => t(`which_${kind}`))],
      found.map(({ words, cosines: several_ }) => el("tr", {}, el("th", { scope: "row" }, words.join(" · ")),
        several_.map(({ cosine = null }) => el("td", { "data-value": cosine }, show(cosine, 4)))))));
  }

  async function map(question, current) {
    const { about, arrays } = await lab.arrays("map", question).catch((fault) => {
      for (const { node } of [...Object.values(maps), ...Object.values(cosines)]) node.parentNode.hidden = true;
      throw fault;
    });
    if (!current()) return;
    tell("mapped", about.unknown);
    cut.textContent = [[about.words.length, about.total, "cut"], [about.compared, about.words.length, "compared"]]
      .filter(([shown, total]) => shown < total).map(([shown, total, key]) => t(key, { shown, total })).join(" ");
    beside(matrices, about.compared);
    for (const kind of MATRICES) {
      maps[kind].node.parentNode.hidden = cosines[kind].node.parentNode.hidden = !question.which.includes(kind);
      if (!question.which.includes(kind)) continue;
      const points = arrays[`points/${kind}`].data;
      const [x, y] = [0, 1].map((axis) => about.words.map((_, place) => points[place * 2 + axis]));
      const sides = about.words.map((_, place) => [...arrays[`sides/${kind}`].data.slice(place * 2, place * 2 + 2)]);
      const [across, up] = about.variance[kind].map((share, axis) => t("axis", { n: axis + 1, share: show(100 * share) }));
      maps[kind].draw({ xLabel: across, yLabel: up, xDomain: around(x, 0.15), yDomain: around(y, 0.08), series: [{
        name: "", line: false, x, y, labels: about.words, sides, slot: MATRICES.indexOf(kind) }] });
      const first = about.words.slice(0, about.compared);
      cosines[kind].draw({ down: first, across: first, data: arrays[`cosines/${kind}`].data, scale: "diverging",
        domain: [-1, 1], label: t("cosine") });
    }
  }

  /** The ends of an axis with room for words beside the points. */
  function around(values, share) {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    return [low - share * (high - low || 1), high + share * (high - low || 1)];
  }

  async function open(name) {
    status.textContent = t("opening", { name });
    await lab.attempt("open", async (current) => {
      const found = await lab.answer("open", { name }).finally(() => (status.textContent = ""));
      if (!current()) return;
      opened = { name, ...found };
      lab.redraw();
    });
  }

  return () => {
    if (asked.open !== state.of) {
      [asked.open, opened] = [state.of, null];
      open(state.of);
    }
    if (!opened) return;
    const among = Math.min(state.restrict || opened.words, opened.words);
    status.textContent = t("has", { words: show(opened.words), dimensions: opened.dimensions })
      + (among < opened.words ? ` ${t("among", { shown: show(among), total: show(opened.words) })}` : "");
    const set = { name: state.of, which: which() };
    const search = { number: state.number, restrict: state.restrict };
    part("near", { ...set, ...search, word: state.word.trim() || opened.sample[0] }, neighbours);
    part("solved", { ...set, ...search, method: state.method,
      ...Object.fromEntries(["a", "b", "c"].map((key) => [key, state[key].trim()])) }, analogy);
    const words = state.words.split(SEPARATOR).filter(Boolean);
    part("mapped", { ...set, word: words.length ? words : opened.sample }, map);
    part("alike", { ...set, pairs: state.pairs.split("\n").map((line) => line.split(SEPARATOR).filter(Boolean))
      .filter(({ length }) => length === 2) }, similarities);
  };
}

// Attention: what each word of a translation looked at, in several runs side by side, and the hypotheses of their beams.

import { beside, COLUMNS, wordMatrix } from "../charts.js";
import { several, slider, text } from "../controls.js";
import { el, scroll, show, table } from "../dom.js";

export const defaults = { runs: [], text: "", beam: 5, pick: 1 };
const PRESETS = [{}, { beam: 12, pick: 2 }, { beam: 1 }, null];
const MOST = 4; // runs shown if none is chosen
const TYPING = 300; // milliseconds without a key before a sentence is translated

export async function draw(lab) {
  const { state } = lab;
  const t = lab.t.bind(lab);
  const { runs, others } = await lab.answer("runs");
  const names = runs.map(({ name }) => name);
  const left = lab.leftOut(others);
  if (!names.length) return lab.nothing("none", left);
  const alike = runs.filter(({ data, error }) => !error && data === runs.find((run) => !run.error)?.data);
  const preset = (alike.length ? alike : runs).slice(0, MOST).map(({ name }) => name);
  const chosen = () => (state.runs.length ? state.runs : preset);
  const one = el("select", { id: "example", onchange: () => lab.set({ text: one.value }) });
  const offer = el("div", { class: "control" }, el("label", { for: "example" }, t("example")), one,
    el("small", { id: "offered" }));
  const status = el("p", { class: "small", role: "status" });
  const panels = el("div", { class: "pair" });
  lab.layout({ presets: PRESETS, figures: [status, panels],
    controls: [text(lab, "text", { rows: 3 }), offer, slider(lab, "beam", { min: 1, max: 20 }),
      slider(lab, "pick", { min: 1, max: 20 }), several(lab, "runs", names, (name) => name, chosen), left] });
  const made = new Map(); // run -> its panel
  let [found, weights, asked, exampled, examples, waiting] = [[], {}, "", null, [], null];

  /** A place for one run that stays while its content changes. */
  function panel(name) {
    if (!made.has(name)) {
      const chart = wordMatrix({ title: t("matrix_title", { name }) });
      const [facts, said, cut] = [el("p", { class: "small" }), el("p", {}), el("p", { class: "small" })];
      const beam = scroll(t("hypotheses", { name }), "tall");
      const node = el("section", { "aria-label": name }, el("h2", {}, name), facts, said, chart.node, cut,
        el("h3", {}, t("beam_title")), beam);
      made.set(name, { node, chart, facts, said, cut, beam });
    }
    return made.get(name);
  }

  /** What the words of an answer looked at, as a sentence. */
  const summary = ({ target, source }, { data }) => target.map((word, row) => {
    const line = data.slice(row * source.length, (row + 1) * source.length);
    const most = line.indexOf(Math.max(...line));
    return `${word}: ${source[most]} ${show(line[most], 2)}`;
  }).join("; ");

  function show_() {
    beside(panels, Math.max(0, ...found.flatMap(({ hypotheses }) => hypotheses.map(({ source = [] }) => source.length))));
    panels.replaceChildren(...found.map(({ name, error, attention, length_penalty: penalty, hypotheses }, place) => {
      const { node, chart, facts, said, cut, beam } = panel(name);
      const rank = Math.min(state.pick, hypotheses.length) - 1;
      const answer = hypotheses[rank];
      const matrix = weights[`${place}/${rank}`];
      facts.textContent = error ? "" : t("facts", { attention: t(`attention_${attention}`), beam: state.beam,
        penalty: show(penalty) });
      said.className = error ? "note" : "said";
      said.textContent = error ?? answer?.text ?? t("nothing");
      beam.hidden = beam.previousElementSibling.hidden = !hypotheses.length;
      beam.replaceChildren(table(["rank", "answer", "log_prob"].map((key) => t(key)),
        hypotheses.map(({ text: words, log_prob: nats }, row) =>
          el("tr", row === rank ? { class: "differs", "aria-current": "true" } : {}, el("th", { scope: "row" }, row + 1),
            el("td", { class: "text" }, words), el("td", { "data-value": nats }, show(nats, 4)))), "texts"));
      chart.node.hidden = !matrix?.data.length;
      cut.textContent = !error && attention === "none" ? t("fixed") : "";
      if (chart.node.hidden) return node;
      const { source, target } = answer;
      const strongest = target.map((_, row) => Math.max(...matrix.data.slice(row * source.length, (row + 1) * source.length)));
      cut.textContent = [t("sharp", { mean: show(strongest.reduce((sum, value) => sum + value, 0) / target.length) }),
        source.length > COLUMNS ? t("columns_cut", { shown: COLUMNS, total: source.length }) : ""].join(" ").trim();
      chart.draw({ down: target, across: source, data: matrix.data, domain: [0, 1], label: t("weight"),
        summary: summary(answer, matrix) });
      return node;
    }));
    const short = found.filter(({ hypotheses }) => hypotheses.length && hypotheses.length < state.pick);
    status.textContent = short.map(({ name, hypotheses }) => t("fewer", { name, shown: hypotheses.length })).join(" ");
  }

  /** The sentence: what was typed, or the first example of the first translator. */
  async function sentence() {
    const run = chosen().find((name) => names.includes(name)) ?? names[0];
    if (run !== exampled) {
      const { sources, total } = await lab.answer("examples", { run });
      [exampled, examples] = [run, sources];
      one.replaceChildren(...sources.map((source) => el("option", { value: source }, source)));
      offer.hidden = !sources.length;
      offer.lastChild.textContent = t("cut", { shown: show(sources.length), total: show(total) });
    }
    one.value = state.text.trim() ? state.text : examples[0] ?? ""; // none is chosen if another sentence was typed
    return state.text.trim() ? state.text : examples[0] ?? "";
  }

  function ask() {
    return lab.attempt("translate", async (current) => {
      const question = { run: chosen(), text: await sentence(), beam: state.beam };
      if (!current()) return;
      if (!question.text) return void (status.textContent = t("type"));
      status.textContent = t("translating");
      const answer = await lab.arrays("translate", question).finally(() => (status.textContent = ""));
      if (!current()) return;
      [found, weights] = [answer.about.runs, answer.arrays];
      show_();
    });
  }

  return () => {
    const key = JSON.stringify([chosen(), state.text, state.beam]);
    if (key === asked) return show_();
    clearTimeout(waiting);
    waiting = setTimeout(() => lab.open && ask(), asked && !lab.saved ? TYPING : 0);
    asked = key;
  };
}

// Count the cost: Python's formulas, as dots, curves and a table.

import { dots, plot } from "../charts.js";
import { choice, slider } from "../controls.js";
import { bytes, el, formula, scroll, show, table } from "../dom.js";

export const defaults = { vocabulary: 248320, embedding: 512, hidden: 512, layers: 1, length: 100, order: 5, of: "parameters",
  along: "vocabulary" };
const PRESETS = [{}, { of: "core", along: "hidden" }, { of: "serial_steps", along: "length" },
  { of: "state_bytes", along: "length" }];
const QUANTITIES = ["parameters", "core", "state_bytes", "serial_steps", "longest_path", "reach", "multiply_adds"];

export function draw(lab) {
  const { state } = lab;
  const t = lab.t.bind(lab);
  const name = (model) => (/^\d+-gram$/.test(model) ? t("model_ngram", { n: parseInt(model) })
    : t(`model_${model.replaceAll("-", "_")}`));
  const slot = (model) => (model.endsWith("gram") ? 1 : model === "nplm" ? 2 : model === "self-attention" ? 3 : 0);
  const cards = ["2-gram", "3-gram", "5-gram"].map((model) => ({ model, output: el("output") }));
  const picture = dots({ title: t("dots_title") });
  const curves = plot({ title: t("curve_title"), height: 300 });
  const [every, between] = [scroll(t("all"), "tall"), el("table", {})];
  const units = (quantity) => t(`of_${quantity}`);
  const attended = scroll(t("attention_title"));
  attended.append(between);
  lab.layout({
    presets: PRESETS,
    controls: [
      slider(lab, "vocabulary", { min: 2, max: 1000000, log: true }),
        slider(lab, "embedding", { min: 1, max: 8192, log: true }),
      slider(lab, "hidden", { min: 1, max: 8192, log: true }), slider(lab, "layers", { min: 1, max: 16 }),
      slider(lab, "length", { min: 1, max: 10000, log: true }), slider(lab, "order", { min: 2, max: 10 }),
      choice(lab, "of", QUANTITIES), choice(lab, "along", ["vocabulary", "hidden", "length"])],
    figures: [
      el("dl", { class: "stats" }, cards.map(({ model, output }) => el("div", { class: "stat" },
        el("dt", {}, name(model), " ", formula(`|V|^${parseInt(model)}`)), el("dd", {}, output)))),
      picture.node, curves.node, el("h2", {}, t("all")), every, el("p", { class: "small" }, t("float32")),
      el("h2", {}, t("attention_title")), attended],
  });

  function fill({ models, attention }) {
    for (const { model, output } of cards) {
      const { parameters } = models.find((cost) => cost.name === model);
      output.textContent = show(parameters);
      output.dataset.value = parameters;
    }
    picture.draw({ unit: units(state.of),
      rows: models.map((cost) => ({ name: name(cost.name), value: cost[state.of], slot: slot(cost.name) })) });
    every.replaceChildren(table([t("model"), t("formula"), ...QUANTITIES.map(units)],
      models.map((cost) => el("tr", {}, el("th", { scope: "row" }, name(cost.name)),
        el("td", { class: "text" }, formula(cost.formula)),
        QUANTITIES.map((quantity) => el("td", { "data-value": cost[quantity] },
          quantity === "state_bytes" ? bytes(cost[quantity]) : show(cost[quantity], 4)))))));
    between.replaceChildren(el("tbody", {}, Object.entries(attention).map(([kind, count]) =>
      el("tr", {}, el("th", { scope: "row" }, t(`attention_${kind.replace("-", "_")}`)),
        el("td", { "data-value": count }, show(count))))));
  }

  return () => lab.attempt("count", async (current) => {
    const { vocabulary, embedding, hidden, layers, length, order } = state;
    const sizes = { vocabulary, embedding, hidden, layers, length, order };
    const [found, { points, models }] = await Promise.all([lab.answer("count", sizes),
      lab.answer("curve", { ...sizes, along: state.along })]);
    if (!current()) return;
    fill(found);
    const drawn = models.filter((model) => !/^2-gram|two-biases|both/.test(model.name));
    curves.draw({ xLog: true, yLog: true, xLabel: t(`along_${state.along}`), yLabel: units(state.of),
      rules: [{ x: state[state.along], label: t("you") }],
      series: drawn.map((model, place) => ({ name: name(model.name), x: points, y: model.costs.map((cost) => cost[state.of]),
        slot: place })) });
  });
}

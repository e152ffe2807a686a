// Inside the state: units over the text, sorted by what they follow, and how far a loss reaches back in time.

import { COLUMNS, heatMap, plot, tokenStrip } from "../charts.js";
import { choice, number, several, text } from "../controls.js";
import { el, show } from "../dom.js";
import { begin, MOST_TEXT, pausing, readable, visible } from "../reading.js";

export const defaults = { run: "", text: "", layer: "0", part: "hidden", sort: "none", unit: -1, at: -1, against: [] };
const SORTS = ["none", "line", "quotes", "brackets", "length"];
const MOST = 4; // runs whose gradients are drawn if none is chosen

export async function draw(lab) {
  const { state } = lab;
  const t = lab.t.bind(lab);
  const { names, others } = await readable(lab, ({ recurrent }) => recurrent);
  if (!names.length) return null;
  const run = choice(lab, "run", names, Object.fromEntries(names.map((name) => [name, name])));
  await begin(lab, state.run, 360);
  const kept = (more) => ({ get run() { return state.run; }, get text() { return state.text; },
    get against() { return state.against; }, ...more });
  /** The runs whose gradients are drawn, the one that is looked into first. */
  function compare() {
    const known = state.against.filter((name) => names.includes(name));
    return [...new Set([state.run, ...(known.length ? known : names)])].slice(0, Math.max(MOST, known.length + 1));
  }

  const [layer, part] = ["layer", "part"].map((key) => pick(lab, key));
  const cut = el("p", { class: "small", role: "status" });
  const said = el("p", { class: "said", role: "status" });
  const heat = heatMap({ title: t("heat_title"), cell: 10, onpick: (row, at) => lab.set({ unit: order[row], at }) });
  const strip = tokenStrip({ title: t("strip_title"), onpick: (at) => lab.set({ at }) });
  const back = plot({ title: t("back_title"), height: 300 });
  const reached = el("p", { class: "small", role: "status" });
  lab.layout({
    presets: [kept({ sort: "line" }), kept({ part: "forget" }), kept({ sort: "length" }),
      kept({ sort: "quotes", text: t("quoted") }), kept({ at: 40 })],
    controls: [run, layer.node, part.node, choice(lab, "sort", SORTS), number(lab, "unit", { min: -1 }),
      several(lab, "against", names, (name) => name, compare)],
    figures: [text(lab, "text", { rows: 4 }), cut, others, said, heat.node, strip.node, back.node, reached],
  });
  let found = null;
  let order = [];
  let [asked, compared] = ["", ""];

  /** The units from top to bottom, and their correlation with what they are sorted by. */
  function sorted() {
    const { values: { shape: [units] }, correlations } = found.arrays;
    const row = found.about.features.indexOf(state.sort);
    const follows = (unit) => (row < 0 ? NaN : correlations.data[row * units + unit]);
    const size = (unit) => (Number.isNaN(follows(unit)) ? -1 : Math.abs(follows(unit)));
    order = Array.from({ length: units }, (_, unit) => unit);
    if (row >= 0) order.sort((a, b) => size(b) - size(a));
    return follows;
  }

  /** What the colours of a state or gate mean: its values have a sign, or lie between 0 and 1. */
  function scale(data) {
    const [low, high] = data.reduce(([a, b], value) => (Number.isNaN(value) ? [a, b] : [Math.min(a, value), Math.max(b, value)]),
      [0, 0]);
    const most = found.about.part === "cell" ? Math.max(-low, high) || 1 : Math.max(1, -low, high);
    return low < 0 ? { scale: "diverging", domain: [-most, most] } : { scale: "viridis", domain: [0, most] };
  }

  function units() {
    const { about: { pieces, total, features, kind, parts, layers, part: shown }, arrays: { values, surprise } } = found;
    const [rows, columns] = values.shape;
    const follows = sorted();
    const unit = state.unit >= 0 && state.unit < rows ? state.unit : order[0];
    const at = Math.min(state.at, columns - 1);
    const data = new Float32Array(rows * columns);
    order.forEach((one, row) => data.set(values.data.subarray(one * columns, (one + 1) * columns), row * columns));
    const colour = scale(values.data);
    const named = (one) => `${t("unit_is", { unit: one })}${features.includes(state.sort) ? `, r = ${show(follows(one), 2)}` : ""}`;
    layer.put(Array.from({ length: layers }, (_, place) => String(place)), (place) => String(Number(place) + 1), String(found.about.layer));
    part.put(parts, (name) => t(`part_${name}`), shown);
    heat.draw({ ...colour, rows, columns, data, label: t(`part_${shown}`), rowLabel: (row) => named(order[row]),
      columnLabel: (column) => `${column + 1} ${visible(pieces[column])}`, cursor: at >= 0 ? [order.indexOf(unit), at] : null });
    strip.draw({ ...colour, label: `${t(`part_${shown}`)}, ${t("unit_is", { unit })}:`, selected: at >= 0 ? at : null,
      tokens: pieces.map((piece, place) => {
        const value = values.data[unit * columns + place];
        return { text: piece, value: Number.isNaN(value) ? null : value,
          title: t("surprise", { bits: show(surprise.data[place] / Math.LN2) }) };
      }) });
    const r = follows(unit);
    said.textContent = features.includes(state.sort)
      ? t(Number.isNaN(r) ? "never" : state.unit === unit ? "this_follows" : "follows",
        { unit, what: t(`sort_${state.sort}`), r: show(r, 2), count: columns })
      : t("unsorted", { unit, kind, part: t(`part_${shown}`) });
    said.dataset.unit = unit;
    cut.textContent = [state.text.length > MOST_TEXT ? t("cut", { shown: show(MOST_TEXT), total: show(state.text.length) }) : "",
      columns < total ? t("cut_tokens", { shown: show(columns), total: show(total) }) : "",
    columns > COLUMNS ? t("table_cut", { shown: COLUMNS, total: show(columns) }) : ""].join(" ").trim();
  }

  /** Gradients through time of the runs that cut the text the same way. */
  function gradients() {
    const place = Math.min(state.at < 0 ? Infinity : state.at, found.about.pieces.length - 1);
    const question = { run: compare(), text: typed(), place };
    if (JSON.stringify(question) === compared) return;
    compared = JSON.stringify(question);
    lab.attempt("gradient", async (current) => {
      const { runs } = await lab.answer("gradient", question);
      if (!current()) return;
      const good = runs.filter(({ norms }) => norms?.length);
      back.draw({ yLog: true, xLabel: t("steps_back"), yLabel: t("norm"), series: good.map(({ name, norms }, slot) => ({ name, slot,
        x: norms.map((_, step) => step + 1), y: norms })) });
      reached.replaceChildren(t("loss_of", { token: visible(found.about.pieces[place] ?? ""), place: place + 1 }), " ",
        good.length ? "" : t("nothing_before"), ...runs.filter(({ error }) => error && state.against.length).map(({ error }) =>
          el("span", { lang: "en" }, ` ${error}.`)));
    });
  }

  const typed = () => state.text.slice(0, MOST_TEXT);
  const question = () => ({ run: state.run, text: typed(), layer: state.layer, part: state.part });
  const read = pausing(lab, () => lab.attempt("inside", async (current) => {
    const wanted = question();
    if (!found) cut.textContent = t("reading");
    const answer = await lab.arrays("inside", wanted).finally(() => (cut.textContent = ""));
    if (!current()) return;
    [found, asked] = [answer, JSON.stringify(wanted)];
    units();
    gradients();
  }));

  return () => {
    if (JSON.stringify(question()) !== asked) return read();
    units();
    gradients();
  };
}

/** One of several values that are known only once the server has answered. */
function pick(lab, key) {
  const select = el("select", { id: key, onchange: () => lab.set({ [key]: select.value }) });
  const node = el("div", { class: "control" }, el("label", { for: key }, lab.t(key)), select);
  return { node, put(values, name, chosen) {
    if ([...select.options].map(({ value }) => value).join() !== values.join())
      select.replaceChildren(...values.map((value) => el("option", { value }, name(value))));
    select.value = chosen;
  } };
}

// Gradient flow: the scalar recurrence, the path through an LSTM's cell, and matrices.

import { heatMap, plot } from "../charts.js";
import { button, choice, number, slider, tabs } from "../controls.js";
import { calm, el, formula, show } from "../dom.js";
import { inputs, products, states } from "../scalar.js";

export const defaults = { view: "rnn", w: 0.9, u: 0.5, T: 100, input: "random", seed: 1, reach: -1, sweep: "u", f: 0.99,
  size: 32, radius: 1, steps: 50, scale: 0.5, clip: 5 };

const PRESETS = [{ u: 0 }, { w: 1.1, u: 0 }, { w: 1.1, u: 0.5, input: "constant" }, { view: "lstm", f: 1 },
  { view: "lstm", f: 0.99 }, { view: "lstm", f: 0.9 },
  { view: "matrix", radius: 1.3, scale: 0.001, steps: 30 }, { view: "matrix", radius: 0.8 }];
const range = (count, make = (place) => place) => Array.from({ length: count }, (_, place) => make(place));
const median = (values) => {
  const sorted = Float64Array.from(values).sort();
  return (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;
};

/** A number with its formula, as a card. */
function stat(label, text) {
  const value = el("output", {});
  const node = el("div", { class: "stat" }, el("dt", {}, label, " ", text ? formula(text) : ""), el("dd", {}, value));
  return { node, put: (number_) => {
    value.textContent = show(number_);
    value.dataset.value = number_;
  } };
}

export function draw(lab) {
  const { t, state } = { t: lab.t.bind(lab), state: lab.state };
  const views = { rnn: rnn(lab), lstm: lstm(lab), matrix: matrix(lab) };
  const T = slider(lab, "T", { min: 1, max: 200 });
  lab.layout({
    presets: PRESETS,
    controls: [views.rnn.box, views.lstm.box, T, views.matrix.box],
    figures: [tabs(lab, "view", Object.keys(views)), Object.values(views).map((view) => view.node)],
  });
  return () => {
    for (const [name, view] of Object.entries(views)) view.box.hidden = view.node.hidden = name !== state.view;
    T.hidden = state.view === "matrix";
    views[state.view].update(t);
  };
}

// ---- the row of steps, walked backwards

function row(lab, title) {
  const chart = heatMap({ title, cell: 44, onpick: (_, step) => stop() || lab.set({ reach: step }) });
  const said = el("p", { class: "small", role: "status" });
  const play = button(lab, "play", () => (timer ? stop() : start()));
  let timer = null;
  const move = (by) => stop() || lab.set({ reach: Math.max(0,
    Math.min(lab.state.T, (lab.state.reach < 0 ? lab.state.T : lab.state.reach) + by)) });

  function start() {
    if (calm()) return lab.set({ reach: 0 });
    play.textContent = lab.t("pause");
    lab.set({ reach: lab.state.reach > 0 ? lab.state.reach : lab.state.T });
    timer = setInterval(() => {
      if (lab.state.reach <= 0 || !lab.open) return stop();
      lab.set({ reach: lab.state.reach - 1 });
    }, Math.min(300, Math.max(30, 4000 / lab.state.T)));
  }

  function stop() {
    clearInterval(timer);
    timer = null;
    play.textContent = lab.t("play");
  }

  const keys = el("div", { class: "row" }, play, button(lab, "back", () => move(-1)), button(lab, "forth", () => move(1)),
    button(lab, "all", () => stop() || lab.set({ reach: -1 })));
  return { node: el("div", { class: "close" }, chart.node, keys, said), update(found, factor) {
    const [last, reach] = [found.length - 1, Math.min(lab.state.reach, found.length - 1)];
    const sizes = found.map((value) => Math.abs(Math.log10(Math.abs(value)))).filter(Number.isFinite);
    const far = Math.max(3, Math.min(15, Math.ceil(Math.max(...sizes) / 3) * 3)); // powers of ten to either side of 1
    chart.draw({ scale: "diverging", domain: [10 ** -far, 10 ** far], log: true, rows: 1, columns: found.length,
      data: found.map((value, step) => (step < reach ? NaN : Math.abs(value))), label: lab.t("reaches"),
      rowLabel: () => "", columnLabel: (step) => lab.t("step_is", { step }),
        value: (value) => (Number.isNaN(value) ? lab.t("not_yet") : show(value)),
      cursor: reach < 0 ? null : [0, reach] });
    said.textContent = reach < 0 || reach === last ? lab.t("walk", { last })
      : lab.t("walked", { step: reach, value: show(Math.abs(found[reach])), before: show(Math.abs(found[reach + 1])),
        factor: show(factor(reach + 1)) });
  } };
}

// ---- one unit

function rnn(lab) {
  const { state } = lab;
  const t = lab.t.bind(lab);
  const stats = [stat(t("bound"), "|w|^T"), stat(t("product"), "∏ w·(1 − h_t^2)"),
    stat(t("state"), "h_T = tanh(w·h_{T−1} + u·x_T)")];
  const said = el("p", { class: "said", role: "status" });
  const checked = el("p", { class: "small", id: "checked" });
  const cells = row(lab, t("row_title"));
  const reach = plot({ title: t("reach_title") });
  const curve = plot({ title: t("state_title"), height: 190 });
  const sweep = plot({ title: t("sweep_title"), height: 210, onpick: (value) => lab.set({ [state.sweep]: value }) });
  const seed = number(lab, "seed");
  const box = el("div", { class: "group" }, slider(lab, "w", { min: -2, max: 2, step: 0.01 }),
    slider(lab, "u", { min: 0, max: 3, step: 0.01 }),
    choice(lab, "input", ["constant", "alternating", "pulse", "random"]), seed, choice(lab, "sweep", ["u", "w"]));
  const node = el("div", {}, el("dl", { class: "stats" }, stats.map((one) => one.node)), said, cells.node, reach.node,
    el("div", { class: "pair" }, el("div", {}, curve.node), el("div", {}, sweep.node)), checked);

  function verdict(bound, real, u) {
    const values = { w: show(state.w), T: state.T, bound: show(bound), real: show(real), lost: show(bound / real), u: show(u) };
    if (real > bound * 0.999) return t(bound < 1 ? "equal_vanishes" : bound > 1 ? "equal_explodes" : "equal_keeps", values);
    if (bound <= 1) return t("below", values);
    return t(real < 1 ? "turns_down" : "grows_less", values);
  }

  function update() {
    const xs = inputs(state.input, state.T, state.seed);
    const hs = states(state.w, state.u, xs);
    const found = products(state.w, hs);
    const [bound, real] = [Math.abs(state.w) ** state.T, found[0]];
    stats.forEach((one, place) => one.put([bound, real, hs.at(-1)][place]));
    said.textContent = verdict(bound, Math.abs(real), state.u);
    seed.hidden = state.input !== "random";
    cells.update(found, (step) => state.w * (1 - hs[step] ** 2));
    const back = range(state.T + 1);
    reach.draw({ yLog: true, xLabel: t("steps_back"), rules: [{ y: 1 }], series: [
      { name: t("bound"), x: back, y: back.map((k) => Math.abs(state.w) ** k), slot: 1 },
      { name: t("product"), x: back, y: back.map((k) => Math.abs(found[state.T - k])), slot: 0 }] });
    curve.draw({ xLabel: t("step"), yDomain: [-1.05, 1.05], series: [
      { name: t("state_h"), x: back, y: hs, slot: 0 }, { name: t("slope"), x: back, y: hs.map((h) => 1 - h * h), slot: 2 }] });
    const along = state.sweep === "u" ? range(61, (place) => place / 20) : range(81, (place) => (place - 40) / 20);
    const at = (value) => (state.sweep === "u" ? { w: state.w, u: value } : { w: value, u: state.u });
    const here = { x: state[state.sweep], label: t("you") };
    sweep.draw({ yLog: true, xLabel: state.sweep, rules: [here], series: [
      { name: t("bound"), x: along, y: along.map((value) => Math.abs(at(value).w) ** state.T), slot: 1 },
      { name: t("product"), x: along,
        y: along.map((value) => Math.abs(products(at(value).w, states(at(value).w, at(value).u, xs))[0])), slot: 0 }] });
    clearTimeout(update.later);
    checked.textContent = "";
    if (!lab.saved) update.later = setTimeout(() => check(hs, found), 300);
  }

  /** Ask Python for the same numbers. */
  function check(hs, found) {
    lab.attempt("check", async (current) => {
      const { w, u, T: steps, input: kind, seed: drawn } = state;
      const theirs = await lab.answer("scalar", { w, u, steps, kind, seed: drawn });
      if (!current()) return;
      const apart = Math.max(...found.map((value, step) =>
        Math.abs(value - theirs.products[step]) / (Math.abs(theirs.products[step]) || 1)),
        ...hs.map((value, step) => Math.abs(value - theirs.states[step])));
      checked.textContent = t("checked", { apart: show(apart, 2) });
      checked.dataset.value = apart;
    });
  }
  return { box, node, update };
}

// ---- the path through the cell of an LSTM

function lstm(lab) {
  const { state } = lab;
  const t = lab.t.bind(lab);
  const stats = [stat(t("left"), "∏ f_t = f^T"), stat(t("half"), "ln 0.5 / ln f"), stat(t("bias"), "b_f = ln f − ln (1 − f)")];
  const said = el("p", { class: "said", role: "status" });
  const cells = row(lab, t("cell_row_title"));
  const reach = plot({ title: t("cell_title"), height: 280 });
  const box = el("div", { class: "group" }, slider(lab, "f", { min: 0.5, max: 1, step: 0.001 }));
  const node = el("div", {}, el("dl", { class: "stats" }, stats.map((one) => one.node)), said, cells.node, reach.node);

  function update() {
    const { f, T, w } = state;
    const back = range(T + 1);
    [f ** T, Math.log(0.5) / Math.log(f), Math.log(f / (1 - f))].forEach((value, place) => stats[place].put(value));
    said.textContent = t(f === 1 ? "carousel" : f ** T < 0.1 ? "cell_vanishes" : "cell_keeps",
      { f: show(f), T, left: show(f ** T), w: show(w) });
    cells.update(back.map((step) => f ** (T - step)), () => f);
    const lines = [[t("f_1997"), 1], ["f = 0.99", 0.99], ["f = 0.9", 0.9]];
    const yours = lines.some(([, value]) => value === f) ? [] : [[t("yours", { f: show(f) }), f]];
    reach.draw({ yLog: true, xLabel: t("steps_back"), series: [...lines, ...yours].map(([name, value], place) => (
      { name, x: back, y: back.map((k) => value ** k), slot: place })).concat({ name: t("rnn_bound", { w: show(w) }), x: back,
        y: back.map((k) => Math.abs(w) ** k), slot: 5, faint: true }) });
  }
  return { box, node, update };
}

// ---- matrices

function matrix(lab) {
  const { state } = lab;
  const t = lab.t.bind(lab);
  const stats = [stat(t("orthogonal"), "‖∂L/∂h_0‖"), stat(t("gaussian"), "‖∂L/∂h_0‖"), stat(t("clipped_runs"))];
  const said = el("p", { class: "said", role: "status" });
  const flow = plot({ title: t("flow_title"), height: 280 });
  const seeds = plot({ title: t("seeds_title"), height: 220 });
  const shape = plot({ title: t("shape_title"), height: 220 });
  const box = el("div", { class: "group" }, slider(lab, "size", { min: 2, max: 64 }),
    slider(lab, "radius", { min: 0.5, max: 1.5, step: 0.01 }),
    slider(lab, "steps", { min: 1, max: 200 }), slider(lab, "scale", { min: 0, max: 2, step: 0.01 }),
      slider(lab, "clip", { min: 0.001, max: 1000, step: 0.001, log: true }));
  const node = el("div", {}, el("dl", { class: "stats" }, stats.map((one) => one.node)), said, flow.node,
    el("div", { class: "pair" }, el("div", {}, seeds.node), el("div", {}, shape.node)));

  function update() {
    lab.attempt("matrix", async (current) => {
      const { size, radius, steps, scale } = state;
      const { about, arrays } = await lab.arrays("matrix", { size, radius, steps, scale });
      if (current()) show_(arrays, about.seeds, steps);
    });
  }

  function show_({ steps: all, weights }, count, last) {
    const at = (kind, seed, back) => all.data[(kind * count + seed) * (last + 1) + last - back];
    const back = range(last + 1);
    const over = (kind, pick) => back.map((k) => pick(range(count, (seed) => at(kind, seed, k))));
    const far = [0, 1].map((kind) => median(range(count, (seed) => at(kind, seed, last))));
    const factor = (norm) => Math.min(1, state.clip / norm);
    const norms = [0, 1].map((kind) => [...weights.data.slice(kind * count, (kind + 1) * count)]);
    const clipped = norms.flat().filter((norm) => norm > state.clip).length;
    stats[0].put(far[0]);
    stats[1].put(far[1]);
    stats[2].put(clipped);
    said.textContent = t(clipped === 0 ? (Math.max(...far) < 1e-2 ? "clip_helpless" : "clip_idle") : "clip_works",
      { clipped, total: 2 * count, clip: show(state.clip), far: show(far[0]), largest: show(Math.max(...norms.flat())) });
    flow.draw({ yLog: true, xLabel: t("steps_back"), series: [
      ...[0, 1].map((kind) => ({ name: t(["orthogonal", "gaussian"][kind]), x: back, slot: kind, y: over(kind, median),
        band: { low: over(kind, (values) => Math.min(...values)), high: over(kind, (values) => Math.max(...values)) } })),
      { name: t("radius_power"), x: back, y: back.map((k) => state.radius ** k), slot: 6, faint: true }] });
    const seed = range(count, (place) => place + 1);
    seeds.draw({ yLog: true, xLabel: t("seed_number"), rules: [{ y: state.clip, label: t("threshold") }],
      series: [0, 1].flatMap((kind) => [
      { name: t("before", { kind: t(["orthogonal", "gaussian"][kind]) }), x: seed, y: norms[kind], slot: kind, line: false },
      { name: t("after", { kind: t(["orthogonal", "gaussian"][kind]) }), x: seed,
        y: norms[kind].map((norm) => norm * factor(norm)), slot: kind, faint: true }]) });
    const one = back.map((k) => at(1, 0, k));
    shape.draw({ yLog: true, xLabel: t("steps_back"), series: [{ name: t("unclipped"), x: back, y: one, slot: 1 },
      { name: t("clipped"), x: back, y: one.map((value) => value * factor(norms[1][0])), slot: 2 }] });
  }
  return { box, node, update };
}

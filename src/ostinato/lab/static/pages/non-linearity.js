// Non-linearity: exclusive or while it is learnt, the hidden space, and the functions that bend.

import { colours, plot } from "../charts.js";
import { button, choice, number, slider } from "../controls.js";
import { calm, el, show } from "../dom.js";

export const defaults = { units: 2, name: "tanh", rate: 0.5, steps: 2000, seed: 3, at: -1 };
const NAMES = ["sigmoid", "tanh", "relu", "gelu", "swiglu"];
const PRESETS = [{ units: 0, seed: 0 }, {}, { seed: 0 }, { units: 4, name: "gelu", seed: 0 },
  { units: 8, name: "relu", rate: 0.3, seed: 1 },
  { units: 8, name: "relu", rate: 10, seed: 1 }];
const POINTS = [[0, 0], [0, 1], [1, 0], [1, 1]]; // as in lab/non_linearity.py
const TARGETS = [0, 1, 1, 0];

export function draw(lab) {
  const { state } = lab;
  const t = lab.t.bind(lab);
  const cards = ["loss", "right", "dead"].map((key) => ({ key, output: el("output") }));
  const said = el("p", { class: "said", role: "status" });
  const input = plot({ title: t("input_title"), square: true });
  const space = plot({ title: t("hidden_title"), square: true });
  const loss = plot({ title: t("loss_title"), height: 200, onpick: (step) => pick(step) });
  const dead = plot({ title: t("dead_title"), height: 160 });
  const bends = plot({ title: t("functions_title"), height: 260 });
  const slopes = plot({ title: t("slopes_title"), height: 260 });
  const where = el("p", { class: "small", role: "status" });
  const play = button(lab, "play", () => (timer ? stop() : start()));
  let found = null;
  let asked = "";
  let timer = null;
  lab.layout({
    presets: PRESETS,
    controls: [slider(lab, "units", { min: 0, max: 16 }), choice(lab, "name", NAMES),
      slider(lab, "rate", { min: 0.01, max: 30, step: 0.01, log: true }),
      number(lab, "steps", { min: 1, max: 5000 }), number(lab, "seed", { max: 4294967295 })],
    figures: [
      el("dl", { class: "stats" }, cards.map(({ key, output }) =>
        el("div", { class: "stat" }, el("dt", {}, t(key)), el("dd", {}, output)))), said,
      el("div", { class: "row" }, play, button(lab, "back", () => move(-1)), button(lab, "forth", () => move(1)),
        button(lab, "end", () => stop() || lab.set({ at: -1 })), where),
      el("div", { class: "pair" }, el("div", {}, input.node), el("div", {}, space.node)), loss.node, dead.node,
      el("div", { class: "pair" }, el("div", {}, bends.node), el("div", {}, slopes.node))],
  });

  const last = () => found.steps.data.length - 1;
  const place = () => (state.at < 0 ? last() : Math.min(state.at, last()));
  const move = (by) => stop() || (found && lab.set({ at: Math.max(0, Math.min(last(), place() + by)) }));
  const pick = (step) => found && lab.set({ at: found.steps.data.findIndex((kept) => kept >= step) });

  function start() {
    if (calm() || !found) return lab.set({ at: -1 });
    play.textContent = t("pause");
    lab.set({ at: place() >= last() ? 0 : place() });
    timer = setInterval(() => (place() >= last() || !lab.open ? stop() : lab.set({ at: place() + 1 })), 100);
  }

  function stop() {
    clearInterval(timer);
    timer = null;
    play.textContent = t("play");
  }

  function show_() {
    const at = place();
    const step = found.steps.data[at];
    const answers = [...found.answers.data.slice(at * 4, at * 4 + 4)];
    const right = answers.filter((answer, point) => (answer > 0.5 ? 1 : 0) === TARGETS[point]).length;
    const [now, off] = [found.loss.data[step], found.dead.data[step]];
    [now, right, off].forEach((value, card) => {
      cards[card].output.textContent = card === 1 ? t("of_four", { right }) : show(value);
      cards[card].output.dataset.value = value;
    });
    cards[2].output.closest(".stat").hidden = dead.node.hidden = state.name !== "relu" || !state.units;
    const verdict = right === 4 && now < 0.1 ? "learnt" : !state.units ? "linear" : state.name === "relu"
      && off === state.units ? "all_dead" : "stuck";
    said.textContent = at === last() ? t(verdict, { loss: show(now), right, units: state.units, off })
      : t("on_the_way", { step, loss: show(now), right });
    where.textContent = t("at_step", { step, last: state.steps });
    squares(at);
    const steps = Array.from(found.loss.data.keys());
    loss.draw({ xLabel: t("step"), yLabel: t("nats"), yDomain: [0, null], cursor: step,
      rules: [{ y: Math.LN2, label: t("chance") }], series: [{ name: "", x: steps, y: found.loss.data }] });
    dead.draw({ xLabel: t("step"), yDomain: [0, state.units + 0.5], cursor: step,
      series: [{ name: "", x: steps, y: found.dead.data, slot: 1 }] });
  }

  /** The four inputs on the coloured square, and in the hidden space. */
  function squares(at) {
    const side = found.side;
    const canvas = el("canvas", { width: side, height: side, "aria-hidden": "true" });
    const paint = colours({ scale: "diverging", domain: [0, 1] });
    const pixels = new ImageData(side, side);
    for (let pixel = 0; pixel < side * side; pixel++) pixels.data.set([...paint(found.surface.data[at * side * side + pixel]),
      170], pixel * 4);
    canvas.getContext("2d").putImageData(pixels, 0, 0);
    const answer = (point) => found.answers.data[at * 4 + point].toFixed(2);
    const classes = (points) => [0, 1].map((kind) => {
      const members = [0, 1, 2, 3].filter((point) => TARGETS[point] === kind);
      return { name: t(`class_${kind}`), slot: kind ? 1 : 0, line: false, x: members.map((point) => points[point][0]),
        y: members.map((point) => points[point][1]),
        labels: members.map((point) => `${POINTS[point]} → ${answer(point)}`),
        sides: members.map((point) => [0, point < 2 ? 1 : -1]) }; // those of a class may lie on one another
    });
    const border = (low, high) => {
      if (!found.line.shape[0]) return [];
      const [a, b, c] = found.line.data.slice(at * 3, at * 3 + 3);
      const ends = Math.abs(b) > Math.abs(a) ? [[low, -(a * low + c) / b], [high, -(a * high + c) / b]]
        : [[-(b * low + c) / a, low], [-(b * high + c) / a, high]];
      return [{ name: t("border"), slot: 6, x: ends.map(([x]) => x), y: ends.map(([, y]) => y) }];
    };
    const square = { xDomain: [-0.5, 1.5], yDomain: [-0.5, 1.5] };
    input.draw({ ...square, under: canvas, xLabel: "x₁", yLabel: "x₂",
      series: [...classes(POINTS), ...(state.units ? [] : border(-0.5, 1.5))] });
    space.node.hidden = !state.units;
    if (!state.units) return;
    const points = [0, 1, 2, 3].map((point) => [...found.hidden.data.slice((at * 4 + point) * 2, (at * 4 + point) * 2 + 2)]);
    const flat = points.flat();
    const [low, high] = [Math.min(...flat), Math.max(...flat)];
    const pad = (high - low || 1) * 0.2;
    const both = { xDomain: [low - 2 * pad, high + 2 * pad], yDomain: [low - pad, high + pad] };
    const names = state.units > 2 ? [t("component", { n: 1 }), t("component", { n: 2 })]
      : ["h₁", state.units === 2 ? "h₂" : ""];
    space.draw({ ...both, xLabel: names[0], yLabel: names[1],
      series: [...classes(points), ...border(low - 2 * pad, high + 2 * pad)] });
  }

  async function functions() {
    const { about, arrays } = await lab.arrays("functions");
    const x = arrays.x.data;
    const lines = ({ data }) => about.names.map((name, slot) => ({ name: t(`short_${name}`), x,
      y: data.slice(slot * x.length, (slot + 1) * x.length), slot }));
    bends.draw({ xLabel: "x", series: lines(arrays.values) });
    slopes.draw({ xLabel: "x", series: lines(arrays.slopes) });
  }
  lab.attempt("functions", functions);

  return () => {
    const { units, name, rate, steps, seed } = state;
    const question = { units, name, rate, steps, seed };
    if (found && asked === JSON.stringify(question)) return show_();
    lab.attempt("train", async (current) => {
      const { about, arrays } = await lab.arrays("train", question);
      if (!current()) return;
      asked = JSON.stringify(question);
      found = { ...arrays, side: about.grid };
      show_();
    });
  };
}

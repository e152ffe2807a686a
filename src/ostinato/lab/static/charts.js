// Charts: curves and points on linear or true log axes, heat maps on a canvas, strips of tokens, dots on a scale.
// Each is made once, {node, draw(data)}, and has a reading for pointer and arrow keys, and a table behind it.

import { dark, el, scroll, show, svg, table, tenTo } from "./dom.js";

const LINES = ["", "6 3", "2 2", "9 3 2 3", "4 2 1 2", "12 3", "1 3"];
const MOST_ROWS = 500; // of a table
export const COLUMNS = 60; // of a matrix in its table
const LEFT = 58; // pixels for the ticks of a plot
const VIRIDIS = ["440154", "482475", "414487", "355f8d", "2a788e", "21918c", "22a884", "44bf70", "7ad151", "bddf26",
  "fde725"].map(rgb);
const BLUE = ["08519c", "3182bd", "6baed6", "bdd7e7"].map(rgb);
const ORANGE = ["fdd0a2", "fd8d3c", "e6550d", "a63603"].map(rgb);
const DARK_BLUE = ["9ecae1", "5ba3d0", "2f7ab8", "1d4d78"].map(rgb); // in the dark, far from the middle is bright
const DARK_ORANGE = ["7a3a12", "c2570f", "f08030", "fdba7b"].map(rgb);

/** The frame sets how texts are looked up. */
export const tell = { t: (key) => key };

function rgb(hex) {
  return [0, 2, 4].map((place) => parseInt(hex.slice(place, place + 2), 16));
}

// ---- colours

/** The colours of a scale from its low to its high end. @param {"viridis"|"diverging"} kind */
function ramp(kind) {
  if (kind === "viridis") return VIRIDIS;
  return dark() ? [...DARK_BLUE, rgb("2a2f36"), ...DARK_ORANGE] : [...BLUE, rgb("f7f5f0"), ...ORANGE];
}

/**
 * A function from a value to [r, g, b].
 * @param {{scale?: "viridis"|"diverging", domain: [number, number], log?: boolean}} options viridis for magnitude,
 *   diverging (blue below, orange above the middle) for sign
 */
export function colours({ scale = "viridis", domain, log = false }) {
  const stops = ramp(scale);
  const [low, high] = log ? domain.map(Math.log) : domain;
  return (value) => {
    const place = ((log ? Math.log(value) : value) - low) / (high - low || 1);
    const at = Math.min(1, Math.max(0, Number.isNaN(place) ? 0 : place)) * (stops.length - 1);
    const first = Math.min(stops.length - 2, Math.floor(at));
    return stops[first].map((part, channel) => Math.round(part + (stops[first + 1][channel] - part) * (at - first)));
  };
}

/** Black or white, whichever can be read on a colour. */
const ink = ([r, g, b]) => {
  const linear = [r, g, b].map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] > 0.179 ? "#000" : "#fff";
};

/** A bar that says what the colours mean. */
function colourBar({ label, value = show, ...scale }) {
  const canvas = el("canvas", { width: 120, height: 1, "aria-hidden": "true" });
  const context = canvas.getContext("2d");
  const paint = colours({ ...scale, domain: [0, 119], log: false });
  for (let x = 0; x < 120; x++) {
    context.fillStyle = `rgb(${paint(x)})`;
    context.fillRect(x, 0, 1, 1);
  }
  const end = (edge) => (scale.log && Math.log10(edge) % 1 === 0 ? tenTo(Math.round(Math.log10(edge))) : value(edge));
  return el("p", { class: "bar" }, label ? el("span", {}, label) : null, end(scale.domain[0]), canvas, end(scale.domain[1]));
}

// ---- axes

/** Ticks of a linear axis, at 1, 2 or 5 times a power of ten. */
export function linearTicks(low, high, most) {
  const rough = (high - low) / most || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999) * power;
  const ticks = [];
  const [first, last] = [Math.ceil(low / step - 1e-9), Math.floor(high / step + 1e-9)];
  for (let place = first; place <= last; place++) ticks.push(Number((place * step).toPrecision(12)));
  return ticks;
}

/** Ticks of a log axis: powers of ten where there are enough, else 1-2-5, else as many as fit, each at its true place. */
export function logTicks(low, high, most) {
  const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const inside = (tick) => tick >= low * 0.999 && tick <= high * 1.001;
  const stride = Math.max(1, Math.ceil((last - first) / most));
  const powers = [];
  for (let power = Math.ceil(first / stride) * stride; power <= last; power += stride) powers.push(Number(`1e${power}`));
  if (powers.filter(inside).length >= 3 || stride > 1) return powers.filter(inside);
  for (const factors of [[1, 3], [1, 2, 5], [1, 1.5, 2, 3, 4, 5, 7]]) {
    const ticks = powers.flatMap((power) => factors.map((factor) => Number((factor * power).toPrecision(12)))).filter(inside);
    if (ticks.length >= 3) return ticks.slice(0, most + 2);
  }
  return linearTicks(low, high, most).filter((tick) => tick > 0);
}

/** An axis: where a value goes, its ticks, and how they are written. */
function axis({ log, low, high, from, to, most }) {
  const map = log ? Math.log10 : (value) => value;
  const [a, b] = [map(low), map(high)];
  const place = (value) => from + ((map(value) - a) / (b - a || 1)) * (to - from);
  const ticks = (log ? logTicks : linearTicks)(low, high, most);
  const decades = log && high / low >= 1e4;
  const short = (tick) => (Math.abs(tick) >= 1e5 && Math.abs(tick) < 1e12 ? tick.toLocaleString("en", { notation: "compact" })
    : show(tick, 4));
  const text = (tick) => (decades && Math.log10(tick) % 1 === 0 ? tenTo(Math.round(Math.log10(tick))) : short(tick));
  return { place, ticks, text, to };
}

function extent(values, log, wanted) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (value === null || !Number.isFinite(value) || (log && value <= 0)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (low > high) [low, high] = log ? [0.1, 1] : [0, 1];
  if (log) {
    if (low === high) [low, high] = [low / 3, high * 3];
  } else {
    const pad = (high - low || Math.abs(high) || 1) * 0.04;
    [low, high] = [low - pad, high + pad];
  }
  return wanted ? [wanted[0] ?? low, wanted[1] ?? high] : [low, high];
}

// ---- parts that charts share

const tip = el("div", { class: "tip", hidden: true });

/** Show a tooltip near a point of the window. @param {(string|Node)[]} lines */
export function tooltip(x, y, lines) {
  if (!tip.isConnected) document.body.append(tip);
  tip.replaceChildren(...lines.map((line) => el("div", {}, line)));
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - width - 8))}px`;
  tip.style.top = `${y + height + 24 > innerHeight ? Math.max(4, y - height - 12) : y + 16}px`;
}

export const hideTooltip = () => (tip.hidden = true);

/** A table that opens under a chart. make: () => {columns: string[], rows: any[][], total?: number} */
function behind(title, make) {
  const body = scroll(tell.t("labelled", { what: tell.t("table") }) + title);
  const details = el("details", { class: "data" }, el("summary", {}, tell.t("table")), body);
  const fill = () => {
    const made = details.open && make(); // nothing before the first drawing
    if (!made) return;
    const { columns, rows, total = rows.length } = made;
    const cut = rows.slice(0, MOST_ROWS);
    body.replaceChildren(
      cut.length < total ? el("p", {}, tell.t("cut", { shown: show(cut.length), total: show(total) })) : "",
      table(columns, cut.map((row) => el("tr", {}, row.map((cell, place) =>
        el(place ? "td" : "th", place ? {} : { scope: "row" }, typeof cell === "number" ? show(cell, 4) : cell ?? "–"))))));
  };
  details.addEventListener("toggle", fill);
  return { details, fill };
}

function figure(title, ...inside) {
  return el("figure", {}, el("figcaption", {}, title), inside);
}

/** Draw again when a figure gets another width. */
function watch(node, draw) {
  let width = 0;
  new ResizeObserver(([entry]) => {
    if (Math.abs(entry.contentRect.width - width) < 1) return;
    width = entry.contentRect.width;
    requestAnimationFrame(draw);
  }).observe(node);
}

/** Arrow keys: left and right give -1 and 1, with Home and End for far. */
function arrows(act) {
  return (event) => {
    const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1], Home: [-1e9, 0],
      End: [1e9, 0] }[event.key];
    if (!move) return;
    event.preventDefault();
    act(...move);
  };
}

// ---- curves and points

/**
 * @typedef {Object} Series
 * @property {string} name
 * @property {ArrayLike<number>} x
 * @property {ArrayLike<number>} y
 * @property {number} [slot] colour and dash, from 0; given by place if left out
 * @property {boolean} [faint] thin
 * @property {boolean} [marks] a mark at each point
 * @property {boolean} [line] false: points alone
 * @property {string[]} [labels] beside each point
 * @property {[number, number][]} [sides] where each label stands: across -1 (left), 0, 1, and up -1 (below), 0, 1
 * @property {{low: ArrayLike<number>, high: ArrayLike<number>}} [band]
 */

/**
 * Curves or points. draw({series, xLabel, yLabel, xLog, yLog, xDomain, yDomain, rules: [{x|y, label}], under: canvas,
 * cursor, summary}); under is stretched beneath the plot, cursor is an x that is marked.
 * @param {{title: string, height?: number, square?: boolean, onpick?: (x: number) => void}} options
 */
export function plot({ title, height = 240, square = false, onpick = null }) {
  const area = el("div", { class: "plot", tabindex: "0", role: "img", "aria-label": title });
  const legend = el("ul", { class: "legend" });
  const spoken = el("p", { class: "hidden", role: "status" });
  const table = behind(title, () => data && tableOf(data));
  const node = figure(title, legend, area, spoken, table.details);
  let data = null;
  let shape = null; // axes of what was drawn
  let at = null; // the place that is read, in steps of all x

  function draw(given = data) {
    if (!given) return;
    data = given;
    const width = Math.max(240, Math.min(square ? 420 : Infinity, area.clientWidth || 600));
    const tall = square ? Math.min(width, 380) : height;
    const { series, xLog, yLog, rules = [] } = data;
    const bands = series.flatMap(({ band }) => (band ? [...band.low, ...band.high] : []));
    const [x0, x1] = extent(series.flatMap(({ x }) => [...x]).concat(rules.map((rule) => rule.x ?? null)), xLog, data.xDomain);
    const [y0, y1] = extent(series.flatMap(({ y }) => [...y]).concat(bands, rules.map((rule) => rule.y ?? null)), yLog,
      data.yDomain);
    const left = LEFT;
    const x = axis({ log: xLog, low: x0, high: x1, from: left, to: width - 12, most: Math.max(3, width / 90) });
    const y = axis({ log: yLog, low: y0, high: y1, from: tall - 36, to: 10, most: Math.max(3, tall / 45) });
    const all = [...new Set(series.flatMap((one) => [...one.x]))].filter((value) => !xLog || value > 0).sort((a, b) => a - b);
    shape = { x, y, all, width, tall, left };
    const clip = `clip-${(plot.count = (plot.count ?? 0) + 1)}`;
    const picture = svg("svg", { width, height: tall, viewBox: `0 0 ${width} ${tall}`, "aria-hidden": "true" },
      svg("defs", {}, svg("clipPath", { id: clip }, svg("rect",
        { x: left, y: 4, width: Math.max(0, width - left - 6), height: tall - 36 }))),
      y.ticks.map((tick) => [
        svg("line", { class: "grid", x1: left, x2: width - 12, y1: y.place(tick), y2: y.place(tick) }),
        svg("text", { class: "tick", x: left - 7, y: y.place(tick) + 4, "text-anchor": "end" }, y.text(tick))]),
      x.ticks.map((tick) => [
        svg("line", { class: "grid", x1: x.place(tick), x2: x.place(tick), y1: 10, y2: tall - 36 }),
        svg("text", { class: "tick", x: x.place(tick), y: tall - 19, "text-anchor": "middle" }, x.text(tick))]),
      svg("text", { class: "name", x: (left + width - 12) / 2, y: tall - 3, "text-anchor": "middle" }, data.xLabel ?? ""),
      rules.map((rule) => rule.y !== undefined
        ? [svg("line", { class: "rule", x1: left, x2: width - 12, y1: y.place(rule.y), y2: y.place(rule.y) }),
          svg("text", { class: "tick", x: width - 16, y: y.place(rule.y) - 5, "text-anchor": "end" }, rule.label ?? "")]
        : [svg("line", { class: "rule", x1: x.place(rule.x), x2: x.place(rule.x), y1: 10, y2: tall - 36 }),
          svg("text", { class: "tick", x: x.place(rule.x) + 5, y: 20 }, rule.label ?? "")]),
      svg("g", { "clip-path": `url(#${clip})` }, series.map((one, place) => curve(one, one.slot ?? place, x, y, yLog, xLog))),
      svg("line", { class: "cursor", y1: 10, y2: tall - 36, visibility: "hidden" }));
    if (data.under) {
      data.under.className = "under";
      Object.assign(data.under.style, { left: `${left}px`, top: "10px", width: `${width - 12 - left}px`,
        height: `${tall - 46}px` });
    }
    area.replaceChildren(el("span", { class: "axis" }, data.yLabel ?? ""),
      el("div", { class: "stack" }, data.under ?? null, picture));
    legend.replaceChildren(...(series.length > 1 || series[0]?.name ? series.map((one, place) => key(one, one.slot ?? place))
      : []));
    area.setAttribute("aria-label", data.summary ? `${title}. ${data.summary}` : title);
    if (data.cursor !== undefined) mark(data.cursor);
    table.fill();
  }

  function mark(value) {
    const line = area.querySelector(".cursor");
    const place = value === null ? NaN : shape.x.place(value);
    line.setAttribute("visibility", Number.isFinite(place) ? "visible" : "hidden");
    if (Number.isFinite(place)) for (const end of ["x1", "x2"]) line.setAttribute(end, place);
  }

  function reading(value) {
    const lines = [`${data.xLabel ?? "x"}: ${show(value, 5)}`];
    for (const one of data.series) {
      const found = nearest(one.x, value);
      if (found < 0 || Math.abs(one.x[found] - value) > tolerance()) continue;
      lines.push(`${one.labels?.[found] || one.name || data.yLabel || "y"}: ${show(one.y[found], 4)}`);
    }
    return lines.slice(0, 12);
  }

  const tolerance = () => (shape.all.length > 1 ? (shape.all.at(-1) - shape.all[0]) / 60 : 0);

  function read(place, x = null, y = null) {
    if (!shape?.all.length) return;
    at = Math.max(0, Math.min(shape.all.length - 1, place));
    const value = shape.all[at];
    mark(value);
    const box = area.querySelector("svg").getBoundingClientRect();
    const lines = reading(value);
    tooltip(x ?? box.left + shape.x.place(value), y ?? box.top + 20, lines);
    if (x === null) spoken.textContent = lines.join("; ");
  }

  const leave = () => {
    hideTooltip();
    if (shape) mark(data.cursor ?? null);
  };
  const under = (event) => {
    const across = event.clientX - area.querySelector("svg").getBoundingClientRect().left;
    return nearest(shape.all.map(shape.x.place), across);
  };
  area.addEventListener("pointermove", (event) => shape?.all.length && read(under(event), event.clientX, event.clientY));
  area.addEventListener("pointerleave", leave);
  area.addEventListener("blur", leave);
  area.addEventListener("keydown", arrows((move) => {
    read((at ?? (move > 0 ? -1 : shape.all.length)) + move);
    onpick?.(shape.all[at]);
  }));
  if (onpick) area.addEventListener("click", (event) => shape?.all.length && onpick(shape.all[under(event)]));
  watch(area, () => draw());
  return { node, draw };
}

/** The place of the value nearest to one. */
function nearest(values, wanted) {
  let best = -1;
  for (let place = 0; place < values.length; place++)
    if (best < 0 || Math.abs(values[place] - wanted) < Math.abs(values[best] - wanted)) best = place;
  return best;
}

function curve(one, slot, x, y, yLog, xLog) {
  const visible = (place) => {
    const [a, b] = [one.x[place], one.y[place]];
    return a !== null && b !== null && Number.isFinite(a) && Number.isFinite(b) && (!yLog || b > 0) && (!xLog || a > 0);
  };
  const parts = [];
  let path = "";
  let pen = "M";
  for (let place = 0; place < one.x.length; place++) {
    if (!visible(place)) {
      pen = "M";
      continue;
    }
    path += `${pen}${x.place(one.x[place]).toFixed(1)} ${y.place(one.y[place]).toFixed(1)}`;
    pen = "L";
    if (one.marks || one.line === false) parts.push(glyph(slot, x.place(one.x[place]), y.place(one.y[place]), one.faint));
    if (one.labels?.[place]) parts.push(pointLabel(one.labels[place], x.place(one.x[place]), y.place(one.y[place]), x.to,
      place, one.sides?.[place]));
  }
  if (one.band) {
    const points = (side) => Array.from(one.x, (value, place) =>
      [x.place(value), y.place(yLog ? Math.max(side[place], 1e-300) : side[place])]);
    const round = [...points(one.band.high), ...points(one.band.low).reverse()].map((pair) =>
      pair.map((part) => part.toFixed(1)).join(" "));
    parts.unshift(svg("path", { class: `band s${slot % 7}`, d: `M${round.join("L")}Z` }));
  }
  if (one.line !== false) parts.unshift(svg("path", { class: `line s${slot % 7}${one.faint ? " faint" : ""}`, d: path,
    "stroke-dasharray": LINES[slot % 7] || null }));
  return parts;
}

/** The name of a point: to its left where there is no room to its right, every second one lower, so that near ones are read. */
function pointLabel(text, x, y, edge, place, side = null) {
  if (side) {
    const wide = 7 + 7 * text.length; // to the other side where it would be cut off
    const across = side[0] > 0 && x > edge - wide ? -1 : side[0] < 0 && x < LEFT + wide ? 1 : side[0];
    return svg("text", { class: "point", x: x + 7 * across, y: y + 4.5 - 11 * side[1],
      "text-anchor": ["end", "middle", "start"][across + 1] }, text);
  }
  const left = x > edge - 8 - 7 * text.length;
  return svg("text", { class: "point", x: x + (left ? -9 : 9), y: y + (place % 2 ? 15 : -3),
    "text-anchor": left ? "end" : "start" }, text);
}

function glyph(slot, x, y, faint) {
  const size = faint ? 2 : 4;
  const kind = slot % 4;
  if (kind === 0) return svg("circle", { class: `mark s${slot % 7}`, cx: x, cy: y, r: size });
  if (kind === 1) return svg("rect", { class: `mark s${slot % 7}`, x: x - size, y: y - size, width: 2 * size,
    height: 2 * size });
  const turn = kind === 2 ? 1 : -1;
  return svg("path", { class: `mark s${slot % 7}`,
    d: `M${x} ${y - turn * size * 1.2}L${x + size * 1.2} ${y + turn * size}L${x - size * 1.2} ${y + turn * size}Z` });
}

function key(one, slot) {
  return el("li", {}, svg("svg", { width: 26, height: 12, "aria-hidden": "true" },
    one.line === false ? null : svg("path", { class: `line s${slot % 7}${one.faint ? " faint" : ""}`, d: "M1 6H25",
      "stroke-dasharray": LINES[slot % 7] || null }),
    one.marks || one.line === false ? glyph(slot, 13, 6, false) : null), one.name ?? "");
}

function tableOf({ series, xLabel = "x", yLabel }) {
  const named = series.some(({ labels }) => labels) ? 1 : 0; // then the name of a point comes first
  const rows = new Map();
  series.forEach((one, place) => {
    for (let step = 0; step < one.x.length; step++) {
      const name = one.line === false ? `${place}.${step}` : one.x[step];
      if (!rows.has(name)) rows.set(name, [one.labels?.[step] ?? "", one.x[step], ...series.map(() => null)].slice(1 - named));
      rows.get(name)[place + 1 + named] = one.y[step];
    }
  });
  return { columns: ["", xLabel, ...series.map(({ name }) => name || yLabel || "y")].slice(1 - named),
    rows: [...rows.values()].sort((a, b) => a[named] - b[named]) };
}

// ---- heat maps

/**
 * A matrix as colours; NaN is left blank. draw({rows, columns, data (row by row), scale, domain, log, rowLabel,
 * columnLabel, value, label, cursor: [row, column]}).
 * @param {{title: string, cell?: number, onpick?: (row: number, column: number) => void}} options cell: height of a row
 */
export function heatMap({ title, cell = 18, onpick = null }) {
  const canvas = el("canvas", { role: "img", tabindex: "0", "aria-label": title });
  const box = el("div", { class: "heat" }, canvas);
  const spoken = el("p", { class: "hidden", role: "status" });
  const bar = el("div");
  const table = behind(title, () => data && ({
    columns: ["", ...Array.from({ length: Math.min(data.columns, COLUMNS) }, (_, column) => label(data.columnLabel, column))],
    rows: Array.from({ length: Math.min(data.rows, MOST_ROWS) },
      (_, row) => [label(data.rowLabel, row), ...Array.from({ length: Math.min(data.columns, COLUMNS) },
      (_, column) => data.data[row * data.columns + column])]),
    total: data.rows,
  }));
  const node = figure(title, bar, box, spoken, table.details);
  let data = null;
  let at = [0, 0];
  const label = (name, place) => (name ? name(place) : String(place));

  function draw(given = data) {
    if (!given) return;
    data = given;
    const { rows, columns } = data;
    const width = Math.max(200, box.clientWidth || 600);
    const height = Math.max(24, Math.min(rows * cell, 640));
    const sharp = devicePixelRatio || 1;
    canvas.width = Math.round(width * sharp);
    canvas.height = Math.round(height * sharp);
    Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
    const paint = colours(data);
    const pixels = new ImageData(columns, rows);
    const made = lookup(paint, data);
    for (let place = 0; place < rows * columns; place++) {
      if (Number.isNaN(data.data[place])) continue;
      pixels.data.set(made(data.data[place]), place * 4);
      pixels.data[place * 4 + 3] = 255;
    }
    const small = new OffscreenCanvas(columns, rows);
    small.getContext("2d").putImageData(pixels, 0, 0);
    const context = canvas.getContext("2d");
    context.imageSmoothingEnabled = columns > canvas.width || rows > canvas.height;
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.drawImage(small, 0, 0, canvas.width, canvas.height);
    if (data.cursor) outline(context, ...data.cursor);
    bar.replaceChildren(colourBar(data));
    table.fill();
  }

  function outline(context, row, column) {
    const [w, h] = [canvas.width / data.columns, canvas.height / data.rows];
    context.strokeStyle = dark() ? "#fff" : "#000";
    context.lineWidth = 2 * (devicePixelRatio || 1);
    context.strokeRect(column * w, row * h, Math.max(w, 3), h);
  }

  function read(row, column, x = null, y = null) {
    if (!data) return;
    at = [Math.max(0, Math.min(data.rows - 1, row)), Math.max(0, Math.min(data.columns - 1, column))];
    const value = data.data[at[0] * data.columns + at[1]];
    const lines = [[label(data.rowLabel, at[0]), label(data.columnLabel, at[1])].filter(Boolean).join(" · "),
      (data.value ?? show)(value)];
    const place = canvas.getBoundingClientRect();
    if (x === null) {
      draw({ ...data, cursor: at });
      spoken.textContent = lines.join(": ");
    }
    tooltip(x ?? place.left + ((at[1] + 0.5) / data.columns) * place.width,
      y ?? place.top + ((at[0] + 0.5) / data.rows) * place.height, lines);
  }

  const where = (event) => {
    const place = canvas.getBoundingClientRect();
    return [Math.floor(((event.clientY - place.top) / place.height) * data.rows),
      Math.floor(((event.clientX - place.left) / place.width) * data.columns)];
  };
  canvas.addEventListener("pointermove", (event) => data && read(...where(event), event.clientX, event.clientY));
  canvas.addEventListener("pointerleave", hideTooltip);
  canvas.addEventListener("blur", hideTooltip);
  canvas.addEventListener("keydown", arrows((across, down) => {
    if (data.cursor) at = [...data.cursor];
    read(at[0] + down, at[1] + across);
    onpick?.(...at);
  }));
  if (onpick) canvas.addEventListener("click", (event) => data && onpick(...where(event)));
  watch(box, () => draw());
  return { node, draw };
}

/** `paint` by a table of 1,024 colours, which a large matrix needs to stay smooth. */
function lookup(paint, { domain, log }) {
  const [low, high] = log ? domain.map(Math.log) : domain;
  const made = Array.from({ length: 1024 }, (_, place) => paint(log ? Math.exp(low + ((high - low) * place) / 1023)
    : low + ((high - low) * place) / 1023));
  return (value) => {
    const place = Math.round((((log ? Math.log(value) : value) - low) / (high - low || 1)) * 1023);
    return made[place > 0 ? Math.min(1023, place) : 0];
  };
}

// ---- tokens and dots

/**
 * Tokens coloured by a value. draw({tokens: [{text, value, title}], scale, domain, log, label, value, selected});
 * arrow keys and clicks choose one.
 * @param {{title: string, most?: number, onpick?: (place: number) => void}} options
 */
export function tokenStrip({ title, most = 3000, onpick = null }) {
  const list = el("div", { class: "tokens", role: "listbox", "aria-label": title, "aria-orientation": "horizontal" });
  const bar = el("div");
  const note = el("p", { class: "small" });
  const table = behind(title, () => data && ({ columns: ["#", tell.t("token"), data.label ?? ""],
    rows: data.tokens.map(({ text, value }, place) => [place + 1, text, value]) }));
  const node = figure(title, bar, list, note, table.details);
  let data = null;

  function choose(place) {
    const chosen = Math.max(0, Math.min(list.children.length - 1, place));
    select(chosen);
    list.children[chosen]?.focus();
    onpick?.(chosen);
  }

  function select(place) {
    [...list.children].forEach((item, other) => {
      item.setAttribute("aria-selected", String(other === place));
      item.tabIndex = other === (place ?? 0) || (place === null && other === 0) ? 0 : -1;
    });
  }

  function draw(given = data) {
    if (!given) return;
    data = given;
    const paint = colours(data);
    const shown = data.tokens.slice(0, most);
    const held = list.contains(document.activeElement);
    list.replaceChildren(...shown.map(({ text, value, title: more }, place) => {
      const colour = value === null || value === undefined ? null : paint(value);
      const words = [text, `${data.label ?? ""} ${(data.value ?? show)(value)}`.trim(), more].filter(Boolean);
      const item = el("span", { role: "option", tabindex: "-1", "aria-selected": "false", "aria-label": words.join(", "),
        onclick: () => choose(place),
        onpointermove: (event) => tooltip(event.clientX, event.clientY, words), onpointerleave: hideTooltip },
          text.replaceAll("\n", "⏎").replaceAll(" ", "\u00a0") || "∅");
      if (colour) Object.assign(item.style, { background: `rgb(${colour})`, color: ink(colour) });
      return item;
    }));
    list.hidden = shown.length === 0;
    select(data.selected ?? null);
    if (held) list.children[data.selected ?? 0]?.focus();
    bar.replaceChildren(colourBar(data));
    note.textContent = shown.length < data.tokens.length ? tell.t("cut",
      { shown: show(shown.length), total: show(data.tokens.length) }) : "";
    table.fill();
  }

  list.addEventListener("keydown",
    arrows((across, down) => choose([...list.children].indexOf(document.activeElement) + across + down)));
  return { node, draw };
}

/**
 * One dot for each name on a shared axis, log unless told otherwise. draw({rows: [{name, value, slot}], unit, linear}).
 * @param {{title: string}} options
 */
export function dots({ title }) {
  const area = el("div", { class: "plot", role: "img", "aria-label": title });
  const table = behind(title, () => data && ({ columns: ["", data.unit ?? ""],
    rows: data.rows.map(({ name, value }) => [name, value]) }));
  const node = figure(title, area, table.details);
  let data = null;

  function draw(given = data) {
    if (!given) return;
    data = given;
    const { rows, linear = false } = data;
    const width = Math.max(300, area.clientWidth || 600);
    const left = Math.min(200, width * 0.4);
    const tall = rows.length * 26 + 44;
    const [low, high] = extent(rows.map(({ value }) => value), !linear, linear ? [0, null] : null);
    const x = axis({ log: !linear, low, high, from: left + 10, to: width - 92, most: Math.max(3, (width - left) / 90) });
    area.replaceChildren(svg("svg", { width, height: tall, viewBox: `0 0 ${width} ${tall}`, "aria-hidden": "true" },
      x.ticks.map((tick) => [svg("line", { class: "grid", x1: x.place(tick), x2: x.place(tick), y1: 4, y2: tall - 38 }),
        svg("text", { class: "tick", x: x.place(tick), y: tall - 22, "text-anchor": "middle" }, x.text(tick))]),
      svg("text", { class: "name", x: (left + width - 82) / 2, y: tall - 4, "text-anchor": "middle" }, data.unit ?? ""),
      rows.map(({ name, value, slot = 0 }, place) => {
        const y = place * 26 + 17;
        return [svg("text", { class: "point", x: left, y: y + 4, "text-anchor": "end" }, name),
          value > 0 || linear ? [svg("line", { class: `stem s${slot % 7}`, x1: left + 10, x2: x.place(value), y1: y, y2: y }),
            glyph(slot, x.place(value), y, false)] : null,
          svg("text", { class: "value", x: width - 2, y: y + 4, "text-anchor": "end" }, show(value))];
      })));
    area.setAttribute("aria-label", `${title}. ${rows.map(({ name, value }) => `${name}: ${show(value)}`).join("; ")}`);
    table.fill();
  }

  watch(area, () => draw());
  return { node, draw };
}

// ---- words on both sides of a matrix

const LABEL = 17; // pixels a word needs across its line
const TALLEST = 640; // of a heat map

/** Let the matrices in a box stand side by side where there is room for so many columns. */
export function beside(box, columns) {
  box.style.gridTemplateColumns = `repeat(auto-fit, minmax(min(100%, ${Math.max(300, columns * LABEL + 90)}px), 1fr))`;
}

/**
 * A heat map with a word at each row and column. draw({down: string[], across: string[], data, ...as heatMap, summary}).
 * @param {{title: string}} options
 */
export function wordMatrix({ title }) {
  const cell = 26;
  const chart = heatMap({ title, cell });
  const box = chart.node.querySelector(".heat");
  const [top, side] = ["across", "down"].map((name) => el("div", { class: name, "aria-hidden": "true" }));
  const frame = el("div", { class: "matrix" });
  box.replaceWith(el("div", { class: "across-scroll" }, frame));
  frame.append(top, side, box);

  function draw({ down, across, summary, ...data }) {
    const room = Math.min(cell, TALLEST / Math.max(1, down.length));
    const every = Math.ceil(LABEL / room); // rows that are named where there are too many for all
    top.replaceChildren(...across.map((word) => el("span", {}, word)));
    side.replaceChildren(...down.map((word, row) => el("span", {}, row % every ? "" : word)));
    const [least, most] = [LABEL, 56].map((width) => `${Math.max(200, across.length * width)}px`);
    frame.style.gridTemplateColumns = `max-content minmax(${least}, ${most})`;
    chart.draw({ rows: down.length, columns: across.length, rowLabel: (row) => down[row],
      columnLabel: (column) => across[column], ...data });
    box.querySelector("canvas").setAttribute("aria-label", summary ? `${title}. ${summary}` : title);
  }
  return { node: chart.node, draw };
}

// Elements, numbers and formulas.

const SVG = "http://www.w3.org/2000/svg";
const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

/**
 * An element. Attributes named on... are listeners; null and false ones are left out; children may be nested.
 * @param {string} tag
 * @param {Object<string, any>} [attributes]
 * @param {...(Node|string|number|null|Array)} children
 * @returns {HTMLElement}
 */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same in SVG. @returns {SVGElement} */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** A box that scrolls, and that the keyboard reaches. */
export const scroll = (label, kind = "") =>
  el("div", { class: `scroll ${kind}`, role: "region", tabindex: "0", "aria-label": label });

/** A table: the names of its columns, and its rows as elements. */
export const table = (columns, rows, kind = null) => el("table", { class: kind },
  el("thead", {}, el("tr", {}, columns.map((name) => el("th", { scope: "col" }, name)))), el("tbody", {}, rows));

/** A number as a person reads it: 13,781, 0.366, 2.66 × 10⁻⁵; a dash for none. @param {number|null} value */
export function show(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e10)) {
    const [mantissa, power] = value.toExponential(digits - 1).replace("-", value < 0 ? "−" : "-").split("e");
    return `${mantissa}\u00a0×\u00a0${tenTo(Number(power))}`;
  }
  const options = size >= 1000 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: digits };
  return value.toLocaleString("en", options).replace("-", "−");
}

/** 10⁻⁵ */
export function tenTo(power) {
  return "10" + [...String(power)].map((sign) => RAISED[sign]).join("");
}

/** Bytes in the unit a person would use (1 kB = 1000 bytes). */
export function bytes(value) {
  const power = Math.min(5, Math.max(0, Math.floor(Math.log10(Math.max(1, value)) / 3)));
  const scaled = value / 1000 ** power;
  return power === 5 && scaled >= 1e4 ? `${show(value)} B` : `${show(scaled)} ${["B", "kB", "MB", "GB", "TB", "PB"][power]}`;
}

/** Text with **strong**, `code`, and formulas between dollar signs, as nodes. @param {string} text */
export function rich(text) {
  return text.split(/(\*\*.+?\*\*|`.+?`|\$.+?\$)/).filter(Boolean).map((part) => {
    if (part.startsWith("**")) return el("strong", {}, part.slice(2, -2));
    if (part.startsWith("`")) return el("code", {}, part.slice(1, -1));
    return part.startsWith("$") ? formula(part.slice(1, -1)) : part;
  });
}

/** A formula: letters in italics, _x and _{..} lowered, ^x and ^{..} raised. @param {string} text */
export function formula(text) {
  const parts = [];
  for (const [, kind, group, single, name, rest] of text.matchAll(/([_^])(?:\{(.*?)\}|(.))|([A-Za-z]+)|([^_^A-Za-z]+)/g)) {
    if (kind) parts.push(el(kind === "_" ? "sub" : "sup", {}, letters(group ?? single)));
    else parts.push(name ? letters(name) : rest);
  }
  return el("span", { class: "formula" }, parts);
}

function letters(text) {
  return text.split(/([A-Za-z]+)/).filter(Boolean).map((part) =>
    /^[A-Za-z]$/.test(part) ? el("i", {}, part) : part);
}

/** Whether movement is unwelcome. */
export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** Whether the page is dark now. */
export function dark() {
  const theme = document.documentElement.dataset.theme;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

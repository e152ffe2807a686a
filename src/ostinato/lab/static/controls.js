// Controls that show and change one value of a page's state. Each has its label and, if there is one, a hint.

import { el, rich, show } from "./dom.js";

let count = 0;

function labelled(lab, key, control, extra = null) {
  const hint = lab.has(`${key}_hint`) ? el("small", { id: `${control.id}-hint` }, rich(lab.t(`${key}_hint`))) : null;
  if (hint) control.setAttribute("aria-describedby", hint.id);
  return el("div", { class: "control" }, el("label", { for: control.id }, rich(lab.t(key))), extra, control, hint);
}

/** Keep a control in step with the state. */
function follow(lab, sync) {
  lab.controls.push(sync);
  sync();
}

/**
 * A slider with a field for the exact number.
 * @param {{min: number, max: number, step?: number, log?: boolean}} range log: the slider moves by ratios
 */
export function slider(lab, key, { min, max, step = 1, log = false }) {
  const id = `control-${++count}`;
  const inward = (place) => (log ? snap(min * (max / min) ** place) : Number(place));
  const snap = (value) => Number((Math.round(value / step) * step).toFixed(6));
  const outward = (value) => (log ? Math.log(value / min) / Math.log(max / min) : value);
  const put = (value) => Number.isFinite(value) && lab.set({ [key]: Math.min(max, Math.max(min, value)) });
  const range = el("input", { id, type: "range", ...(log ? { min: 0, max: 1, step: 0.001 } : { min, max, step }),
    oninput: () => put(inward(Number(range.value))) });
  const field = el("input", { type: "number", min, max, step, class: "exact",
    "aria-label": lab.t("exactly", { what: lab.t(key).replaceAll("$", "") }),
    onchange: () => put(field.valueAsNumber) });
  follow(lab, () => {
    range.value = outward(lab.state[key]);
    range.setAttribute("aria-valuetext", show(lab.state[key], 4));
    if (document.activeElement !== field || field.valueAsNumber !== lab.state[key]) field.value = lab.state[key];
  });
  return labelled(lab, key, range, field);
}

/** A field for a whole number. */
export function number(lab, key, { min = 0, max = 1e9, step = 1 } = {}) {
  const field = el("input", { id: `control-${++count}`, type: "number", min, max, step,
    onchange: () => Number.isFinite(field.valueAsNumber)
      && lab.set({ [key]: Math.min(max, Math.max(min, field.valueAsNumber)) }) });
  follow(lab, () => (field.value = lab.state[key]));
  return labelled(lab, key, field);
}

/** One of several values; their texts stand under key_value, or in `names`. @param {string[]} values */
export function choice(lab, key, values, names = null) {
  const select = el("select", { id: `control-${++count}`, onchange: () => lab.set({ [key]: select.value }) },
    values.map((value) => el("option", { value }, names ? names[value] : lab.t(`${key}_${value}`))));
  follow(lab, () => {
    if (!values.includes(lab.state[key]) && values.length) lab.state[key] = values[0];
    select.value = lab.state[key];
  });
  return labelled(lab, key, select);
}

/** The same as buttons side by side, for what changes the whole page. */
export function tabs(lab, key, values) {
  const name = `control-${++count}`;
  const inputs = values.map((value) => el("input", { type: "radio", name, value, id: `${name}-${value}`,
    onchange: () => lab.set({ [key]: value }, { push: true }) }));
  follow(lab, () => {
    if (!values.includes(lab.state[key])) lab.state[key] = values[0];
    for (const input of inputs) input.checked = input.value === lab.state[key];
  });
  return el("fieldset", { class: "tabs" }, el("legend", { class: "hidden" }, lab.t(key)),
    inputs.map((input) => [input, el("label", { for: input.id }, lab.t(`${key}_${input.value}`))]));
}

/** A box to tick. */
export function check(lab, key) {
  const box = el("input", { id: `control-${++count}`, type: "checkbox", onchange: () => lab.set({ [key]: box.checked }) });
  follow(lab, () => (box.checked = lab.state[key]));
  return el("div", { class: "control check" }, box, el("label", { for: box.id }, rich(lab.t(key))));
}

/** Several of some values, as boxes under one title. chosen: those that hold, also where the state leaves it open. */
export function several(lab, key, values, names = (value) => lab.t(`${key}_${value}`), chosen = () => lab.state[key]) {
  const boxes = values.map((value) => el("input", { id: `control-${++count}`, type: "checkbox", value,
    onchange: () => lab.set({ [key]: boxes.filter((box) => box.checked).map((box) => box.value) }) }));
  follow(lab, () => {
    for (const box of boxes) box.checked = chosen().includes(box.value);
  });
  return el("fieldset", { class: "control several" }, el("legend", {}, lab.t(key)),
    boxes.map((box) => el("div", { class: "check" }, box, el("label", { for: box.id }, names(box.value)))));
}

/** A field for text. */
export function text(lab, key, { rows = 3 } = {}) {
  const field = el(rows > 1 ? "textarea" : "input", { id: `control-${++count}`, rows: rows > 1 ? rows : null,
    spellcheck: "false",
    autocomplete: "off", oninput: () => lab.set({ [key]: field.value }) });
  follow(lab, () => {
    if (field.value !== lab.state[key]) field.value = lab.state[key];
  });
  return labelled(lab, key, field);
}

/** A button; its text stands under `key`. */
export function button(lab, key, act) {
  return el("button", { type: "button", onclick: act }, lab.t(key));
}

// What pages share that let runs read a text: which runs can, a text to begin with, and questions while one types.

import { el } from "./dom.js";

export const MOST_TEXT = 4000; // characters that are sent
const WAIT = 150; // milliseconds without a key, after which a text counts as typed

/**
 * The names of the runs that a page can use, and a note that names the others with the reason.
 * Without any, the page says how to train one.
 * @param {(run: {kind: string, recurrent: boolean}) => boolean} fits
 * @returns {Promise<{names: string[], others: Node|null}>}
 */
export async function readable(lab, fits = () => true) {
  const { runs } = await lab.answer("/api/typed/runs");
  const good = (run) => !run.reason && fits(run);
  const left = runs.filter((run) => !good(run));
  const why = ({ reason, kind }) => (reason ? el("span", { lang: "en" }, reason) : lab.t("no_units", { kind }));
  const others = left.length ? el("details", { class: "data" },
    el("summary", {}, lab.t("unusable", { names: left.map(({ name }) => name).join(", ") })),
    el("ul", { class: "diagnoses" }, left.map((run) => el("li", {}, el("strong", {}, run.name), ": ", why(run))))) : null;
  const names = runs.filter(good).map(({ name }) => name);
  if (!names.length) lab.nothing("no_readable", others);
  return { names, others };
}

/** Begin with a text that the run was measured on, where the address has none; returns that text. */
export async function begin(lab, run, characters) {
  const { text } = await lab.answer("/api/typed/sample", { run, characters }).catch(() => ({ text: "" })); // said on reading
  const sample = text || lab.t("sample");
  if (!lab.state.text) lab.state.text = sample;
  return sample;
}

/** A function that asks at once, or once typing pauses if the text has changed. */
export function pausing(lab, ask) {
  let [timer, before] = [null, null];
  return () => {
    clearTimeout(timer);
    const typing = before !== null && before !== lab.state.text;
    before = lab.state.text;
    if (typing) timer = setTimeout(() => lab.open && ask(), WAIT);
    else ask();
  };
}

/** A piece where blanks and line ends must be seen. */
export const visible = (piece) => piece.replaceAll("\n", "⏎").replaceAll(" ", "␣") || "∅";

// Runs: learning curves, norms and rates, diagnoses, samples, configurations; follows what is still training.

import { plot } from "../charts.js";
import { check, choice, several } from "../controls.js";
import { el, scroll, show, table } from "../dom.js";

export const defaults = { runs: [], of: "perplexity", along: "tokens", xLog: false, yLog: true, follow: true, one: "",
  differing: true };
const PRESETS = [{}, { of: "bits", yLog: false }, { xLog: true }, null];
const MOST = 7; // runs drawn if none is chosen: there are as many colours and dashes
const SECONDS = 2; // between two looks at runs that are training
const FROM_LOSS = { perplexity: Math.exp, loss: (nats) => nats, bits: (nats) => nats / Math.LN2 };

export async function draw(lab) {
  const { state } = lab;
  const t = lab.t.bind(lab);
  const names = (await lab.runs()).map(({ name }) => name);
  if (!names.length) return lab.nothing("no_runs");
  const chosen = () => (state.runs.length ? state.runs.filter((name) => names.includes(name)) : names.slice(0, MOST));
  const main = plot({ title: t("main_title"), height: 340 });
  const norm = plot({ title: t("norm_title"), height: 200 });
  const rate = plot({ title: t("rate_title"), height: 200 });
  const [overview, configs, samples] = ["overview", "configs", "samples"].map((label) => scroll(t(label)));
  const doctor = el("div", {});
  const one = el("select", { id: "one", onchange: () => lab.set({ one: one.value }) });
  const fresh = el("p", { class: "small", role: "status" });
  lab.layout({
    presets: PRESETS,
    controls: [choice(lab, "of", ["perplexity", "loss", "bits", "measure"]),
      choice(lab, "along", ["tokens", "step", "seconds"]), check(lab, "xLog"),
      check(lab, "yLog"), lab.saved ? null : check(lab, "follow"), several(lab, "runs", names, (name) => name, chosen)],
    figures: [fresh, overview, el("div", {}, el("h2", {}, t("curves")), main.node,
      el("div", { class: "pair" }, el("div", {}, norm.node), el("div", {}, rate.node))),
      el("h2", {}, t("doctor")), doctor, el("h2", {}, t("samples")),
        el("div", { class: "control" }, el("label", { for: "one" }, t("one")), one), samples,
      el("h2", {}, t("configs")), check(lab, "differing"), configs],
  });
  let found = [];
  let asked = "";

  /** The pairs of a run where both numbers are there. */
  function pairs({ curves }, key, change = (value) => value) {
    const values = typeof key === "string" ? curves[key] : key;
    const kept = curves[state.along].map((x, place) => [x, values[place]]).filter(([x, y]) => x !== null && y !== null
      && y !== undefined && x !== undefined);
    return { x: kept.map(([x]) => x), y: kept.map(([, y]) => change(y)) };
  }

  function curves() {
    const common = { xLog: state.xLog, xLabel: t(`along_${state.along}`) };
    const drawn = found.filter((run) => run.curves.total);
    const lines = drawn.flatMap((run, slot) => (state.of === "measure"
      ? Object.entries(run.curves.measures).map(([measure, values]) => ({ name: `${run.name}: ${measure}`, slot, marks: true,
        ...pairs(run, values) }))
      : [{ name: t("training", { name: run.name }), slot, faint: true, ...pairs(run, "loss", FROM_LOSS[state.of]) },
        { name: t("validation", { name: run.name }), slot, marks: true, ...pairs(run, "valid_loss", FROM_LOSS[state.of]) }]));
    const outputs = [...new Set(drawn.map((run) => run.outputs).filter(Boolean))];
    const start = outputs.length === 1 && state.of !== "measure"
      ? [{ y: FROM_LOSS[state.of](Math.log(outputs[0])), label: t("uniform") }] : [];
    main.draw({ ...common, yLog: state.yLog, yLabel: t(`of_${state.of}`), series: lines.filter((line) => line.x.length),
      rules: start });
    norm.draw({ ...common, yLog: true,
      series: drawn.flatMap((run, slot) => [{ name: run.name, slot, ...pairs(run, "gradient_norm") },
      { name: t("clipped", { name: run.name }), slot, faint: true, ...pairs(run, "clipped_norm") }]) });
    rate.draw({ ...common, series: drawn.map((run, slot) => ({ name: run.name, slot, ...pairs(run, "learning_rate") })) });
  }

  const cell = (content, text = false) => el("td", text ? { class: "text" } : {}, content);

  function tables() {
    const least = (values) => values.filter((value) => value !== null && value !== undefined).reduce((a, b) => Math.min(a, b),
      Infinity);
    overview.replaceChildren(table(["run", "status", "step", "tokens", "parameters", "best"].map((key) => t(`column_${key}`)),
      found.map((run) => {
      const best = least(run.curves.valid_loss);
      return el("tr", {}, el("th", { scope: "row" }, run.name),
        el("td", { class: run.error ? "text long" : null }, run.error ?? t(`state_${run.state}`)),
        cell(show(run.step)), cell(show(run.curves.tokens.at(-1) ?? null)),
        cell(show(run.parameters)), el("td", { "data-value": best }, Number.isFinite(best) ? show(Math.exp(best), 4) : "–"));
    })));
    const told = (run) => el("div", {}, el("h3", {}, run.name),
      el("ul", { class: "diagnoses" }, run.diagnoses.map(({ severity, chinese, ...english }) => {
      const words = lab.lang === "zh" ? chinese : english;
      return el("li", {}, el("strong", { class: severity }, t("labelled", { what: t(severity) }),
        words.name.replaceAll("-", " ")), t("diagnosis", words));
    })));
    const well = (key, runs) => (runs.length ? el("p", {}, el("strong", {}, runs.map(({ name }) => name).join(", ")),
      ` – ${t(key)}`) : null);
    const silent = found.filter((run) => !run.diagnoses.length);
    doctor.replaceChildren(...found.filter((run) => run.diagnoses.length).map(told),
      ...[well("healthy", silent.filter((run) => run.curves.total)),
        well("one_go", silent.filter((run) => !run.curves.total))].filter(Boolean));
    one.replaceChildren(...found.map(({ name }) => el("option", { value: name }, name)));
    const sampled = found.find(({ name }) => name === state.one) ?? found[0];
    one.value = sampled?.name ?? "";
    samples.replaceChildren(sampled?.samples.length ? table([t("column_step"), t("sample")],
      [...sampled.samples].reverse().map(({ step, text }) =>
      el("tr", {}, el("th", { scope: "row" }, show(step)), el("td", { class: "text" },
        text.map((line) => el("div", {}, line))))), "texts") : el("p", { class: "small pad" }, t("no_samples")));
    const keys = [...new Set(found.flatMap(({ config }) => Object.keys(config)))];
    const values = (key) => found.map(({ config }) => config[key] ?? "–");
    const differs = (key) => new Set(values(key)).size > 1;
    const shown = keys.filter((key) => differs(key) || !state.differing || found.length === 1);
    configs.replaceChildren(shown.length ? table([t("option"), ...found.map(({ name }) => name)], shown.map((key) =>
      el("tr", { class: differs(key) ? "differs" : null }, el("th", { scope: "row" }, el("code", {}, key)),
        values(key).map((value) => cell(value, true)))), "texts")
      : el("p", { class: "small pad" }, t("same_options")));
  }

  function show_() {
    curves();
    tables();
    const cut = found.filter(({ curves: { step, total } }) => step.length < total).map(({ name, curves: { step, total } }) =>
      `${name}: ${t("cut", { shown: show(step.length), total: show(total) })}`);
    const going = found.filter((run) => run.state === "going").length;
    fresh.textContent = [going ? t(state.follow ? "following" : "going", { going }) : "", ...cut].filter(Boolean).join(" ");
  }

  function look() {
    return lab.attempt("look", async (current) => {
      const run = chosen();
      const { runs } = await lab.answer("look", { run });
      if (!current()) return;
      const before = JSON.stringify(found);
      [found, asked] = [runs, run.join()];
      if (JSON.stringify(found) !== before) show_();
    });
  }

  if (!lab.saved) {
    const timer = setInterval(() => {
      if (!lab.open) clearInterval(timer);
      else if (state.follow && !document.hidden && found.some((run) => run.state === "going")) look();
    }, SECONDS * 1000);
  }
  return () => (asked === chosen().join() ? show_() : look());
}

// Claims: what the field says, what was measured here, and what may be said of it.

import { plot } from "../charts.js";
import { choice } from "../controls.js";
import { el, rich, scroll, show, table } from "../dom.js";

export const defaults = { claim: "derivative-products", size: "full" };
const PRESETS = [{}, { claim: "long-lags" }, { size: "quick" }];
const HEAD = ["quantity", "verdict", "expected", "mean", "spread", "unit", "each", "why"];
const SIGNS = { holds: "✓", fails: "✗", undecided: "?" };

export async function draw(lab) {
  const { state } = lab;
  const t = lab.t.bind(lab);
  const said = (text) => text[lab.lang === "zh" ? "zh" : "en"];
  const sign = (verdict) => (verdict ? `${SIGNS[verdict.name]} ${said(verdict.text)}` : "–");
  const long = (content) => el("td", { class: "text long" }, content);
  const cell = (content, text = false) => el("td", text ? { class: "text" } : {}, content);
  const { claims, rule, folder } = await lab.answer("list");
  const [about, numbers, all] = [el("div", {}), scroll(t("quantities")), scroll(t("all"))];
  const pictures = el("div", {});
  lab.layout({
    presets: PRESETS,
    controls: [choice(lab, "claim", claims.map(({ id }) => id), Object.fromEntries(claims.map(({ id }) => [id, id]))),
      choice(lab, "size", ["full", "quick"])],
    figures: [about, numbers, pictures, el("h2", {}, t("all")), all, el("h2", {}, t("rule")), el("p", {}, rich(said(rule))),
      el("p", { class: "small" }, rich(t("where", { folder })))],
  });

  const whole = (end) => String(Number(end.toPrecision(10)));
  const within = ([low, high]) => (low === null ? `≤ ${whole(high)}` : high === null ? `≥ ${whole(low)}`
    : low === high ? whole(low) : `${whole(low)} … ${whole(high)}`);

  function overview() {
    all.replaceChildren(table(["claim", "says", "level", "size_full", "size_quick"].map((key) => t(key)), claims.map((claim) => el("tr", {},
      el("th", { scope: "row" }, el("button", { type: "button", onclick: () => lab.set({ claim: claim.id }, { push: true }) },
        claim.id)), long(said(claim.statement)), cell(said(claim.level), true),
      ["full", "quick"].map((size) => cell(sign(claim.verdicts[size]), true)))), "texts"));
  }

  function explain(claim, run) {
    const line = (key, text) => el("p", {}, el("strong", {}, t("labelled", { what: t(key) })), text);
    about.replaceChildren(el("h2", {}, said(claim.statement)),
      line("verdict", run ? sign(run.verdict) + t("seeds", { seeds: run.seeds }) : t("never")),
      line("level", said(claim.level)), claim.premises ? line("premises", said(claim.premises)) : "",
      line("misreading", said(claim.misreading)), line("experiment", said(claim.experiment)),
      ...claim.sources.map(({ key, reports }) => line("source", `[${key}] ${said(reports)}`)),
      run ? el("p", { class: "small" }, t("made", { began: run.began, seconds: show(run.seconds),
        commit: run.environment.commit ?? "–", processor: run.environment.processor,
        python: run.environment.python, torch: run.environment.libraries.torch })) : "");
  }

  function measured(run) {
    numbers.replaceChildren(run ? table(HEAD.map((key) => t(key)),
      run.quantities.map((one) => el("tr", {}, el("th", { scope: "row" }, said(one.what)), cell(sign(one.verdict), true),
        cell(one.expected ? within(one.expected) : t("reported"), true), el("td", { "data-value": one.mean }, show(one.mean, 4)),
        cell(show(one.spread)), cell(said(one.unit), true), long(one.values.map((value) => show(value, 4)).join(", ")),
        long(one.why ? said(one.why) : "")))) : el("p", { class: "small pad" }, t("never")));
    pictures.replaceChildren(...(run?.figures ?? []).map(({ title, x, y, xLog, yLog, marks, curves }) => {
      const chart = plot({ title: said(title), height: 300 });
      requestAnimationFrame(() => chart.draw({ xLog, yLog, xLabel: said(x), yLabel: said(y),
        series: curves.map((one) => ({ name: said(one.name), x: one.x, y: one.y, marks, band: one })) }));
      return chart.node;
    }));
  }

  overview();
  return () => lab.attempt("look", async (current) => {
    const claim = await lab.answer("look", { claim: state.claim });
    if (!current()) return;
    const run = claim.runs[state.size] ?? claim.runs.full ?? claim.runs.quick;
    explain(claim, run);
    measured(run);
  });
}

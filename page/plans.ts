// SPDX-License-Identifier: Apache-2.0
// Every family and library with its time, its interval, and why it lost. A click shows that plan in all pictures.
import { scaleLog } from "d3-scale";
import { Answer, family_text, shown_plan } from "./answer";
import { capital, el, svg, time_text } from "./dom";

const sentence_case = (why: string): string => (why.startsWith("cu") ? why : capital(why));
const name_of = (family: string): string => (family_text(family).startsWith("cu") ? family_text(family) : capital(family_text(family)));

const width = 560;

export function render_plans(root: HTMLElement, answer: Answer, others: { family: string; why: string }[], show: (family: string) => void): void {
  const times = answer.plans.flatMap((plan) => (plan.time === null ? [] : [plan.low, plan.high, plan.floor ?? plan.low]));
  const x = scaleLog().domain([Math.min(...times) * 0.9, Math.max(...times) * 1.1]).range([4, width - 4]);
  const shown = shown_plan(answer);
  const seen = new Set<string>();
  const plans = answer.plans.filter((plan) => !seen.has(plan.family) && Boolean(seen.add(plan.family)));
  const rows = plans.map((plan, i) => el("li", {},
    el("button", { type: "button", "aria-pressed": String(plan === shown), class: "plan", click: () => show(i === 0 ? "" : plan.family), title: plan.text },
      el("span", { class: "name" }, name_of(plan.family)),
      el("span", { class: "number" }, plan.time === null ? "does not run" : time_text(plan.time, answer.unit)),
      plan.time === null ? null : svg("svg", { viewBox: `0 0 ${width} 16`, "aria-hidden": "true", class: "range" },
        svg("line", { x1: 0, x2: width, y1: 8, y2: 8, class: "rail" }),
        svg("line", { x1: x(plan.low), x2: x(plan.high), y1: 8, y2: 8, class: plan.fits ? "interval fits" : "interval" }),
        svg("circle", { cx: x(plan.time), cy: 8, r: 5, class: plan.fits ? "time fits" : "time" })),
      el("span", { class: "why" }, sentence_case(plan.why), plan.fits ? el("span", { class: "tag" }, "on the chip") : null))));
  root.replaceChildren(
    el("ul", { class: "plans" }, ...rows),
    others.length > 0 ? el("details", {}, el("summary", {}, `${others.length} more without a plan`),
      el("ul", { class: "others" }, ...others.map(({ family, why }) => el("li", {}, el("b", {}, name_of(family)), `: ${sentence_case(why)}`)))) : "");
}

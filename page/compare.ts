// SPDX-License-Identifier: Apache-2.0
// A and B: an answer that was pinned beside the one that is shown.
import { Answer, Plan, shown_plan, family_text } from "./answer";
import { digits, el, quantity, signed, time_text, unit_of, words } from "./dom";

export function render_compare(root: HTMLElement, a: Answer, b: Answer, swap: () => void, unpin: () => void): void {
  const plans = [shown_plan(a), shown_plan(b)];
  const times = plans.map((plan) => plan?.time ?? null);
  const same_unit = a.unit === b.unit && a.per === b.per;
  const names = [...new Set(plans.flatMap((plan) => plan?.parts.map((part) => part.name) ?? []))];
  const part = (i: number, name: string): number | null => plans[i]?.parts.find((one) => one.name === name)?.time ?? null;
  const row = (name: string, cells: (string | null)[], change: string | null = null): HTMLElement =>
    el("tr", {}, el("th", { scope: "row" }, name), ...cells.map((cell) => el("td", {}, cell ?? "\u2013")), el("td", { class: "change" }, change ?? ""));
  const numbers = (name: string, [one, other]: (number | null)[]): HTMLElement =>
    row(name, [one, other].map((value, i) => (value === null ? null : time_text(value, [a, b][i].unit))),
        same_unit && one && other ? `${signed(100 * (other / one - 1))}\u202f%` : null);
  const interval = (plan: Plan | undefined, i: number): string | null => {
    const [scale, unit] = unit_of(plan?.time ?? 0, [a, b][i].unit);
    return plan && plan.time !== null ? `${digits(scale * plan.low)} to ${digits(scale * plan.high)} ${unit}` : null;
  };
  const [one, other] = plans, within = (time: number, plan: Plan): boolean => time >= plan.low && time <= plan.high;
  const is_same = same_unit && one && other && one.time !== null && other.time !== null && one.time !== other.time && within(one.time, other) && within(other.time, one);
  const number = (of: Answer, key: string): string => {
    const own = of.numbers.get(key);
    return of.state.set.get(key) ?? (own ? quantity(own.value, own.unit) : "\u2013");
  };
  const keys = [...new Set([...a.state.set.keys(), ...b.state.set.keys()])];
  root.replaceChildren(
    el("table", {}, el("thead", {}, el("tr", {}, el("td", {}), el("th", { scope: "col" }, "A"), el("th", { scope: "col" }, "B"), el("th", { scope: "col" }, "B against A"))),
      el("tbody", {},
        row("Network", [a.title, b.title]), row("Chip", [a.chip, b.chip]),
        ...keys.map((key) => row(key, [number(a, key), number(b, key)])),
        row("Stays on the chip", [a.fits ? "yes" : "no", b.fits ? "yes" : "no"]),
        row("Plan", plans.map((plan) => (plan ? family_text(plan.family) : null))),
        numbers("Time", times), row("95\u202f%", plans.map(interval), is_same ? "The difference is within what the model can tell." : null), numbers("Floor", plans.map((plan) => plan?.floor ?? null)),
        ...names.filter((name) => part(0, name) || part(1, name)).map((name) => numbers(words(name), [part(0, name), part(1, name)])))),
    el("p", { class: "actions" }, el("button", { type: "button", click: swap }, "Swap A and B"), el("button", { type: "button", click: unpin }, "Forget A")));
}

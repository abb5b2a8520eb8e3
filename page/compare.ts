// SPDX-License-Identifier: Apache-2.0
// A and B: an answer that was pinned beside the one that is shown.
import { Answer, shown_plan, family_text } from "./answer";
import { digits, el, signed, words } from "./dom";

export function render_compare(root: HTMLElement, a: Answer, b: Answer, swap: () => void, unpin: () => void): void {
  const plans = [shown_plan(a), shown_plan(b)];
  const times = plans.map((plan) => plan?.time ?? null);
  const same_unit = a.unit === b.unit && a.per === b.per;
  const names = [...new Set(plans.flatMap((plan) => plan?.parts.map((part) => part.name) ?? []))];
  const part = (i: number, name: string): number | null => plans[i]?.parts.find((one) => one.name === name)?.time ?? null;
  const row = (name: string, cells: (string | null)[], change: string | null = null): HTMLElement =>
    el("tr", {}, el("th", { scope: "row" }, name), ...cells.map((cell) => el("td", {}, cell ?? "\u2013")), el("td", { class: "change" }, change ?? ""));
  const numbers = (name: string, [one, other]: (number | null)[]): HTMLElement =>
    row(name, [one, other].map((value, i) => (value === null ? null : `${digits(value)} ${[a, b][i].unit}`)),
        same_unit && one && other ? `${signed(100 * (other / one - 1))}\u202f%` : null);
  const keys = [...new Set([...a.state.set.keys(), ...b.state.set.keys()])];
  root.replaceChildren(
    el("table", {}, el("thead", {}, el("tr", {}, el("td", {}), el("th", { scope: "col" }, "A"), el("th", { scope: "col" }, "B"), el("th", { scope: "col" }, "B against A"))),
      el("tbody", {},
        row("Network", [a.title, b.title]), row("Chip", [a.chip, b.chip]),
        ...keys.map((key) => row(key, [a.state.set.get(key) ?? null, b.state.set.get(key) ?? null])),
        row("Stays on the chip", [a.fits ? "yes" : "no", b.fits ? "yes" : "no"]),
        row("Plan", plans.map((plan) => (plan ? family_text(plan.family) : null))),
        numbers("Time", times), numbers("Floor", plans.map((plan) => plan?.floor ?? null)),
        ...names.filter((name) => part(0, name) || part(1, name)).map((name) => numbers(words(name), [part(0, name), part(1, name)])))),
    el("p", { class: "actions" }, el("button", { type: "button", click: swap }, "Swap A and B"), el("button", { type: "button", click: unpin }, "Unpin")));
}

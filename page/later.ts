// SPDX-License-Identifier: Apache-2.0
// What is filled in after the answer: the least change of one number, and what 10 % more of each number is worth.
import { Answer, ChipNumber, shown_plan } from "./answer";
import { Mark } from "./controls";
import { Json, State, changes_of, question_of } from "./state";
import { digits, el, grain_of, quantity, signed, svg, text_at } from "./dom";

export interface Remedy {
  key: string; // "hidden", "density", or the chip's
  from: number;
  to: number;
  time: number | null;
}

const kNames: Record<string, string> = {
  hidden: "hidden units", density: "density", "sm.count": "SMs", "registers.per_sm": "registers an SM",
  "shared_memory.per_sm": "shared memory an SM", "l2.size": "L2", "sm.clock": "clock",
};
export const key_name = (key: string): string => kNames[key] ?? key;

export function value_text(key: string, value: number, numbers: Map<string, ChipNumber>): string {
  return key === "hidden" ? String(value) : key === "density" ? `${+(100 * value).toPrecision(3)}%` : quantity(value, numbers.get(key)?.unit ?? "");
}

// Of the answers to "fit" and to what_if backwards: each single change that does, smallest first.
export function remedies_of(json: Json): Remedy[] {
  const of_fit = (json.to_fit ?? []).filter((one: Json) => one.change).map((one: Json): Remedy => ({ key: one.change, from: one.from, to: one.to, time: null }));
  const of_chip = [...(json.alone ?? []), ...(json.to_fit ?? []).filter((one: Json) => one.key)].filter((one: Json) => one.reached)
    .map((one: Json): Remedy => ({ key: one.key, from: one.from, to: one.values[one.key], time: one.step_us ?? one.us ?? one.ms ?? null }));
  const limits = (json.limits ?? []).filter((one: Json) => one.what === "hidden" && one.largest > 0)
    .map((one: Json): Remedy => ({ key: "hidden", from: json.network.hidden, to: one.largest, time: null }));
  const size = ({ from, to }: Remedy): number => Math.abs(Math.log(to / from));
  return [...limits, ...of_fit, ...of_chip].filter(({ to, from }) => to > 0 && to !== from).sort((a, b) => size(a) - size(b));
}

export function marks_of(remedies: Remedy[], numbers: Map<string, ChipNumber>, fits: boolean): Map<string, Mark> {
  return new Map(remedies.map(({ key, to, from }) => {
    const word = key === "hidden" || key === "density" ? (to < from ? "up to" : "to") : "from";
    return [key, { value: to, text: `${fits && to < from ? "still fits" : "fits"} ${word} ${value_text(key, to, numbers)}` }];
  }));
}

export function render_least(root: HTMLElement, answer: Answer, remedies: Remedy[] | null, wish: string, apply: (remedy: Remedy) => void): void {
  if (remedies === null) {
    root.replaceChildren(el("p", { class: "pending" }, "Looking for the smallest change of each number\u2026"));
    return;
  }
  const wanted = remedies.filter(({ from, to, key }) => wish !== "" || !answer.fits || (to < from && key !== "hidden" && key !== "density"));
  const intro = wish !== "" ? `Each of these alone ${wish}.`
    : answer.fits ? "It stays on the chip. This little of each number alone would still do." : "Each of these alone makes it stay on the chip.";
  root.replaceChildren(wanted.length === 0
    ? el("p", { class: "empty" }, wish !== "" ? `No single number ${wish}.` : "No single change within the chip's possible numbers.")
    : el("p", { class: "caption" }, intro),
    el("ul", { class: "remedies" }, ...wanted.map((remedy) => {
      const percent = 100 * (remedy.to / remedy.from - 1);
      return el("li", {}, el("button", { type: "button", class: "remedy", click: () => apply(remedy) },
        el("span", { class: "to" }, `${value_text(remedy.key, remedy.to, answer.numbers)} `, el("span", { class: "key" }, remedy.key === "density" ? "density" : key_name(remedy.key))),
        el("span", { class: "from" }, `instead of ${value_text(remedy.key, remedy.from, answer.numbers)}`),
        el("span", { class: "number" }, `${signed(percent)}\u202f%`)));
    })));
}

// ---- worth ----------------------------------------------------------------------------------------------------------

export interface Worth {
  key: string;
  percent: number; // of the time
}

// Numbers that a planner may buy come first, then what is measured of the hardware.
export function worth_keys(numbers: Map<string, ChipNumber>, state: State): string[] {
  const first = ["sm.count", "sm.clock", "registers.per_sm", "shared_memory.per_sm", "l2.size"];
  const rest = [...numbers.keys()].filter((key) => !first.includes(key) && numbers.get(key)!.value > 0 &&
    (state.workload === "step" ? /^(timing|exchange|shared_memory|registers\.per_thread)/ : /^(timing|exchange|library|dram|tensor|l2)/).test(key) && !/reserved|compute_capability|cluster/.test(key));
  return [...first, ...rest].filter((key) => numbers.has(key));
}

export async function worth_of(key: string, state: State, time: number, ask: (changes: string[], question: Json) => Promise<Json | null>): Promise<Worth | null | "none"> {
  const answer = await ask([...changes_of(state), `${key}=+10%`], question_of(state, "predict"));
  if (answer === null) {
    return null;
  }
  const changed = answer.step_us && state.workload === "step" ? answer.step_us : answer.us ?? answer.ms;
  return changed > 0 ? { key, percent: 100 * (changed / time - 1) } : "none";
}

export function render_worth(root: HTMLElement, answer: Answer, found: Worth[], asked: number, all: number): void {
  const plan = shown_plan(answer);
  if (!plan || plan.time === null) {
    root.replaceChildren(el("p", { class: "empty" }, "Without a time nothing is worth more of it."));
    return;
  }
  const width = Math.max(260, root.clientWidth), is_narrow = width < 480; // labels above their bars
  const row = is_narrow ? 42 : 24, down = is_narrow ? 18 : 0, middle = is_narrow ? width / 2 : 0.6 * width, reach = 0.5 * (width - middle);
  const largest = [...found].sort((a, b) => Math.abs(b.percent) - Math.abs(a.percent)).slice(0, 10).filter(({ percent }) => Math.abs(percent) >= 0.05);
  const most = Math.max(1, ...largest.map(({ percent }) => Math.abs(percent)));
  const bars = largest.flatMap(({ key, percent }, i) => {
    const length = (Math.abs(percent) / most) * reach, y = i * row;
    return [
      text_at(0, y + 16, key, { class: "axis strong" }),
      svg("rect", { x: percent < 0 ? middle - length : middle, y: y + down + 4, width: length, height: 16, rx: 2, class: percent < 0 ? "gain" : "loss" }),
      text_at(percent < 0 ? middle - length - 5 : middle + length + 5, y + down + 16, `${signed(percent)}\u202f%`, { class: "axis", "text-anchor": percent < 0 ? "end" : "start" }),
    ];
  });
  root.replaceChildren(
    el("p", { class: "caption" }, asked < all ? `10 % more of each number: ${asked} of ${all} asked` : `What 10 % more of each number changes of ${digits(plan.time)} ${answer.unit}`),
    largest.length > 0 ? svg("svg", { viewBox: `0 0 ${width} ${largest.length * row + 4}`, role: "img", "aria-label": largest.map(({ key, percent }) => `${key} ${percent.toFixed(1)} %`).join(", ") },
      ...bars, svg("line", { x1: middle, x2: middle, y1: 0, y2: largest.length * row, class: "tick" })) : "");
}

// ---- two numbers of the chip against each other ---------------------------------------------------------------------

export type Pair = [string, string]; // across, up

const kFactors = [0.5, 0.63, 0.8, 1, 1.25, 1.6, 2];

export function map_values(number: ChipNumber): number[] {
  const { value, minimum, maximum } = number, grain = Math.max(grain_of(number), 1);
  return [...new Set(kFactors.map((factor) => (factor === 1 ? value : Math.min(maximum, Math.max(minimum, Math.round((factor * value) / grain) * grain)))))];
}

// A row of the map: of each value across, whether the network stays on the chip.
export async function map_row([across, up]: Pair, value: number, values: number[], numbers: Map<string, ChipNumber>, state: State, ask: (question: Json) => Promise<Json | null>): Promise<string[] | null> {
  const text = (key: string, of: number): string => quantity(of, numbers.get(key)!.unit);
  const json = await ask({ ...question_of(state, "sweep", true), ...(state.workload === "step" ? { tier: "shared_memory" } : {}), axis: [{ [up]: [text(up, value)] }, { [across]: values.map((one) => text(across, one)) }] });
  return json && json.rows.map((row: Json) => (row.fits ? "fits" : "lacks"));
}

export function render_map(root: HTMLElement, [across, up]: Pair, numbers: Map<string, ChipNumber>, rows: Map<number, string[]>, apply: (values: Map<string, number>) => void): void {
  const width = Math.max(260, root.clientWidth), left = 74, cell = 26;
  const columns = map_values(numbers.get(across)!), lines = map_values(numbers.get(up)!).reverse();
  const each = (width - left) / columns.length, height = lines.length * cell;
  const here = (column: number, line: number): boolean => column === numbers.get(across)!.value && line === numbers.get(up)!.value;
  const text = (key: string, value: number): string => quantity(value, numbers.get(key)!.unit);
  const fitting = lines.flatMap((line) => (rows.get(line) ?? []).filter((what) => what === "fits")).length;
  root.replaceChildren(svg("svg", { viewBox: `0 0 ${width} ${height + 40}`, role: "img", "aria-label": `${key_name(up)} over ${key_name(across)}: ${fitting} of ${columns.length * lines.length} fit` },
    ...lines.flatMap((line, i) => [text_at(left - 6, i * cell + 17, text(up, line), { class: "axis", "text-anchor": "end" }),
      ...columns.map((column, j) => svg("rect", { x: left + j * each, y: i * cell, width: each - 2, height: cell - 2, rx: 2,
        class: `cell ${rows.get(line)?.[j] ?? "space"}${here(column, line) ? " here" : ""}`, click: () => apply(new Map([[across, column], [up, line]])) },
        svg("title", {}, `${text(across, column)}, ${text(up, line)}`)))]),
    ...columns.map((column, j) => (each > 74 || j % 2 === 1) && text_at(left + (j + 0.5) * each, height + 14, text(across, column), { class: "axis", "text-anchor": "middle" })).filter((one): one is SVGTextElement => Boolean(one)),
    ...([["stays on the chip", "fits"], ["does not", "lacks"]].flatMap(([label, name], i) => [
      svg("rect", { x: left + 142 * i, y: height + 26, width: 10, height: 10, rx: 2, class: `cell ${name}` }), text_at(left + 142 * i + 14, height + 35, label, { class: "axis" })]))));
}

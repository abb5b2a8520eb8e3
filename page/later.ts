// SPDX-License-Identifier: Apache-2.0
// What is filled in after the answer: the least change of one number, and what 10 % more of each number is worth.
import { Answer, ChipNumber, key_name, share_text, shown_plan, time_of } from "./answer";
import { Mark } from "./controls";
import { Json, State, changes_of, kMostBatch, kMostHidden, question_of } from "./state";
import { el, grain_of, quantity, signed, svg, text_at, time_text } from "./dom";

export type Ask = (question: Json) => Promise<Json>; // throws where it was overtaken
export interface Remedy {
  key: string; // "hidden", "density", "batch", or the chip's
  from: number;
  to: number;
  time: number | null;
  result?: HTMLElement; // where its time is shown
}
export const network_keys = ({ workload, weights }: State): string[] => ({ step: weights === "" ? ["hidden", "density"] : [], train: ["hidden", "batch"], layers: [] })[workload];

export const value_text = (key: string, value: number, numbers: Map<string, ChipNumber>): string =>
  key === "hidden" || key === "batch" ? String(value) : key === "density" ? share_text(value) : quantity(value, numbers.get(key)?.unit ?? "");

// Of the answers to "fit" and to what_if backwards: each single change that does.
export function remedies_of(json: Json): Remedy[] {
  const of_fit = (json.to_fit ?? []).filter((one: Json) => one.change).map((one: Json): Remedy => ({ key: one.change, from: one.from, to: one.to, time: null }));
  const of_chip = [...(json.alone ?? []), ...(json.to_fit ?? []).filter((one: Json) => one.key)].filter((one: Json) => one.reached)
    .map((one: Json): Remedy => ({ key: one.key, from: one.from, to: one.values?.[one.key] ?? one.to, time: one.us ?? one.step_us ?? one.ms ?? null }));
  const limits = (json.limits ?? []).filter((one: Json) => one.what === "hidden" && one.largest > 0)
    .map((one: Json): Remedy => ({ key: "hidden", from: json.network.hidden, to: one.largest, time: null }));
  return [...limits, ...of_fit, ...of_chip].filter(({ to, from }) => to > 0 && to !== from);
}

// The largest hidden size, density or batch with which it takes no longer than is wished: by bisection over quick answers,
// then downwards with exact ones. In the form of what_if.
export async function largest_within(key: string, state: State, ask: Ask): Promise<Json> {
  const [grain, least, most] = key === "hidden" ? [32, 64, kMostHidden] : key === "batch" ? [1, 1, kMostBatch] : [0.001, 0.01, 1];
  const value = (place: number): number => +(place * grain).toPrecision(6);
  let time: number | null = null;
  const reaches = async (place: number, quickly: boolean): Promise<boolean> => {
    time = time_of(await ask(question_of({ ...state, [key]: value(place) }, "predict", quickly)), state);
    return time !== null && time <= state.within;
  };
  let low = Math.round(least / grain) - 1, high = Math.round(most / grain) + 1;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    [low, high] = await reaches(middle, true) ? [middle, high] : [low, middle];
  }
  for (const last = low - 8; low > last && value(low) >= least; --low) {
    if (await reaches(low, false)) {
      return { alone: [{ key, from: state[key as "hidden"], to: value(low), reached: true, us: time }] };
    }
  }
  return {};
}

// What a card's change leads to, of the answer to "fit".
export function result_of(json: Json, state: State, unit: string): string {
  const time = time_of(json, state), faster = json.instead && time_of(json.instead, state);
  return !json.fits || time === null ? "" : `${time_text(time, unit)}${faster ? ` all on the chip, ${time_text(faster, unit)} with some weights read from L2` : ""}`;
}

export function marks_of(remedies: Remedy[], numbers: Map<string, ChipNumber>, fits: boolean): Map<string, Mark> {
  return new Map(remedies.map(({ key, to, from }) => {
    const word = key === "hidden" || key === "density" ? (to < from ? "up to" : "to") : "from";
    return [key, { value: to, text: `${fits && to < from ? "still fits" : "fits"} ${word} ${value_text(key, to, numbers)}` }];
  }));
}

// Smallest changes first; of what fits (`is_spare`) those that take something away from the chip.
export function render_least(root: HTMLElement, answer: Answer, remedies: Remedy[], intro: string, searched: string, is_spare: boolean, apply: (remedy: Remedy) => void): void {
  const is_network = ({ key }: Remedy): boolean => network_keys(answer.state).includes(key);
  const size = ({ from, to }: Remedy): number => Math.abs(Math.log(to / from));
  const card = (remedy: Remedy): HTMLElement => {
    const { key, from, to, time } = remedy;
    remedy.result = el("span", { class: "from" }, time === null ? "" : time_text(time, answer.unit));
    return el("li", {}, el("button", { type: "button", class: "remedy", click: () => apply(remedy) },
      el("span", { class: "to" }, `${value_text(key, to, answer.numbers)} `, el("span", { class: "key" }, key_name(key))),
      el("span", { class: "from" }, `instead of ${value_text(key, from, answer.numbers)}`),
      el("span", { class: "number" }, `${signed(100 * (to / from - 1))}\u202f%`), remedy.result));
  };
  const list = (title: string, of: Remedy[]): HTMLElement | false => of.length > 0 &&
    el("section", {}, el("h3", {}, title), el("ul", { class: "remedies" }, ...of.sort((a, b) => size(a) - size(b)).map(card)));
  root.replaceChildren(el("p", { class: "caption" }, intro),
    el("div", { class: "remedy-lists" }, list("Change the network", remedies.filter((one) => is_network(one) && !is_spare)),
      list("Change the chip", remedies.filter((one) => !is_network(one) && !(is_spare && one.to > one.from)))),
    searched === "" ? "" : el("p", { class: "pending", role: "status" }, searched));
}

// ---- worth ----------------------------------------------------------------------------------------------------------

export interface Worth { key: string; percent: number } // of the time

// Numbers that a planner may buy come first, then what is measured of the hardware.
export function worth_keys(numbers: Map<string, ChipNumber>, state: State): string[] {
  const first = ["sm.count", "sm.clock", "registers.per_sm", "shared_memory.per_sm", "l2.size"];
  const rest = [...numbers.keys()].filter((key) => !first.includes(key) && numbers.get(key)!.value > 0 &&
    (state.workload === "step" ? /^(timing|exchange|shared_memory|registers\.per_thread)/ : /^(timing|exchange|library|dram|tensor|l2)/).test(key) && !/reserved|compute_capability|cluster/.test(key));
  return [...first, ...rest].filter((key) => numbers.has(key));
}

export async function worth_of(key: string, state: State, time: number, ask: (changes: string[], question: Json) => Promise<Json>): Promise<Worth | null> {
  const changed = time_of(await ask([...changes_of(state), `${key}=+10%`], question_of(state, "predict")), state) ?? 0;
  return changed > 0 ? { key, percent: 100 * (changed / time - 1) } : null;
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
    el("p", { class: "caption" }, asked < all ? `10\u202f% more of each number: ${asked} of ${all} asked` : `What 10\u202f% more of each number changes of ${time_text(plan.time, answer.unit)}`),
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
export async function map_row([across, up]: Pair, value: number, values: number[], numbers: Map<string, ChipNumber>, state: State, ask: Ask): Promise<string[]> {
  const text = (key: string, of: number): string => quantity(of, numbers.get(key)!.unit);
  const json = await ask({ ...question_of(state, "sweep", true), ...(state.workload === "step" ? { tier: "shared_memory" } : {}), axis: [{ [up]: [text(up, value)] }, { [across]: values.map((one) => text(across, one)) }] });
  return (json.rows ?? []).map((row: Json) => (row.fits ? "fits" : "lacks"));
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

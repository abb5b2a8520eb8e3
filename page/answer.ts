// SPDX-License-Identifier: Apache-2.0
// What the pictures draw of an answer, alike for all workloads: plans of the question "rank", whose JSON differs.
import { Json, State } from "./state";
import { amount, digits, quantity, time_text, unit_of, words } from "./dom";

export interface Part { name: string; time: number }
export interface Resource {
  name: string;
  used: number;
  available: number;
  weights: number; // of what is used; what is neither weights nor state is staging
  state: number;
  unit: string;
}
export interface Plan {
  family: string;
  why: string;
  text: string;
  fits: boolean; // stays on the chip
  time: number | null; // none: it does not run
  low: number;
  high: number;
  floor: number | null;
  parts: Part[];
  resources: Resource[];
  binding: string;
  json: Json;
}
export interface Answer {
  state: State;
  chip: string;
  title: string; // "lstm H=5632 B=4 10 %"
  unit: string; // of times
  per: string; // "a step"
  fits: boolean; // a plan stays on the chip
  plans: Plan[]; // the answer first
  kept?: Plan; // that stays on the chip, where the answer is a faster one that does not
  is_quick: boolean; // of rows of their expected lengths
  numbers: Map<string, ChipNumber>; // of the chip as it was asked about
}
export interface ChipNumber {
  key: string;
  value: number;
  text: string;
  unit: string;
  minimum: number;
  maximum: number;
  step: number;
  meaning: string;
  source: string;
}

export const share_text = (share: number): string => `${+(100 * share).toPrecision(3)}\u202f%`;

function title_of(state: State): string {
  if (state.workload === "layers") {
    return `${state.network} with ${state.images.toLocaleString("en").replace(/,/g, "\u202f")} images`;
  }
  const count = (number: number, what: string): string => `${number} ${what}${number === 1 ? "" : "s"}`;
  const training = state.workload === "train" ? ` (${count(state.layers, "layer")}, ${count(state.steps, "step")})` : "";
  const dense = state.density === 1 ? "" : ` ${share_text(state.density)}`;
  return `${state.cell === "lstm" || state.cell === "gru" ? state.cell.toUpperCase() : state.cell} H=${state.hidden} B=${state.batch}${dense}${state.precision === "fp16" ? "" : ` ${state.precision}`}${training}`;
}

function parts_of(json: Json): Part[] {
  if (json.terms) {
    return json.terms.map((term: Json) => ({ name: term.name, time: term.us }));
  }
  if (json.terms_ms) {
    return Object.entries(json.terms_ms).map(([name, time]) => ({ name, time: time as number }));
  }
  const sums = new Map<string, number>();
  for (const phase of json.phases ?? []) {
    sums.set(phase.name, (sums.get(phase.name) ?? 0) + (phase.beside ? 0 : phase.us));
  }
  return [...sums].map(([name, time]) => ({ name, time }));
}

function resources_of(json: Json, state: State): Resource[] {
  if (state.workload !== "layers") {
    return json.resources ?? [];
  }
  const { shared_bytes: shared, l2_bytes: l2 } = json.capacity ?? {};
  return shared ? [{ name: "shared_memory", used: shared.needed, available: shared.available, weights: 0, state: shared.needed, unit: "bytes per SM" },
                   { name: "l2", used: l2.needed, available: l2.available, weights: l2.needed, state: 0, unit: "bytes" }] : [];
}

// Hidden size and density of weights are those of the answer.
export const size_of = ({ network }: Json): { hidden: number; density: number } => ({ hidden: network.hidden, density: network.density });

// Of an answer of one plan, or of each in one of "rank".
export const time_of = (json: Json, { workload }: State): number | null => json[{ step: "step_us", train: "us", layers: "ms" }[workload]] ?? null;

function read_plan(json: Json, state: State): Plan {
  const [low, high] = (state.workload === "layers" ? json.interval_ms : json.interval_us) ?? [null, null];
  return {
    family: json.family ?? json.plan.family, why: why_text(json.why ?? ""), text: json.plan.text, fits: json.fits, time: time_of(json, state), low, high,
    floor: (state.workload === "layers" ? json.floor_ms : json.floor_us) ?? null,
    parts: parts_of(json).filter((part) => part.time !== null), resources: resources_of(json, state),
    binding: json.binding ?? "", json,
  };
}

// `kept`: the answer for a plan that stays on the chip, where it was asked for.
export function read_answer(json: Json, state: State, numbers: Map<string, ChipNumber>, is_quick = false, kept?: Json): Answer {
  const plans = json.plans.filter((plan: Json) => plan.plan).map((plan: Json) => read_plan(plan, state));
  return {
    state, chip: json.chip, title: state.weights && state.workload === "step" ? `${state.weights}: ${title_of({ ...state, ...size_of(json) })}` : title_of(state), unit: state.workload === "layers" ? "ms" : "\u00b5s",
    per: { step: "a step", train: "an iteration", layers: "for all images" }[state.workload], fits: json.fits || kept?.fits === true, plans, numbers,
    is_quick, ...(kept?.fits ? { kept: read_plan(kept, state) } : {}),
  };
}

export const without_plan = (json: Json): { family: string; why: string }[] =>
  json.plans.filter((plan: Json) => !plan.plan).map((plan: Json) => ({ family: plan.family, why: why_text(plan.why) }));

export function shown_plan(answer: Answer): Plan | undefined {
  const of_family = answer.plans.find((plan) => plan.family === answer.state.family);
  return of_family ?? answer.plans[0];
}

const kLibraries = new Map([["cudnn", "cuDNN"], ["cublas_graph", "cuBLAS"], ["cusparse", "cuSPARSE"],
  ["cudnn_training", "cuDNN"], ["cublas_layers", "cuBLAS"], ["cusparse_graph", "cuSPARSE"], ["cusparse_layers", "cuSPARSE"]]);
export const family_text = (family: string): string => kLibraries.get(family) ?? words(family);
// The model's reason, with libraries' names, numbers and units as the page has them.
const why_text = (why: string): string => why.replace(/(\d+) of (\d+) (bytes)/, (_, needs, has, unit) => `${amount(+needs, unit)} of ${amount(+has, unit)}`).replace(/\bcu\w+/g, (name) => kLibraries.get(name) ?? name).replace(/ us\b/g, " \u00b5s").replace(/\d+\.\d{3}\b/g, (time) => digits(Number(time)));

const kNames: Record<string, string> = {
  hidden: "hidden units", density: "density", batch: "batch", "sm.count": "SMs", "registers.per_sm": "registers an SM",
  "shared_memory.per_sm": "shared memory an SM", "l2.size": "L2", "sm.clock": "clock",
};
export const key_name = (key: string): string => kNames[key] ?? key;

// "H200 with 224 SMs"
export function chip_text({ chip, state, numbers }: Answer): string {
  const changed = [...state.set.keys()].map((key) => `${quantity(numbers.get(key)?.value ?? 0, numbers.get(key)?.unit ?? "")} ${key_name(key)}`);
  return changed.length === 0 ? chip : `${chip} with ${changed.length > 3 ? `${changed.length} other numbers` : changed.join(" and ")}`;
}

// The resource of which most is taken, among those whose lack keeps a network off the chip.
export function tightest(plan: Plan): Resource | undefined {
  const spaces = plan.resources.filter(({ name, available }) => available > 0 && /^(registers|shared_memory|sms)$/.test(name));
  return spaces.sort((a, b) => b.used / b.available - a.used / a.available)[0];
}

// Whether the answer's colour is that of a network that stays on the chip.
export const is_good = (answer: Answer): boolean => shown_plan(answer)?.fits || (answer.fits && shown_plan(answer) === answer.plans[0]);

// One sentence, which a screen reader reads out after every change.
export function sentence_of(answer: Answer): string {
  const { title, unit, per, kept } = answer, chip = chip_text(answer), end = answer.is_quick ? "; checking\u2026" : ".";
  const plan = shown_plan(answer);
  if (!plan) {
    return `${title} has no plan on the ${chip}${end}`;
  }
  const is_answer = plan === answer.plans[0];
  const of_family = is_answer ? "" : ` with ${family_text(plan.family)}`;
  const verdict = `${title} ${plan.fits ? "stays on" : is_good(answer) ? "fits on" : answer.is_quick ? "seems not to stay on" : "does not stay on"} the ${chip}`;
  if (plan.time === null) {
    const over = tightest(plan);
    const lack = over && over.used > over.available
      ? `: ${words(over.name)} needs ${amount(over.used, over.unit)} and has ${amount(over.available, over.unit)}` : "";
    return `${verdict}${of_family}${lack}${end}`;
  }
  const from_l2 = plan.resources.find(({ name }) => name === "l2")?.weights ?? 0;
  const reads = plan.json.tier === "streamed" ? `${from_l2 > 0 ? amount(from_l2, "bytes") : "some"} of weights read from L2` : "";
  const [scale, name] = unit_of(plan.time, unit);
  const number = (time: number): string => digits(scale * time);
  const time = `${number(plan.time)}\u00a0${name}`, range = ` (95\u202f%: ${number(plan.low)} to ${number(plan.high)})${plan.floor ? `, floor ${number(plan.floor)}` : ""}`;
  // Registers are filled first, so that they limit nothing while there is room in shared memory.
  const size = plan.fits && plan.json.tier === "shared_memory" ? ", and its size is limited by shared memory" : "";
  const bottleneck = plan.binding ? `; the bottleneck is ${words(plan.binding)}${size}` : "";
  const with_what = reads ? ` with ${reads}` : ` with ${family_text(plan.family)}`;
  const times = plan.fits ? `${of_family}: ${time} ${per}`
    : kept?.time && is_answer ? `: ${time_text(kept.time, unit)} ${per} all on the chip, ${time}${with_what}`
    : `${reads ? `, with ${reads} in every step` : ` and ${is_good(answer) ? "is faster" : "runs"} with ${family_text(plan.family)}`}: ${time} ${per}`;
  return `${verdict}${times}${range}${bottleneck}${end}`;
}

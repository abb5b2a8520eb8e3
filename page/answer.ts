// SPDX-License-Identifier: Apache-2.0
// What the pictures draw of an answer, alike for all workloads: plans of the question "rank", whose JSON differs.
import { Json, State } from "./state";
import { amount, digits, words } from "./dom";

export interface Part {
  name: string;
  time: number;
}
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
  const dense = state.density === 1 ? "" : ` ${share_text(state.density)}`;
  return `${state.cell === "lstm" || state.cell === "gru" ? state.cell.toUpperCase() : state.cell} H=${state.hidden} B=${state.batch}${dense}${state.precision === "fp16" ? "" : ` ${state.precision}`}`;
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

export function read_answer(json: Json, state: State, numbers: Map<string, ChipNumber>): Answer {
  const scale = state.workload === "layers" ? "ms" : "us";
  const plans = json.plans.filter((plan: Json) => plan.plan).map((plan: Json): Plan => {
    const time = state.workload === "layers" ? plan.ms : state.workload === "train" ? plan.us : plan.step_us;
    const [low, high] = (state.workload === "layers" ? plan.interval_ms : plan.interval_us) ?? [null, null];
    return {
      family: plan.family, why: why_text(plan.why), text: plan.plan.text, fits: plan.fits, time: time ?? null, low, high,
      floor: (state.workload === "layers" ? plan.floor_ms : plan.floor_us) ?? null,
      parts: parts_of(plan).filter((part) => part.time !== null), resources: resources_of(plan, state),
      binding: plan.binding ?? "", json: plan,
    };
  });
  return {
    state, chip: json.chip, title: state.weights && state.workload === "step" ? `${state.weights}: ${title_of({ ...state, ...size_of(json) })}` : title_of(state), unit: scale === "us" ? "\u00b5s" : "ms",
    per: { step: "a step", train: "an iteration", layers: "for all images" }[state.workload], fits: json.fits, plans, numbers,
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
// The model's reason, with libraries' names and units as the page has them.
const why_text = (why: string): string => why.replace(/\bcu\w+/g, (name) => kLibraries.get(name) ?? name).replace(/ us\b/g, " \u00b5s");

export const time_text = (plan: Plan, unit: string): string => (plan.time === null ? "does not run" : `${digits(plan.time)} ${unit}`);

// The resource of which most is taken, among those whose lack keeps a network off the chip.
export function tightest(plan: Plan): Resource | undefined {
  const spaces = plan.resources.filter(({ name, available }) => available > 0 && /^(registers|shared_memory|sms)$/.test(name));
  return spaces.sort((a, b) => b.used / b.available - a.used / a.available)[0];
}

// One sentence, which a screen reader reads out after every change.
export function sentence_of(answer: Answer): string {
  const { title, chip, unit, per } = answer;
  const plan = shown_plan(answer);
  if (!plan) {
    return `${title} has no plan on the ${chip}.`;
  }
  const is_answer = plan === answer.plans[0];
  const of_family = is_answer ? "" : ` with ${family_text(plan.family)}`;
  const where = plan.fits ? "stays on" : answer.fits && is_answer ? "fits on" : "does not stay on";
  if (plan.time === null) {
    const over = tightest(plan);
    const lack = over && over.used > over.available
      ? `: ${words(over.name)} needs ${amount(over.used, over.unit)} and has ${amount(over.available, over.unit)}` : "";
    return `${title}${of_family} ${where} the ${chip}${lack}.`;
  }
  const floor = plan.floor ? `, floor ${digits(plan.floor)}` : "";
  const time = `${digits(plan.time)}\u00a0${unit} ${per} (${digits(plan.low)} to ${digits(plan.high)})${floor}`;
  const with_what = plan.fits ? of_family : plan.json.tier !== "streamed" ? ` and runs with ${family_text(plan.family)}`
    : is_answer && answer.fits ? " and is faster with some weights read from L2" : " and reads some weights from L2 in every step";
  const most = tightest({ ...plan, resources: plan.resources.filter(({ name }) => name !== "sms") });
  const size = plan.fits && most && most.name !== "sms" && most.used / most.available > 0.5 ? `, ${words(most.name)} its size` : "";
  const binding = plan.binding ? `; ${words(plan.binding)} binds its time${size}` : "";
  return `${title} ${where} the ${chip}${with_what}: ${time}${binding}.`;
}

// SPDX-License-Identifier: Apache-2.0
// What is asked, in the command line's own words: it is the page's whole state, stands in the address behind '#', and is
// turned into questions of model/ask/ask.hpp and into commands.

export type Workload = "step" | "train" | "layers";

export interface State {
  workload: Workload;
  chip: string; // a shipped chip's name, or the text of a chip file
  cell: string;
  hidden: number;
  batch: number;
  density: number;
  precision: string;
  layers: number; // of a training
  steps: number;
  network: string; // of a sparse deep network
  images: number;
  alive: number; // a share of the images, from the second layer on
  set: Map<string, string>; // changes of the chip: key -> "283 KiB"
  weights: string; // the name of the user's file; "": a generated mask
  family: string; // whose plan is shown; "": the answer's
  within: number; // the wished time in us or ms; 0: none
  than: string; // the address of what is compared with; "": nothing
}

export const kCells = ["relu", "tanh", "lstm", "gru"];
export const kPrecisions = ["fp16", "bf16", "fp32", "fp8"];
export const kNetworks = ["spdnn:1024x30", "spdnn:1024x120", "spdnn:1024x480", "spdnn:4096x30", "spdnn:4096x120"];
export const kMostNeurons = 4096 * 120; // of all layers, that are planned in seconds
export const neurons_of = (network: string): number => {
  const [, inputs, layers] = /(\d+)x(\d+)$/.exec(network) ?? [];
  return Number(inputs ?? 0) * Number(layers ?? 0);
};
export const kMostHidden = 16384;
export const kMostBatch = 512;

export const usual = (): State => ({
  workload: "step", chip: "h200", cell: "lstm", hidden: 5632, batch: 4, density: 0.1, precision: "fp16", layers: 1,
  steps: 256, network: "spdnn:1024x120", images: 60000, alive: 0.25, set: new Map(), weights: "", family: "", within: 0, than: "",
});

export const percent = (share: number): string => `${+(100 * share).toPrecision(3)}%`;

function share(text: string, otherwise: number): number {
  const number = text.endsWith("%") ? parseFloat(text) / 100 : parseFloat(text);
  return number > 0 && number <= 1 ? number : otherwise;
}

function whole(text: string, least: number, most: number, otherwise: number): number {
  const number = Math.round(parseFloat(text));
  return number >= least && number <= most ? number : otherwise;
}

const one_of = (text: string, words: string[], otherwise: string): string => (words.includes(text) ? text : otherwise);

// Of each word of an address the value that it says, or what was there otherwise.
const up_to = (most: number) => (text: string, otherwise: number): number => whole(text, 1, most, otherwise);
const kReaders: Record<string, (text: string, otherwise: any) => any> = {
  chip: (text, otherwise) => text || otherwise, network: (text, otherwise) => text || otherwise, weights: String, family: String, than: String,
  cell: (text, otherwise) => one_of(text, kCells, otherwise), precision: (text, otherwise) => one_of(text, kPrecisions, otherwise), density: share, alive: share,
  hidden: up_to(kMostHidden), batch: up_to(1024), layers: up_to(64), steps: up_to(100000), images: up_to(10000000),
  within: (text) => Math.max(0, parseFloat(text) || 0),
};

// Never throws: what an address says wrongly is as usual. Unknown words are left out, so that old addresses keep working.
export function read_address(address: string): State {
  const state = usual();
  const words = address.replace(/^#/, "").split("&").filter((word) => word !== "");
  const values = words.map((word): [string, string] => {
    const at = word.indexOf("=");
    const text = (part: string): string => {
      try {
        return decodeURIComponent(part.replace(/\+(?!\d)/g, " "));
      } catch {
        return part;
      }
    };
    return at < 0 ? [word, ""] : [text(word.slice(0, at)), text(word.slice(at + 1))];
  });
  const names = new Map(values);
  state.workload = names.get("mode") === "train" ? "train" : names.has("network") ? "layers" : "step";
  if (state.workload === "train") {
    Object.assign(state, { density: 1, hidden: 1024, batch: 64 });
  }
  const read: Record<string, any> = state;
  for (const [name, text] of values) {
    const at = text.indexOf("=");
    if (name === "set" && at > 0) {
      state.set.set(text.slice(0, at), text.slice(at + 1));
    } else if (Object.hasOwn(kReaders, name)) {
      read[name] = kReaders[name](text, read[name]);
    }
  }
  return state;
}

function words_of(state: State): [string, string][] {
  const words: [string, string][] = [["chip", state.chip]];
  if (state.workload === "layers") {
    words.push(["network", state.network], ["images", String(state.images)], ["alive", percent(state.alive)]);
  } else {
    words.push(["cell", state.cell], ["hidden", String(state.hidden)], ["batch", String(state.batch)],
               ["density", percent(state.density)], ["precision", state.precision]);
    if (state.workload === "train") {
      words.unshift(["mode", "train"]);
      words.push(["layers", String(state.layers)], ["steps", String(state.steps)]);
    }
  }
  if (state.workload === "step") {
    words.push(["weights", state.weights]);
  }
  for (const [key, value] of state.set) {
    words.push(["set", `${key}=${value}`]);
  }
  return words;
}

export function address_of(state: State, alone = false): string {
  const words = words_of(state);
  if (!alone) {
    words.push(["family", state.family], ["within", state.within > 0 ? String(state.within) : ""], ["than", state.than]);
  }
  const plain = (text: string): string =>
    encodeURIComponent(text).replace(/%3D/g, "=").replace(/%3A/g, ":").replace(/%2F/g, "/").replace(/%20/g, "+")
      .replace(/\+(?=\d)/g, "%20");
  return "#" + words.filter(([, text]) => text !== "").map(([name, text]) =>
    `${name}=${name === "than" ? encodeURIComponent(text) : plain(text)}`).join("&");
}

const quoted = (text: string): string => (/^[\w.:%/-]+$/.test(text) ? text : `'${text}'`);

// The wished time as what_if has it: a training's is that of each step.
export const target_of = ({ workload, within, steps }: State): string =>
  workload === "layers" ? `ms<=${within}` : `step_us<=${workload === "train" ? +(within / steps).toPrecision(6) : within}`;
export const kVaried = ["sm.count", "sm.clock", "registers.per_sm", "shared_memory.per_sm"]; // to reach it

// What a shell takes: of a wished time what reaches it, else the plan that is shown.
export function command_of(state: State): string {
  const is_file = state.chip.includes("\n");
  const has_weights = state.workload === "step" && state.weights !== ""; // whose size and density are theirs
  const words = words_of(state).filter(([name, text]) => text !== "" && !(has_weights && /^(hidden|density)$/.test(name))).map(([name, text]) => `--${name} ${quoted(name === "chip" && is_file ? "chip.toml" : text)}`);
  if (state.within > 0) {
    words.push(`--target ${quoted(target_of(state))}`, ...kVaried.map((key) => `--vary ${key}`));
  } else if (state.family !== "" && state.workload !== "layers") {
    words.push(`--family ${state.family}`);
  }
  return `onchip ${state.within > 0 ? "what-if" : "predict"} ${words.join(" ")}`;
}

export const changes_of = (state: State): string[] => [...state.set].map(([key, value]) => `${key}=${value}`);

export type Json = any; // an answer, whose forms model/answer/ lists

// Quickly: of expected row lengths instead of those of a generated mask, while something moves.
export function question_of(state: State, ask: string, quickly = false): Json {
  if (state.workload === "layers") {
    return { ask, network: state.network, images: state.images, alive: state.alive };
  }
  const network = {
    cell: state.cell, hidden: state.hidden, batch: state.batch, density: state.density, precision: state.precision,
  };
  return state.workload === "train"
    ? { ask, mode: "train", network: { ...network, steps: state.steps }, layers: state.layers }
    : state.weights !== "" ? { ask, network: { cell: state.cell, batch: state.batch, precision: state.precision }, weights: state.weights }
    : { ask, network, ...(quickly ? { rows: "expected" } : {}) };
}

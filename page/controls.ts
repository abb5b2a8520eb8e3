// SPDX-License-Identifier: Apache-2.0
// The form: what is asked. Elements stay where they are, so that the focus does; update() brings them to a state.
import { ChipNumber, key_name, share_text } from "./answer";
import { State, Workload, kCells, kMostBatch, kMostHidden, kMostNeurons, kNetworks, kPrecisions, usual } from "./state";
import { amount, capital, el, grain_of, quantity, read_quantity } from "./dom";

export const kSliders = ["sm.count", "registers.per_sm", "shared_memory.per_sm", "l2.size", "sm.clock"];

export interface Mark { value: number; text: string } // "fits from 283 KiB"
export type Change = (change: Partial<State>, is_moving: boolean) => void;

interface Field { element: HTMLElement; update(state: State): void }

const kSteps = 1000; // of a logarithmic slider

interface Range {
  label: string;
  least: number;
  most: number;
  round(value: number): number;
  text(value: number): string;
  read(text: string): number;
  of(state: State): number;
  set(value: number, is_moving: boolean): void;
}

// A slider over a logarithmic range, and a field beside it to type the value into.
class LogSlider {
  private slider: HTMLInputElement;
  private typed: HTMLInputElement;
  private tick = el("span", { class: "mark", hidden: true });
  private mark_text = el("span", { class: "mark-text" });
  private said = el("span", { class: "said", role: "status" });
  private value = 0;
  readonly element: HTMLElement;

  constructor(private range: Range, extra?: HTMLElement) {
    const id = `slider-${range.label.replace(/\W+/g, "-").toLowerCase()}`;
    this.slider = el("input", {
      type: "range", min: 0, max: kSteps, step: 1, id,
      input: () => this.moved(true), change: () => this.moved(false), keydown: (event) => this.key(event as KeyboardEvent),
    });
    this.typed = el("input", { type: "text", inputmode: "decimal", "aria-label": `${range.label}, typed`, change: () => this.take(range.read(this.typed.value)) });
    this.element = el("div", { class: "slider" },
      el("div", { class: "labels" }, el("label", { for: id }, range.label), this.typed),
      el("div", { class: "rail" }, this.slider, this.tick), el("div", { class: "below" }, this.said, this.mark_text, extra));
  }

  // What is out of range is brought to its end, and said so; what is no number is put back.
  private take(value: number): void {
    const { least, most, text, set } = this.range, is_number = isFinite(value);
    this.said.textContent = !is_number ? "expected a number" : value > most ? `at most ${text(most)}` : value < least ? `at least ${text(least)}` : "";
    this.value = is_number ? Math.min(most, Math.max(least, value)) : this.value;
    this.typed.value = text(this.value);
    if (is_number) {
      set(this.value, false);
    }
  }

  private place(value: number): number {
    const { least, most } = this.range;
    return Math.min(1, Math.max(0, Math.log(value / least) / Math.log(most / least)));
  }

  private value_at(step: number): number {
    const { least, most, round } = this.range;
    return round(least * (most / least) ** (step / kSteps));
  }

  // To the next value that there is, which may be several steps away.
  private key(event: KeyboardEvent): void {
    const way = /^Arrow(Right|Up)$/.test(event.key) ? 1 : /^Arrow(Left|Down)$/.test(event.key) ? -1 : 0;
    if (way !== 0) {
      event.preventDefault();
      const from = this.value_at(Number(this.slider.value));
      let step = Number(this.slider.value);
      while (step >= 0 && step <= kSteps && this.value_at(step) === from) {
        step += way;
      }
      this.slider.value = String(step);
      this.moved(true);
    }
  }

  private moved(is_moving: boolean): void {
    const { set } = this.range;
    const value = this.value_at(Number(this.slider.value));
    this.typed.value = this.range.text(value);
    set(value, is_moving);
  }

  update(state: State): void {
    const value = this.range.of(state);
    if (Math.abs(value / this.value - 1) > 0.01) {
      this.said.textContent = "";
    }
    this.value = value;
    if (!this.slider.matches(":active")) {
      this.slider.value = String(Math.round(kSteps * this.place(value)));
    }
    this.slider.setAttribute("aria-valuetext", this.range.text(value));
    if (document.activeElement !== this.typed) {
      this.typed.value = this.range.text(value);
    }
  }

  mark(mark: Mark | undefined): void {
    this.tick.hidden = !mark;
    this.mark_text.textContent = mark?.text ?? "";
    this.tick.style.setProperty("--at", String(this.place(mark?.value ?? this.range.least)));
  }
}

function choice<T extends string>(legend: string, values: readonly T[], labels: readonly string[], of: (state: State) => T, set: (value: T) => void): Field {
  const name = legend.toLowerCase().replace(/\W+/g, "-");
  const inputs = values.map((value) => el("input", { type: "radio", name, value, change: () => set(value) }));
  return {
    element: el("fieldset", { class: "choice" }, el("legend", {}, legend),
      el("div", { class: "segments" }, ...inputs.map((input, i) => el("label", {}, input, el("span", {}, labels[i]))))),
    update: (state) => inputs.forEach((input) => (input.checked = input.value === of(state))),
  };
}

function selection(label: string, of: (state: State) => string, set: (value: string) => void, values: () => [string, string][]): Field {
  const select: HTMLSelectElement = el("select", { id: `select-${label.toLowerCase().replace(/\W.*/, "")}`, change: () => set(select.value) });
  return {
    element: el("div", { class: "field" }, el("label", { for: select.id }, label), select),
    update: (state) => {
      const all = values();
      if (!all.some(([value]) => value === of(state))) {
        all.push([of(state), of(state).includes("\n") ? "your chip file" : of(state)]);
      }
      const key = JSON.stringify(all);
      if (select.dataset.key !== key) {
        select.dataset.key = key;
        select.replaceChildren(...all.map(([value, text]) => el("option", { value }, text)));
      }
      select.value = of(state);
    },
  };
}

// As in the name of its file: "RTX 4090" -> "rtx_4090".
export const chip_word = (name: string): string => name.toLowerCase().replace(/\W+/g, "_");

export class Controls {
  private fields: { of: Workload[]; field: Field }[] = [];
  private sliders = new Map<string, { slider: LogSlider; element: HTMLElement }>();
  private chip_sliders = el("div", { class: "sliders" });
  private search: HTMLInputElement;
  private keys = el("datalist", { id: "chip-keys" });
  private chips: string[] = [];
  private numbers = new Map<string, ChipNumber>(); // of the chip without changes
  private network = new Map<string, LogSlider>();
  private state = usual();

  constructor(root: HTMLElement, private change: Change, take_file: (file: File) => void) {
    const now = <K extends keyof State>(key: K) => (value: State[K]) => change({ [key]: value }, false);
    const all: Workload[] = ["step", "train", "layers"], recurrent: Workload[] = ["step", "train"];
    const add = (of: Workload[], field: Field): HTMLElement => {
      this.fields.push({ of, field });
      return field.element;
    };
    const range = (name: string, of: Workload[], range_: Range): HTMLElement => {
      const slider = new LogSlider(range_);
      this.network.set(name, slider);
      return add(of, slider);
    };
    const whole = (text: string): number => Math.round(parseFloat(text));
    const number = (label: string, key: "hidden" | "batch" | "layers" | "steps" | "images", least: number, most: number, step: number): Range => ({
      label, least, most, round: (value) => Math.max(least, Math.round(value / step) * step), text: String, read: whole,
      of: (state) => state[key], set: (value, moving) => change({ [key]: value }, moving),
    });
    const share = (label: string, key: "density" | "alive"): Range => ({
      label, least: 0.01, most: 1, round: (value) => +value.toPrecision(2), text: share_text,
      read: (text) => parseFloat(text) / 100, of: (state) => state[key], set: (value, moving) => change({ [key]: value }, moving),
    });
    root.append(
      el("section", { class: "group", "aria-label": "Network" },
        add(all, choice("Workload", ["step", "train", "layers"], ["Step", "Training step", "Sparse deep net"], (state) => state.workload, (workload) =>
          change(workload === "train" ? { workload, density: 1, hidden: 1024, batch: 64, family: "", within: 0 }
            : workload === "step" ? { workload, density: 0.1, hidden: 5632, batch: 4, family: "", within: 0 } : { workload, family: "", within: 0 }, false))),
        add(recurrent, choice("Cell", kCells, kCells, (state) => state.cell, now("cell"))),
        add(["layers"], selection(`Network, of at most ${amount(kMostNeurons, "")} neurons in all layers`, (state) => state.network, now("network"), () => kNetworks.map((name) => [name, name]))),
        range("hidden", recurrent, number("Hidden size", "hidden", 64, kMostHidden, 32)),
        range("density", recurrent, share("Density", "density")),
        range("batch", recurrent, number("Batch", "batch", 1, kMostBatch, 1)),
        range("layers", ["train"], number("Layers", "layers", 1, 8, 1)),
        range("steps", ["train"], number("Steps", "steps", 16, 2048, 8)),
        range("images", ["layers"], number("Images", "images", 100, 1000000, 100)),
        range("alive", ["layers"], share("Images that stay alive", "alive")),
        add(["step"], this.own_weights(take_file)),
        add(recurrent, choice("Precision", kPrecisions, kPrecisions, (state) => state.precision, now("precision")))),
      el("section", { class: "group", "aria-label": "Chip" },
        add(all, selection("Chip", (state) => state.chip, (chip) => change({ chip, set: new Map() }, false), () =>
          this.chips.map((name): [string, string] => [chip_word(name), name]))),
        this.chip_sliders,
        el("div", { class: "field" }, el("label", { for: "search" }, "Any other number"),
          (this.search = el("input", { id: "search", type: "search", list: "chip-keys", placeholder: "exchange.signal", autocomplete: "off", change: () => this.add_key() })), this.keys)));
  }

  private own_weights(take_file: (file: File) => void): Field {
    const input: HTMLInputElement = el("input", { type: "file", id: "weights", accept: ".mtx,.smtx,.npy,.safetensors", change: () => input.files?.[0] && take_file(input.files[0]) });
    const name = el("span", {}), remove = el("button", { type: "button", class: "reset", click: () => this.change({ weights: "" }, false) }, "generate a mask");
    return {
      element: el("div", { class: "field" }, el("label", { for: "weights" }, "Weights of your own; they stay on this machine"), input, el("div", { class: "below" }, name, remove)),
      update: ({ weights }) => {
        name.textContent = weights;
        name.hidden = remove.hidden = weights === "";
      },
    };
  }

  private add_key(): void {
    const key = this.search.value.trim();
    const number = this.numbers.get(key);
    if (number) {
      this.search.value = "";
      const set = new Map(this.state.set);
      set.set(key, quantity(number.value, number.unit));
      this.change({ set }, false);
      this.sliders.get(key)?.element.querySelector("input")?.focus();
    }
  }

  set_chips(names: string[]): void {
    this.chips = names;
    this.update(this.state);
  }

  // Of the chip as it is, and with its changes.
  set_numbers(own: Map<string, ChipNumber>): void {
    if (own === this.numbers) {
      return;
    }
    this.numbers = own;
    this.keys.replaceChildren(...[...own.values()].map(({ key, meaning }) => el("option", { value: key }, meaning)));
    this.sliders.clear();
    this.chip_sliders.replaceChildren();
    this.update(this.state);
  }

  private slider_of(key: string, number: ChipNumber): void {
    const own = number.value;
    const step = grain_of(number);
    const put = (value: number, moving: boolean): void => {
      const set = new Map(this.state.set);
      if (value === own) {
        set.delete(key);
      } else {
        set.set(key, quantity(value, number.unit));
      }
      this.change({ set }, moving);
    };
    const reset = el("button", { type: "button", class: "reset", hidden: true, click: () => put(own, false) }, "reset");
    const slider = new LogSlider({
      label: kSliders.includes(key) ? capital(key_name(key)) : key, least: Math.max(number.minimum, own / 4), most: Math.min(number.maximum, own * 4),
      round: (value) => (Math.abs(value / own - 1) < 0.012 ? own : step > 0 ? Math.max(step, Math.round(value / step) * step) : +value.toPrecision(3)),
      text: (value) => quantity(value, number.unit),
      read: read_quantity, of: () => this.current(key, own), set: put,
    }, reset);
    const element = slider.element;
    element.querySelector("label")!.title = `${number.meaning}. Source: ${number.source}`;
    element.append(el("details", { class: "source" }, el("summary", {}, "Source"), `${number.meaning}: ${quantity(own, number.unit)}. ${number.source}`));
    this.sliders.set(key, { slider, element });
    this.chip_sliders.append(element);
  }

  private current(key: string, own: number): number {
    const text = this.state.set.get(key);
    if (text === undefined) {
      return own;
    }
    return /^[+-].*%$/.test(text) ? own * (1 + parseFloat(text) / 100) : /^x/.test(text) ? own * parseFloat(text.slice(1)) : read_quantity(text);
  }

  update(state: State): void {
    this.state = state;
    for (const { of, field } of this.fields) {
      field.element.hidden = !of.includes(state.workload);
      field.update(state);
    }
    const wanted = [...kSliders, ...[...state.set.keys()].filter((key) => !kSliders.includes(key))];
    for (const key of wanted) {
      const number = this.numbers.get(key);
      if (number && !this.sliders.has(key)) {
        this.slider_of(key, number);
      }
    }
    for (const [key, { slider, element }] of this.sliders) {
      element.hidden = !wanted.includes(key);
      slider.update(state);
      element.classList.toggle("changed", state.set.has(key));
      (element.querySelector(".reset") as HTMLElement).hidden = !state.set.has(key);
    }
  }

  // Where the answer tips, by "hidden", "density" and the chip's keys.
  mark(marks: Map<string, Mark>): void {
    this.network.forEach((slider, name) => slider.mark(marks.get(name)));
    this.sliders.forEach(({ slider }, key) => slider.mark(marks.get(key)));
  }
}

// SPDX-License-Identifier: Apache-2.0
// The step: its terms as one bar, the floor as a line, the 95 % interval as whiskers.
import { scaleLinear } from "d3-scale";
import { Answer, Part, Plan, family_text, shown_plan } from "./answer";
import { measured_here } from "./measured";
import { capital, digits, el, svg, text_at, time_text, unit_of, words } from "./dom";

// What the term is, what would make it less, and its formula (docs/how-the-model-works.md).
const kTerms: Record<string, [string, string, string]> = {
  exchange: ["SMs write their part of the state and wait for all others", "fewer SMs, a faster signal between them, a smaller state", "signal + latency + per_sm \u00d7 SMs + per_warp \u00d7 warps + 2 block barriers"],
  staging: ["the whole state is copied from L2 into each SM", "a smaller state, a lower batch, more bytes a cycle to each SM", "bytes of the state / bytes a cycle to an SM + round trips + looks"],
  gather: ["state values are read from shared memory, by each weight's column", "fewer weights an SM, more SMs, more or wider banks, a higher clock", "max(wavefronts \u00d7 lds_wavefront, loads \u00d7 lds_instruction)"],
  arithmetic: ["products and sums", "fewer weights, more SMs, a higher clock", "\u221b(gather\u00b3 + issue\u00b3 + chain\u00b3) \u2212 gather + the longest warp's rest"],
  reduction: ["lanes of one row sum what each found", "fewer lanes a row", "passes \u00d7 max(shuffles, issue, loads)"],
  activation: ["gates, and the new state", "fewer units an SM, a cell with fewer gates", "passes \u00d7 outputs of a lane \u00d7 (functions \u00d7 tanh_latency + shuffle)"],
  streaming: ["weights that do not stay on the chip are read from L2 or DRAM", "more shared memory or registers, a smaller network, more bandwidth", "streamed bytes of an SM / bytes a cycle to an SM"],
  launch: ["the library's kernels start", "more work in each call", "starts \u00d7 time of one"],
  packing: ["weights are brought into the kernel's order", "more DRAM bandwidth", "bytes / bandwidth"],
  input_product: ["the input times its weights, of all steps at once", "more tensor-core throughput", "max(bytes / bandwidth, multiplications / rate)"],
  forward: ["the recurrence, forward", "see a step", "steps \u00d7 (exchange + staging + arithmetic + gather + reduction + activation)"],
  backward: ["the recurrence, backward", "see a step", "steps \u00d7 (exchange + staging + arithmetic + gather + reduction + split + activation)"],
  data_product: ["gradients with regard to the input", "more tensor-core throughput", "max(bytes / bandwidth, multiplications / rate)"],
  weight_product: ["gradients with regard to the weights", "more tensor-core throughput", "max(bytes / bandwidth, multiplications / rate)"],
  library: ["the library's whole iteration", "another library, or a network that stays on the chip", "products + launches + grid barriers"],
  products: ["products and sums of all layers", "more SMs, a higher clock", "instructions and tensor cores of a partition's warps"],
  shared_memory: ["waiting for shared memory beyond the products", "more bandwidth of shared memory", "wavefronts, beyond products and latency"],
  l2: ["weights are read from L2", "more L2 bandwidth, more images in a tile", "bytes of weights / bandwidth, beyond products and latency"],
  latency: ["waiting for what is under way", "more warps", "ldmatrix + product after product + epilogue"],
  barriers: ["a block's warps wait for each other", "fewer, larger layers", "layers \u00d7 block barrier"],
  images: ["images are read", "more DRAM bandwidth", "bytes / bandwidth"],
  survivors: ["images that stay alive are written and read again", "fewer launches", "bytes / bandwidth"],
  launches: ["kernels start", "fewer launches", "nodes of the graph \u00d7 time of one"],
};
const kDenseFormulas: Record<string, string> = {
  exchange: "signal + 2 block barriers + stores / 9 + 87 \u00d7 (SMs a word \u2212 1)", staging: "words asked for at once \u00d7 (36 + looks) + waiting",
  gather: "by weights of \u221b(tensor\u00b3 + loads\u00b3)", arithmetic: "by weights of \u221b(tensor\u00b3 + loads\u00b3)",
  reduction: "transfers / 2 + 2 lds_latency + log\u2082(warps) \u00d7 arithmetic_latency", activation: "functions \u00d7 latency + 239 cycles a started warp",
};
const kPalette = ["sky", "yellow", "blue", "orange", "green", "purple", "vermilion", "grey"];
const kColored = Object.keys(kTerms).slice(0, kPalette.length); // always alike

export function render_step(root: HTMLElement, answer: Answer): void {
  const plan = shown_plan(answer);
  if (!plan || plan.time === null || plan.parts.length === 0) {
    root.replaceChildren(el("p", { class: "empty" }, plan ? "It does not run, so that a step has no time." : "No plan."));
    return;
  }
  const parts = plan.parts.filter((part) => part.time > 0);
  const color = (part: Part, i: number): string => `var(--${kPalette[kColored.includes(part.name) ? kColored.indexOf(part.name) : i % kPalette.length]})`;
  root.replaceChildren(bar(plan, parts, color, answer, Math.max(260, root.clientWidth)), list(plan, parts, color, answer));
}

function bar(plan: Plan, parts: Part[], color: (part: Part, i: number) => string, answer: Answer, width: number): SVGElement {
  const total = plan.time!, [scale, unit] = unit_of(total, answer.unit);
  const x = scaleLinear().domain([0, Math.max(plan.high, total) * 1.04]).range([0, width - 8]);
  const top = 30, height = 56, middle = top + height / 2;
  let at = 0;
  const boxes = parts.flatMap((part, i) => {
    const from = x(at), to = x((at += part.time));
    const label = to - from > 8 * part.name.length + 12;
    return [
      svg("rect", { x: from, y: top, width: Math.max(0, to - from - 1), height, fill: color(part, i), rx: 2 },
          svg("title", {}, `${words(part.name)}: ${time_text(part.time, answer.unit)}`)),
      label && text_at(from + 8, middle - 2, words(part.name), { class: `on on-${color(part, i).slice(6, -1)}` }),
      label && text_at(from + 8, middle + 15, digits(scale * part.time), { class: `on on-${color(part, i).slice(6, -1)}` }),
    ];
  });
  const low = x(plan.low), high = x(plan.high), floor = plan.floor ? x(plan.floor) : null;
  const measured = measured_here(answer.state, plan.family);
  const is_narrow = width < 640, below = top + height + 40; // the floor has a line of its own
  const ticks = x.ticks(Math.min(8, Math.floor(width / 70)));
  return svg("svg", { viewBox: `0 0 ${width} ${measured && is_narrow ? 150 : 132}`, role: "img", "aria-label": `${family_text(plan.family)}: ${time_text(total, answer.unit)} ${answer.per}`, class: "bar" },
    ...ticks.map((tick) => svg("line", { x1: x(tick), x2: x(tick), y1: top + height, y2: top + height + 5, class: "tick" })),
    ...ticks.map((tick, i) => text_at(x(tick), top + height + 20, i === ticks.length - 1 ? `${+(scale * tick).toPrecision(6)} ${unit}` : String(+(scale * tick).toPrecision(6)), { class: "axis", "text-anchor": i === 0 ? "start" : "middle" })),
    ...boxes.filter((box): box is SVGRectElement | SVGTextElement => Boolean(box)),
    svg("path", { d: `M${low},${top - 16}H${high}M${low},${top - 21}v10M${high},${top - 21}v10M${x(total)},${top - 22}v22`, class: "whisker" }),
    low > 50 && text_at(low - 6, top - 12, "95\u202f%", { class: "axis", "text-anchor": "end" }),
    measured && svg("circle", { cx: x(Math.min(measured.us, x.domain()[1])), cy: middle, r: 7, class: "measured-step" }, svg("title", {}, measured.text)),
    measured && text_at(width - 8, is_narrow ? below + 18 : below, measured.text, { class: "axis strong", "text-anchor": "end" }),
    floor !== null && svg("path", { d: `M${floor},${top - 6}V${top + height + 6}m0,18v12`, class: "floor" }), // not across the numbers
    floor !== null && text_at(floor + 6, below, `floor ${digits(scale * plan.floor!)}${width - floor > (measured ? 640 : 280) ? ": no plan of this kind is faster" : ""}`, { class: "axis strong" }));
}

function list(plan: Plan, parts: Part[], color: (part: Part, i: number) => string, answer: Answer): HTMLElement {
  return el("ul", { class: "terms" }, ...parts.map((part, i) => {
    const [what, less, formula] = kTerms[part.name] ?? ["", "", ""];
    return el("li", { tabindex: 0 },
      el("span", { class: "dot", style: `background:${color(part, i)}` }),
      el("span", { class: "name" }, capital(words(part.name))),
      el("span", { class: "number" }, time_text(part.time, answer.unit)),
      el("span", { class: "number quiet" }, `${Math.round((100 * part.time) / plan.time!)}\u202f%`),
      el("span", { class: "more" }, capital(what) + ".", less && el("em", {}, ` Less with ${less}.`), formula && el("code", {}, (/^dense_p/.test(plan.family) && kDenseFormulas[part.name]) || formula)));
  }));
}

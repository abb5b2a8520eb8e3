// SPDX-License-Identifier: Apache-2.0
// The chip: as many tiles as it has SMs, those that the plan uses filled; one SM large, with what fills its memories.
// What is too much hangs over the edge.
import { Answer, Resource, shown_plan } from "./answer";
import { amount, el, svg, text_at } from "./dom";

export function render_chip(root: HTMLElement, answer: Answer): void {
  const plan = shown_plan(answer);
  const has = (key: string): number => answer.numbers.get(key)?.value ?? 0;
  const sms = has("sm.count"), width = Math.max(260, root.clientWidth);
  const resource = (name: string): Resource | undefined => plan?.resources.find((one) => one.name === name);
  const of_sms = resource("sms");
  const used = of_sms ? of_sms.used : plan?.fits ? sms : 0;
  const shown = Math.min(Math.max(sms, used), 400);
  const columns = Math.ceil(Math.sqrt(shown * 3.4)), rows = Math.ceil(shown / columns), pitch = width / columns;
  const tiles = Array.from({ length: shown }, (_, i) => svg("rect", {
    x: (i % columns) * pitch, y: Math.floor(i / columns) * pitch, width: pitch - 3, height: pitch - 3, rx: 2,
    class: i >= sms ? "tile over" : i < used ? "tile used" : "tile",
  }));

  const threads = resource("threads"), registers = resource("registers"), file = has("registers.per_sm");
  const of_all = (count: number): number => 4 * count * (threads?.used ?? 0); // bytes of all threads
  const shared = resource("shared_memory"), l2 = resource("l2");
  const memories: [string, Resource | undefined, number][] = [
    ["Register file", registers && { ...registers, used: of_all(registers.used), weights: of_all(registers.weights), state: of_all(registers.state), available: 4 * file, unit: "bytes" }, 4],
    ["Shared memory", shared, 1], ["L2, of all SMs", l2, 1],
  ];
  const idle = used === 0;
  let y = rows * pitch + 26;
  const large = idle ? [] : memories.flatMap(([name, of, partitions]) => {
    if (!of || of.available <= 0 || (name === "Register file" && of.used === 0)) {
      return [];
    }
    const [drawn, below] = memory(name, of, width, y, partitions);
    y = below + 24;
    return drawn;
  });
  root.replaceChildren(
    el("p", { class: "caption" }, `${of_sms || plan?.fits ? `${Math.round(used)} of ${sms} SMs${used > sms ? ": more than there are" : ""}` : `${sms} SMs`}. ` +
      (idle ? "A library's kernels keep nothing on the chip from step to step." : "Below, the memories of each.")),
    svg("svg", { viewBox: `0 0 ${width} ${Math.ceil(idle ? rows * pitch : y - 18)}`, role: "img", "aria-label": `${used} of ${sms} SMs are used` }, ...tiles, ...large));
}

// Weights, state, staging, and what is free; by partition.
function memory(name: string, of: Resource, width: number, y: number, partitions: number): [SVGElement[], number] {
  const share = of.used / of.available, over = share > 1;
  const scale = over ? width / Math.min(share, 3) : width; // what there is, in pixels
  const height = 30, top = y + 8, gap = partitions > 1 ? 4 : 0, each = scale / partitions - gap;
  const parts: [string, number, string][] = ([["weights", of.weights, "blue"], ["state", of.state, "sky"], ["staging", of.used - of.weights - of.state, "yellow"]] as [string, number, string][]).filter(([, value]) => value > 0);
  const cells = Array.from({ length: partitions }, (_, i) => {
    let at = (i * scale) / partitions;
    const end = at + each;
    return [svg("rect", { x: at, y: top, width: each, height, class: "space" }), ...parts.map(([, value, color]) => {
      const from = at;
      at = Math.min(end, at + (value / of.available) * each);
      return svg("rect", { x: from, y: top, width: at - from, height, fill: `var(--${color})` });
    })];
  }).flat();
  const split = [...parts.map(([what, value]) => `${what} ${amount(value, of.unit)}`), ...(over ? [] : [`free ${amount(of.available - of.used, of.unit, of.available)}`])];
  let x = 0, line = top + height + 17;
  const key = split.flatMap((text, i) => {
    const color = parts[i]?.[2], wide = 7 * text.length + 20;
    [x, line] = x + wide > width ? [0, line + 18] : [x, line];
    const from = x;
    x += wide + 6;
    return [svg("rect", { x: from, y: line - 9, width: 10, height: 10, rx: 2, ...(color ? { fill: `var(--${color})` } : { class: "space" }) }),
      text_at(from + 14, line, text, { class: "axis" })];
  });
  const numbers = over ? `needs ${amount(of.used, of.unit)}, has ${amount(of.available, of.unit)}` : `${amount(of.used, of.unit, of.available)} of ${amount(of.available, of.unit)}`;
  return [[
    text_at(0, y, name), text_at(width, y, numbers, { class: over ? "over" : "axis strong", "text-anchor": "end" }), ...cells, ...key,
    ...(over ? [svg("rect", { x: scale, y: top, width: Math.min(share, 3) * scale - scale, height, class: "hanging" }),
      svg("line", { x1: scale, x2: scale, y1: top - 2, y2: top + height + 2, class: "edge" })] : []),
  ], line];
}

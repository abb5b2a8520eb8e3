// SPDX-License-Identifier: Apache-2.0
// The chip: as many tiles as it has SMs, those that the plan uses filled; one SM large, with what fills its memories.
// What is too much hangs over the edge.
import { Answer, Resource, shown_plan } from "./answer";
import { amount, el, svg } from "./dom";

const width = 560;

export function render_chip(root: HTMLElement, answer: Answer): void {
  const plan = shown_plan(answer);
  const has = (key: string): number => answer.numbers.get(key)?.value ?? 0;
  const sms = has("sm.count");
  const resource = (name: string): Resource | undefined => plan?.resources.find((one) => one.name === name);
  const of_sms = resource("sms");
  const used = of_sms ? of_sms.used : plan?.fits ? sms : 0;
  const shown = Math.min(Math.max(sms, used), 400);
  const columns = Math.ceil(Math.sqrt(shown * 3.4)), rows = Math.ceil(shown / columns);
  const pitch = width / columns, size = pitch - 3;
  const tiles = Array.from({ length: shown }, (_, i) => svg("rect", {
    x: (i % columns) * pitch, y: Math.floor(i / columns) * pitch, width: size, height: size, rx: 2,
    class: i >= sms ? "tile over" : i < used ? "tile used" : "tile",
  }));
  const chip = svg("svg", { viewBox: `0 0 ${width} ${rows * pitch}`, role: "img", "aria-label": `${used} of ${sms} SMs are used` }, ...tiles);

  const threads = resource("threads"), registers = resource("registers");
  const file = has("registers.per_sm");
  const of_file: Resource | undefined = registers && threads && threads.used > 0
    ? { name: "registers", used: 4 * registers.used * threads.used, available: 4 * file, unit: "bytes" } : undefined;
  const shared = resource("shared_memory"), l2 = resource("l2");
  const memories = [
    of_file && memory("Register file", of_file, "blue", 4),
    shared && shared.available > 0 && memory("Shared memory", shared, "sky", 1),
    l2 && l2.available > 0 && memory("L2, of all SMs", l2, "orange", 1),
  ].filter((one): one is HTMLElement => Boolean(one));
  const idle = used === 0;
  root.replaceChildren(
    el("p", { class: "caption" }, of_sms || plan?.fits ? `${Math.round(used)} of ${sms} SMs${used > sms ? ": more than there are" : ""}` : `${sms} SMs`),
    chip,
    el("p", { class: "caption" }, idle ? "A library's kernels keep nothing on the chip from step to step." : "In each SM"),
    ...(idle ? [] : memories));
}

function memory(name: string, of: Resource, color: string, partitions: number): HTMLElement {
  const share = of.used / of.available, over = share > 1;
  const scale = over ? width / Math.min(share, 3) : width; // what there is, in pixels
  const height = 34, filled = Math.min(share, over ? 3 : 1) * scale;
  const cells = Array.from({ length: partitions }, (_, i) => {
    const from = (i * scale) / partitions, each = scale / partitions - (partitions > 1 ? 4 : 0);
    return [
      svg("rect", { x: from, y: 1, width: each, height, class: "space", rx: 3 }),
      svg("rect", { x: from, y: 1, width: Math.min(1, share) * each, height, fill: `var(--${color})`, rx: 3 }),
    ];
  }).flat();
  return el("div", { class: "memory" },
    el("div", { class: "labels" }, el("span", { class: "name" }, name),
       el("span", { class: over ? "number over" : "number" },
          over ? `needs ${amount(of.used, of.unit)}, has ${amount(of.available, of.unit)}`
               : `${amount(of.used, of.unit)} of ${amount(of.available, of.unit)}`)),
    svg("svg", { viewBox: `0 0 ${width} ${height + 2}`, role: "img", "aria-label": `${name}: ${Math.round(100 * share)} % used`, preserveAspectRatio: "none" },
      ...cells,
      over && svg("rect", { x: scale, y: 1, width: filled - scale, height, class: "hanging", rx: 3 }),
      over && svg("line", { x1: scale, x2: scale, y1: 0, y2: height + 2, class: "edge" })));
}


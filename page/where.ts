// SPDX-License-Identifier: Apache-2.0
// Where a network sits: hidden size against density (of a training: against the batch), both logarithmic. Areas say where
// the weights then lie. Their edges are sought column by column, in fewer than a dozen questions each.
import { Scale, scaleLog } from "d3-scale";
import { area, line } from "d3-shape";
import { Ask } from "./later";
import { State, changes_of, kMostBatch, kMostHidden } from "./state";
import { share_text } from "./answer";
import { measured_beside } from "./measured";
import { el, svg, text_at } from "./dom";

const left = 52, bottom = 40, right = 18, top = 10;
const kLeast = 64, kColumns = 13;

export interface Tier { name: string; label: string; color: string }
const kStepTiers: Tier[] = [
  { name: "registers", label: "all in registers", color: "blue" },
  { name: "shared_memory", label: "and in shared memory", color: "sky" },
  { name: "streamed", label: "some read from L2", color: "orange" },
];
const kTrainTiers: Tier[] = [{ name: "fits", label: "trained on the chip", color: "blue" }];

// Of each column the largest hidden size whose weights still lie in a tier, by tier.
export class Frontier {
  largest: Map<number, number[]> = new Map(); // of a density, or a batch
  constructor(readonly key: string, readonly tiers: Tier[], readonly columns: number[]) {}
}

export function frontier_of(state: State): Frontier {
  const train = state.workload === "train";
  const key = JSON.stringify([state.workload, state.chip, changes_of(state), state.cell, state.precision, state.layers,
    train ? [state.steps, state.density] : state.batch]);
  const columns = train ? Array.from({ length: 10 }, (_, i) => 2 ** i)
    : Array.from({ length: kColumns }, (_, i) => +(100 ** (i / (kColumns - 1) - 1)).toPrecision(3));
  return new Frontier(key, train ? kTrainTiers : kStepTiers, columns);
}

// Of other chips as they are: where all weights still stay on the chip.
const kOthers: [string, string][] = [["a100", "A100"], ["h200", "H200"], ["b200", "B200"], ["rtx_4090", "RTX 4090"]];
export interface Other { chip: string; name: string; frontier: Frontier }
export function others_of(state: State): Other[] {
  const columns = state.workload === "train" ? [1, 16, 64, 256] : [0.01, 0.03, 0.1, 0.3, 1];
  return kOthers.filter(([chip]) => chip !== state.chip).map(([chip, name]) => {
    const { key, tiers } = frontier_of({ ...state, chip, set: new Map() });
    return { chip, name, frontier: new Frontier(key, tiers.filter((tier) => tier.name === "shared_memory" || tier.name === "fits"), columns) };
  });
}

// Columns in an order in which the picture becomes finer and finer.
export function* order_of(columns: number[]): Generator<number> {
  const done = new Set<number>();
  for (let step = columns.length; step >= 1; step = Math.floor(step / 2)) {
    for (let i = 0; i < columns.length; i += step) {
      if (!done.has(i)) {
        done.add(i);
        yield columns[i];
      }
    }
  }
}

// The largest sizes of one column, each sought from what its nearest neighbour suggests.
export async function sample_column(frontier: Frontier, state: State, column: number, ask: Ask): Promise<void> {
  const train = state.workload === "train";
  const fits = async (hidden: number, tier: string): Promise<boolean> => {
    const network = { cell: state.cell, precision: state.precision, batch: train ? column : state.batch, density: train ? state.density : column };
    const answer = await ask(train
      ? { ask: "sweep", mode: "train", axis: [{ hidden: [hidden] }], network: { ...network, steps: state.steps }, layers: state.layers }
      : { ask: "sweep", rows: "expected", axis: [{ hidden: [hidden] }], network, tier });
    const row = answer.rows?.[0];
    return Boolean(row && (tier === "streamed" ? row.runs && row.tier : row.fits));
  };
  const near = [...frontier.largest.keys()].sort((a, b) => Math.abs(Math.log(a / column)) - Math.abs(Math.log(b / column)))[0];
  const found: number[] = [];
  for (const [i, tier] of frontier.tiers.entries()) {
    const known = near === undefined ? (i > 0 ? 1.2 * found[i - 1] : 0) : frontier.largest.get(near)![i] * (train ? 1 : Math.sqrt(near / column));
    let low = 0, high = Infinity, factor = 1.08;
    let size = known || 1300 / Math.sqrt(train ? 1 : column);
    while (high / low > 1.04) {
      size = Math.min(kMostHidden, Math.max(kLeast, Math.round(size / 32) * 32, found[i - 1] ?? 0));
      if (size === low || size === high) {
        break;
      }
      const does = await fits(size, tier.name);
      [low, high] = does ? [size, high] : [low, size];
      if ((does && size >= kMostHidden) || (!does && size <= Math.max(kLeast, found[i - 1] ?? 0))) {
        break;
      }
      size = low > 0 && high < Infinity ? Math.sqrt(low * high) : does ? size * factor : size / factor;
      factor *= 1.1;
    }
    found.push(Math.max(low, found[i - 1] ?? 0));
  }
  frontier.largest.set(column, found);
}

export class Where {
  private width = 560;
  private x: Scale = scaleLog().domain([kLeast, kMostHidden]);
  private y: Scale = scaleLog();
  private areas = svg("g");
  private point = svg("g", { class: "point" });
  private axes = svg("g");
  private note = el("p", { class: "caption" });
  private picture = svg("svg", { role: "img", class: "where" }, this.areas, this.axes, this.point);
  private state?: State;

  private largest = el("p", { class: "actions" });

  // `seek` brings the point to the largest size of a tier at a density, or a batch.
  constructor(private root: HTMLElement, private moved: (to: Partial<State>) => void, private seek: (tier: string, column: number) => void) {
    root.append(this.note, this.picture, this.largest);
    let held = false;
    const move = (event: PointerEvent): void => {
      const box = this.picture.getBoundingClientRect();
      const scale = this.width / box.width;
      const x = this.x.invert((event.clientX - box.left) * scale), y = this.y.invert((event.clientY - box.top) * scale);
      const hidden = Math.min(kMostHidden, Math.max(kLeast, Math.round(x / 32) * 32));
      if (this.state?.workload === "train") {
        this.moved({ hidden, batch: Math.min(kMostBatch, Math.max(1, Math.round(y))) });
      } else {
        this.moved({ hidden, density: Math.min(1, Math.max(0.01, +y.toPrecision(2))) });
      }
    };
    this.picture.addEventListener("pointerdown", (event) => {
      held = true;
      this.picture.setPointerCapture(event.pointerId);
      move(event);
    });
    this.picture.addEventListener("pointermove", (event) => held && move(event));
    this.picture.addEventListener("lostpointercapture", () => (held = false));
  }

  render(state: State, frontier: Frontier, others: Other[], chip: string): void {
    this.state = state;
    const width = (this.width = Math.max(260, this.root.clientWidth)), height = Math.round(Math.min(420, 0.74 * width + 40));
    this.picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.x.range([left, width - right]);
    const train = state.workload === "train";
    this.y = (train ? scaleLog().domain([1, kMostBatch]) : scaleLog().domain([0.01, 1])).range([height - bottom, top]);
    const { x, y } = this;
    const known = frontier.columns.filter((column) => frontier.largest.has(column)).sort((a, b) => a - b);
    const clipped = (size: number): number => x(Math.min(kMostHidden, Math.max(kLeast, size)));
    const layers = [...frontier.tiers.keys()].reverse().map((tier) => {
      const size = (column: number): number => clipped(frontier.largest.get(column)![tier]);
      const { color } = frontier.tiers[tier];
      const before = (column: number): number => (tier > 0 ? clipped(frontier.largest.get(column)![tier - 1]) : left);
      const shape = area<number>().y((column) => y(column)).x0(before).x1(size);
      const edge = line<number>().y((column) => y(column)).x(size);
      const path = edge(known) ?? "";
      return svg("g", {},
        svg("path", { d: shape(known) ?? "", class: "area", fill: `var(--${color})` }),
        svg("path", { d: path, class: "frontier", stroke: `var(--${color})` }),
        svg("path", { d: path, class: "reached", pointerdown: (event) => {
          event.stopPropagation(); // it is no drag of the point
          const box = this.picture.getBoundingClientRect();
          const column = y.invert((((event as PointerEvent).clientY - box.top) * this.width) / box.width);
          this.seek(frontier.tiers[tier].name, train ? Math.max(1, Math.round(column)) : Math.min(1, +column.toPrecision(2)));
        } }, svg("title", {}, `The largest ${frontier.tiers[tier].label}`)));
    });
    // The corner of small networks is in the first area, whatever the chip.
    const key = frontier.tiers.flatMap(({ color, label }, tier) => {
      const at = height - bottom - 16 - 20 * (frontier.tiers.length - 1 - tier);
      return [svg("rect", { x: left + 12, y: at - 10, width: 12, height: 12, rx: 3, class: "area", fill: `var(--${color})`, stroke: `var(--${color})` }),
        text_at(left + 32, at, label, { class: "label" })];
    });
    const own = train ? state.batch : state.density;
    if (this.largest.dataset.key !== `${frontier.key} ${own}`) { // else the focus stays in it
      this.largest.dataset.key = `${frontier.key} ${own}`;
      this.largest.replaceChildren("The largest of ", train ? `batch ${own}` : share_text(own), ": ", ...frontier.tiers.map(({ name, label }) =>
        el("button", { type: "button", click: () => this.seek(name, own) }, label)));
    }
    this.note.textContent = `Where weights lie on the ${chip}, by hidden size and ${train ? "batch" : "density"}. Drag the point, or click an edge for the largest that fits.`;
    const places = new Map(measured_beside(state).map((one) => [`${one.hidden} ${one.density}`, one]));
    const dots = [...places.values()].filter(({ hidden, density }) => hidden >= kLeast && hidden <= kMostHidden && density >= 0.01).map(({ hidden, density }) =>
      svg("circle", { cx: x(hidden), cy: y(density), r: 2.5, class: "measured" }));
    if (dots.length > 0) {
      this.note.append(` Dots: ${dots.length} measured networks with this cell and batch.`);
    }
    const sampled = others.filter(({ frontier: one }) => one.largest.size === one.columns.length);
    const grey = sampled.map(({ frontier: { columns, largest } }) => {
      const edge = line<number>().y((column) => y(Math.min(column, kMostBatch))).x((column) => clipped(largest.get(column)![0]));
      return svg("path", { d: edge(columns) ?? "", class: "other" });
    });
    if (sampled.length > 0) {
      const at_top = ({ frontier: { columns, largest } }: Other): number => largest.get(columns[columns.length - 1])![0];
      const names = [...sampled].sort((one, other) => at_top(one) - at_top(other)).map(({ name }) => name);
      this.note.append(` Dashed, from the left at the top: ${names.join(", ")}.`);
    }
    this.areas.replaceChildren(...layers, ...grey, ...dots, ...(known.length > 0 ? key : []));
    const sizes = [64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384].filter((_, i) => width > 420 || i % 2 === 0);
    const heights = train ? [1, 4, 16, 64, 256] : [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1];
    this.axes.replaceChildren(
      ...sizes.flatMap((size) => [svg("line", { x1: x(size), x2: x(size), y1: top, y2: height - bottom, class: "grid" }),
        text_at(x(size), height - bottom + 17, String(size), { class: "axis", "text-anchor": "middle" })]),
      ...heights.flatMap((other) => [svg("line", { x1: left, x2: width - right, y1: y(other), y2: y(other), class: "grid" }),
        text_at(left - 8, y(other) + 4, train ? String(other) : share_text(other), { class: "axis", "text-anchor": "end" })]),
      text_at(width - right, height - 4, "hidden size", { class: "axis strong", "text-anchor": "end" }));
    const column = train ? state.batch : Math.max(0.01, state.density);
    const px = clipped(state.hidden), py = y(Math.min(train ? kMostBatch : 1, column));
    this.point.replaceChildren(
      svg("circle", { cx: px, cy: py, r: 18, class: "halo" }), svg("circle", { cx: px, cy: py, r: 8, class: "you" }));
    const what = train ? `batch ${state.batch}` : share_text(state.density);
    this.picture.setAttribute("aria-label", `Hidden size ${state.hidden}, ${what}. Sliders change both.`);
  }
}

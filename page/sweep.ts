// SPDX-License-Identifier: Apache-2.0
// A sweep: a small one that is run here, or a result file of 'onchip sweep'. Two columns as points, the rows that no other
// row beats, and a table, whose rows bring the controls to them.
import { scaleLinear } from "d3-scale";
import { Json, State, question_of, read_address } from "./state";
import { capital, digits, el, svg, text_at, words } from "./dom";

export type Row = Record<string, string | number | boolean | null>;
type Ask = (question: Json) => Promise<Json>;

const kMostShown = 60; // rows of the table
const kAnswers = /^(row|fits|runs|tier|binding|plan|problem|.*_(us|ms|bytes)|us|ms)$/; // columns that are no part of the question

// Comma-separated values with quotes, as onchip writes them, or an object a line.
export function read_rows(text: string): Row[] {
  if (text.startsWith("{")) {
    return text.trim().split("\n").map((line) => JSON.parse(line));
  }
  const cells = (line: string): string[] => [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)].map(([, quoted, plain]) => quoted?.replace(/""/g, '"') ?? plain);
  const [names, ...rows] = text.trim().split(/\r?\n/).map(cells);
  return rows.map((row) => Object.fromEntries(names.map((name, i) => [name, row[i] ?? ""])));
}

const number_in = (row: Row, column: string): number => (row[column] === null || row[column] === "" ? NaN : Number(row[column]));
const shown = (value: Row[string]): string => (value === null || value === "" ? "\u2013" : typeof value === "boolean" ? (value ? "yes" : "no") : Number.isNaN(Number(value)) ? String(value) : String(+Number(value).toPrecision(5)));

export class Sweep {
  private rows: Row[] = [];
  private front = new Set<number>();
  private axes = (read_address(location.hash).workload === "layers" ? ["images=1000,8000,60000", "alive=25%,50%,100%"] : ["hidden=1024:8192:1024", "batch=1,4,16"]).map((value, i) => el("input", { type: "text", value, "aria-label": i === 0 ? "An axis" : "Another axis", spellcheck: "false" }));
  private picture = el("div", {});
  private table = el("div", { class: "rows" });
  private told = el("p", { class: "caption", role: "status" });
  private columns = ["across", "up"].map((name) => el("select", { "aria-label": `Column ${name}`, change: () => this.draw() }));

  constructor(private root: HTMLElement, private ask: Ask, private go: (row: Row) => void, take_file: (file: File) => void, state: () => State) {
    const file: HTMLInputElement = el("input", { type: "file", id: "rows", accept: ".csv,.jsonl", change: () => file.files?.[0] && take_file(file.files[0]) });
    root.append(
      el("form", { class: "sweep", submit: (event) => {
        event.preventDefault();
        this.run(state());
      } }, ...this.axes, el("button", {}, "Run"), el("label", { for: "rows" }, "or rows of onchip sweep"), file),
      this.told, el("p", { class: "sweep", hidden: true }, this.columns[1], " over ", this.columns[0]), this.picture, this.table);
  }

  private async run(state: State): Promise<void> {
    this.told.textContent = "It runs\u2026";
    const axis = this.axes.map(({ value }) => value.trim()).filter((value) => value !== "");
    const varied = axis.flatMap((one) => [...one.matchAll(/(?:^|;)\s*([\w.]+)\s*=/g)].map(([, key]) => key));
    const { network, ...question } = question_of({ ...state, weights: "" }, "sweep", true);
    const fixed = typeof network === "string" ? (varied.includes("network") ? undefined : network)
      : Object.fromEntries(Object.entries(network).filter(([key]) => !varied.includes(key)));
    varied.forEach((key) => delete question[key]);
    const json = await this.ask({ ...question, axis, ...(fixed === undefined ? {} : { network: fixed }) });
    if (json.error !== undefined) {
      this.told.textContent = capital(json.error);
    } else {
      this.take(json.rows);
    }
  }

  take(rows: Row[]): void {
    this.rows = rows;
    const names = Object.keys(rows[0] ?? {}).filter((name) => name !== "row" && rows.some((row) => !Number.isNaN(number_in(row, name)) && typeof row[name] !== "boolean"));
    const varies = (name: string): boolean => new Set(rows.map((row) => row[name])).size > 1;
    const up = names.find((name) => /^(step_us|us|ms)$/.test(name)) ?? names[0];
    const across = names.find((name) => name !== up && varies(name)) ?? up;
    this.columns.forEach((select, i) => {
      select.replaceChildren(...names.map((name) => el("option", { value: name }, name)));
      select.value = i === 0 ? across : up;
    });
    this.columns[0].parentElement!.hidden = names.length === 0;
    this.draw();
  }

  // The model names the front; sizes and rates are better where they are more, all else where it is less.
  private async draw(): Promise<void> {
    const [x, y] = this.columns.map((select) => select.value);
    const counted = this.rows.flatMap((row, i) => (Number.isFinite(number_in(row, x)) && Number.isFinite(number_in(row, y)) ? [{ row: i, [x]: number_in(row, x), [y]: number_in(row, y) }] : []));
    const aim = (name: string): string => `${name}:${/^(hidden|batch|steps|layers|images|tera_.*|.*_per_s)$/.test(name) ? "max" : "min"}`;
    const json = counted.length > 0 ? await this.ask({ ask: "pareto", rows: counted, objectives: [...new Set([aim(y), aim(x)])].join(",") }) : { front: [] };
    this.front = new Set((json.front ?? []).map(({ row }: Json) => Number(row.row)));
    this.told.textContent = json.error !== undefined ? capital(json.error)
      : `${this.rows.length} rows, ${this.front.size} of them on the front of ${aim(y)} and ${aim(x)}. A row brings the controls to it.`;
    this.picture.replaceChildren(...(counted.length > 0 ? [this.points(counted, x, y)] : []));
    this.list(x, y);
  }

  private points(counted: Record<string, number>[], x: string, y: string): SVGElement {
    const width = Math.max(260, this.root.clientWidth), height = 260, left = 56, bottom = 36;
    const scale = (name: string, range: number[]) => scaleLinear().domain([0, Math.max(...counted.map((one) => one[name])) * 1.05 || 1]).range(range);
    const to_x = scale(x, [left, width - 12]), to_y = scale(y, [height - bottom, 10]);
    const label = (value: number): string => (value >= 1e5 ? value.toExponential(0) : digits(value));
    return svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${y} over ${x} of ${counted.length} rows` },
      ...to_x.ticks(5).flatMap((tick) => [svg("line", { x1: to_x(tick), x2: to_x(tick), y1: 10, y2: height - bottom, class: "grid" }), text_at(to_x(tick), height - bottom + 16, label(tick), { class: "axis", "text-anchor": "middle" })]),
      ...to_y.ticks(4).flatMap((tick) => [svg("line", { x1: left, x2: width - 12, y1: to_y(tick), y2: to_y(tick), class: "grid" }), text_at(left - 6, to_y(tick) + 4, label(tick), { class: "axis", "text-anchor": "end" })]),
      text_at(left, 8, words(y), { class: "axis strong" }), text_at(width - 12, height - 4, words(x), { class: "axis strong", "text-anchor": "end" }),
      ...counted.map((one) => svg("circle", { cx: to_x(one[x]), cy: to_y(one[y]), r: this.front.has(one.row) ? 6 : 3.5, class: this.front.has(one.row) ? "on-front" : "measured", click: () => this.go(this.rows[one.row]) })));
  }

  private list(x: string, y: string): void {
    const asked = Object.keys(this.rows[0] ?? {}).filter((name) => !kAnswers.test(name) && new Set(this.rows.map((row) => row[name])).size > 1);
    const columns = [...new Set([...asked, x, y, "fits", ...(this.rows.some((row) => row.problem) ? ["problem"] : [])])].filter((name) => name in (this.rows[0] ?? {}));
    const order = [...this.rows.keys()].sort((a, b) => Number(this.front.has(b)) - Number(this.front.has(a)) || number_in(this.rows[a], y) - number_in(this.rows[b], y));
    this.table.replaceChildren(...(order.length === 0 ? [] : [
      el("table", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Row"), ...columns.map((name) => el("th", { scope: "col" }, words(name))))),
        el("tbody", {}, ...order.slice(0, kMostShown).map((i) => el("tr", { click: () => this.go(this.rows[i]), class: this.front.has(i) ? "front" : "" },
          el("th", { scope: "row" }, el("button", { type: "button", class: "reset", "aria-label": `Bring the controls to row ${i}` }, String(i))), ...columns.map((name) => el("td", {}, shown(this.rows[i][name]))))))),
      el("p", { class: "caption" }, order.length > kMostShown ? `${order.length - kMostShown} more rows` : "")]));
  }
}

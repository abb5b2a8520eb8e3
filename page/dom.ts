// SPDX-License-Identifier: Apache-2.0
// Elements, and numbers as people read them.

type Attributes = Record<string, string | number | boolean | EventListener | undefined>;
type Child = Node | string | null | undefined | false;

function fill<E extends Element>(element: E, attributes: Attributes, children: Child[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") {
      element.addEventListener(name, value);
    } else if (value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  element.append(...children.filter((child): child is Node | string => child !== null && child !== undefined && child !== false));
  return element;
}

export const el = <K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]) =>
  fill(document.createElement(tag), attributes, children);

export const svg = <K extends keyof SVGElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

export const text_at = (x: number, y: number, text: string, attributes: Attributes = {}) => svg("text", { x, y, ...attributes }, text);

// Three digits: "7.67", "74.1", "2419".
export function digits(value: number): string {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value >= 1 ? value.toFixed(2) : String(+value.toPrecision(2));
}

// Times of 1000 us and more are read in ms: by what they are multiplied, and their unit.
export const unit_of = (time: number, unit: string): [number, string] => (unit === "\u00b5s" && time >= 999.5 ? [1e-3, "ms"] : [1, unit]);
export function time_text(time: number, unit: string): string {
  const [scale, name] = unit_of(time, unit);
  return `${digits(scale * time)}\u00a0${name}`;
}

export const signed = (value: number): string => `${value > 0 ? "+" : value < 0 ? "\u2212" : ""}${digits(Math.abs(value))}`;

// "227 KiB" of bytes, "1980 MHz" of Hz: what --set takes.
export function quantity(value: number, unit: string): string {
  if (unit === "B") {
    const [size, name] = value >= 2 ** 30 && value % 2 ** 30 === 0 ? [2 ** 30, "GiB"] : value >= 2 ** 20 && value % 2 ** 20 === 0 ? [2 ** 20, "MiB"] : [2 ** 10, "KiB"];
    return `${+(value / size).toFixed(2)} ${name}`;
  }
  if (unit === "Hz" || unit === "B/s") {
    return unit === "Hz" ? `${+(value / 1e6).toPrecision(4)} MHz` : `${+(value / 1e9).toPrecision(4)} GB/s`;
  }
  const number = Number.isInteger(value) ? String(value) : String(+value.toPrecision(4));
  return unit && unit !== "1" ? `${number} ${unit}` : number;
}

const kUnits: [RegExp, number][] = [[/gib?\b/i, 2 ** 30], [/mib?\b/i, 2 ** 20], [/kib?\b/i, 2 ** 10], [/ghz|gb\/s/i, 1e9], [/mhz/i, 1e6], [/tb\/s/i, 1e12]];
export const read_quantity = (text: string): number => parseFloat(text) * (kUnits.find(([unit]) => unit.test(text))?.[1] ?? 1);

// Steps in which people change a number of the chip.
export const grain_of = ({ unit, value, step }: { unit: string; value: number; step: number }): number =>
  unit === "B" ? Math.max(step, value >= 2 ** 24 ? 2 ** 20 : 1024) : unit === "Hz" ? 5e6 : step;

// "227 KiB" of 232448 bytes, in the unit of what is like it; counts have thousands apart.
export const amount = (value: number, unit: string, like = value): string =>
  !/bytes/.test(unit) ? Math.round(value).toLocaleString("en").replace(/,/g, "\u202f")
    : like >= 2 ** 20 ? `${+digits(value / 2 ** 20)} MiB` : `${+digits(value / 2 ** 10)} KiB`;

export const words = (name: string): string => name.replace(/_/g, " ").replace(/^sms$/, "SMs");
export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

export function download(name: string, type: string, content: string | Blob): void {
  const link = el("a", { href: URL.createObjectURL(new Blob([content], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

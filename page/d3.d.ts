// SPDX-License-Identifier: Apache-2.0
// What the page uses of Debian's d3 packages, which come without types.
declare module "d3-scale" {
  export interface Scale {
    (value: number): number;
    domain(of: number[]): this;
    domain(): number[];
    range(of: number[]): this;
    ticks(count?: number): number[];
    invert(value: number): number;
  }
  export function scaleLinear(): Scale;
  export function scaleLog(): Scale;
}
declare module "d3-shape" {
  type Set<Shape, T> = (of: number | ((value: T) => number)) => Shape;
  export type Area<T> = ((values: T[]) => string | null) & { x0: Set<Area<T>, T>; x1: Set<Area<T>, T>; y: Set<Area<T>, T> };
  export type Line<T> = ((values: T[]) => string | null) & { x: Set<Line<T>, T>; y: Set<Line<T>, T> };
  export function area<T>(): Area<T>;
  export function line<T>(): Line<T>;
}

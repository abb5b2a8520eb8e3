// SPDX-License-Identifier: Apache-2.0
// What the page uses of Debian's d3 packages, which come without types.
declare module "d3-scale" {
  export interface ScaleLinear<Range, Output> {
    (value: number): Output;
    domain(of: number[]): this;
    domain(): number[];
    range(of: Range[]): this;
    ticks(count?: number): number[];
    invert(value: number): number;
  }
  export type ScaleLogarithmic<Range, Output> = ScaleLinear<Range, Output>;
  export function scaleLinear(): ScaleLinear<number, number>;
  export function scaleLog(): ScaleLogarithmic<number, number>;
}
declare module "d3-shape" {
  type Of<T> = number | ((value: T) => number);
  export interface Area<T> {
    (values: T[]): string | null;
    x0(of: Of<T>): this;
    x1(of: Of<T>): this;
    y(of: Of<T>): this;
  }
  export interface Line<T> {
    (values: T[]): string | null;
    x(of: Of<T>): this;
    y(of: Of<T>): this;
  }
  export function area<T>(): Area<T>;
  export function line<T>(): Line<T>;
}

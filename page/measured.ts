// SPDX-License-Identifier: Apache-2.0
// Steps that were measured on real chips, of the files in experiments/data/.
import { State } from "./state";

interface OfChip {
  device: string;
  dates: string[];
  groups: Record<string, number>; // "lstm,4,fp16,cudnn" -> how many rows it has, one after another
  columns: number[][]; // hidden, density, us, place of its date
}

export interface Measured {
  hidden: number;
  density: number;
  family: string;
  us: number;
  text: string; // "measured 5.83 us on an NVIDIA H200, 2026-11-24"
}

const known: Record<string, OfChip> = JSON.parse(document.getElementById("measured")!.textContent!);

// Of the cell, batch and precision, of all sizes and densities; none of a chip that was changed.
export function measured_beside(state: State): Measured[] {
  const of_chip = known[state.chip];
  if (state.workload !== "step" || !of_chip || state.set.size > 0) {
    return [];
  }
  const start = `${state.cell},${state.batch},${state.precision},`;
  let first = 0;
  return Object.entries(of_chip.groups).flatMap(([group, count]) => {
    const from = first;
    first += count;
    return group.startsWith(start) ? Array.from({ length: count }, (_, i) => {
      const [hidden, density, us, date] = of_chip.columns.map((column) => column[from + i]);
      return { hidden, density, us, family: group.slice(start.length),
        text: `measured ${us} \u00b5s on ${of_chip.device.replace(/^NVIDIA/, "an NVIDIA")}, ${of_chip.dates[date]}` };
    }) : [];
  });
}

export const measured_here = (state: State, family: string): Measured | undefined =>
  measured_beside(state).find((one) => one.hidden === state.hidden && Math.abs(one.density - state.density) < 1e-6 && one.family === family);

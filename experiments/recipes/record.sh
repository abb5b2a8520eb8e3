#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Records what experiments/data/<gpu> holds, on the GPU of this machine: some minutes.
#   experiments/recipes/record.sh ONCHIP FOLDER [PART...]     ONCHIP: the built command; CHIP=NAME: the chip file to start from (h100_sxm)
#
#   calibrate    CHIP.toml, the chip file, and microbench.csv, what it was calibrated with
#   headline     headline.json, the headline beside cuDNN, cuBLAS and cuSPARSE, in the same run; headline_dense.json
#   validation   validation.csv: configurations.csv, measured, with the exchange of each alone
#   dense        dense.csv: dense_configurations.csv, measured
#   dense_shapes dense_shapes.csv: dense_shapes_configurations.csv, networks as dense plans of other numbers of SMs, warps and
#                loads in flight than the planner's, with the exchange of each alone
#   structured   structured.csv: structured_configurations.csv, networks of 2:4 masks as dense and as structured_2_4
#   bitmap       bitmap.csv: bitmap_configurations.csv, networks without the empty words of their fragments, some of them beside
#                themselves as dense or sparse
#   pruned       pruned.csv: networks that were trained and pruned by magnitude (prune.py), each beside one of a uniform mask
#                of its density; their weights in pruned/, unless they are there already (masks.py unpack --values), and their
#                masks in pruned.masks.xz (needs PyTorch)
#   pruned_plans pruned_plans.csv: the same networks as sparse and as dense plans
#   uneven       uneven.csv: uneven_configurations.csv, networks with rows of a power law beside uniform ones, as sparse and as
#                dense plans
#   families     families.csv: family_configurations.csv, the best plan of every family beside cuBLAS and cuDNN
#   targets      targets/*.json: larger and gated networks beside the libraries
#   ablation     ablation.csv: exchange, width of loads and order of rows, each way, at the points of the 2018 paper
#   poll_delay   poll_delay.csv: steps by how long their warps wait before they first poll for the next state
#   pipelined    pipelined.csv: networks whose passes over the samples are pipelined, with 3, 4, 5 and 8 producer warps, beside none
#   fresh        fresh.csv: fresh_configurations.csv, relu and tanh networks drawn at random whose weights nearly fill the registers
#   drawn        drawn.csv, drawn_again.csv, drawn_third.csv and drawn_fourth.csv: networks of every kind, drawn at random (draw_networks.py), the best plan of every
#                family beside cuBLAS and cuDNN
#   libraries    libraries.csv: libraries_configurations.csv, networks drawn for the libraries alone (draw_networks.py)
#   clusters     clusters.csv: cluster_configurations.csv, small dense networks in clusters, by how many units and items an SM has
#   row_splits   row_splits.csv: row_splits_configurations.csv, a network of uneven rows by how many slots rows have before they
#                are split, and by splits
#   bulk_copy    bulk_copy.csv: bulk_copy_configurations.csv, networks whose passes are pipelined, as words that warps poll bring
#                the state and as bulk copies do
#   wavefronts   wavefronts.csv: those of shared memory by hardware counter, for the simulator (needs ncu)
#   access_patterns  access_patterns.csv: wavefronts of single accesses to shared memory, by counter (needs ncu and nvcc);
#                residency.csv: the time of 1 to 8 blocks on every SM
#   captured     captured/: the accesses to shared memory of one step of small networks, as kernels wrote them down
#   simulator    simulator_ablation.csv: what each part of the simulator is worth over validation.csv (needs no GPU)
#   networks     networks.csv: whole networks of one to three layers, with their input products
#   register_banks  register_banks.csv: FFMAs whose operands share a bank of the register file, with and without reuse caches
#                (needs nvcc)
#   capacity     capacity.csv: the largest networks said to fit, run
#   interpreted  capacity_interpreted.csv: the same compiled and executed on the CPU, where there is no GPU (half an hour;
#                only if named)
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
project=$(cd "$here/../.." && pwd)
asked=$project/experiments/data  # what is measured
onchip=$1
out=$2
shift 2
parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(calibrate headline validation dense dense_shapes structured bitmap pruned pruned_plans uneven
                                 families targets ablation poll_delay pipelined fresh drawn libraries clusters row_splits bulk_copy
                                 wavefronts access_patterns captured simulator networks register_banks capacity)
chip=${CHIP:-h100_sxm}
chip_file=$out/$chip.toml
mkdir -p "$out"
[ -e "$chip_file" ] || chip_file=$chip
say() { echo "record: $*" >&2; }
# Rows that cannot be measured are named on stderr and stand in the file without a time.
measure_rows() {
  "$onchip" measure --chip "$chip_file" --configurations "$1" -o "$2" "${@:3}" || [ $? -eq 1 ]
}

calibrate() {
  "$onchip" calibrate --chip "$chip" --data "$out/microbench.csv" -o "$out/$chip.toml"
  chip_file=$out/$chip.toml
}

headline() {
  local network=(--chip "$chip_file" --hidden 2304 --batch 4 --density 30% --floor --clocks --format json)
  "$onchip" measure "${network[@]}" --family sparse_persistent --baselines -o "$out/headline.json"
  "$onchip" measure "${network[@]}" --family dense_persistent -o "$out/headline_dense.json"
}

validation() { measure_rows "$asked/configurations.csv" "$out/validation.csv" --floor; }

dense() { measure_rows "$asked/dense_configurations.csv" "$out/dense.csv" --repeats 7; }

dense_shapes() { measure_rows "$asked/dense_shapes_configurations.csv" "$out/dense_shapes.csv" --repeats 5 --floor; }

structured() { measure_rows "$asked/structured_configurations.csv" "$out/structured.csv" --repeats 7; }

bitmap() { measure_rows "$asked/bitmap_configurations.csv" "$out/bitmap.csv" --repeats 7; }

# The text that they learn is this project's.
measure_pruned() {  # file, families...
  local cell hidden batch density file text family
  mapfile -t text < <(find "$project" -name .git -prune -o -name 'build*' -prune -o \
    \( -name '*.cpp' -o -name '*.hpp' -o -name '*.cu*' -o -name '*.md' \) -print | sort)
  mkdir -p "$out/pruned"
  echo "cell,hidden,batch,steps,density,precision,mask,seed,weights,tensor,family" > "$out/pruned_configurations.csv"
  while read -r cell hidden batch density; do
    file=pruned/${cell}_${hidden}_$density.mtx
    [ -e "$out/$file" ] || python3 "$here/prune.py" "$cell" "$hidden" "$density" "$out/$file" "${text[@]}" >&2
    for family in "${@:2}"; do
      echo "$cell,$hidden,$batch,256,$density,fp16,file,1,$file,,$family"
      echo "$cell,$hidden,$batch,256,$density,fp16,uniform,1,,,$family"
    done
  done >> "$out/pruned_configurations.csv" << 'PRUNED'
relu 1024 4 0.1
relu 2304 4 0.1
relu 2304 4 0.3
relu 4096 4 0.1
tanh 2048 1 0.05
lstm 1024 1 0.1
lstm 1024 4 0.1
lstm 2304 4 0.1
gru 1024 4 0.1
gru 2048 1 0.1
PRUNED
  measure_rows "$out/pruned_configurations.csv" "$out/$1" --floor
  rm "$out/pruned_configurations.csv"
  "$here/masks.py" pack "$out/pruned.masks.xz" "$out"/pruned/*.mtx
}

pruned() { measure_pruned pruned.csv sparse_persistent; }

pruned_plans() { measure_pruned pruned_plans.csv sparse_persistent dense_persistent; }

uneven() { measure_rows "$asked/uneven_configurations.csv" "$out/uneven.csv" --repeats 21; }

families() { measure_rows "$asked/family_configurations.csv" "$out/families.csv" --plan all --repeats 5; }

# Those of the family named first beside the libraries, then the other's alone, where it fits. The longer the libraries
# take, the fewer samples: their steps are then long, too, and scatter little.
targets() {
  mkdir -p "$out/targets"
  while read -r cell hidden batch density repeats family other; do
    local network=(--chip "$chip_file" --cell "$cell" --hidden "$hidden" --batch "$batch" --density "$density" --floor
                   --clocks --format json)
    local file="$out/targets/${cell}_${hidden}_${batch}_$density"
    say "$file"
    "$onchip" measure "${network[@]}" --family "${family}_persistent" --baselines --repeats "$repeats" -o "$file.json"
    if [ -n "$other" ]; then
      "$onchip" measure "${network[@]}" --family "${other}_persistent" -o "${file}_$other.json"
    fi
  done << 'TARGETS'
lstm 5632 4 0.1 3 sparse
gru 4096 1 0.1 3 sparse
relu 11488 4 0.1 3 sparse
lstm 2304 4 0.1 5 sparse dense
relu 4096 8 1 5 dense
lstm 1536 8 1 5 dense
lstm 2304 8 1 5 dense
relu 1152 1 0.1 7 sparse dense
lstm 4096 16 0.1 3 sparse
relu 4096 4 0.1 5 sparse dense
relu 5632 4 0.1 5 sparse
TARGETS
}

# Every combination of the three switches; all other choices are those of the best plan.
ablation() {
  python3 - "$onchip" "$chip_file" > "$out/ablation_configurations.csv" << 'PYTHON'
import csv, io, itertools, subprocess, sys
onchip, chip = sys.argv[1:]
print("cell,hidden,batch,density,precision,mask,seed,steps,plan")
points = ((2304, 4, 0.3), (2304, 4, 0.1), (1792, 4, 0.1), (5760, 2, 0.01), (4096, 4, 0.1))
for (hidden, batch, density), exchange, load_bytes, order in itertools.product(
        points, ("cooperative_barrier", "atomic_barrier", "lamport"), (2, 16), ("natural", "bank_aware")):
    arguments = [onchip, "predict", "--chip", chip, "--hidden", str(hidden), "--batch", str(batch), "--density",
                 str(density), "--family", "sparse_persistent", "--tier", "registers", "--producer-warps", "0",
                 "--format", "csv"]
    def plan_of(*asked):
        text = subprocess.run([*arguments, *asked], stdout=subprocess.PIPE, check=True, text=True).stdout
        return next(csv.DictReader(io.StringIO(text)))["plan"]
    fields = dict(word.split("=") for word in plan_of().split() if "=" in word)
    plan = plan_of("--sms", fields["sms"], "--lanes-per-row", fields["lanes_per_row"], "--rows-per-group",
                   str(fields["slots"].count("/") + 1), "--tile-rows", fields.get("tile_rows", "1"), "--loads-in-flight",
                   fields["loads_in_flight"], "--exchange", exchange, "--load-bytes", str(load_bytes), "--order", order)
    print("relu", hidden, batch, density, "fp16", "uniform", 1, 256, plan, sep=",")
PYTHON
  measure_rows "$out/ablation_configurations.csv" "$out/ablation.csv"
  rm "$out/ablation_configurations.csv"
}

# Both families, each with its best plan but for the delay.
poll_delay() {
  python3 - "$onchip" "$chip_file" > "$out/poll_delay_configurations.csv" << 'PYTHON'
import csv, io, subprocess, sys
onchip, chip = sys.argv[1:]
networks = """relu 2304 4 0.3 sparse dense
relu 4096 4 0.1 sparse dense
relu 5632 4 0.1 sparse
relu 11488 4 0.1 sparse
relu 8192 4 0.2 sparse
lstm 2304 4 0.1 sparse dense
lstm 5632 4 0.1 sparse
lstm 4096 16 0.1 sparse
gru 4096 1 0.1 sparse
relu 1152 1 0.1 sparse dense
relu 4096 8 1 dense
lstm 1536 8 1 dense
lstm 2304 8 1 dense
lstm 1024 32 1 dense
relu 2048 32 1 dense
relu 512 4 1 dense
lstm 1024 8 1 dense
relu 1024 16 1 dense
lstm 512 16 1 dense
lstm 1024 16 1 dense
relu 1024 32 1 dense
relu 1024 64 1 dense
relu 2304 16 0.1 sparse dense
gru 1536 4 0.3 sparse dense
lstm 1024 1 0.1 sparse dense
relu 1792 2 0.05 sparse dense"""
delays = {"sparse": (0, 60, 120, 180, 240, 320, 420, 560, 640), "dense": (0, 40, 80, 120, 160, 200, 260, 320)}
print("cell,hidden,batch,density,precision,mask,seed,steps,plan")
for cell, hidden, batch, density, *families in map(str.split, networks.splitlines()):
    for family, cycles in ((f, c) for f in families for c in delays[f]):
        text = subprocess.run([onchip, "predict", "--chip", chip, "--cell", cell, "--hidden", hidden, "--batch", batch,
                               "--density", density, "--family", family + "_persistent", "--exchange", "lamport",
                               "--poll-delay", str(cycles), "--format", "csv"],
                              stdout=subprocess.PIPE, check=True, text=True).stdout
        plan = next(csv.DictReader(io.StringIO(text)))["plan"]
        print(cell, hidden, batch, density, "fp16", "uniform", 1, 256, plan, sep=",")
PYTHON
  measure_rows "$out/poll_delay_configurations.csv" "$out/poll_delay.csv" --floor
  rm "$out/poll_delay_configurations.csv"
}

# Uniform masks and those of a power law, the latter where rows are most uneven.
pipelined() {
  python3 - "$onchip" "$chip_file" > "$out/pipelined_configurations.csv" << 'PYTHON'
import csv, io, subprocess, sys
onchip, chip = sys.argv[1:]
networks = """relu 1024 4 0.1 fp16 uniform
relu 2304 4 0.1 fp16 uniform
relu 2304 4 0.3 fp16 uniform
relu 4096 4 0.1 fp16 uniform
relu 5632 4 0.1 fp16 uniform
lstm 2304 4 0.1 fp16 uniform
gru 1536 4 0.3 fp16 uniform
lstm 5632 4 0.1 fp16 uniform
relu 2304 8 0.3 fp16 uniform
relu 4096 8 0.1 fp16 uniform
lstm 1024 8 0.1 fp16 uniform
lstm 2304 8 0.1 fp16 uniform
tanh 2048 16 0.05 fp16 uniform
relu 2304 16 0.3 fp16 uniform
gru 2048 16 0.1 fp16 uniform
lstm 1024 16 0.2 fp16 uniform
lstm 1536 16 0.1 fp16 uniform
lstm 3072 16 0.1 fp16 uniform
lstm 4096 16 0.1 fp16 uniform
relu 1024 32 0.1 fp16 uniform
lstm 1024 32 0.1 fp16 uniform
lstm 2048 32 0.1 fp16 uniform
gru 1024 64 0.1 fp16 uniform
relu 2304 4 0.2 fp16 uniform
relu 3072 4 0.2 bf16 uniform
relu 1536 3 0.5 bf16 uniform
relu 2304 2 0.3 fp32 uniform
tanh 2304 3 0.2 bf16 uniform
lstm 1024 4 0.1 fp16 uniform
lstm 1024 4 0.3 fp16 uniform
lstm 1536 4 0.1 bf16 uniform
lstm 1024 2 0.2 fp32 uniform
gru 1024 4 0.1 fp16 uniform
gru 2304 4 0.1 fp16 uniform
gru 3072 4 0.1 fp8 uniform
relu 3072 8 0.2 bf16 uniform
gru 1536 8 0.2 bf16 uniform
relu 2304 4 0.1 fp16 power-law
relu 2304 4 0.2 fp16 power-law
relu 4096 4 0.1 fp16 power-law
gru 1024 4 0.1 fp16 power-law
gru 2304 4 0.1 fp16 power-law
lstm 1024 4 0.1 fp16 power-law
lstm 2304 4 0.1 fp16 power-law
relu 2048 16 0.1 fp16 power-law
lstm 1024 16 0.1 fp16 power-law"""
print("cell,hidden,batch,density,precision,mask,seed,steps,plan")
for line in networks.splitlines():
    cell, hidden, batch, density, precision, mask = line.split()
    for warps in (0, 3, 4, 5, 8):
        answer = subprocess.run([onchip, "predict", "--chip", chip, "--cell", cell, "--hidden", hidden, "--batch", batch,
                                 "--density", density, "--precision", precision, "--mask", mask, "--family",
                                 "sparse_persistent", "--producer-warps", str(warps), "--format", "csv"],
                                stdout=subprocess.PIPE, text=True)
        if answer.returncode == 0:
            plan = next(csv.DictReader(io.StringIO(answer.stdout)))["plan"]
            print(cell, hidden, batch, density, precision, mask, 1, 256, plan, sep=",")
PYTHON
  measure_rows "$out/pipelined_configurations.csv" "$out/pipelined.csv" --repeats 7
  rm "$out/pipelined_configurations.csv"
}

clusters() { measure_rows "$asked/cluster_configurations.csv" "$out/clusters.csv" --repeats 5; }

drawn() {
  for set in drawn drawn_again drawn_third drawn_fourth; do
    measure_rows "$asked/${set}_configurations.csv" "$out/$set.csv" --plan all --repeats 5
  done
}

libraries() { measure_rows "$asked/libraries_configurations.csv" "$out/libraries.csv" --repeats 3; }

fresh() { measure_rows "$asked/fresh_configurations.csv" "$out/fresh.csv" --repeats 5; }

row_splits() { measure_rows "$asked/row_splits_configurations.csv" "$out/row_splits.csv" --repeats 7; }

bulk_copy() { measure_rows "$asked/bulk_copy_configurations.csv" "$out/bulk_copy.csv" --repeats 5; }

wavefronts() { "$here/wavefronts.py" "$onchip" "$chip_file" > "$out/wavefronts.csv"; }

access_patterns() { "$here/access_patterns.py" "$out"; }

# Every cell, type and width, in registers, shared memory and streamed; few SMs, so that the files stay small.
captured() {
  mkdir -p "$out/captured"
  local row=0 network plan
  while IFS='|' read -r network plan; do
    # shellcheck disable=SC2086  # a network is several words
    "$onchip" measure --chip "$chip_file" --set sm.count=12 $network $plan --family sparse_persistent --producer-warps 0 \
      --capture "$out/captured/$row.trace" --format csv | if [ $row -eq 0 ]; then cat; else tail -n 1; fi
    row=$((row + 1))
  done > "$out/captured/captured.csv" << 'NETWORKS'
--cell relu --hidden 190 --batch 4 --density 0.2|
--cell relu --hidden 190 --batch 4 --density 0.2|--order natural
--cell tanh --hidden 150 --batch 3 --density 0.3 --precision bf16|--load-bytes 4
--cell lstm --hidden 97 --batch 4 --density 0.2|
--cell gru --hidden 101 --batch 2 --density 0.2|
--cell lstm --hidden 64 --batch 16 --density 0.2|
--cell relu --hidden 120 --batch 8 --density 0.3 --precision fp32|
--cell gru --hidden 96 --batch 5 --density 0.2 --precision fp8|
--cell relu --hidden 160 --batch 1 --density 0.2|--exchange atomic_barrier
--cell tanh --hidden 128 --batch 32 --density 0.1|
--cell relu --hidden 200 --batch 4 --density 0.2 --mask power-law|
--cell lstm --hidden 150 --batch 4 --density 0.7|--set registers.per_thread=64 --set registers.per_block=8192 --set registers.per_sm=8192
--cell relu --hidden 400 --batch 2 --density 0.5|--set registers.per_thread=64 --set registers.per_block=8192 --set registers.per_sm=8192 --set shared_memory.per_block=20KiB --set shared_memory.per_sm=21KiB
NETWORKS
}

simulator() { "$here/ablate.sh" "$onchip" "$out/validation.csv" --chip "$chip_file" > "$out/simulator_ablation.csv"; }

networks() {
  local network header=1
  while read -r network; do
    # shellcheck disable=SC2086  # a network is several words
    "$onchip" measure --chip "$chip_file" $network --format csv | tail -n +$header
    header=2
  done > "$out/networks.csv" << 'NETWORKS'
--cell lstm --hidden 512 --batch 4 --density 0.3 --layers 2
--cell lstm --hidden 1024 --batch 8 --density 0.1 --input 80
--cell gru --hidden 768 --batch 16 --density 0.2 --layers 3 --bidirectional --input 161
--cell lstm --hidden 2304 --batch 4 --density 0.1 --input 2304
--cell relu --hidden 2304 --batch 4 --density 0.3 --input 1024
--cell tanh --hidden 1024 --batch 32 --density 0.1 --precision bf16 --layers 2
--cell gru --hidden 1024 --batch 2 --density 0.2 --precision fp32 --input 256
--cell lstm --hidden 1024 --batch 64 --density 1 --bidirectional
NETWORKS
}

register_banks() { "$here/register_banks.py" "$out/register_banks.csv"; }

# The largest networks that are said to fit, with all weights on the chip.
largest_networks() {
  python3 - "$onchip" "$chip_file" << 'PYTHON'
import json, subprocess, sys
onchip, chip = sys.argv[1:]
print("cell,hidden,batch,density,precision,mask,seed,steps,tier")  # without the tier, the fastest plan, which may stream
for cell in ("relu", "lstm", "gru", "tanh"):
    for precision in ("fp16", "bf16", "fp32", "fp8") if cell in ("relu", "tanh") else ("fp16",):
        for density in (0.05, 0.1, 0.3, 1.0):
            fit = subprocess.run([onchip, "fit", "--chip", chip, "--cell", cell, "--precision", precision, "--density",
                                  str(density), "--batch", "4", "--format", "json"], stdout=subprocess.PIPE, check=True)
            hidden = json.loads(fit.stdout)["network"]["hidden"]
            print(cell, hidden, 4, density, precision, "uniform", 1, 128, "shared_memory", sep=",")
PYTHON
}

capacity() {
  largest_networks > "$out/capacity_configurations.csv"
  measure_rows "$out/capacity_configurations.csv" "$out/capacity.csv" --repeats 5
  rm "$out/capacity_configurations.csv"
}

interpreted() {
  largest_networks > "$out/capacity_configurations.csv"
  python3 - "$onchip" "$chip_file" "$out" << 'PYTHON'
import csv, io, pathlib, subprocess, sys
onchip, chip, out = sys.argv[1:]

def answer(*arguments):
    command = [onchip, "measure", "--chip", chip, *arguments, "--format", "csv"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode > 1:
        sys.exit(f"{' '.join(command)}: status {done.returncode}")
    return next(csv.DictReader(io.StringIO(done.stdout)))

with open(pathlib.Path(out) / "capacity_interpreted.csv", "w", newline="") as file:
    rows = None
    for row in csv.DictReader((pathlib.Path(out) / "capacity_configurations.csv").open(newline="")):
        network = [word for key in ("cell", "hidden", "batch", "density", "precision", "tier")
                   for word in ("--" + key, row[key])]
        run, compiled = answer(*network, "--interpret"), answer(*network, "--compile-only")
        result = {**run, "registers": compiled["registers"], "spill_bytes": compiled["spill_bytes"]}
        if rows is None:
            rows = csv.DictWriter(file, list(result), lineterminator="\n")
            rows.writeheader()
        rows.writerow(result)
        file.flush()
PYTHON
  rm "$out/capacity_configurations.csv"
}

for part in "${parts[@]}"; do
  say "$part"
  "$part"
done
say "done: $out"

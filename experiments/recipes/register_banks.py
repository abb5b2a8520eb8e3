#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a multiply-add takes by the registers of its operands: banks of the register file and their reuse caches.

    experiments/recipes/register_banks.py FILE.csv           needs nvcc and a GPU of compute capability 9; some seconds
    experiments/recipes/register_banks.py --count SASS...    of compiled kernels: listings of nvdisasm -c (measure --compile-only
                                                             --write FILE.cubin); needs no GPU

Compiles register_banks.cu, chooses the registers of its 512 multiply-adds anew in the machine code, and runs it. A row for
each way of choosing: the numbers of the operands' registers modulo 4 (third: also the result's), cycles of one multiply-add
of a partition.

With --count: how many multiply-adds there are, and the cycles that their operands take on average by what was measured: as
many as the bank with the most of them gives one by one.

  reuse   none: every instruction has other registers; pairs: two instructions in turn have the same first operand;
          cached: the same, and the first of the two keeps it in the reuse cache
"""
import csv
import ctypes
import itertools
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

OPERATIONS = {"FFMA": ((), 0x223), "HFMA2": (("-DHALF",), 0x231)}  # how it is compiled, the low 12 bits of its code
PRODUCTS, ITERATIONS, LAUNCHES = 512, 200, 5
REUSE_FIRST = 1 << 122  # bits 122 to 124 of an instruction: the reuse caches of its operands
FIRST, SECOND, THIRD, RESULT = 24, 32, 64, 16  # where registers stand in it


def check(status):
    if status:
        sys.exit(f"register_banks.py: the driver returned {status}")


def products(cubin, code):
    """Where the multiply-adds stand in the file."""
    sections, = struct.unpack_from("<Q", cubin, 0x28)
    count, = struct.unpack_from("<H", cubin, 0x3C)
    headers = [struct.unpack_from("<IIQQQQIIQQ", cubin, sections + 64 * i) for i in range(count)]
    text, = (h for h in headers if h[1] == 1 and h[2] & 4)  # executable
    places = [at for at in range(text[4], text[4] + text[5], 16) if int.from_bytes(cubin[at:at + 2], "little") & 0xFFF == code]
    assert len(places) == PRODUCTS, len(places)
    return places


def field(instruction, place, value):
    return instruction & ~(0xFF << place) | value << place


def with_registers(cubin, places, banks, reuse):
    """The same program with other registers. What it computes does not matter."""
    changed = bytearray(cubin)
    pool = sorted({cubin[at + RESULT // 8] for at in places})  # nothing else is in them
    banked = [[r for r in pool if r % 4 == bank] for bank in range(4)]
    # A third of the bank for each operand, so that no instruction has the same register twice.
    first, second, third = (banked[bank][place * len(banked[bank]) // 3:(place + 1) * len(banked[bank]) // 3]
                            for place, bank in enumerate(banks))
    assert min(map(len, (first, second, third))) >= 4
    for i, at in enumerate(places):
        word = int.from_bytes(cubin[at:at + 16], "little") & ~(7 << 122)
        shared = i if reuse == "none" else i // 2
        word = field(word, FIRST, first[shared % len(first)])
        word = field(word, SECOND, second[i % len(second)])
        word = field(word, THIRD, third[i % len(third)])
        word = field(word, RESULT, third[i % len(third)])
        if reuse == "cached" and i % 2 == 0:
            word |= REUSE_FIRST
        changed[at:at + 16] = word.to_bytes(16, "little")
    return bytes(changed)


class Gpu:
    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        check(self.cuda.cuInit(0))
        check(self.cuda.cuDeviceGet(ctypes.byref(device), 0))
        check(self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
        check(self.cuda.cuCtxSetCurrent(context))
        self.values, self.sink, self.clocks = (self.memory(n) for n in (64 * 512 * 4, 64 * 512 * 4, 16 * 8))

    def memory(self, size):
        address = ctypes.c_uint64()
        check(self.cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)))
        check(self.cuda.cuMemsetD8_v2(address, ctypes.c_ubyte(0), ctypes.c_size_t(size)))
        return address

    def cycles(self, cubin, warps):
        """Of one multiply-add of a partition; the median of the launches but for the first."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        check(self.cuda.cuModuleLoadData(ctypes.byref(module), cubin))
        check(self.cuda.cuModuleGetFunction(ctypes.byref(function), module, b"register_banks"))
        iterations = ctypes.c_int(ITERATIONS)
        values = [self.values, self.sink, self.clocks, iterations]
        arguments = (ctypes.c_void_p * 4)(*(ctypes.cast(ctypes.byref(v), ctypes.c_void_p) for v in values))
        clocks = (ctypes.c_int64 * 16)()
        measured = []
        for _ in range(LAUNCHES + 1):
            check(self.cuda.cuLaunchKernel(function, 1, 1, 1, 128 * warps, 1, 1, 0, None, arguments, None))
            check(self.cuda.cuCtxSynchronize())
            check(self.cuda.cuMemcpyDtoH_v2(clocks, self.clocks, ctypes.sizeof(clocks)))
            measured.append(max(clocks[:4 * warps]) / (ITERATIONS * PRODUCTS * warps))
        check(self.cuda.cuModuleUnload(module))
        return sorted(measured[1:])[LAUNCHES // 2]


def count(path):
    """(operation, how many, mean cycles of their operands) of a listing."""
    cached, cycles = {}, {operation: [] for operation in OPERATIONS}
    for line in pathlib.Path(path).read_text().splitlines():
        found = re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?(\w+)\S*\s*(.*?);", line)
        if not found:
            continue
        read, kept = set(), {}
        for place, operand in enumerate(found[2].split(",")[1:4]):
            register = re.match(r"[-|~! ]*R(\d+)\b", operand)
            if register:
                if cached.get(place) != register[1]:
                    read.add(register[1])
                if ".reuse" in operand:
                    kept[place] = register[1]
        cached = kept
        if found[1] in cycles:
            even = sum(int(r) % 2 == 0 for r in read)
            cycles[found[1]].append(max(1, even, len(read) - even))
    return [(operation, len(each), sum(each) / len(each)) for operation, each in cycles.items() if each]


def main():
    if sys.argv[1] == "--count":
        print("file,operation,products,cycles")
        for path in sys.argv[2:]:
            for operation, products_of, cycles in count(path):
                print(f"{pathlib.Path(path).name},{operation},{products_of},{cycles:.3f}")
        return
    gpu = Gpu()
    source = pathlib.Path(__file__).with_suffix(".cu")
    with tempfile.TemporaryDirectory() as folder, open(sys.argv[1], "w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["operation", "first", "second", "third", "reuse", "warps", "cycles"])
        for operation, (options, code) in OPERATIONS.items():
            path = pathlib.Path(folder) / "register_banks.cubin"
            subprocess.run(["nvcc", "-std=c++17", "-arch=sm_90", "-cubin", *options, "-o", path, source], check=True)
            cubin = path.read_bytes()
            places = products(cubin, code)
            for banks in itertools.product(range(4), repeat=3):
                for reuse, warps in itertools.product(("none", "pairs", "cached"), (1, 4)):
                    cycles = gpu.cycles(with_registers(cubin, places, banks, reuse), warps)
                    writer.writerow([operation, *banks, reuse, warps, f"{cycles:.4f}"])


if __name__ == "__main__":
    main()

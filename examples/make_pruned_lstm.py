#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a small pruned LSTM as a .safetensors file, with the names that torch.nn.LSTM gives its parameters.

    make_pruned_lstm.py FILE [INPUT HIDDEN LAYERS DENSITY]

With torch the same file is:  safetensors.torch.save_file(lstm.state_dict(), FILE)
"""
import json
import random
import struct
import sys


def main(file, input_size=40, hidden=96, layers=2, density=0.2):
    choose = random.Random(1)
    limit = hidden ** -0.5
    tensors = {}
    for layer in range(layers):
        columns = input_size if layer == 0 else hidden
        for name, shape, kept in (
            ("weight_ih", (4 * hidden, columns), 1.0),
            ("weight_hh", (4 * hidden, hidden), density),
            ("bias_ih", (4 * hidden,), 1.0),
            ("bias_hh", (4 * hidden,), 1.0),
        ):
            count = shape[0] * (shape[1] if len(shape) == 2 else 1)
            values = [choose.uniform(-limit, limit) if choose.random() < kept else 0.0 for _ in range(count)]
            tensors[f"{name}_l{layer}"] = shape, struct.pack(f"<{count}f", *values)
    header, data = {}, b""
    for name, (shape, bytes_of) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(bytes_of)]}
        data += bytes_of
    text = json.dumps(header).encode()
    with open(file, "wb") as to:
        to.write(struct.pack("<Q", len(text)) + text + data)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 6):
        sys.exit(__doc__)
    numbers = [int(word) for word in sys.argv[2:5]] + [float(word) for word in sys.argv[5:]]
    main(sys.argv[1], *numbers)

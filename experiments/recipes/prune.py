#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes pruned weights as users have them: trains a recurrent network to foretell the next byte of a text, prunes its
recurrent weights by magnitude while it learns on, and writes what is left.

    experiments/recipes/prune.py CELL HIDDEN DENSITY FILE.mtx TEXT...     CELL: relu, tanh, lstm or gru

The largest magnitudes of the whole matrix stay, so rows come out as uneven as the network wants them. The density falls
from 1 to DENSITY in cubic steps, as in Zhu and Gupta, "To prune, or not to prune" (2017). FILE.mtx: gates * HIDDEN rows,
HIDDEN columns, gates in PyTorch's order, as `onchip --weights` takes them. Needs PyTorch; fast with a GPU. The same
arguments give networks alike, not the same bits.
"""
import argparse
import pathlib

import torch

BATCH, LENGTH, EMBEDDING = 64, 96, 128
PRUNE_FROM, PRUNE_UNTIL, PRUNE_EVERY = 0.2, 0.8, 10  # shares of the training; steps
LEARNING_RATE, LARGE_LEARNING_RATE, LARGE = 1e-3, 2e-4, 4096  # from LARGE units on; at 1e-3 relu H=4096 diverges
GATES = {"relu": 1, "tanh": 1, "lstm": 4, "gru": 3}


class Diverged(Exception):
    pass


class ByteModel(torch.nn.Module):
    def __init__(self, cell, hidden):
        super().__init__()
        self.embedding = torch.nn.Embedding(256, EMBEDDING)
        if GATES[cell] == 1:
            self.recurrent = torch.nn.RNN(EMBEDDING, hidden, nonlinearity=cell, batch_first=True)
            torch.nn.init.orthogonal_(self.recurrent.weight_hh_l0)
        else:
            self.recurrent = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[cell](EMBEDDING, hidden, batch_first=True)
        self.output = torch.nn.Linear(hidden, 256)

    def forward(self, text):
        states, _ = self.recurrent(self.embedding(text))
        return self.output(states)


def density_at(step, steps, final):
    """1 until PRUNE_FROM of all steps, `final` from PRUNE_UNTIL on."""
    done = (step / steps - PRUNE_FROM) / (PRUNE_UNTIL - PRUNE_FROM)
    return final + (1 - final) * (1 - min(max(done, 0.0), 1.0)) ** 3


def largest(weights, density):
    """Mask of the round(density * size) largest magnitudes."""
    kept = max(1, round(density * weights.numel()))
    mask = torch.zeros(weights.numel(), dtype=torch.bool, device=weights.device)
    mask[torch.topk(weights.abs().flatten(), kept).indices] = True
    return mask.view_as(weights)


def train(cell, hidden, density, text, steps, learning_rate):
    """What is left of the recurrent weights, [gates * hidden, hidden]; Diverged if not all of them are finite."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(1)
    model = ByteModel(cell, hidden).to(device)
    weights = model.recurrent.weight_hh_l0
    text = text.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    mask = torch.ones_like(weights, dtype=torch.bool)
    for step in range(steps):
        at = torch.randint(0, len(text) - LENGTH - 1, (BATCH,), device=device)
        passage = text[at[:, None] + torch.arange(LENGTH + 1, device=device)]
        scores = model(passage[:, :-1])
        loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), passage[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        with torch.no_grad():
            if step % PRUNE_EVERY == 0 or step == steps - 1:
                if not weights.isfinite().all():
                    raise Diverged(f"{cell} H={hidden} diverged by step {step}: there are weights that are not finite; "
                                   f"try a --learning-rate below {learning_rate:g}")
                mask = largest(weights, density if step == steps - 1 else density_at(step, steps, density))
            weights.mul_(mask)
        if step % 100 == 0 or step == steps - 1:
            print(f"step {step}: {loss.item():.3f} nats a byte, density {mask.float().mean().item():.3f}", flush=True)
    return weights.detach().float().cpu()


def write(weights, file, comment):
    """Matrix Market, from 1; whole or not at all."""
    rows, columns = weights.nonzero(as_tuple=True)
    part = file.with_name(file.name + ".part")
    with part.open("w") as out:
        out.write(f"%%MatrixMarket matrix coordinate real general\n% {comment}\n")
        out.write(f"{weights.shape[0]} {weights.shape[1]} {len(rows)}\n")
        for row, column, value in zip(rows.tolist(), columns.tolist(), weights[rows, columns].tolist()):
            out.write(f"{row + 1} {column + 1} {value:.4g}\n")
    part.replace(file)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("cell", choices=GATES)
    parser.add_argument("hidden", type=int)
    parser.add_argument("density", type=float)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("text", type=pathlib.Path, nargs="+")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--learning-rate", type=float,
                        help=f"default: {LEARNING_RATE:g}, from HIDDEN {LARGE} on {LARGE_LEARNING_RATE:g}")
    options = parser.parse_args()
    if options.learning_rate is None:
        options.learning_rate = LEARNING_RATE if options.hidden < LARGE else LARGE_LEARNING_RATE
    if options.hidden < 1 or options.steps < 1 or not 0 < options.density <= 1 or not options.learning_rate > 0:
        parser.error("expected HIDDEN and --steps of at least 1, DENSITY above 0, at most 1, --learning-rate above 0")
    try:
        text = b"".join(path.read_bytes() for path in options.text)
    except OSError as error:
        parser.error(str(error))
    if len(text) < LENGTH + 2:
        parser.error(f"expected a text of more than {LENGTH + 1} bytes")
    codes = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
    try:
        weights = train(options.cell, options.hidden, options.density, codes, options.steps, options.learning_rate)
    except Diverged as error:
        parser.exit(1, f"{parser.prog}: {error}\n")
    write(weights, options.file, f"{options.cell} H={options.hidden}, pruned by magnitude to {options.density:g}")
    lengths = (weights != 0).sum(1).float()
    print(f"{options.file}: {int(lengths.sum())} weights, rows of {int(lengths.min())} to {int(lengths.max())}, "
          f"mean {lengths.mean():.1f}, standard deviation {lengths.std():.1f}")


if __name__ == "__main__":
    main()

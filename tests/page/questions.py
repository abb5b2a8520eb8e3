# SPDX-License-Identifier: Apache-2.0
"""Random questions of model/ask/ask.hpp over verbs, workloads, chips and changes, and malformed ones."""
import json
import random

CHIPS = ("h200", "h100_sxm", "a100", "rtx_4090", "l40s", "b200", "v100", "t4", "gh200", "jetson_agx_orin")
KEYS = ("sm.count", "sm.clock", "shared_memory.per_sm", "registers.per_sm", "l2.size", "exchange.signal", "timing.lds_wavefront")


def recurrent(r):
    network = {"cell": r.choice(("relu", "tanh", "lstm", "gru")), "hidden": r.randrange(64, 2500, r.choice((1, 8, 32))),
               "batch": r.choice((1, 2, 3, 4, 8, 16)), "density": round(r.uniform(0.01, 0.6), 3),
               "precision": r.choice(("fp16", "bf16", "fp32", "fp8"))}
    question = {"ask": r.choice(("predict", "rank", "rank", "fit")), "network": network}
    if r.random() < 0.15:
        question["mask"], network["density"] = "2:4", 0.5
    if r.random() < 0.3:
        question["rows"] = "expected"
    if r.random() < 0.1:
        question["constraints"] = r.choice(({"family": "dense_persistent"}, {"family": "cudnn"}, {"tier": "registers"}))
    if question["ask"] == "predict" and r.random() < 0.2:
        question.update(layers=2, bidirectional=True, input=512)
    return question


def what_if(r):
    question = {"ask": "what_if", "network": {"cell": r.choice(("relu", "lstm")), "hidden": r.randrange(64, 900),
                                              "batch": r.choice((1, 4)), "density": 0.2}}
    if r.random() < 0.5:
        question.update(target=[f"step_us<={r.uniform(0.5, 3):.3g}"], vary=[r.choice(KEYS)])
    else:
        question["set"] = [r.choice(KEYS) + r.choice(("=+10%", "=x2"))]
    return question


def training(r):
    network = {"cell": r.choice(("relu", "tanh", "lstm", "gru")), "hidden": r.randrange(64, 2200, r.choice((1, 16, 32))),
               "batch": r.choice((1, 16, 32, 64, 128)), "steps": r.choice((64, 100, 256))}
    question = {"ask": r.choice(("fit", "predict", "rank")), "mode": "train", "network": network}
    if r.random() < 0.3:
        question.update(layers=r.choice((2, 3)), bidirectional=r.random() < 0.5, input=r.choice((256, 512)))
    if r.random() < 0.3:
        question["stash"] = r.choice(("gates", "cells"))
    return question


def feed_forward(r):
    return {"ask": r.choice(("fit", "predict", "rank")), "network": r.choice(("spdnn:1024x30", "radix:1024x10")),
            "images": r.choice((1000, 5000, 60000)), "alive": r.choice((0.25, 0.5, 1)), "gpus": r.choice((1, 2, 8))}


def rows(r):
    question = {"ask": "sweep", "axis": ["hidden=512:1536:512", "batch=1,4"], "rows": "expected",
                "network": {"cell": r.choice(("lstm", "gru")), "density": 0.1}}
    return question if r.random() < 0.5 else {**question, "ask": "pareto", "objectives": "step_us:min,hidden:max"}


def draw(count, seed):
    """Triples of chip, changes and question, as JSON text."""
    r = random.Random(seed)
    kinds = (recurrent,) * 11 + (training,) * 5 + (feed_forward,) * 2 + (what_if, rows)
    drawn = []
    for _ in range(count):
        changes = r.choice(([], [], [r.choice(KEYS) + "=+10%"], ["sm.count=+20%", "l2.size=x2"]))
        drawn.append((r.choice(CHIPS), changes, json.dumps(r.choice(kinds)(r))))
    return drawn


def malformed(count, seed):
    """Questions with a letter, a word or a value that should not be there."""
    r = random.Random(seed)
    drawn = []
    for chip, changes, text in draw(count, seed):
        place = r.randrange(len(text))
        text = r.choice((text[:place], text[:place] + r.choice('{}",:x0') + text[place + 1:], text.replace("hidden", "hiden"),
                         text.replace('"ask": "', '"ask": "re'), text.replace('"batch": ', '"batch": -'),
                         text.replace('"network"', '"netwrok"')))
        drawn.append((r.choice((chip, "h2000")), r.choice((changes, ["sm.cuont=1"], ["sm.count=-1"])), text))
    return drawn


def command(chip, changes, text):
    """The same in the words of a shell after 'onchip'; None where a command has none for it."""
    question = json.loads(text)
    verb = question.pop("ask")
    family = question.get("constraints", {}).get("family")
    if (verb == "pareto" or (verb != "sweep" and "rows" in question) or (verb == "what_if" and changes)
            or (verb == "rank" and family) or (verb == "fit" and family == "cudnn")):  # which the command refuses
        return None
    network = question.pop("network", {})
    fixed = network if isinstance(network, dict) else {"network": network}
    words = {"rank": ["predict", "--plan", "all"], "what_if": ["what-if"]}.get(verb, [verb])
    words += ["--format", "jsonl" if verb == "sweep" else "json"]
    for name, value in [*fixed.items(), *question.pop("constraints", {}).items(), *question.items(), ("chip", chip), ("set", changes)]:
        if isinstance(value, list):
            words += [word for one in value for word in ("--" + name, one)]
        elif value is not False:
            words += ["--" + name] if value is True else ["--" + name, str(value)]
    return words

#!/usr/bin/env python3
"""Writes the reference numbers that tests/golden/model compares src/model/network.cc with.

An independent implementation of the network from its description, in plain PyTorch: weights follow a formula that the
test repeats, inputs and outputs are small readable text.   usage: scripts/reference_model.py [FOLDER]
"""
import math
import pathlib
import sys

import torch

D, HEADS, WIDE, LAYERS, KINDS = 8, 2, 16, 2, 3
VOCABULARY, LOG_VOCABULARY, NUMBERS, LOCALIZER, VALUES = 6, 5, 2, 3, 14
STEPS, LENGTH, LOGS, RANKS = 2, 4, 3, 2
FAR = -1e9


def parameter(name, *shape, base=0.0):
    """base + 0.3 sin(0.7 i + the sum of the name's bytes), i counting row by row."""
    phase = sum(name.encode())
    count = math.prod(shape)
    values = [base + 0.3 * math.sin(0.7 * i + phase) for i in range(count)]
    return torch.tensor(values, dtype=torch.float64).reshape(shape)


def linear(name, x, out):
    return x @ parameter(name + ".weight", out, x.shape[-1]).T + parameter(name + ".bias", out)


def gelu(x):
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def perceptron(name, x, out):
    return linear(name + ".out", gelu(linear(name + ".in", x, D)), out)


def norm(name, x):
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + 1e-5) * parameter(name + ".weight", D, base=1.0) + parameter(name + ".bias", D)


def positions():
    table = torch.zeros(1024, D, dtype=torch.float64)
    for row in range(1024):
        for column in range(D):
            angle = row * 1e4 ** (-(column // 2 * 2) / D)
            table[row, column] = 0.1 * (math.sin(angle) if column % 2 == 0 else math.cos(angle))
    return table


def inputs():
    """Step 0 has four tokens on two ranks and three log pieces; step 1 has three tokens, one log piece, then padding."""
    def series(count, scale, shift):
        return [round(scale * math.sin(1.3 * i + shift), 3) for i in range(count)]
    values = series(STEPS * LENGTH * VALUES, 1.5, 0.2)
    values[(STEPS * LENGTH - 1) * VALUES:] = [0.0] * VALUES
    return {
        "ids": [1, 2, 3, 2, 5, 0, 4, 0], "parents": [0, 2, 2, 0, 0, 6, 6, 0], "layers": [0, 1, 3, 4, 0, 1, 2, 0],
        "token_ranks": [0, 0, 1, 1, 0, 1, 1, 0], "depths": [0, 1, 2, 0, 0, 1, 1, 0], "positions": [0, 1, 0, 1, 0, 0, 1, 0],
        "values": values, "token_mask": [1, 1, 1, 1, 1, 1, 1, 0], "rank_mask": [1, 1, 1, 1],
        "logs": [1, 4, 2, 3, 0, 0], "log_ranks": [0, 0, 1, 1, 0, 0], "log_mask": [1, 1, 1, 1, 0, 0],
        "numbers": series(STEPS * 2 * NUMBERS, 1.0, 0.5), "localizer": series(STEPS * LOCALIZER, 2.0, 0.9),
        "node_token": [0, 0, 1, 2, 3, 3, 3, 4, 5, 6, 6], "node_symbol": [7, 1000, 3, 7, 12, 13, 14, 7, 900, 2, 1],
        "node_values": series(11 * 3, 1.0, 0.1),
    }


def embed(given):
    def real(name, *shape):
        return torch.tensor(given[name], dtype=torch.float64).reshape(shape)

    def look(name, rows, key, columns):
        return parameter(name, rows, D)[torch.tensor(given[key]).reshape(STEPS, columns)]

    summary = parameter("summary", D) + linear("numbers", real("numbers", STEPS, 2 * NUMBERS), D)
    summary = summary + linear("localizer", real("localizer", STEPS, LOCALIZER), D)
    tokens = look("token.id", VOCABULARY, "ids", LENGTH) + positions()[torch.tensor(given["positions"]).reshape(STEPS, LENGTH)]
    for name, rows, key in (("parent", VOCABULARY + 1, "parents"), ("layer", 8, "layers"), ("rank", 64, "token_ranks"),
                            ("depth", 32, "depths")):
        tokens = tokens + look("token." + name, rows, key, LENGTH)
    tokens = tokens + perceptron("token.values", real("values", STEPS, LENGTH, VALUES), D)
    logs = look("log.id", LOG_VOCABULARY, "logs", LOGS) + positions()[:LOGS] + parameter("log.kind", D)
    logs = logs + look("log.rank", 64, "log_ranks", LOGS)
    x = torch.cat([summary.unsqueeze(1), tokens, logs], 1)
    mask = torch.cat([torch.ones(STEPS, 1, dtype=torch.float64), real("token_mask", STEPS, LENGTH),
                      real("log_mask", STEPS, LOGS)], 1)
    return x, mask


def attention(name, x, mask):
    width = D // HEADS
    query, key, value = linear(name + ".in", x, 3 * D).split(D, -1)
    heads = []
    for h in range(HEADS):
        part = slice(h * width, (h + 1) * width)
        scores = query[..., part] @ key[..., part].transpose(1, 2) / math.sqrt(width)
        scores = scores + (1 - mask).unsqueeze(1) * FAR
        heads.append(torch.softmax(scores, -1) @ value[..., part])
    return linear(name + ".out", torch.cat(heads, -1), D)


def encode(given):
    x, mask = embed(given)
    for layer in range(LAYERS):
        name = f"layer{layer}"
        x = x + attention(name + ".attention", norm(name + ".before", x), mask)
        x = x + linear(name + ".narrow", gelu(linear(name + ".wide", norm(name + ".between", x), WIDE)), D)
    x = norm("last", x)
    return x[:, 0], x[:, 1:1 + LENGTH], mask[:, 1:1 + LENGTH]


def segments(scores, segment, count):
    return torch.stack([torch.logsumexp(scores[segment == s], 0) if (segment == s).any() else torch.tensor(FAR).double()
                        for s in range(count)])


def outputs(given):
    summary, tokens, mask = encode(given)
    query, key = linear("pointer.query", summary, D), linear("pointer.key", tokens, D)
    scores = (key * query.unsqueeze(1)).sum(-1) / math.sqrt(D) + perceptron("pointer.token", tokens, 1).squeeze(-1)
    scores = scores + (1 - mask) * FAR
    both = torch.log_softmax(torch.cat([linear("pointer.none", summary, 1), scores], 1), 1)
    none, token = both[:, 0], both[:, 1:]
    place = torch.tensor(given["node_token"])
    inside = linear("node.token", tokens, 32).reshape(-1, 32)[place] + parameter("node.symbol", 1024, 32)[
        torch.tensor(given["node_symbol"])] + linear("node.values", torch.tensor(given["node_values"]).double().reshape(-1, 3), 32)
    score = linear("node.out", gelu(inside), 1).squeeze(-1)
    node = score - segments(score, place, STEPS * LENGTH)[place] + token.reshape(-1)[place]
    rank_of = torch.tensor(given["token_ranks"]).reshape(STEPS, LENGTH) + RANKS * torch.arange(STEPS).unsqueeze(1)
    rank_score = perceptron("rank", tokens, 1).squeeze(-1) + (1 - mask) * FAR
    rank = torch.log_softmax(segments(rank_score.reshape(-1), rank_of.reshape(-1), STEPS * RANKS).reshape(STEPS, RANKS), 1)
    largest = (tokens + (1 - mask).unsqueeze(2) * FAR).amax(1)
    pooled = torch.cat([summary, largest, (token.exp().unsqueeze(2) * tokens).sum(1)], 1)
    return {"abnormal": perceptron("abnormal", pooled, 1), "kind": perceptron("kind", pooled, KINDS), "rank": rank,
            "none": none, "node": node}


def write(path, arrays):
    lines = [name + "".join(f" {value:.7g}" for value in values) for name, values in arrays.items()]
    path.write_text("\n".join(lines) + "\n")


def main():
    default = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/model/reference"
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    folder.mkdir(parents=True, exist_ok=True)
    given = inputs()
    write(folder / "input.txt", given)
    write(folder / "expected.txt", {name: value.reshape(-1).tolist() for name, value in outputs(given).items()})


if __name__ == "__main__":
    main()

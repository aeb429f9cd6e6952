#!/usr/bin/env python3
"""Encoding speed of TPE beside Hugging Face tokenizers and SentencePiece BPE, on the same symbol sequences, in one run.

Peers see each atom as one character (its symbol), are trained to the same vocabulary size on the same tenth of the
sequences, and encode the rest on one thread; every sequence is one string without spaces, and all are distinct. They do
less: no depth steps, no structural condition. Rounds are interleaved; the table shows medians.

usage: scripts/peers/tpe_encode.py [--benchmarks build/release/bin/teller-benchmarks] [--rounds 5] [--atoms 1000000]
needs: pip install tokenizers sentencepiece
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FIRST_CHARACTER = 0x4E00  # letters, so that no pre-tokenizer splits at them


def make_sequences(atoms, seed):
    """Steps of an engine: the same layer again and again, with 3 % of the operators unusual."""
    rng = random.Random(seed)
    layer = [rng.randrange(48) for _ in range(16)]
    sequences, made = [], 0
    while made < atoms:
        sequence = [(60, 0)]
        for _ in range(rng.randint(8, 14)):
            sequence.append((61, 1))
            for usual in layer:
                symbol = rng.randrange(48) if rng.random() < 0.03 else usual
                sequence.append((symbol, 2))
                if (symbol % 5 < 2) != (rng.random() < 0.02):
                    sequence.append((48 + symbol % 8, 3))
                if (symbol % 3 < 2) != (rng.random() < 0.02):
                    sequence.append((56 + symbol % 4, 3))
        sequences.append(sequence)
        made += len(sequence)
    return sequences


def as_text(sequences):
    return ["".join(chr(FIRST_CHARACTER + symbol) for symbol, _ in sequence) for sequence in sequences]


def hugging_face(training, size):
    import tokenizers
    from tokenizers import models, trainers
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.train_from_iterator(training, trainers.BpeTrainer(vocab_size=size, show_progress=False))
    return lambda texts: sum(len(encoding.ids) for encoding in map(tokenizer.encode, texts))


def sentence_piece(training, size):
    import sentencepiece
    with tempfile.TemporaryDirectory() as folder:
        prefix = os.path.join(folder, "bpe")
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(training), model_prefix=prefix, vocab_size=size, model_type="bpe",
            character_coverage=1.0, max_sentence_length=1 << 20, max_sentencepiece_length=512,
            split_by_unicode_script=False, split_by_number=False, add_dummy_prefix=False,
            hard_vocab_limit=False, minloglevel=2, num_threads=1)
        model = sentencepiece.SentencePieceProcessor(model_file=prefix + ".model")
    return lambda texts: sum(map(len, model.encode(texts, num_threads=1)))


def run_teller(benchmarks, path, size):
    command = [benchmarks, f"--benchmark_filter=BM_TpeEncodeFile/{size}$", "--benchmark_format=json",
               "--benchmark_min_time=0.2"]
    output = subprocess.run(command, env={**os.environ, "TELLER_TPE_SEQUENCES": path}, check=True,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    result = json.loads(output)["benchmarks"][0]
    if result.get("error_occurred"):
        sys.exit(f"teller-benchmarks: {result['error_message']}")
    return result["items_per_second"], int(result["tokens"])


def timed(encode, texts, atoms):
    begin = time.perf_counter()
    tokens = encode(texts)
    return atoms / (time.perf_counter() - begin), tokens


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--benchmarks", default=str(ROOT / "build/release/bin/teller-benchmarks"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--atoms", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    os.environ["RAYON_NUM_THREADS"] = "1"
    sequences = make_sequences(arguments.atoms, seed=1)
    training = len(sequences) // 10
    texts = as_text(sequences)
    atoms = sum(len(sequence) for sequence in sequences[training:])
    report = {}
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        for sequence in sequences:
            file.write(" ".join(f"{symbol}:{depth}" for symbol, depth in sequence) + "\n")
        file.flush()
        for size in (256, 1024):
            peers = {"Hugging Face tokenizers": hugging_face(texts[:training], size),
                     "SentencePiece BPE": sentence_piece(texts[:training], size)}
            speeds, tokens = {name: [] for name in ["teller", *peers]}, {}
            for _ in range(arguments.rounds):
                for name in speeds:
                    speed, tokens[name] = (run_teller(arguments.benchmarks, file.name, size) if name == "teller"
                                           else timed(peers[name], texts[training:], atoms))
                    speeds[name].append(speed)
            report[size] = {name: {"atoms_per_s": statistics.median(values), "min": min(values), "max": max(values),
                                   "cut": 1 - tokens[name] / atoms} for name, values in speeds.items()}
    if arguments.json:
        print(json.dumps(report))
        return
    for size, rows in report.items():
        print(f"vocabulary {size}, {atoms} atoms in {len(sequences) - training} distinct sequences")
        for name, row in rows.items():
            ratio = rows["teller"]["atoms_per_s"] / row["atoms_per_s"]
            print(f"  {name:24} {row['atoms_per_s'] / 1e6:8.2f} M atoms/s ({row['min'] / 1e6:.2f}-{row['max'] / 1e6:.2f}), "
                  f"cut {100 * row['cut']:.1f} %, teller is {ratio:.1f}x")


if __name__ == "__main__":
    main()

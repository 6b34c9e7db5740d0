"""Translate random SMILES into canonical ones with the Transformer, Bahdanau's and Luong's model, as a table.

    python -m examples.smiles_translation --minutes 20 -o translation                  # all three, one after another
    python -m examples.smiles_translation --models transformer --minutes 20 -o translation
    python -m examples.smiles_translation --models -o translation                      # only the table of a folder

The molecules are those of the NCI that come with RDKit whose canonical SMILES has at most 24 characters, split by
molecule. Training also sees random edits of the training molecules, none of them a molecule of the test or of the
validation. Every held-out molecule is spelled at random once, the same for all models. The folder gets each model's
weights, its results with every translation, and a picture of its attention; its table holds all results in it.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import torch
from safetensors.torch import save_file

from examples.smiles_translation.pairs import nci_split, randomize_smiles
from examples.smiles_translation.training import (
    TRANSLATORS,
    TranslationConfig,
    alignment_of,
    score_translations,
    train_translator,
    translate,
)
from molattn.chem import mutate_molecules, tokenize
from molattn.errors import InputError
from molattn.viewer import alignment

MAX_LENGTH, SHORT, EXTRA, BEAM = 24, 20, 60_000, 5
SPELLING_SEED = 1234
EXAMPLE = "COc1cc(C(=O)O)ccc1O"  # vanillic acid, whose alignment is drawn; never trained on


def measure(name: str, minutes: float, seed: int, folder: Path) -> None:
    """Train one model, and write its weights, results and picture to `folder`."""
    begin = time.perf_counter()
    split = nci_split(MAX_LENGTH, seed=0)
    held_out = {*split.val, *split.test, EXAMPLE}
    train = [smiles for smiles in split.train if smiles != EXAMPLE]
    extra = mutate_molecules(train, EXTRA, seed=0, max_length=MAX_LENGTH, exclude=held_out)
    assert held_out.isdisjoint(train) and held_out.isdisjoint(extra)
    preparation = time.perf_counter() - begin
    config = TranslationConfig(model=name, minutes=minutes, steps=10**9, seed=seed)
    done = train_translator(
        train,
        split.val,
        config,
        extra=extra,
        on_record=lambda r: print(
            f"{name} step {r.step}, {r.seconds:.0f} s: loss {r.train_loss:.3f}, validation {r.val_loss:.3f}",
            file=sys.stderr,
            flush=True,
        ),
    )
    model = done.model
    sources = randomize_smiles(split.test, SPELLING_SEED)
    short = [i for i, target in enumerate(split.test) if len(target) <= SHORT]
    scores, translations = {}, {}
    answers = {
        "greedy": translate(model, sources),
        f"beam {BEAM}": translate(model, sources, beam=BEAM),
        "copy": sources,
    }
    for how, written in answers.items():
        translations[how] = written
        scores[how] = {
            "all": asdict(score_translations(split.test, written)),
            "short": asdict(score_translations([split.test[i] for i in short], [written[i] for i in short])),
        }
    (example,) = randomize_smiles([EXAMPLE], SPELLING_SEED)
    (answer,) = translate(model, [example])
    try:
        weights, rows = alignment_of(model, example, answer), [*tokenize(answer), "end"]
        alignment(weights, tokenize(example), rows, title=f"{name}: {example} -> {answer}").save(folder / f"{name}.png")
    except InputError as error:  # after a short training, an answer need not be made of tokens
        print(f"{name}: no picture, {error}", file=sys.stderr)
    save_file({key: x.contiguous() for key, x in model.state_dict().items()}, folder / f"{name}.safetensors")
    result = {
        "model": name,
        "config": {**asdict(config), "minutes": minutes},
        "molecules": {"train": len(train), "extra": len(extra), "val": len(split.val), "test": len(split.test)},
        "parameters": sum(p.numel() for p in model.parameters()),
        "preparation_seconds": preparation,
        "training_seconds": done.seconds,
        "steps": done.steps,
        "pairs": done.steps * config.batch_size,
        "threads": torch.get_num_threads(),
        "scores": scores,
        "history": [asdict(record) for record in done.history],
        "test": {"target": split.test, "source": sources, **translations},
    }
    (folder / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def table(folder: Path) -> str:
    """The results in `folder` as a markdown table, with a footer on how they were obtained."""
    results = [json.loads((folder / f"{n}.json").read_text()) for n in TRANSLATORS if (folder / f"{n}.json").is_file()]
    if not results:
        return "no results yet"
    first = results[0]
    counts = {size: first["scores"]["greedy"][size]["count"] for size in ("short", "all")}
    lines = [
        "| model | parameters | minutes | pairs | decoding "
        f"| exact, up to {SHORT} | valid | same molecule | exact, up to {MAX_LENGTH} | valid | same molecule |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for result in results:
        for how in ("greedy", f"beam {BEAM}"):
            head = f"| {result['model']} | {result['parameters']:,} | {result['training_seconds'] / 60:.1f} "
            lines.append(f"{head}| {result['pairs']:,} | {how} | {_cells(result['scores'][how])} |")
    lines.append(f"| the input, copied | | | | | {_cells(first['scores']['copy'])} |")
    of = first["molecules"]
    preparation = max(result["preparation_seconds"] for result in results)
    lines.append(
        f"\nShares of {counts['short']} held-out molecules whose canonical SMILES has up to {SHORT} characters, and of "
        f"all {counts['all']} of up to {MAX_LENGTH}. Trained on {of['train']:,} molecules and {of['extra']:,} edits of "
        f"them, which took another {preparation:.0f} s to make; seed {first['config']['seed']}; "
        f"{first['threads']} thread(s) for each training, of a machine with {os.cpu_count()} CPU cores "
        f"({platform.machine()}); "
        f"torch {version('torch')}, rdkit {version('rdkit')}."
    )
    return "\n".join(lines)


def _cells(scores: dict) -> str:
    values = [scores[size][what] for size in ("short", "all") for what in ("exact", "valid", "same")]
    return " | ".join(f"{100 * value:.1f}%" for value in values)


def main() -> None:
    """Train, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", choices=list(TRANSLATORS), default=list(TRANSLATORS))
    parser.add_argument("--minutes", type=float, default=20, help="of training, for each model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, help="a folder; a temporary one by default")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.output or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name in arguments.models:
            measure(name, arguments.minutes, arguments.seed, folder)
        print(table(folder))


if __name__ == "__main__":
    main()

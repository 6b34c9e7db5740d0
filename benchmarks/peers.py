"""Other projects to compare with, each in a virtual environment of its own, as its users install it.

python benchmarks/peers.py                  # makes all of them, in a folder of the user's cache
python benchmarks/peers.py --peers FOLDER chemprop
"""

import argparse
import subprocess
import sys
from pathlib import Path

PEERS = {
    # It includes its C++ featurizer (cuik-molmaker), which requires a certain version of RDKit.
    "chemprop": ("torch==2.13.0", "chemprop==2.3.1"),
    "catboost": ("catboost==1.2.10", "rdkit==2026.9.1"),
    # `from_smiles`, AttentiveFP, TransformerConv; scikit-learn for the metrics of our script.
    "pyg": ("torch==2.13.0", "torch-geometric==2.8.1", "rdkit==2026.9.1", "scikit-learn==1.9.1"),
}
"""The packages that are installed for each, in addition to its dependencies."""

FOLDER = Path.home() / ".cache" / "molattn-peers"


def python_of(peer: str, folder: Path = FOLDER) -> Path:
    """The interpreter of a peer's environment, which is made first if it is not there.

    Raises:
        KeyError: no such peer.
        subprocess.CalledProcessError: it could not be installed.
    """
    requirements = PEERS[peer]
    python = folder / peer / "bin" / "python"
    # Written last, so that an installation that was interrupted is done again.
    done = folder / peer / "installed.txt"
    if not done.exists() or done.read_text() != "\n".join(requirements):
        print(f"installing {', '.join(requirements)} in {folder / peer}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder / peer], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *requirements], check=True)
        done.write_text("\n".join(requirements))
    return python


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="which ones; all if none is named")
    parser.add_argument("--peers", type=Path, default=FOLDER, help="where the environments lie")
    options = parser.parse_args()
    for name in options.names or PEERS:
        print(python_of(name, options.peers))


if __name__ == "__main__":
    main()

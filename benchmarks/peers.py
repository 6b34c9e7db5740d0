"""Virtual environments of the other projects that molattn is compared with.

python benchmarks/peers.py                  # create all of them in the cache of the user
python benchmarks/peers.py --peers FOLDER chemprop
"""

import argparse
import subprocess
import sys
from pathlib import Path

PEERS = {
    # Includes its C++ featurizer (cuik-molmaker), which requires a certain version of RDKit.
    "chemprop": ("torch==2.13.0", "chemprop==2.3.1"),
    "catboost": ("catboost==1.2.10", "rdkit==2026.9.1"),
    # `from_smiles`, AttentiveFP, TransformerConv; scikit-learn for the metrics of our script.
    "pyg": ("torch==2.13.0", "torch-geometric==2.8.1", "rdkit==2026.9.1", "scikit-learn==1.9.1"),
}
"""The packages of each environment, without their dependencies."""

FOLDER = Path.home() / ".cache" / "molattn-peers"


def python_of(peer: str, folder: Path = FOLDER) -> Path:
    """The interpreter of an environment, which is created if necessary.

    Raises:
        KeyError: there is no such environment.
        subprocess.CalledProcessError: the installation failed.
    """
    requirements = PEERS[peer]
    python = folder / peer / "bin" / "python"
    # Written last, so that an interrupted installation is repeated.
    done = folder / peer / "installed.txt"
    if not done.exists() or done.read_text() != "\n".join(requirements):
        print(f"installing {', '.join(requirements)} in {folder / peer}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder / peer], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *requirements], check=True)
        done.write_text("\n".join(requirements))
    return python


def main() -> None:
    """Create the environments, and print their interpreters."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="default: all")
    parser.add_argument("--peers", type=Path, default=FOLDER, help="folder of the environments")
    options = parser.parse_args()
    for name in options.names or PEERS:
        print(python_of(name, options.peers))


if __name__ == "__main__":
    main()

"""The packages that the loggers need, as extras of molattn."""

from importlib.util import find_spec

from molattn.errors import MissingExtra

PACKAGES = {
    "tensorboard": {"tensorboard": "tensorboard"},
    "mlflow": {"mlflow": "mlflow-skinny", "sqlalchemy": "sqlalchemy", "alembic": "alembic"},
    "wandb": {"wandb": "wandb"},
}
"""For each extra its modules, and the packages that they are in."""


def require_packages(extra: str) -> None:
    """Raise MissingExtra, without importing anything, if a package of the logger's extra is not installed.

    Args:
        extra: a key of `PACKAGES`.
    """
    for module, package in PACKAGES[extra].items():
        if find_spec(module) is None:
            raise MissingExtra(package, extra, f"the logger {extra}")

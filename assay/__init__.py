"""Assay: which hardware should run this model? Measured where we measured, predicted where we did not."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.client import Client

__all__ = ["Client", "__version__", "require_own_packages"]

__version__ = "0.1.0"

TOP_LEVEL = ("domain", "ingest", "predictor", "runner", "api", "presentation", "dashboard")
"""Packages beside this one in a clone, inside it in a wheel."""


def require_own_packages() -> None:
    """Raise ImportError where a package of the same name, from elsewhere, hides one of the clone's; a wheel has none to hide."""
    here = Path(__file__).resolve().parent
    if (here / TOP_LEVEL[0]).is_dir():
        return
    for name in TOP_LEVEL:
        spec = importlib.util.find_spec(name)
        place = Path(spec.origin).resolve() if spec is not None and spec.origin else None
        if place is not None and here.parent not in place.parents:
            raise ImportError(
                f"{place} hides Assay's own package {name!r} in {here.parent}. Install Assay from its wheel, which owns no "
                f"name but assay, or install this clone into an environment of its own and run it from another folder.",
                name=name,
                path=str(place),
            )


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import the client when it is asked for, so that the command line can say first what hides a package."""
        if name != "Client":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        require_own_packages()
        from assay.client import Client

        globals()["Client"] = Client
        return Client

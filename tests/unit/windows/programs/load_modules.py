"""Load every module of Assay but the dashboard's; print those that cannot be, and what they miss."""

import importlib
import pkgutil

import api
import assay
import domain
import ingest
import predictor
import presentation
import runner

absent = []
for package in (domain, runner, presentation, assay, predictor, ingest, api):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        # A wheel has the dashboard, whose app is a script, below `assay`.
        if not module.name.endswith("__main__") and ".dashboard" not in module.name:
            try:
                importlib.import_module(module.name)
            except ImportError as error:
                absent.append((module.name.rpartition("ingest.")[2], error.name))
print(sorted(set(absent)))

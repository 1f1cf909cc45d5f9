import json
import os
import subprocess
import sys

from predictor.learning import boosting

ASKED = """
import importlib, json, sys
lightgbm = importlib.import_module(sys.argv[1]).lightgbm
import numpy as np

loaded = sorted({"sklearn", "pandas", "pyarrow"} & set(sys.modules))
inputs = np.arange(200.0).reshape(-1, 1)
made = lightgbm.train({"objective": "l1", "verbosity": -1}, lightgbm.Dataset(inputs, inputs[:, 0]), 5)
low, high = made.predict(np.array([[1.0], [199.0]]))
import pandas
print(json.dumps([loaded, bool(low < high), pandas.DataFrame({"a": [1]}).shape]))
"""


def test_it_trains_without_loading_other_libraries_which_can_be_loaded_afterwards():
    done = subprocess.run([sys.executable, "-c", ASKED, boosting.__name__], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [[], True, [1, 1]]


WITHOUT_OPENMP = """
import ctypes, sys

def load(path, *more):
    raise OSError("libgomp.so.1: cannot open shared object file: No such file or directory")

ctypes.cdll.LoadLibrary = load
from assay.cli import run
sys.exit(run(["recommend", "bert-base-uncased"]))
"""


def test_a_system_without_openmp_names_the_package_to_install(tmp_path):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_OPENMP],
        env={**environment, "ASSAY_HOME": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 3
    assert "libgomp1" in done.stderr
    assert "Traceback" not in done.stderr

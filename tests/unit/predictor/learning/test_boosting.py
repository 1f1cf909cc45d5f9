import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from predictor.learning import boosting
from predictor.learning.boosting import Forest

ROOT = Path(__file__).parents[4]

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


PREDICTED = f"""
import json, sys
import numpy as np
from {Forest.__module__} import Forest

forest = Forest(sys.stdin.read())
unwanted = {{"lightgbm", "scipy", "narwhals"}}
print(json.dumps([forest.predict(np.zeros((1, 3))).shape, sorted(unwanted & set(sys.modules))]))
"""
FIGURES = st.floats(width=64, allow_nan=True, allow_infinity=True)


@pytest.fixture(scope="module")
def text() -> str:
    """Trees on three features, one of which is missing in places."""
    random = np.random.default_rng(0)
    inputs = random.normal(size=(400, 3))
    inputs[random.random(400) < 0.2, 1] = np.nan
    target = inputs[:, 0] * 3 + np.nan_to_num(inputs[:, 1], nan=5.0) ** 2
    settings = {"objective": "l2", "verbosity": -1, "num_threads": 1, "num_leaves": 15, "min_data_in_leaf": 3}
    made: str = boosting.lightgbm.train(settings, boosting.lightgbm.Dataset(inputs, target), 30).model_to_string()
    return made


@settings(deadline=None)
@given(
    values=arrays(np.float64, st.tuples(st.integers(1, 40), st.just(3)), elements=FIGURES),
    layout=st.sampled_from([np.ascontiguousarray, np.asfortranarray, lambda array: np.repeat(array, 2, axis=0)[::2]]),
)
def test_trees_predict_the_same_bits_by_the_library_as_by_the_package(text, values, layout):
    rows = layout(values)
    expected = boosting.lightgbm.Booster(model_str=text).predict(rows, num_threads=1)
    assert Forest(text).predict(rows).tobytes() == expected.tobytes()


def test_predicting_imports_nothing_but_the_library(text):
    done = subprocess.run(
        [sys.executable, "-c", PREDICTED], input=text, capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert json.loads(done.stdout) == [[1], []]


def test_a_text_that_holds_no_trees_and_rows_of_another_width_are_refused(text):
    with pytest.raises(ValueError, match="LightGBM"):
        Forest("no trees")
    with pytest.raises(ValueError, match="number of features"):
        Forest(text).predict(np.zeros((1, 2)))

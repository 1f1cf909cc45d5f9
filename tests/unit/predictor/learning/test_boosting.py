import json
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

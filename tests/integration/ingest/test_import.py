"""An import, twice: the second one stores nothing."""

from __future__ import annotations

from ingest.importers import import_paths
from ingest.projection.projector import Projection

NAME = "benchmark-infer-fp32-nchw-pt240-cpu-i7_12700h-dynamo.csv"
TABLE = """model,infer_img_size,infer_samples_per_sec,infer_step_time,infer_batch_size,param_count,infer_gmacs,infer_macts
resnet18,224,100.0,10.0,1,11.69,1.82,2.48
resnet34,224,50.0,20.0,1,21.8,3.67,3.74
resnet18,224,100.0,10.0,1,11.69,1.82,2.48
"""


def test_a_second_import_is_a_no_op_and_the_rows_are_in_the_tables(tmp_path, database, append):
    path = tmp_path / NAME
    path.write_text(TABLE)
    first = append(import_paths("auto", [path]))
    assert [answer.status for answer in first] == ["accepted", "accepted", "accepted", "duplicate", "accepted"]
    again = append(import_paths("auto", [path]))
    assert {answer.status for answer in again} == {"duplicate"}
    with Projection(tmp_path, database) as projection:
        projection.catch_up()
        with projection.tables() as tables:
            rows = tables.measurements(model="timm/resnet18").to_pylist()
            (run,) = tables.runs().to_pylist()
    assert len(rows) == 1
    assert (rows[0]["origin"], rows[0]["latency_mean_ms"], rows[0]["latency_p50_ms"]) == ("imported", 10.0, None)
    assert (rows[0]["compiled"], rows[0]["image_size"], rows[0]["hardware_id"]) == (True, 224, "intel-core-i7-12700h")
    assert (run["kind"], run["outcome"], run["measured"]) == ("import", "completed", 3)

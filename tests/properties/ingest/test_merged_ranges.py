"""Ranges of any log, folded apart and merged, are what one fold of the whole log gives."""

from __future__ import annotations

import contextlib
import itertools

import duckdb
from hypothesis import given
from hypothesis import strategies as st

from ingest.parallel.merging import merge
from ingest.parallel.ranges import LogAddress, RangeTask, begin_file
from ingest.projection.fold import Folder
from tests.integration.ingest.test_projection import everything
from tests.properties.ingest.test_projection_properties import QUIET, logs, projected, table


def merged(folder, log, cuts):
    """Return a connection to the tables merged from ranges that end at these rows of the log."""
    edges = sorted({0, log.num_rows, *(cut for cut in cuts if cut < log.num_rows)})
    files = []
    for number, (low, high) in enumerate(itertools.pairwise(edges)):
        piece = log.slice(low, high - low)
        chain = log["chain"][low - 1].as_py().hex() if low else None
        after = log["position"][low - 1].as_py() if low else 0
        task = RangeTask(
            log=LogAddress(uri=""), number=number, after=after, upto=piece["position"][-1].as_py(), chain=chain,
            definitions="",
        )  # fmt: skip
        files.append(folder / f"{len(cuts)}-{number}.duckdb")
        files[-1].unlink(missing_ok=True)
        range_ = Folder(begin_file(task, files[-1]))
        range_.postpone_standings()
        range_.apply(piece)
        range_.close()
    merge(files)
    return duckdb.connect(str(files[0]))


def rows_of_tables(connection):
    """Every row of every table as text; views are made of these alone."""
    connection.execute("SET TimeZone = 'UTC'")
    tables = connection.execute("SELECT table_name FROM duckdb_tables() WHERE NOT temporary").fetchall()
    return {
        name: sorted(connection.execute(f"SELECT row::VARCHAR FROM (SELECT * FROM main.{name}) AS row").fetchall())
        for (name,) in tables
    }


@st.composite
def varied(draw: st.DrawFn, build):
    """A log of every type of event in any order, with aliases, retractions, restorations and poison between them."""
    events = draw(logs(build)) + draw(st.lists(st.sampled_from(everything(build)), max_size=10, unique_by=id))
    return draw(st.permutations(events))


@QUIET
@given(data=st.data())
def test_merged_ranges_equal_one_fold_wherever_the_log_is_cut(build, tmp_path_factory, data):
    log = table(data.draw(varied(build)))
    cuts = data.draw(st.lists(st.integers(1, 24), max_size=3))
    with (
        projected(log, []) as at_once,
        contextlib.closing(merged(tmp_path_factory.mktemp("ranges"), log, cuts)) as ranges,
    ):
        expected = rows_of_tables(at_once)
        assert expected["event_type_count"]
        for name, rows in rows_of_tables(ranges).items():
            assert rows == expected[name], name

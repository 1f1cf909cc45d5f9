import pytest
import streamlit as st

from dashboard import service
from domain.errors import UsageError


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch):
    monkeypatch.setattr("sys.argv", ["app.py"])
    monkeypatch.setenv("ASSAY_SERVER", "http://127.0.0.1:9")
    st.cache_resource.clear()
    yield
    st.cache_resource.clear()


@pytest.mark.parametrize("said", ["soon", "-1", "nan", "inf"])
def test_a_patience_that_is_none_is_named_with_what_to_set(monkeypatch, said):
    monkeypatch.setenv("ASSAY_PATIENCE_S", said)
    with pytest.raises(UsageError, match="not a number of seconds") as raised:
        service.probed()
    assert raised.value.field == "ASSAY_PATIENCE_S"

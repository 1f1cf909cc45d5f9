"""The dashboard as Streamlit runs it: `streamlit run dashboard/app.py`, from anywhere."""

from __future__ import annotations

import sys
from pathlib import Path

HOUSE = Path(__file__).resolve().parent
# Streamlit puts this folder itself on the path. The packages are one level up in a clone, two in a wheel.
ROOT = next(folder for folder in HOUSE.parents if not (folder / "__init__.py").exists())
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

# Whole before anything else: Altair takes pandas as it finds it, half imported by another reader's page too.
import pandas  # noqa: E402, F401
import streamlit as st  # noqa: E402

from dashboard import menu, sign_in  # noqa: E402
from dashboard.frame import guarded, skeleton, titled  # noqa: E402
from dashboard.search.box import show_search  # noqa: E402

st.set_page_config(page_icon=str(HOUSE / "icon.png"), layout="wide", initial_sidebar_state=240)
st.logo(str(HOUSE / "logo.svg"), icon_image=str(HOUSE / "icon.svg"), size="large")
reader = None
with guarded("The sign-in"):
    reader = sign_in.reader()
role = reader.role if reader is not None else None
# Every page is in sight: Streamlit folds a menu of more than twelve.
page = st.navigation(menu.pages(operator=role == "operator"), position="sidebar" if role else "hidden", expanded=True)
titled(page.title)
with guarded("This page"), st.container(width=1180):
    if reader is not None and sign_in.admitted(reader, page):
        show_search(operator=role == "operator")
        sign_in.badge(reader)
        sign_in.return_to(page, menu.by_path())
        body = st.container(key="page")
        skeleton()
        with body:
            page.run()

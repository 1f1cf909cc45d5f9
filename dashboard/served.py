"""The dashboard as it is served: the pages of `app.py`, and before them what asks the service ahead."""

from __future__ import annotations

import os
from pathlib import Path

import streamlit as st

from dashboard.ahead import middleware

app = st.App(Path(__file__).with_name("app.py"), middleware=middleware(os.environ))

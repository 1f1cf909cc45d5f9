"""The dashboard as it is served: the pages of `app.py`, and before them what asks the service ahead."""

from __future__ import annotations

import os
from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware

from dashboard.ahead import middleware
from dashboard.content_policy import ContentPolicy

app = st.App(Path(__file__).with_name("app.py"), middleware=[Middleware(ContentPolicy), *middleware(os.environ)])

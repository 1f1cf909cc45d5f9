"""One folder a page: its view, its queries and its words.

The folder is not named `pages`: Streamlit takes a folder of that name beside its script for its older navigation, and
answers an address such as `/runs` with an error before the menu of `app.py` is known.
"""

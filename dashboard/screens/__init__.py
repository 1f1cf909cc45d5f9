"""One module a screen.

Not called `pages`: Streamlit takes a folder of that name beside the script for its older navigation and shows
the file names before ours.
"""

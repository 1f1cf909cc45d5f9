"""The one table of every list: rows that sort by their raw values, names that are links, intervals drawn in the row."""

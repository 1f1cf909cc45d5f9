"""Print JSON with characters that few code pages have."""

from assay.cli.output import prepare_streams, print_json

prepare_streams()
print_json({"→": "≥ 😀 é"})

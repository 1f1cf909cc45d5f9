"""How fast Assay is, as ratios against peers and limits measured in the same run: `python -m benchmarks --list`."""

"""The dashboard: what a person asks of Assay in a browser, answered by the service and by nothing else."""

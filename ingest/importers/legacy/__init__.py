"""Files of the framework that Assay replaces."""

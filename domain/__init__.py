"""What is true everywhere in Assay: events, vocabulary, metrics, verdicts, statistics, catalogues. Pure."""

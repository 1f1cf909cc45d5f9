"""The runner measures: models on platforms, one configuration in one child process, with or without a service."""

import logging

_ON_IMPORT = {"torchao": "Failed to load", "torch.utils._pytree": "natively supported"}
"""What packages say of kernels and types that nobody asked for, by who says it: long lines with paths."""


def _asked_for(record: logging.LogRecord) -> bool:
    return _ON_IMPORT[record.name] not in record.getMessage()


for _name in _ON_IMPORT:
    logging.getLogger(_name).addFilter(_asked_for)

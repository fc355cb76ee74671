"""A model without a model: deterministic rules that really use the memory tools, for trying things
out with neither key nor network. It says what it is; it is no language model."""

from pagedaemon.llm.offline.model import OfflineModel

__all__ = ["OfflineModel"]

"""A look at what is stored: what is wrong with it, and how that is mended.

`file` reads without writing, `rows`, `words` and `folders` find and mend, `findings` is the report.
What is wrong with turns is the scheduler's to see and mend: `pagedaemon.scheduler.checkup`.
"""

from __future__ import annotations

from pagedaemon.store.checkup.findings import Finding, Kind, Report, State, Symptom

__all__ = ["Finding", "Kind", "Report", "State", "Symptom"]

"""Who runs when: accepts events, claims conversations, runs turns as tasks, takes up what a crash
left."""

from __future__ import annotations

from pagedaemon.scheduler.bodies import Outfit
from pagedaemon.scheduler.dispatch import Scheduler
from pagedaemon.scheduler.running import Running

__all__ = ["Outfit", "Running", "Scheduler"]

"""Sessions: texts that grow and change, with ids whose cost follows the change."""

from .session import Checkpoint, Counters, Patch, Session

__all__ = ["Checkpoint", "Counters", "Patch", "Session"]

"""Sessions: texts that grow and change, with ids whose cost follows the change."""

from .patch import Patch
from .session import Checkpoint, Counters, Session

__all__ = ["Checkpoint", "Counters", "Patch", "Session"]

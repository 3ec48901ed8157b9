"""Base class of the models of a policy file. It is immutable and refuses unknown fields."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class StrictModel(BaseModel):
    """A part of a policy."""

    model_config = ConfigDict(extra="forbid", frozen=True)

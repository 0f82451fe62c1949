"""Errors as data, so that a user reads the same on this side as on the other."""

from __future__ import annotations

from enum import StrEnum
from typing import Self

import msgspec

from astra_tui.model.errors import DeviceMissing, OutOfResources, Place, UserError


class ServerUnfit(Exception):
    """The process that was asked cannot work at all; the request is not to blame."""


class ServiceFailed(UserError):
    """A service that was asked for does not answer, such as a model's server."""


class FailureKind(StrEnum):
    """What an error is raised as again."""

    BAD_INPUT = "bad_input"
    DEVICE_MISSING = "device_missing"
    OUT_OF_RESOURCES = "out_of_resources"
    SERVICE_FAILED = "service_failed"
    UNFIT = "unfit"


_CLASSES = {
    FailureKind.BAD_INPUT: UserError,
    FailureKind.DEVICE_MISSING: DeviceMissing,
    FailureKind.OUT_OF_RESOURCES: OutOfResources,
    FailureKind.SERVICE_FAILED: ServiceFailed,
}


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """A UserError with its place, or why a process is unfit."""

    message: str
    file: str = ""
    line: int = 0
    column: int = 0
    hint: str = ""
    kind: FailureKind = FailureKind.BAD_INPUT

    @classmethod
    def of(cls, error: UserError) -> Self:
        """An error as data."""
        of_kind = (k for k, raised in _CLASSES.items() if type(error) is raised)
        kind = next(of_kind, FailureKind.BAD_INPUT)
        place = error.place
        return cls(error.message, error.file, place.line, place.column, error.hint, kind)

    @classmethod
    def unfit(cls, message: str) -> Self:
        """That the process cannot work, and why."""
        return cls(message, kind=FailureKind.UNFIT)

    def error(self) -> UserError | ServerUnfit:
        """The error as it was raised in the other process."""
        if self.kind is FailureKind.UNFIT:
            return ServerUnfit(self.message)
        place = Place(self.line, self.column)
        return _CLASSES[self.kind](self.message, file=self.file, place=place, hint=self.hint)

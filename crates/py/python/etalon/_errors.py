"""Exceptions."""

from __future__ import annotations


class InputError(ValueError):
    """An input, an option or a file is wrong.

    The message says what is wrong, what was expected and found, and what to do. The same details are attributes; those
    that do not apply are ``None``.

    Attributes
    ----------
    what : str
        What is wrong.
    expected, found : str or None
        What was expected, and what was found instead.
    at : str or None
        The position in the file or array.
    help : str or None
        How to fix it.
    file : str or None
        The file.
    """

    def __init__(self, message: str, details: list[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.what = message
        self.expected = self.found = self.at = self.help = self.file = None
        for name, text in details:
            known = getattr(self, name, None) if name != "what" else None
            setattr(self, name, text if known is None else f"{known}; {text}")


def wrong(what: str, *, expected: str | None = None, found: str | None = None, help: str | None = None) -> InputError:
    """An error with its details."""
    details = [("expected", expected), ("found", found), ("help", help)]
    details = [(name, text) for name, text in details if text is not None]
    message = what + "".join(f"\n  {name}: {text}" for name, text in details)
    return InputError(message, [("what", what), *details])

"""Results."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ._errors import wrong


class Interval(NamedTuple):
    """A 95 % interval."""

    low: float
    high: float


class Score:
    """The result of one metric.

    Headline numbers are attributes: ``score.match_score``. ``None`` means undefined; ``notes`` says why.
    """

    def __init__(self, result: dict[str, Any]) -> None:
        self._result = result

    @property
    def metric(self) -> str:
        """The name of the metric."""
        return self._result["metric"]

    @property
    def headline(self) -> dict[str, float | None]:
        """The headline numbers."""
        return {key: number["value"] for key, number in self._result["headline"].items()}

    @property
    def interval(self) -> Interval | None:
        """The 95 % interval of the first headline number."""
        return next(iter(self.intervals.values()), None)

    @property
    def intervals(self) -> dict[str, Interval | None]:
        """The 95 % intervals of the headline numbers; ``None`` where there is none."""
        return {key: interval_of(number) for key, number in self._result["headline"].items()}

    @property
    def n(self) -> dict[str, int]:
        """How many units, such as concepts or rows, a headline number is about."""
        return {key: number.get("n") for key, number in self._result["headline"].items()}

    @property
    def notes(self) -> list[str]:
        """What is undefined, left out or unusual."""
        return self._result["notes"]

    @property
    def params(self) -> dict[str, Any]:
        """The parameters, defaults included."""
        return self._result["params"]

    @property
    def seconds(self) -> float:
        """The run time."""
        return self._result["seconds"]

    @property
    def tables(self) -> list[str]:
        """The names of the tables."""
        return list(self._result["tables"])

    def table(self, name: str, *, library: str | None = None) -> Any:
        """A table, such as ``"concept"`` or ``"latent"``, as a data frame.

        Parameters
        ----------
        name : str
            One of :attr:`tables`.
        library : {"pandas", "polars", "dict"}, optional
            The library of the data frame. By default pandas if it is installed, then polars, otherwise a dict of lists.
        """
        if name not in self._result["tables"]:
            raise wrong(f"`{self.metric}` has no table {name!r}", expected=", ".join(self.tables) or "no tables")
        return frame(self._result["tables"][name], library)

    def to_dict(self) -> dict[str, Any]:
        """The result as in a result file of the command line."""
        return self._result

    def __getattr__(self, name: str) -> float | None:
        if name.startswith("_"):
            raise AttributeError(name)
        headline = self._result["headline"]
        if name not in headline:
            raise AttributeError(f"`{self.metric}` has no number {name!r}; it has {', '.join(headline)}")
        return headline[name]["value"]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._result["headline"]]

    def __repr__(self) -> str:
        numbers = (f"{key}={written(number)}" for key, number in self._result["headline"].items())
        return f"Score({self.metric}: {', '.join(numbers)})"

    def _repr_html_(self) -> str:
        return page({self.metric: self})


class Scores(Mapping):
    """The results of several metrics, by name."""

    def __init__(self, results: list[dict[str, Any]], notes: list[str]) -> None:
        self._scores = {result["metric"]: Score(result) for result in results}
        #: Notes about the inputs.
        self.notes = notes

    def __getitem__(self, metric: str) -> Score:
        return self._scores[metric]

    def __iter__(self) -> Iterator[str]:
        return iter(self._scores)

    def __len__(self) -> int:
        return len(self._scores)

    def to_dict(self) -> dict[str, float]:
        """All headline numbers and intervals in one flat dict, for experiment trackers: ``"match/match_score"``,
        ``"match/match_score/low"``. Undefined numbers are left out."""
        flat = {}
        for name, score in self._scores.items():
            for key, number in score.to_dict()["headline"].items():
                if number["value"] is None:
                    continue
                flat[f"{name}/{key}"] = number["value"]
                interval = interval_of(number)
                if interval is not None:
                    flat[f"{name}/{key}/low"], flat[f"{name}/{key}/high"] = interval
        return flat

    def to_json(self) -> str:
        """The results as in result files of the command line."""
        return json.dumps([score.to_dict() for score in self._scores.values()])

    def __repr__(self) -> str:
        return "\n".join(repr(score) for score in self._scores.values())

    def _repr_html_(self) -> str:
        return page(self._scores)


def interval_of(number: dict[str, Any]) -> Interval | None:
    """The interval of a headline number."""
    low, high = number.get("low"), number.get("high")
    return None if low is None or high is None else Interval(low, high)


def written(number: dict[str, Any]) -> str:
    """A number with its interval."""
    value, interval = number["value"], interval_of(number)
    if value is None:
        return "undefined"
    return f"{value:.4g}" if interval is None else f"{value:.4g} [{interval.low:.4g}, {interval.high:.4g}]"


def page(scores: Mapping[str, Score]) -> str:
    """A table of headline numbers."""
    rows = []
    for name, score in scores.items():
        for key, number in score.to_dict()["headline"].items():
            rows.append(f"<tr><td>{html.escape(name)}</td><td>{html.escape(key)}</td><td>{written(number)}</td></tr>")
    head = "<tr><th>metric</th><th>number</th><th>value [95 % interval]</th></tr>"
    return f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"


def frame(columns: dict[str, list], library: str | None) -> Any:
    """A data frame of a library."""
    if library == "dict":
        return columns
    wanted = (library,) if library else ("pandas", "polars")
    for name in wanted:
        if name not in ("pandas", "polars"):
            raise wrong("the library of data frames is unknown", expected="pandas, polars or dict", found=repr(name))
        try:
            module = __import__(name)
        except ImportError:
            continue
        return module.DataFrame(columns)
    if library:
        raise wrong(f"{library} is not installed", help=f"install {library}, or ask for library='dict'")
    return columns

"""A function per metric: ``etalon.metrics.match(codes=z, labels=y)``.

Each takes its inputs and parameters by name, besides the options of :func:`etalon.evaluate`, and returns the result of the
metric. Names, documentation and parameters come from the cards of the metrics.
"""

from __future__ import annotations

import inspect
from typing import Any

from ._evaluate import cards, evaluate, roles
from ._scores import Score

OPTIONS = ("profile", "seed", "drop_rows", "threads", "memory", "progress")


def _function(card: dict[str, Any]):
    """The function of a metric."""
    name = card["name"]
    params = {param["name"]: param for param in card["params"]}

    def metric(**given: Any) -> Score:
        own = {key: given.pop(key) for key in list(given) if key in params}
        return evaluate(name, params={name: own}, **given)[name]

    metric.__name__ = metric.__qualname__ = name
    metric.__module__ = __name__
    metric.__doc__ = _documentation(card)
    names = list(dict.fromkeys([*_inputs(card["needs"]), *_inputs(card["uses"]), *params, *OPTIONS]))
    keyword = inspect.Parameter.KEYWORD_ONLY
    listed = [inspect.Parameter(key, keyword, default=None) for key in names if key.isidentifier()]
    metric.__signature__ = inspect.Signature([*listed, inspect.Parameter("inputs", inspect.Parameter.VAR_KEYWORD)])
    return metric


def _inputs(options: list[str]) -> dict[str, str]:
    """The help texts of inputs by name."""
    keys = [option.removeprefix("--") for option in options]
    return {key.replace("-", "_"): roles()[key]["help"] for key in keys if key in roles()}


def _documentation(card: dict[str, Any]) -> str:
    """The card as a docstring."""
    lines = [card["summary"], "", card["measures"], "", "Definition", "----------", card["definition"]]
    lines += ["", "Inputs", "------"]
    lines += [f"{name} : {help}" for name, help in _inputs(card["needs"]).items()]
    lines += [f"{name} : {help} (optional)" for name, help in _inputs(card["uses"]).items()]
    lines += ["", "Parameters", "----------"]
    lines += [f"{param['name']} : {param['doc']}" for param in card["params"]] or ["None."]
    lines += ["", "Interval", "--------", card["interval"], "", "Source", "------", card["source"]]
    return "\n".join(lines)


for _card in cards().values():
    globals()[_card["name"]] = _function(_card)

__all__ = list(cards())

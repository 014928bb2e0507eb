"""Etalon: how well do the units of a representation correspond to concepts that people understand?

>>> import etalon
>>> sae = etalon.load("my_sae/")
>>> scores = etalon.evaluate(["match", "core"], sae=sae, embeddings=x, labels=labels)
>>> scores["match"].match_score, scores["match"].interval
"""

from . import _etalon, metrics
from ._errors import InputError
from ._evaluate import evaluate
from ._sae import SAE, load
from ._scores import Interval, Score, Scores
from ._train import archs, train

for _name in (InputError, Interval, SAE, Score, Scores, archs, evaluate, load, train):
    _name.__module__ = "etalon"
del _name

__version__ = _etalon.version()

__all__ = ["SAE", "InputError", "Interval", "Score", "Scores", "archs", "evaluate", "load", "metrics", "train"]

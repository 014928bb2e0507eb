"""Evaluation of arrays, tables and files."""

import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sparse

import etalon


def test_latents_that_fire_where_concepts_are_match_them(world):
    codes, labels = world
    score = etalon.evaluate("match", codes=codes, labels=labels)["match"]
    assert score.match_score == 1.0
    assert score.headline["match_score"] == 1.0
    assert score.n["match_score"] == 3
    with pytest.raises(AttributeError, match="match_score"):
        score.f1


def test_all_forms_of_the_same_inputs_give_the_same_numbers(world, tmp_path):
    codes, labels = world
    names = ["red", "round", "small"]
    np.save(tmp_path / "codes.npy", codes)
    table = pd.DataFrame(labels, columns=names)
    table.to_csv(tmp_path / "labels.csv", index=False)
    forms = [
        dict(codes=codes, labels=table),
        dict(codes=sparse.csr_array(codes), labels=table.astype(bool)),
        dict(codes=sparse.coo_array(codes), labels=table.astype(float)),
        dict(codes=np.asfortranarray(codes), labels=table),
        dict(codes=codes.astype(np.float64), labels=table),
        dict(codes=codes[::-1][::-1], labels=table),
        dict(codes=tmp_path / "codes.npy", labels=str(tmp_path / "labels.csv")),
    ]
    results = [etalon.evaluate(["match", "fms"], **form) for form in forms]
    for result in results[1:]:
        for name in ("match", "fms"):
            one, other = results[0][name].to_dict(), result[name].to_dict()
            assert one["headline"] == other["headline"]
            assert one["tables"] == other["tables"]


def test_threads_and_repetition_do_not_change_a_bit(world):
    codes, labels = world
    runs = [etalon.evaluate(["match", "sparse_probing"], codes=codes, labels=labels, embeddings=codes, threads=t) for t in (1, 2, 7, 2)]
    texts = []
    for run in runs:
        results = [score.to_dict() for score in run.values()]
        texts.append(json.dumps([{key: value for key, value in one.items() if key != "seconds"} for one in results]))
    assert len(set(texts)) == 1


def test_missing_labels_are_not_annotated(world):
    codes, labels = world
    table = pd.DataFrame(labels, columns=["a", "b", "c"]).astype("Int8")
    table.loc[:9, "a"] = pd.NA
    marked = labels.copy()
    marked[:10, 0] = -1
    one = etalon.evaluate("match", codes=codes, labels=table)["match"]
    two = etalon.evaluate("match", codes=codes, labels=pd.DataFrame(marked, columns=["a", "b", "c"]))["match"]
    assert one.to_dict()["tables"] == two.to_dict()["tables"]


def test_pairs_are_tables(world):
    codes, labels = world
    names = ["x", "y", "z"]
    without, having = np.flatnonzero(labels[:, 0] == 0), np.flatnonzero(labels[:, 0] == 1)
    pairs = pd.DataFrame({"before": without[:20], "after": having[:20], "added": "x"})
    score = etalon.evaluate("tapa", codes=codes, labels=pd.DataFrame(labels, columns=names), pairs=pairs)["tapa"]
    # Latent 0 fires exactly where `x` is: every added concept switches it on.
    assert score.delta_add == 1.0
    with pytest.raises(etalon.InputError, match="no valid row number"):
        etalon.evaluate("tapa", codes=codes, labels=labels, pairs=pairs.assign(before="first"))


def test_parameters_and_functions_of_metrics(world):
    codes, labels = world
    score = etalon.metrics.match(codes=codes, labels=labels, matcher="one-to-one")
    assert score.params["matcher"] in ("one-to-one", ["one-to-one"])
    same = etalon.evaluate("match", codes=codes, labels=labels, params={"match": {"matcher": "one-to-one"}})["match"]
    assert same.to_dict()["headline"] == score.to_dict()["headline"]
    assert "Definition" in etalon.metrics.match.__doc__
    assert set(etalon.metrics.__all__) >= {"match", "core", "sparse_probing", "blindspots"}


def test_scores_are_flat_for_trackers_and_shown_as_tables(world):
    codes, labels = world
    scores = etalon.evaluate(["match", "fms"], codes=codes, labels=labels)
    flat = scores.to_dict()
    assert flat["match/match_score"] == 1.0
    assert all(isinstance(value, float) for value in flat.values())
    assert "match_score" in scores._repr_html_() and "fms" in repr(scores)
    table = scores["match"].table("concept")
    assert isinstance(table, pd.DataFrame) and len(table) >= 3
    assert isinstance(scores["match"].table("concept", library="dict"), dict)


def test_progress_is_told():
    x = np.random.default_rng(2).standard_normal((2000, 8)).astype(np.float32)
    seen = []
    etalon.train(x, arch="topk", latents=16, k=2, steps=40, batch=128, progress=lambda *position: seen.append(position))
    assert seen[-1] == ("training", 40, 40, "steps")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (dict(labels=np.zeros((299, 3))), "rows"),
        (dict(labels=np.full((300, 3), 2)), "not 0 or 1"),
        (dict(labels=pd.DataFrame({"class": ["cat"] * 300})), "get_dummies"),
        (dict(codes=np.full((300, 5), np.nan, np.float32)), "finite"),
        (dict(codes=np.zeros(300, np.float32)), "dimensions"),
        (dict(codes=np.ma.masked_array(np.zeros((300, 5)), mask=True)), "masked"),
        (dict(codes=np.array([["a"] * 5] * 300)), "numbers"),
        (dict(codes="no-such-file.npy"), "no-such-file.npy"),
        (dict(label=1), "no input `label`"),
        (dict(params={"match": {"matcherr": "fbmp"}}), "matcherr"),
        (dict(profile="published"), "profile"),
        (dict(memory="much"), "memory"),
    ],
)
def test_wrong_inputs_are_named(world, change, text):
    codes, labels = world
    with pytest.raises((etalon.InputError, OSError)) as raised:
        etalon.evaluate("match", **{"codes": codes, "labels": labels, **change})
    assert text in str(raised.value)


def test_details_of_an_error_are_attributes(world):
    codes, labels = world
    with pytest.raises(etalon.InputError) as raised:
        etalon.evaluate("mach", codes=codes, labels=labels)
    error = raised.value
    assert isinstance(error, ValueError)
    assert "mach" in error.what and "did you mean `match`?" in error.help
    assert "match" in error.expected


def test_a_memory_limit_that_is_too_low_is_an_exception(world):
    codes, labels = world
    with pytest.raises(MemoryError, match="memory"):
        etalon.evaluate("match", codes=codes, labels=labels, memory=1000)

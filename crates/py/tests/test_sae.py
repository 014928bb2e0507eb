"""Dictionaries: training, encoding, files."""

import os
import signal
import threading
import time

import numpy as np
import pytest
import scipy.sparse as sparse

import etalon


@pytest.fixture
def sae(activations):
    return etalon.train(activations, arch="topk", latents=32, k=4, steps=60, batch=128, seed=3)


def test_a_trained_dictionary_encodes_and_decodes(sae, activations):
    assert (sae.arch, sae.latents, sae.width, sae.k) == ("topk", 32, 12, 4)
    assert sae.W_dec.shape == (32, 12) and sae.W_enc.shape == (12, 32) and sae.b_enc.shape == (32,)
    codes = sae.encode(activations)
    assert isinstance(codes, sparse.csr_array) and codes.shape == (2000, 32)
    assert np.diff(codes.indptr).max() <= 4
    decoded = sae.decode(codes)
    left = ((activations - decoded) ** 2).sum() / ((activations - activations.mean(0)) ** 2).sum()
    assert decoded.shape == activations.shape and left < 0.9
    np.testing.assert_array_equal(decoded, sae.decode(codes.toarray()))


def test_training_is_reproducible_and_tells_its_log(activations):
    lines = []
    options = dict(arch="topk", latents=16, k=2, steps=30, batch=64, seed=1)
    one = etalon.train(activations, **options, callback=lines.append, log_every=10, threads=1)
    two = etalon.train(activations, **options, threads=2)
    assert one.id == two.id
    assert [line["step"] for line in lines] == sorted(line["step"] for line in lines) and "l0" in lines[0]


def test_an_exception_of_the_callback_ends_the_training(activations):
    def stop(line):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        etalon.train(activations, arch="topk", latents=16, k=2, steps=200, batch=64, callback=stop, log_every=10)


def test_dictionaries_are_saved_and_loaded(sae, tmp_path):
    for format in ("etalon", "saelens"):
        sae.save(tmp_path / format, format=format)
        loaded = etalon.load(tmp_path / format)
        np.testing.assert_allclose(loaded.W_dec, sae.W_dec, rtol=1e-6)
    with pytest.raises(etalon.InputError, match="format"):
        sae.save(tmp_path / "other", format="torch")
    with pytest.raises(etalon.InputError):
        etalon.load(tmp_path / "nothing")


def test_a_dictionary_is_an_input(sae, activations):
    labels = (activations[:, :2] > 0.5).astype(np.int8)
    scores = etalon.evaluate(["core", "match"], sae=sae, embeddings=activations, labels=labels)
    codes = etalon.evaluate("match", codes=sae.encode(activations), labels=labels)
    assert scores["match"].to_dict()["headline"] == codes["match"].to_dict()["headline"]
    assert 0 < scores["core"].explained_variance <= 1 and scores["core"].l0 <= 4
    other = etalon.train(activations, arch="topk", latents=32, k=4, steps=60, batch=128, seed=4)
    assert 0 <= etalon.evaluate("stability", sae=sae, other=[other])["stability"].stability <= 1


def test_baselines_need_no_training(activations):
    pca = etalon.train(activations, arch="pca", latents=8)
    assert pca.latents == 8 and "pca" in etalon.archs()


def test_arrays_of_other_libraries_and_types(sae, activations):
    expected = sae.encode(activations).toarray()
    for x in (activations.astype(np.float64), np.asfortranarray(activations), activations.tolist()):
        np.testing.assert_array_equal(sae.encode(x).toarray(), expected)
    half = activations.astype(np.float16)
    np.testing.assert_array_equal(sae.encode(half).toarray(), sae.encode(half.astype(np.float32)).toarray())
    locked = activations.copy()
    locked.flags.writeable = False
    np.testing.assert_array_equal(sae.encode(locked).toarray(), expected)


def test_float32_is_not_copied(activations):
    from etalon._arrays import numbers
    from etalon._session import session

    call = session(1, None, False)
    assert numbers(activations, "x", call) is activations
    assert numbers(activations.astype(np.float16), "x", call).dtype == np.float32
    small = session(1, 1000, False)
    converted = numbers(activations.astype(np.float64), "x", small)
    assert isinstance(converted, np.memmap) and np.array_equal(converted, activations)


def test_wrong_options_are_named(activations):
    with pytest.raises(etalon.InputError, match="latents"):
        etalon.train(activations, arch="topk", k=4)
    with pytest.raises(etalon.InputError, match="topkk"):
        etalon.train(activations, arch="topkk", latents=8)
    with pytest.raises(etalon.InputError, match="width"):
        etalon.train(activations, arch="topk", latents=8, k=2, steps=20, batch=32, warmup=5).encode(activations[:, :3])


def test_ctrl_c_stops_within_a_second(activations):
    large = np.tile(activations, (20, 1))
    began = []

    def press():
        time.sleep(0.5)
        began.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        etalon.train(large, arch="topk", latents=2048, k=32, steps=100_000, batch=1024)
    assert time.monotonic() - began[0] < 5
    thread.join()

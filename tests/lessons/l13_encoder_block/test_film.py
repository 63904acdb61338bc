"""The film of a training: what it records, sends to the browser, and says."""

import numpy as np
import pytest
import torch

from mha_course import example, models
from mha_course.lessons.l13_encoder_block.film import TrainingFilm

IDS, _ = example.encode([example.SENTENCE.split()])
IT, CAT = 12, 2


@pytest.fixture
def film():
    return TrainingFilm(example.new_model(3), steps=20)


def put_snapshots(film, shares, head=1):
    """Put snapshots in which *it* puts these shares of its weight on *cat* in one head."""
    film._frames = []
    for share in shares:
        frame = np.full((4, 15, 15), 8, np.uint8)
        frame[head, IT, CAT] = round(255 * share)
        film._frames.append(frame)


@pytest.mark.weekly
def test_a_training_is_filmed_and_not_changed(film):
    plain, losses = example.train_model(3, steps=20, progress=False)
    model, sent = example.new_model(3), []
    film.observe(lambda change: sent.append(change["new"]), "state")
    how = {"steps": 20, "lr": 3e-3, "progress": False, "look": film.look, "every": 5}
    loss = film.recorded(models.masked_word_loss)
    assert models.train(model, example.training_batches(3), loss, **how) == losses == film.losses
    with torch.no_grad():
        for snapshot, trained in ((0, example.new_model(3)), (-1, plain)):
            weights = trained.attention_weights(IDS)[1, 0].numpy()
            assert film.weights[snapshot] == pytest.approx(weights, abs=0.5 / 255 + 1e-6)
    assert film.weights.shape == (5, 4, 15, 15)  # before, and after 5, 10, 15 and 20 steps
    assert film.position == film.options["last"] == 4
    frames = np.frombuffer(sent[-1]["weights"], "u1").reshape(5, 4, 15, 15)
    assert np.array_equal(frames / 255, film.weights)
    means = np.frombuffer(sent[-1]["losses"], "<f4")
    assert means == pytest.approx([np.mean(losses[: n + 1]) for n in range(20)])
    assert f"from {losses[0]:.2f}" not in film.text  # a mean, as the curve shows
    assert f"from {np.mean(losses):.2f} to {np.mean(losses):.2f}" in film.text


def test_the_browser_is_told_while_the_model_trains(film):
    sent = []
    film.observe(lambda change: sent.append(len(change["new"]["weights"]) // 900), "state")
    for step in range(0, 40, 5):  # not the last step of this film
        film.look(example.new_model(0), step if step != 20 else 21)
    assert sent == [6]  # with the sixth snapshot; the first came with the film


def test_moments_are_those_before_and_as_the_head_appears(film):
    put_snapshots(film, [0.1, 0.3, 0.05, 0.24, 0.3, 0.6, 0.4, 1.0])
    film.losses = [2.0] * 30
    assert film.moments == [0, 3, 5, 7]
    assert film._sentence().startswith(
        "How much of its weight “it” puts on “cat” in head 1 of layer 1: 0.10 at step 0, "
        "0.24 at step 15, 0.60 at step 20, 1.00 at step 20."
    )
    figure = film.picture()
    rows = [text.get_text() for text in figure.axes[0].texts]
    assert [rows[15 * n + CAT] for n in range(4)] == ["0.10", "0.24", "0.60", "1.00"]
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names[:2] == ["1: step 0", "2: step 15"]


@pytest.mark.parametrize("shares", [[0.5], [0.2, 0.2, 0.2], [0.0, 0.0]])
def test_a_training_without_such_a_head_has_moments_too(film, shares):
    put_snapshots(film, shares)
    assert all(0 <= moment < len(shares) for moment in film.moments)
    assert film.svg().startswith(b"<svg")
    assert "loss" not in film._sentence()

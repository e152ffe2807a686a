"""The map of word vectors: the axes of largest variance, labels that can be read, equal vectors give equal bytes."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.core.errors import ConfigError, DataError
from ostinato.embed.projection import GAP, SIDES, compose, draw, label_sides, principal, project
from ostinato.embed.vectors import Vectors


def some(words: int = 30) -> Vectors:
    rows = np.random.default_rng(0).standard_normal((words, 6)).astype(np.float32)
    return Vectors([f"w{place}" for place in range(words)], rows)


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 12), st.integers(1, 6), st.integers(0, 99))
def test_the_axes_are_the_eigenvectors_of_the_covariance(words: int, dimensions: int, seed: int) -> None:
    rows = np.random.default_rng(seed).standard_normal((words, dimensions))
    points, shares = principal(rows)
    values = np.linalg.eigvalsh(np.atleast_2d(np.cov(rows.T)))[::-1]
    largest = np.pad(values[:2], (0, 2 - len(values[:2]))).clip(0)
    np.testing.assert_allclose(points.var(axis=0, ddof=1), largest, atol=1e-9)
    np.testing.assert_allclose(shares, largest / values.sum(), atol=1e-9)
    np.testing.assert_allclose(points.mean(axis=0), 0, atol=1e-9)
    assert abs(np.cov(points.T)[0, 1]) < 1e-9


def test_what_lies_in_a_plane_keeps_its_distances() -> None:
    plane = np.linalg.qr(np.random.default_rng(1).standard_normal((5, 2)))[0].T
    flat = np.random.default_rng(2).standard_normal((9, 2))
    points, shares = principal(flat @ plane)
    distances = [np.linalg.norm(some[:, None] - some[None], axis=2) for some in (points, flat)]
    np.testing.assert_allclose(*distances, atol=1e-9)
    assert sum(shares) == pytest.approx(1)


def test_the_signs_are_fixed_and_rows_all_alike_are_one_point() -> None:
    rows = np.random.default_rng(0).standard_normal((8, 4))
    points, _ = principal(rows)
    turned, _ = principal(rows[::-1])
    np.testing.assert_allclose(turned[::-1], points, atol=1e-9)
    points, shares = principal(np.ones((3, 2)))
    assert not points.any()
    assert shares == (0, 0)


def test_a_map_shows_directions_and_each_word_once() -> None:
    vectors = Vectors(["a", "b", "far"], np.array([[1, 0], [0, 1], [50, 0]], np.float32))
    made = project(vectors, ["a", "b", "far", "a"])
    assert made.words == ("a", "b", "far")
    np.testing.assert_allclose(made.points[0], made.points[2], atol=1e-7)  # the length does not count
    facts = made.to_json()
    assert [point["word"] for point in facts["points"]] == ["a", "b", "far"]
    assert sum(facts["variance"]) == pytest.approx(1)
    with pytest.raises(DataError, match="two different words, got 1"):
        project(vectors, ["a", "a"])
    with pytest.raises(DataError, match="'nobody'"):
        project(vectors, ["a", "nobody"])


def test_every_word_stands_in_the_drawing_as_text(tmp_path: Path) -> None:
    words = ["king", "中文", "$x$", "a<b", "_under"]
    vectors = Vectors(words, np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32))
    made = project(vectors, words)
    draw(made, tmp_path / "map.svg")
    texts = [text.text for text in ElementTree.parse(tmp_path / "map.svg").iter("{http://www.w3.org/2000/svg}text")]
    assert set(words) <= set(texts)
    assert f"first axis, {made.variance[0]:.1%} of the variance" in texts
    draw(made, tmp_path / "again.svg")
    assert (tmp_path / "map.svg").read_bytes() == (tmp_path / "again.svg").read_bytes()
    draw(made, tmp_path / "map.png")
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ConfigError, match=r"\.svg or \.png, got '\.pdf'"):
        draw(made, tmp_path / "map.pdf")


def test_points_are_drawn_where_they_are() -> None:
    made = project(some(), some().words)
    (axes,) = compose(made).axes
    np.testing.assert_allclose(np.asarray(axes.collections[0].get_offsets()), made.points)


def test_labels_make_way_for_each_other() -> None:
    """Eight labels around as many points in one place find the eight places; on a grid they overlap less."""
    sizes = np.full((8, 2), 10.0)
    assert {tuple(side) for side in label_sides(np.zeros((8, 2)), sizes).tolist()} == set(SIDES)
    grid = np.stack(np.meshgrid(np.arange(5) * 12.0, np.arange(5) * 12.0), -1).reshape(-1, 2)
    wide = np.tile([20.0, 4.0], (25, 1))
    placed = grid + label_sides(grid, wide) * (wide / 2 + GAP)
    right = grid + [1, 0] * (wide / 2 + GAP)
    assert covered(placed, wide) < covered(right, wide)


def covered(middles: np.ndarray, sizes: np.ndarray) -> float:
    """The area that labels share, pair by pair."""
    total = 0.0
    for one in range(len(middles)):
        for other in range(one):
            room = (sizes[one] + sizes[other]) / 2 - np.abs(middles[one] - middles[other])
            total += float(np.prod(room.clip(0)))
    return total

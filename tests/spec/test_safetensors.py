"""Safetensors headers: whole files are counted, damaged ones named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.spec.errors import InvalidSpec
from core.spec.safetensors import LARGEST_HEADER, parameter_count
from tests.spec.folders import entry, safetensors_bytes, whole_file


def count(tmp_path: Path, content: bytes) -> int:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    return parameter_count(path)


def test_elements_are_counted(tmp_path: Path) -> None:
    assert count(tmp_path, whole_file()) == 10
    assert count(tmp_path, safetensors_bytes({"scalar": entry(0, 2, []), "none": entry(2, 2, [0, 5])}, bytes(2))) == 1
    assert count(tmp_path, safetensors_bytes({"packed": entry(0, 2, [4], "F4")}, bytes(2))) == 4


def test_a_file_of_the_library_is_read(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    save_file = pytest.importorskip("safetensors.numpy").save_file
    save_file({"w": numpy.zeros((3, 5), "float16"), "b": numpy.zeros(7, "float32")}, tmp_path / "m.safetensors")
    assert parameter_count(tmp_path / "m.safetensors") == 22


@pytest.mark.parametrize("cut", [0, 7, 8, 40, len(whole_file()) - 1])
def test_a_file_cut_off_anywhere_is_damaged(tmp_path: Path, cut: int) -> None:
    with pytest.raises(InvalidSpec, match=r"is damaged or cut off: .*; download it again, or use weights=random"):
        count(tmp_path, whole_file()[:cut])


DAMAGED: dict[str, Any] = {
    "longer": whole_file() + b"x",
    "header beyond file": safetensors_bytes({}, b"", length=10**6),
    "header of exabytes": safetensors_bytes({}, b"", length=2**63),
    "not json": safetensors_bytes(b"{nope", b""),
    "not utf-8": safetensors_bytes(b'{"\xff": 1}', b""),
    "a list": safetensors_bytes([], b""),
    "deep": safetensors_bytes(b"[" * 100_000, b""),
    "gap": safetensors_bytes({"a": entry(0, 4, [2]), "b": entry(6, 10, [2])}, bytes(10)),
    "overlap": safetensors_bytes({"a": entry(0, 4, [2]), "b": entry(2, 6, [2])}, bytes(6)),
    "size": safetensors_bytes({"a": entry(0, 4, [3])}, bytes(4)),
    "negative": safetensors_bytes({"a": entry(0, 4, [-1, -2])}, bytes(4)),
    "fraction": safetensors_bytes({"a": entry(0, 4, [2.0])}, bytes(4)),
    "infinity": safetensors_bytes({"a": entry(0, 4, [float("inf")])}, bytes(4)),
    "text": safetensors_bytes({"a": entry(0, 4, ["2"])}, bytes(4)),
    "dtype": safetensors_bytes({"a": entry(0, 4, [2], "Q9")}, bytes(4)),
    "dtype list": safetensors_bytes({"a": {**entry(0, 4, [2]), "dtype": []}}, bytes(4)),
    "no entry": safetensors_bytes({"a": 5}, b""),
    "three offsets": safetensors_bytes({"a": {**entry(0, 4, [2]), "data_offsets": [0, 2, 4]}}, bytes(4)),
    "backwards": safetensors_bytes({"a": entry(4, 0, [2])}, bytes(4)),
    "a page of html": b"<!DOCTYPE html><html>not found</html>",
    "git lfs pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n",
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED.keys())
def test_damage_is_found(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(InvalidSpec, match=r"model\.safetensors is damaged or cut off: ") as caught:
        count(tmp_path, content)
    assert "\n" not in str(caught.value)


def test_the_header_is_never_read_beyond_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    with path.open("wb") as stream:
        stream.write(safetensors_bytes(b"", b"", length=LARGEST_HEADER + 1))
        stream.truncate(8 + LARGEST_HEADER + 1)  # sparse: takes no disk
    with pytest.raises(InvalidSpec, match="header is longer"):
        parameter_count(path)

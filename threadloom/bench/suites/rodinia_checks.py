"""How results of Rodinia's programs are compared. A comparison returns "" for equal, else what differs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True, slots=True)
class Side:
    folder: Path
    output: str


Compare = Callable[[Side, Side], str]
Check = Callable[[Path, str], str]
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf)(?![\w.])")


def numbers(text: str) -> np.ndarray:
    return np.array([float(word) for word in _NUMBER.findall(text)])


def differing(ours: np.ndarray, theirs: np.ndarray, rtol: float, atol: float) -> str:
    if ours.shape != theirs.shape or not ours.size:
        return f"{ours.size} numbers where the reference has {theirs.size}"
    if not np.isfinite(theirs).all():
        return "the reference is not finite"
    error = np.abs(ours - theirs) - atol - rtol * np.abs(theirs)
    worst = int(np.nanargmax(error)) if np.isfinite(error).any() else 0
    if np.isfinite(ours).all() and error[worst] <= 0:
        return ""
    return f"number {worst} is {ours[worst]:.7g}, the reference's {theirs[worst]:.7g}"


def same_file(name: str) -> Compare:
    def compare(ours: Side, theirs: Side) -> str:
        same = (ours.folder / name).read_bytes() == (theirs.folder / name).read_bytes()
        return "" if same else f"{name} differs from the twin's"

    return compare


def same_last_line(name: str) -> Compare:
    def compare(ours: Side, theirs: Side) -> str:
        ends = [(side.folder / name).read_text().strip().splitlines()[-1].split() for side in (ours, theirs)]
        return "" if ends[0] == ends[1] else f"the last line of {name} differs from the twin's"

    return compare


def close_files(names: tuple[str, ...], rtol: float, atol: float = 1e-6, skip_lines: int = 0) -> Compare:
    def compare(ours: Side, theirs: Side) -> str:
        for name in names:
            lines = [(side.folder / name).read_text().splitlines() for side in (ours, theirs)]
            texts = [numbers("\n".join(each[skip_lines:])) for each in lines]
            if wrong := differing(*texts, rtol, atol):
                return f"{name}: {wrong}"
        return ""

    return compare


def close_output(mark: str, rtol: float, atol: float) -> Compare:
    """Numbers of the lines with `mark` in them."""

    def compare(ours: Side, theirs: Side) -> str:
        lines = ["\n".join(line for line in side.output.splitlines() if mark in line) for side in (ours, theirs)]
        return differing(numbers(lines[0]), numbers(lines[1]), rtol, atol)

    return compare


def close_long_lines(rtol: float, atol: float) -> Compare:
    """Numbers of the lines that are rows of a matrix."""

    def compare(ours: Side, theirs: Side) -> str:
        rows = ["\n".join(line for line in side.output.splitlines() if len(line) > 500) for side in (ours, theirs)]
        return differing(numbers(rows[0]), numbers(rows[1]), rtol, atol)

    return compare


def same_last_numbers(ours: Side, theirs: Side) -> str:
    rows = [[line for line in side.output.splitlines() if len(line.split()) > 1000][-1] for side in (ours, theirs)]
    return "" if rows[0].split() == rows[1].split() else "the last row differs from the twin's"


def same_track(ours: Side, theirs: Side) -> str:
    """The filters draw their own random numbers, so estimates agree to within their spread, two pixels."""
    ends = []
    for side in (ours, theirs):
        found = re.findall(r"^[XY]E: (\S+)", side.output, re.MULTILINE)
        ends.append(np.array([float(value) for value in found[-2:]]))
    return differing(ends[0], ends[1], 0, 2.0)


def no_mismatch(folder: Path, output: str) -> str:
    """its own verification multiplies the factors and finds no mismatch"""
    return "the factors' product differs" if "dismatch" in output or "Verify" not in output else ""


def stated_accuracy(folder: Path, output: str) -> str:
    """its own comparison with a serial version, root mean square below 1e-3"""
    found = re.search(r"Accuracy: (\S+)", output)
    return "" if found and float(found[1]) < 1e-3 else f"accuracy {found[1] if found else 'not printed'}"


def finite_states(folder: Path, output: str) -> str:
    """all 101 states are written and finite (the twin writes none)"""
    values = np.array([float(v) for v in re.findall(r"=(\S+)", (folder / "output.txt").read_text())])
    return "" if values.size == 101 * 91 and np.isfinite(values).all() else "states are missing or not finite"


def hotspot(folder: Path, output: str) -> str:
    """NumPy's 20 steps of the same scheme in double precision"""
    size, steps = 512, 20
    data = folder.parents[1] / "data" / "hotspot"
    temperature = np.loadtxt(data / "temp_512").reshape(size, size)
    power = np.loadtxt(data / "power_512").reshape(size, size)
    edge = 0.016 / size
    capacity = 0.5 * 1.75e6 * 0.0005 * edge * edge
    rx = ry = edge / (2 * 100 * 0.0005 * edge)
    rz = 0.0005 / (100 * edge * edge)
    step = 0.001 / (3.0e6 / (0.5 * 0.0005 * 1.75e6)) / capacity
    for _ in range(steps):
        padded = np.pad(temperature, 1, mode="edge")
        vertical = (padded[2:, 1:-1] + padded[:-2, 1:-1] - 2 * temperature) / ry
        horizontal = (padded[1:-1, 2:] + padded[1:-1, :-2] - 2 * temperature) / rx
        temperature = temperature + step * (power + vertical + horizontal + (80.0 - temperature) / rz)
    written = np.loadtxt(folder / "output.out")[:, 1]
    return differing(written, temperature.ravel(), 1e-5, 0)


def cluster_centres(folder: Path, output: str) -> str:
    """NumPy's k-means from the same first centres, for as many iterations"""
    points = np.loadtxt(folder.parents[1] / "data" / "kmeans" / "kdd_cup")[:, 1:]
    count = len(points)
    order, centres = np.arange(count), []
    for i in range(5):  # the program's own selection: the i-th point, and the last one takes its place
        centres.append(points[order[i]])
        order[i] = order[count - 1 - i]
    centres = np.array(centres)
    for _ in range(int(re.search(r"iterated (\d+) times", output)[1])):
        distances = (points**2).sum(1)[:, None] - 2 * points @ centres.T + (centres**2).sum(1)
        member = distances.argmin(1)
        centres = np.array([points[member == k].mean(0) for k in range(5)])
    printed = numbers("\n".join(line.split(":")[1] for line in output.splitlines() if re.match(r"\d: ", line)))
    return differing(printed, centres.ravel(), 1e-4, 0.02)


def vectors_match(folder: Path, output: str) -> str:
    """its own check: the decoded stream is the input"""
    return "" if "vectors are matching" in output else "it does not say that vectors match"


def nearest(folder: Path, output: str) -> str:
    """NumPy's distances of all records"""
    places = []
    for i in range(4):
        for line in (folder.parents[1] / "data" / "nn" / f"cane4_{i}.db").read_text().splitlines():
            places.append((float(line[28:33]), float(line[33:38])))
    distances = np.sort(np.hypot(*(np.array(places) - (30, 90)).T))[:5]
    found = np.array([float(value) for value in re.findall(r"Distance=(\S+)", output)])
    return differing(found, distances, 1e-5, 1e-5)


def wavelet(folder: Path, output: str) -> str:
    """NumPy's reversible 5/3 transform of the red channel, three levels"""
    data = folder.parents[1] / "data" / "dwt2d" / "rgb.bmp"
    red = np.frombuffer(data.read_bytes(), np.uint8).reshape(1024, 1024, 3)[..., 0].astype(np.int64) - 128
    size = 1024
    for _ in range(3):
        corner = red[:size, :size]
        red[:size, :size] = _lift(_lift(corner.T).T)
        size //= 2
    expected = np.clip(np.clip(red, -128, 127) + 128, 0, 255).astype(np.uint8)
    written = np.frombuffer((folder / "rgb.bmp.dwt.r").read_bytes(), np.uint8)
    if written.size != expected.size:
        return f"{written.size} bytes written"
    low = written.reshape(-1)[: 128 * 128].astype(int)
    return differing(low, expected[:128, :128].ravel().astype(int), 0, 0)


def _lift(rows: np.ndarray) -> np.ndarray:
    """One level of 5/3 along the last axis: means in the first half, details in the second; mirrored at the ends. The
    program divides as C++ does, towards zero."""
    even, odd = rows[:, 0::2], rows[:, 1::2]
    following = np.concatenate([even[:, 1:], even[:, -1:]], 1)
    detail = odd - _towards_zero(even + following, 2)
    before = np.concatenate([detail[:, :1], detail[:, :-1]], 1)
    return np.concatenate([even + _towards_zero(before + detail + 2, 4), detail], 1)


def _towards_zero(values: np.ndarray, by: int) -> np.ndarray:
    return np.sign(values) * (np.abs(values) // by)


def maximal_matches(folder: Path, output: str) -> str:
    """the matches of 20 bases and more that no neighbouring base extends, found again in Python"""
    data = folder.parents[1] / "data" / "mummergpu"
    (_, reference), *_ = _sequences(data / "NC_003997.fna")
    places: dict[str, list[int]] = {}
    for place in range(len(reference) - _SEED + 1):
        places.setdefault(reference[place : place + _SEED], []).append(place)
    found: dict[str, set[str]] = {}
    name = ""
    for line in (folder / "out.txt").read_text().splitlines():
        name = line[1:].strip() if line.startswith(">") else name
        found.setdefault(name, set()).update([] if line.startswith(">") else [line])
    for name, read in _sequences(data / "NC_003997_q100bp.fna"):
        if _matches(reference, places, read) != found.get(name, set()):
            return f"{name} has other matches"
    return ""


_SEED = 20


def _sequences(path: Path) -> list[tuple[str, str]]:
    """Names and bases of a FASTA file."""
    parts = path.read_text().split(">")[1:]
    return [(head.split()[0], "".join(lines).upper()) for head, *lines in map(str.splitlines, parts)]


def _matches(reference: str, places: dict[str, list[int]], read: str) -> set[str]:
    """Maximal matches as lines: position in the reference, in the read (from 1), and length."""
    lines = set()
    for start in range(len(read) - _SEED + 1):
        for place in places.get(read[start : start + _SEED], ()):
            if place and start and reference[place - 1] == read[start - 1]:
                continue
            length = _SEED
            while reference[place + length : place + length + 1] == read[start + length : start + length + 1] != "":
                length += 1
            lines.add(f"{place + 1}\t{start + 1}\t{length}")
    return lines


def gaussian_kernels(folder: Path, output: str) -> str:
    """NumPy: the program prints no solution, so its kernels solve a system from Python"""
    import threadloom as tl

    size = 100
    index = np.abs(np.arange(size)[:, None] - np.arange(size)[None, :])
    matrix = (10 * np.exp(-0.01 * index) + np.eye(size)).astype(np.float32)
    a, b, m = matrix.copy(), np.ones(size, np.float32), np.zeros((size, size), np.float32)
    program = tl.cuda.compile(str(folder / "gaussian.cu"))
    for t in range(size - 1):
        program["Fan1"]((size + 511) // 512, 512, m, a, size, t)
        program["Fan2"](((size + 3) // 4, (size + 3) // 4), (4, 4), m, a, b, size, size - t, t)
    return differing(
        np.linalg.solve(np.triu(a).astype(float), b), np.linalg.solve(matrix.astype(float), np.ones(size)), 1e-3, 1e-4
    )


def backprop_kernels(folder: Path, output: str) -> str:
    """NumPy: the program prints no weights, so its kernels do a step from Python"""
    import threadloom as tl

    rng, inputs, hidden, blocks = np.random.default_rng(3), 160, 16, 10
    units = rng.random(inputs + 1, dtype=np.float32)
    weights = rng.random((inputs + 1, hidden + 1), dtype=np.float32)
    partial = np.zeros((blocks, hidden), np.float32)
    program = tl.cuda.compile(str(folder / "backprop_cuda_kernel.cu"))
    program["bpnn_layerforward_CUDA"]((1, blocks), (16, 16), units, units, weights.copy(), partial, inputs, hidden)
    expected = (units[1:, None] * weights[1:, 1:]).reshape(blocks, 16, hidden).sum(1)
    if wrong := differing(partial.ravel(), expected.ravel(), 1e-5, 1e-6):
        return "layerforward: " + wrong
    delta, new, old = (
        rng.random(hidden + 1, dtype=np.float32),
        weights.copy(),
        rng.random(weights.shape, dtype=np.float32),
    )
    step = 0.3 * delta[None, :] * units[:, None] + 0.3 * old
    program["bpnn_adjust_weights_cuda"]((1, blocks), (16, 16), delta, hidden, units, inputs, new, old)
    return differing(new[1:, 1:].ravel(), (weights + step)[1:, 1:].ravel(), 1e-5, 1e-6)

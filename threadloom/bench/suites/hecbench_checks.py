"""How HeCBench's checks are read whose outcome no usual word tells."""

from __future__ import annotations

import math
import re
from collections.abc import Callable


def silent(output: str) -> str:
    """It compares with a reference and prints only what differs: nothing."""
    wrong = re.compile(r"(?i)\berror:|differ|not agree|assertion|failed")
    return next((line for line in output.splitlines() if wrong.search(line)), "")


_ERROR = re.compile(
    r"(?i)\b(?:RMSE|RSME|accuracy|deviation[\w ]*|err(?:or[a-z ]*)?|relative difference)(?: \(\w+\))?\s*"
    r"(?:[:=]|\bis)\s*([-+.\dEe]+|-?nan|inf)"
)


def error_at_most(bound: float) -> Callable[[str], str]:
    """For programs that print how far they are from a reference; every such figure counts."""

    def check(output: str) -> str:
        found = _ERROR.findall(output)
        if not found:
            return "prints no error"
        return next((f"error {text}" for text in found if not float(text) <= bound), "")

    check.__doc__ = f"the errors against a reference that it prints are at most {bound:g}"
    return check


def counts_agree(output: str) -> str:
    """device and host count the same, and bins of their histograms differ by one at most, which a rounding moves"""
    found = re.search(r"Device count: (\d+)\s+Host count: (\d+)\s+Maximum difference (\d+)", output)
    if not found:
        return "prints no counts"
    return "" if found[1] == found[2] and int(found[3]) <= 1 else found[0].replace("\n", ", ")


def near_the_series(output: str) -> str:
    """the norms of its three kernels' distances from a series, which its short form dominates, agree to within 1e-3"""
    found = re.search(r"Error statistics for the kernels:\n(\S+) (\S+) (\S+)", output)
    if not found:
        return "prints no errors"
    norms = [float(text) for text in found.groups()]
    return "" if max(norms) - min(norms) <= 1e-3 * max(norms) and max(norms) < 1 else found[0]


def no_error_rates(output: str) -> str:
    """the shares of elements that differ from a reference, which it prints for each kernel and block size, are zero"""
    lines = re.findall(r"Error rate:(.*)", output)
    if not lines:
        return "prints no rates"
    return next((f"Error rate:{line}" for line in lines if any(float(text) != 0 for text in line.split())), "")


def symmetric(output: str) -> str:
    """the energies of its plane of symmetry differ by 1e-8 of the origin's at most"""
    largest, origin = (re.search(rf"{name}\s+= +(\S+)", output) for name in ("MaxAbsDiff", "Final Origin Energy"))
    if not largest or not origin:
        return "prints no energies"
    return "" if float(largest[1]) <= 1e-8 * float(origin[1]) else f"differ by {largest[1]} of {origin[1]}"


def same_lines(output: str) -> str:
    """the lines that device and host fit to the points, of which it prints three digits, agree to within 1e-3"""
    found = re.findall(r"Equation: y = (\S+)x \+ (\S+)", output)
    if not found or len(found) % 2:
        return "prints no equations"
    for device, host in zip(found[::2], found[1::2], strict=True):
        if not all(abs(float(a) - float(b)) <= 1e-3 * abs(float(b)) + 1e-3 for a, b in zip(device, host, strict=True)):
            return f"device {device}, host {host}"
    return ""


def device_as_host(output: str) -> str:
    """the device's results that it prints, sums of a million terms in f32 and f64, are the host's to within 1e-5"""
    device, host = (re.findall(rf"{side} result: (\S+)", output) for side in ("device", "host"))
    pairs = [(float(ours), float(theirs)) for ours, theirs in zip(device, host, strict=False)]
    if not pairs or len(device) != len(host):
        return "prints no results"
    return next((f"device {a}, host {b}" for a, b in pairs if not abs(a - b) <= 1e-5 * abs(b)), "")


def sums_of_both(output: str) -> str:
    """the sums of all prices that it prints for device and host (and one price of each) agree to within 1e-4"""
    wanted = r"(?:Summation of output prices|Output price at index \d+|Sum of output dirty prices) on {}: (\S+)"
    device, host = (re.findall(wanted.format(side), output) for side in ("GPU", "CPU"))
    pairs = [(float(ours), float(theirs)) for ours, theirs in zip(device, host, strict=False)]
    if not pairs or len(device) != len(host):
        return "prints no results"
    return next((f"device {a}, host {b}" for a, b in pairs if not abs(a - b) <= 1e-4 * abs(b)), "")


def halves(output: str) -> str:
    """it checks on the device, and where it prints a difference that is one of rounding to f16, half a unit at most"""
    if "Check correctness on the device" not in output:
        return "its check has not run"
    for value, difference in re.findall(r"!!!\[idx=\d+\] (\S+) != \S+, diff=(\S+)", output):
        unit = 2.0 ** (math.frexp(float(value))[1] - 11)
        if not abs(float(difference)) <= unit / 2:
            return f"off by {difference} at {value}"
    return ""


def denoised(output: str) -> str:
    """its result is 30 dB and more from the picture to which noise of 22 dB was added"""
    found = re.search(r"PSNR:(\S+)", output)
    return "" if found and float(found[1]) >= 30 else f"PSNR {found[1] if found else 'not printed'}"


# Programs that exit with status 0 and print no word like "pass" or "fail".
CHECKS: dict[str, Callable[[str], str]] = {
    "affine": error_at_most(1),
    "amgmk": silent,
    "ans": silent,
    "bsearch": silent,
    "channelShuffle": silent,
    "babelstream": silent,
    "black-scholes": sums_of_both,
    "bm3d": denoised,
    "bonds": sums_of_both,
    "car": error_at_most(1e-2),
    "cobahh": error_at_most(1e-3),
    "collision": silent,
    "distort": error_at_most(1),
    "dslash": silent,
    "expdist": device_as_host,
    "extend2": silent,
    "extrema": silent,
    "feynman-kac": error_at_most(0.1),
    "fhd": error_at_most(1e-2),
    "graphB+": silent,
    "gemv": halves,
    # Metres. It iterates until the longitude moves by less than 5e-6, which is 32 m on the ground: one rounding decides
    # whether it goes round again. (Its host function, by g++ with -mfma and without, differs by 30.75; f64 by 32.3.)
    "geodesic": error_at_most(40),
    "haversine": error_at_most(1e-6),
    "hbc": error_at_most(1e-2),
    "heat": error_at_most(1e-4),
    "hexciton": error_at_most(1e-3),
    "hotspot3D": error_at_most(1e-3),
    "hypterm": error_at_most(1e-6),
    "idivide": silent,  # and a status of 1 where a quotient is wrong
    "interleave": silent,
    "langevin": near_the_series,
    "lr": same_lines,
    "lud": silent,
    "lulesh": symmetric,
    "lzss": silent,
    "md": error_at_most(1e-5),
    "mis": silent,
    "opticalFlow": error_at_most(0.05),  # its own bound, which decides its exit status
    "rushlarsen": error_at_most(1e-6),
    "sampling": silent,
    "segment-reduce": silent,
    "simpleMultiDevice": error_at_most(1e-5),
    "simpleSpmv": no_error_rates,
    "spm": counts_agree,
    "su3": silent,
    "thomas": error_at_most(1e-9),
    "tridiagonal": error_at_most(10),  # it prints millionths
}

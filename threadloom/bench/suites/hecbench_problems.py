"""Arguments of HeCBench's programs that fit a CPU: fewer repetitions, smaller arrays, the Makefiles' code paths.

A program that is not here runs with its Makefile's arguments. Each string is one run. Beside them: options of Makefiles
that switch a program's own check on, and how checks are read whose outcome no usual word tells.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from threadloom.bench.suites.program import Edits

ARGUMENTS: dict[str, tuple[str, ...]] = {
    "accuracy": ("1024 1000 10 2",),
    "ace": ("2",),
    "adam": ("10000 20 2",),
    "adamw": ("100000 10",),
    "addBiasResidualLayerNorm": ("1",),
    "adjacent": ("1000000 2",),
    "adv": ("7 15 200 2",),
    "aes": ("2 0 ../urng-sycl/URNG_Input.bmp", "2 1 ../urng-sycl/URNG_Input.bmp"),
    "affine": ("data/CT-MONO2-16-brain.raw result.raw 10",),
    "aidw": ("4 1 1",),
    "all-pairs-distance": ("2",),
    "ans": ("1",),
    "aobench": ("1",),
    "aop": ("-runs 1",),
    "asta": ("-w 0 -r 1 -m 197 -n 35 -s 32",),
    "asmooth": ("512 2000 9 2",),
    "atan2": ("100000 2",),
    "atomicAggregate": ("1",),
    "atomicCAS": ("2",),
    "atomicCost": ("1 1", "16 1"),
    "atomicIntrinsics": ("20 2",),
    "atomicPerf": ("1",),
    "atomicReduction": ("1048576 2",),
    "atomicSystemWide": ("10",),
    "attention": ("2048 256 0 2", "2048 256 1 2", "2048 256 2 2", "2048 256 3 2"),
    "attention-paged": ("2 4 128 256 128 2", "2 4 128 256 1024 2"),
    "attentionMergeState": ("128 8 128 2",),
    "attentionMultiHead": ("2",),
    "attentionMultiHeadKVCache": ("1",),
    "axhelm": ("1 200 2", "3 200 2"),
    "axpby": ("10",),
    "babelstream": ("-s 1048576 -n 3",),
    "background-subtract": ("512 256 0 12", "512 256 1 12"),
    "bezier-surface": ("-n 256",),
    "bgmv": (
        "--op bgmv_shrink --tokens 1 --hidden 4096 --rank 16 --loras 4 --repeat 2",
        "--op bgmv_shrink --vectorize --tokens 16 --hidden 4096 --rank 16 --loras 4 --repeat 2",
        "--op bgmv_expand --tokens 1 --hidden 4096 --rank 16 --loras 4 --repeat 2",
        "--op bgmv_expand --vectorize --tokens 16 --hidden 4096 --rank 16 --loras 4 --repeat 2",
    ),
    "bh": ("5000 2",),
    "bilateral": ("320 160 0.5 0.5 2",),
    "bincount": ("1000000 2",),
    "bitonic-sort": ("16 2",),
    "bitpermute": ("1",),
    "black-scholes": ("2",),
    "blockAccess": ("512 512 2",),
    "blockScan": ("2048 2",),
    "blockexchange": ("512 512 2",),
    "bm3d": ("noisy.bmp denoised.bmp 20 color clean.bmp",),
    "bmf": ("data/MNIST.in -r 8 -l 112 -i 10 --seed 123 --stuck 10",),
    "bn": ("result 1",),
    "bonds": ("1",),
    "boxfilter": ("../boxfilter-sycl/data/lenaRGB.ppm 2",),
    "bscan": ("2",),
    "bsearch": ("1048576 2",),
    "btree": ("500000 500000",),
    "burger": ("520 510 10",),
    "bwt": ("100000",),
    "car": ("1",),
    "cbsfil": ("512 512 2",),
    "cc": ("delaunay_n24.egr 1",),
    "ccs": ("-t 0.9 -i Data_Constant_100_1_bicluster.txt -o ./Output.txt -m 50 -p 1 -g 100.0 -r 1",),
    "ccsd-trpdrv": ("20 40 2",),
    "chacha20": ("10",),
    "channelShuffle": ("2 56 56 1",),
    "channelSum": ("28 28 1",),
    "che": ("10",),
    "chi2": ("100 4000 50 50 256 2",),
    "clink": ("1",),
    "cmembench": ("1",),
    "cobahh": ("10000 2",),
    "collision": ("2",),
    "colorwheel": ("10 512 2",),
    "complex": ("100000 2",),
    "compute-score": ("-p=2",),
    "concat": ("1",),
    "contract": ("16 1",),
    "conversion": ("1048576 2",),
    "convolution1D": ("1048576 2",),
    "convolutionSeparable": ("512 512 2",),
    "cooling": ("10000 2",),
    "coordinates": ("100000 2",),
    "crc64": ("2 5 33554432",),
    "cross": ("100000 2",),
    "crossEntropy": ("1",),
    "crs": ("1 1",),
    "d3q19-bgk": ("16",),
    "damage": ("1000000 2",),
    "dct8x8": ("512 512 2",),
    "debayer": ("512 512 2",),
    "dense-embedding": ("1000 16 2",),
    "depixel": ("256 256 1",),
    "distort": ("256 256 0.001 2",),
    "divergence": ("input.txt 10",),
    "doh": ("120 160 1",),
    "dp": ("1048576 2",),
    "dp4a": ("1048576 2",),
    "dpid": ("640 480 0.5 1",),
    "dropout": ("1048576 2",),
    "dwconv": ("2 16 56 56 2",),
    "dxtc2": (
        "../dxtc2-sycl/data/lena_std.ppm ../dxtc2-sycl/data/lena_ref.dds 1",
        "../dxtc2-sycl/data/teapot512_std.ppm ../dxtc2-sycl/data/teapot512_ref.dds 1",
    ),
    "easyWave": (
        "-grid ../easyWave-omp/data/grids/e2Asean.grd -source ../easyWave-omp/data/faults/BengkuluSept2007.flt -time 2",
    ),
    "ecdh": ("100000 2",),
    "eigenvalue": ("256 2",),
    "eikonal": ("-s 64",),
    "entropy": ("512 512 2",),
    "epistasis": ("146 200 2",),
    "ert": ("64 64",),
    "expdist": ("1024 1",),
    "extend2": ("1",),
    "extrema": ("1",),
    "f16atomic": ("1024 1",),
    "f16max": ("1",),
    "f8cast": ("1048576 2",),
    "fdtd3d": ("--dimx=128 --dimy=128 --timesteps=2",),
    "feynman-kac": ("1",),
    "fft": ("0 1",),
    "fhd": ("1000 4096 1",),
    "filter": ("1000000 256 2",),
    "flame": ("2",),
    "flip": ("3 64 2",),
    "floydwarshall": ("256 1 16",),
    "floydwarshall2": ("CollegeMsg.egr 1",),
    "fluidSim": ("20",),
    "fma": ("512 512 67 256 1",),
    "fpc": ("256 1",),
    "fpdc": ("255 8 2 2",),
    "fresnel": ("1",),
    "fsm": ("4096",),
    "fwt": ("1",),
    "ga": ("20000 100 11 1",),
    "gabor": ("480 640 2",),
    "gamma-correction": ("640 480 256 2",),
    "gaussian": ("-q -t -s 256",),
    "gc": ("../mis-cuda/internet.egr 1",),
    "gd": ("gisette_scale 0.0001 10 2",),
    "geglu": ("1",),
    "gelu": ("2 256 512 2",),
    "gemv": ("-s 2048 -i 2 -x 128 -y 2", "-s 2048 -i 2 -x 64 -y 4", "-s 2048 -i 2 -x 32 -y 8"),
    "geodesic": ("../geodesic-sycl/locations.txt 1",),
    "frna": ("RD0260.seq out",),
    "ge-spmm": ("data/snap/amazon0302/amazon0302.mtx 8 2",),
    "gibbs": ("data.csv 5",),
    "glu": ("3 64 2",),
    "goulash": ("2 0.01",),
    "gmm": ("8 data.csv result 4",),
    "gpp": ("test",),
    "graphB+": ("graph.csv 10 output",),
    "groupnorm": ("4 32 16 16 32 2", "4 128 32 32 32 2"),
    "gru": ("256 256 2",),
    "haccmk": ("1",),
    "hadamard": ("64 2",),
    "hausdorff": ("2000 2000 2",),
    "haversine": ("../geodesic-cuda/locations.txt 1",),
    "heat": ("256 20",),
    "heat2d": ("256 256 20",),
    "heartwall": ("2",),
    "hellinger": ("1",),
    "henry": ("IRMOF-1.cssr 2",),
    "histogram": ("--i=2",),
    "hogbom": ("data/dirty_512.img data/psf_512.img 10",),
    "hotspot": ("512 2 20 ../data/hotspot/temp_512 ../data/hotspot/power_512 output_512.out",),
    "hotspot3D": ("512 8 20 ../data/hotspot3D/power_512x8 ../data/hotspot3D/temp_512x8 output.out",),
}

# Programs whose repetitions or sizes are constants of their source, made to fit a CPU: file, text, what replaces it.
# Their rows show it.
SMALLER: dict[str, Edits] = {
    "addBiasQKV": (("main.cu", "repeat = 1000", "repeat = 2"),),
    "aligned-types": (("main.cu", "NUM_ITERATIONS = 1000", "NUM_ITERATIONS = 2"),),
    "assert": (("main.cu", "Nblocks = 1000", "Nblocks = 200"),),
    "atomicAggregate": (("main.cu", "nBlocks = 65536", "nBlocks = 1024"),),
    "atomicCost": (("main.cu", "length = 922521600", "length = 9216000"),),
    "base64e": (
        ("main.cu", "BASE_ARRAY_LENGTH 33554432", "BASE_ARRAY_LENGTH 1048576"),
        ("main.cu", "uiTestCycle = 100", "uiTestCycle = 2"),
    ),
    "binomial": (("binomialOptions.h", "NUM_ITERATIONS 1000", "NUM_ITERATIONS 1"),),
    "bitpacking": (("main.cu", "100000001", "1000001"),),
    "bitpermute": (
        ("main.cu", "bit_permute(27", "bit_permute(18"),
        ("main.cu", "bit_permute(28", "bit_permute(19"),
    ),
    "black-scholes": (("blackScholesAnalyticEngine.cu", "numberOfSamples = 50000000", "numberOfSamples = 500000"),),
    "bspline-vgh": (("kernel.h", "WSIZE = 12000", "WSIZE = 200"),),
    "car": (("main.cu", "{128, 3, 480, 640, 9, 1024, 1024}", "{2, 3, 480, 640, 9, 512, 512}"),),
    "clenergy": (("clenergy.cu", "atomcount = 1000000", "atomcount = 20000"),),
    "concat": (("main.cu", "seq_len = 1024", "seq_len = 128"),),
    "crossEntropy": (("reference.h", "bs = 128", "bs = 4"),),
    "ddbp": (
        ("main.cu", "nPixX = 1996", "nPixX = 200"),
        ("main.cu", "nPixY = 2457", "nPixY = 246"),
        ("main.cu", "nDetX = 1664", "nDetX = 166"),
        ("main.cu", "nDetY = 2048", "nDetY = 205"),
    ),
    "degrid": (
        ("degrid.h", "NPOINTS  40000", "NPOINTS  192"),
        ("degrid.h", "REPEAT   100", "REPEAT   1"),
    ),
    "ert": (("main.cu", "ERT_MEMORY_MAX      33554432", "ERT_MEMORY_MAX      262144"),),
    "extrema": (
        ("main.cu", "(1000000, order", "(20000, order"),
        ("main.cu", "(1000, 1000, order", "(200, 100, order"),
    ),
    "f16max": (("main.cu", "NUM_OF_BLOCKS 1048576", "NUM_OF_BLOCKS 16384"),),
    "feynman-kac": (("main.cu", "N = 1000", "N = 20"),),
    "fresnel": (("main.cu", "interval = 1e-7", "interval = 1e-5"),),
    "fsm": (
        ("parameters.h", "REPEAT  10", "REPEAT  1"),
        ("parameters.h", "POPCNT  1024", "POPCNT  8"),
    ),
    "geglu": (("main.cu", "batch <= 16", "batch <= 0"),),
    "graphExecution": (("main.cu", "size <= 1<<27", "size <= 1<<18"),),
    "hellinger": (("main.cu", "m_size = 768 * 8", "m_size = 128 * 8"),),
    "hmm": (
        ("HiddenMarkovModel.cu", "nState = 4096", "nState = 512"),
        ("HiddenMarkovModel.cu", "nEmit  = 4096", "nEmit  = 512"),
        ("HiddenMarkovModel.cu", "nObs = 250", "nObs = 50"),
    ),
    "hungarian": (
        ("main.cu", "user_n = 1000", "user_n = 100"),
        ("main.cu", "n_tests = 10;", "n_tests = 2;"),
    ),
}

MAKE_OPTIONS: dict[str, str] = {name: "VERIFY=yes" for name in ("ace", "bsearch", "graphB+", "hogbom")} | {
    "attention-paged": "ARCH=sm_80",  # it has bf16
    "hexciton": "EXTRA_CFLAGS=-DNUM_ITERATIONS=3",
}


def silent(output: str) -> str:
    """It compares with a reference and prints only what differs: nothing."""
    return next((line for line in output.splitlines() if re.search(r"(?i)\berror:|differ|assertion|failed", line)), "")


_ERROR = re.compile(
    r"(?i)\b(?:RMSE|RSME|accuracy|deviation[\w ]*|error[a-z ]*)(?: \(\w+\))?\s*(?:[:=]|\bis)\s*([-+.\dEe]+|-?nan|inf)"
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
}

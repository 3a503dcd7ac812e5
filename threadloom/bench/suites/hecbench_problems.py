"""Arguments of HeCBench's programs that fit a CPU: fewer repetitions, smaller arrays, the Makefiles' code paths.

A program that is not here runs with its Makefile's arguments. Each string is one run. Beside them: options of Makefiles
that switch a program's own check on, and how checks are read whose outcome no usual word tells.
"""

from __future__ import annotations

import re
from collections.abc import Callable

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
    "gemv": ("-s 1024 -i 2 -x 128 -y 2", "-s 1024 -i 2 -x 64 -y 4", "-s 1024 -i 2 -x 32 -y 8"),
    "geodesic": ("../geodesic-sycl/locations.txt 1",),
    "ge-spmm": ("data/snap/amazon0302/amazon0302.mtx 8 2",),
    "gibbs": ("data.csv 5",),
    "glu": ("3 64 2",),
    "goulash": ("2 0.01",),
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

MAKE_OPTIONS: dict[str, str] = {name: "VERIFY=yes" for name in ("ace", "bsearch", "graphB+", "hogbom")}


def silent(output: str) -> str:
    """It compares with a reference and prints only what differs: nothing."""
    return next((line for line in output.splitlines() if re.search(r"(?i)\berror:|differ|assertion", line)), "")


_ERROR = re.compile(r"(?i)\b(?:RMSE|RSME|accuracy|error[a-z ]*)\s*(?:[:=]|\bis)\s*([-+.\dEe]+|-?nan|inf)")


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


# Programs that exit with status 0 and print no word like "pass" or "fail".
CHECKS: dict[str, Callable[[str], str]] = {
    "amgmk": silent,
    "ans": silent,
    "bsearch": silent,
    "channelShuffle": silent,
    "cobahh": error_at_most(1e-3),
    "collision": silent,
    "distort": error_at_most(1),
    "dslash": silent,
    "expdist": device_as_host,
    "fhd": error_at_most(1e-2),
    "graphB+": silent,
    "geodesic": error_at_most(0.1),
    "haversine": error_at_most(1e-6),
    "hbc": error_at_most(1e-2),
    "hotspot3D": error_at_most(1e-3),
}

"""Run notebooks and tests as other processors would: make processors.

One machine can play several: PyTorch, MKL, OpenBLAS and NumPy choose their kernels when they start
and can be told to take those of an older instruction set. These round differently, so what a page
compares too closely turns red. Prints which cell or test parts, and ends with 1 if one does.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
BEYOND_AVX2 = "X86_V4 AVX512_ICL AVX512_SPR"
SETS: dict[str, dict[str, str]] = {
    "native": {},
    "AVX2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_CBWR": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": BEYOND_AVX2,
    },
    "SSE": {
        "ATEN_CPU_CAPABILITY": "default",
        "MKL_CBWR": "COMPATIBLE",
        "OPENBLAS_CORETYPE": "Prescott",
        "NPY_DISABLE_CPU_FEATURES": f"{BEYOND_AVX2} X86_V3",
    },
    "PyTorch alone": {"ATEN_CPU_CAPABILITY": "default"},
}


def environment(which: str, threads: int = 1) -> Mapping[str, str]:
    """The environment in which a program runs as on a processor with this instruction set."""
    return os.environ | SETS[which] | {"OMP_NUM_THREADS": str(threads)}


def find_parted(which: str, threads: int, options: list[str]) -> list[str]:
    """The cells and tests that are red under this instruction set."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-m", "not programs", *options]
        command.append(f"--junitxml={report}")
        given = environment(which, threads)
        found = subprocess.run(command, cwd=ROOT, env=given, capture_output=True)
        if found.returncode not in (0, 1):
            sys.exit(found.stdout.decode() + found.stderr.decode())
        cases = ElementTree.parse(report).iter("testcase")
        red = [c for c in cases if c.find("failure") is not None or c.find("error") is not None]
    return [f"{case.get('classname')} {case.get('name')}".strip() for case in red]


def main(given: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=[*SETS])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    chosen, options = parser.parse_known_args(given)
    total = 0
    for threads in chosen.threads:
        for which in chosen.sets:
            red = find_parted(which, threads, options)
            total += len(red)
            print(f"{which}, threads: {threads}: {len(red)} red", *red, sep="\n  ", flush=True)
    return min(total, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Build KenLM's programs and its Python module, to measure and test against: `python bench/kenlm_build.py [FOLDER]`.

From the source distribution `kenlm` on PyPI. Needs a C++ compiler and Boost with its libraries program_options,
system and thread; Boost in an unusual place is found by the environment variable BOOST_ROOT. FOLDER then holds
bin/ (lmplz, build_binary, query) and python/bin/python, which can import kenlm. What is there already stays.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

VERSION = "0.3.0"
PROGRAMS = ("lmplz", "build_binary", "query")
COMPILER = (
    "no C++ compiler (c++) was found; on Debian and Ubuntu: apt install g++ make; on macOS: xcode-select --install"
)
BOOST = (
    "Boost or a library of it was not found; on Debian and Ubuntu: apt install libboost-dev "
    "libboost-program-options-dev libboost-system-dev libboost-thread-dev; on macOS: brew install boost; "
    "or name its folder in BOOST_ROOT"
)


def default_folder() -> Path:
    """A folder under the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ostinato" / f"kenlm-{VERSION}"


def build(folder: Path) -> None:
    """Build whatever is not there yet."""
    python = folder / "python" / "bin" / "python"
    programs = [folder / "bin" / name for name in PROGRAMS]
    whole, able = all(program.is_file() for program in programs), imports_kenlm(python)
    if whole and able:
        return
    if shutil.which("c++") is None:
        sys.exit(COMPILER)
    folder.mkdir(parents=True, exist_ok=True)
    if not python.is_file():
        run([sys.executable, "-m", "venv", str(folder / "python")])
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "-q"]
    run([*pip, "install", "setuptools", "wheel", "cmake"])
    with tempfile.TemporaryDirectory(prefix="build-", dir=folder) as scratch:
        source = download(pip, Path(scratch), python)
        if not whole:
            compile_programs(source, Path(scratch) / "build", python)
            (folder / "bin").mkdir(exist_ok=True)
            for program in programs:
                shutil.copy2(Path(scratch) / "build" / "bin" / program.name, program)
        if not able:
            run([*pip, "install", "--no-deps", "--no-build-isolation", str(source)], python)


def imports_kenlm(python: Path) -> bool:
    """Whether an interpreter is there and has the module."""
    return python.is_file() and not subprocess.run([python, "-c", "import kenlm"], capture_output=True).returncode


def download(pip: Sequence[str], scratch: Path, python: Path) -> Path:
    """The unpacked source, which no longer asks for the library that only KenLM's own tests need."""
    options = ["--no-deps", "--no-binary", ":all:", "--no-build-isolation", "-d", str(scratch)]
    run([*pip, "download", *options, f"kenlm=={VERSION}"], python)
    (archive,) = scratch.glob(f"kenlm-{VERSION}.*")
    shutil.unpack_archive(archive, scratch)
    lists = scratch / f"kenlm-{VERSION}" / "CMakeLists.txt"
    lists.write_text(lists.read_text("utf8").replace("unit_test_framework", ""), "utf8")
    return lists.parent


def compile_programs(source: Path, build: Path, python: Path) -> None:
    """Configure and compile."""
    cmake = str(python.with_name("cmake"))
    run([cmake, "-S", str(source), "-B", str(build), "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_TESTING=OFF"], python)
    run([cmake, "--build", str(build), "-j", str(os.cpu_count() or 1), "--target", *PROGRAMS], python)


def run(command: Sequence[str], python: Path | None = None) -> None:
    """Run a command, with the tools beside that interpreter first; if it fails, show what it said and stop."""
    print(" ".join(command), file=sys.stderr, flush=True)
    path = os.environ.get("PATH", "")
    environment = os.environ | ({"PATH": f"{python.parent}{os.pathsep}{path}"} if python else {})
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.stderr.write(done.stdout)
        sys.exit(BOOST if "Boost" in done.stdout else f"failed with exit code {done.returncode}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=default_folder(), help="default: %(default)s")
    chosen = parser.parse_args().folder.absolute()
    build(chosen)
    print(f"--kenlm {chosen / 'bin'} --kenlm-python {chosen / 'python' / 'bin' / 'python'}")

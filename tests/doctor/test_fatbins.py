"""Libraries made by hand, laid out as nvcc lays out device code."""

import struct

from pitstop.doctor.extensions import read_extensions
from pitstop.doctor.fatbins import library_archs, sorted_archs

PTX, MACHINE_CODE = 1, 2


def entry(kind, arch, data=b"\x7fELF code"):
    return (
        struct.pack("<HHIQIIHHI", kind, 0x101, 64, len(data), 0, 0, 0, 0, arch) + bytes(32) + data
    )


def container(*entries):
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def library(tmp_path, *parts, name="library.so"):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x7fELF host code" + b"padding".join(parts) + b"the end")
    return path


def test_every_container_is_read(tmp_path):
    first = container(entry(MACHINE_CODE, 80), entry(MACHINE_CODE, 120), entry(PTX, 120))
    path = library(tmp_path, first, container(entry(MACHINE_CODE, 90)))
    found = sorted_archs(library_archs(path))
    assert found == ("sm_80", "sm_90", "sm_120", "compute_120")


def test_four_bytes_that_happen_to_be_the_magic_number_mislead_nobody(tmp_path):
    stray = struct.pack("<IHHQ", 0xBA55ED50, 9, 9, 2**60)
    path = library(tmp_path, stray, container(entry(MACHINE_CODE, 90)), stray[:4])
    assert library_archs(path) == {"sm_90"}


def test_library_cut_short(tmp_path):
    whole = container(entry(MACHINE_CODE, 90), entry(MACHINE_CODE, 120))
    path = tmp_path / "cut.so"
    path.write_bytes(whole[:90])
    assert library_archs(path) == set()


def test_no_library_and_an_empty_one(tmp_path):
    assert library_archs(tmp_path / "missing.so") == set()
    (tmp_path / "empty.so").touch()
    assert library_archs(tmp_path / "empty.so") == set()


def test_extensions_in_torchs_cache_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.platform", "linux")
    library(tmp_path, container(entry(MACHINE_CODE, 89)), name="dsepconv/dsepconv.so")
    library(tmp_path, name="cpu_only/cpu_only.so")
    (found,) = read_extensions("12.8", tmp_path)
    assert (found.name, found.archs) == ("torch extension dsepconv", ("sm_89",))

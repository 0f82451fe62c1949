"""Which class an instruction is in, and under which name it is counted.

Opcodes: CUDA Binary Utilities, "Instruction Set Reference", tables for Turing to Blackwell.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from astra_tui.model.sass import HistogramRow, Instruction, InstructionClass
from astra_tui.model.sass import InstructionClass as Kind

_TABLE: Mapping[Kind, str] = {
    Kind.GLOBAL_LOAD: "LDG LDGMC",
    Kind.GLOBAL_STORE: "STG",
    Kind.SHARED_LOAD: "LDS LDSM",
    Kind.SHARED_STORE: "STS STSM STAS UMEMSETS",
    Kind.LOCAL_LOAD: "LDL",
    Kind.LOCAL_STORE: "STL",
    Kind.GENERIC_LOAD: "LD",
    Kind.GENERIC_STORE: "ST",
    Kind.CONSTANT_LOAD: "LDC ULDC LDCU",
    Kind.ASYNC_COPY:
        "LDGSTS LDGDEPBAR DEPBAR UBLKCP UBLKPF UTMALDG UTMASTG UTMAPF UTMACCTL UTMACMDFLUSH",
    Kind.ATOMIC: "ATOM ATOMG ATOMS RED REDG REDAS UREDGR UBLKRED UTMAREDG UTCATOMSWS",
    Kind.TEXTURE: "TEX TLD TLD4 TMML TXD TXQ SUATOM SULD SUQUERY SURED SUST FOOTPRINT",
    Kind.CACHE: "CCTL CCTLL CCTLT QSPC",
    Kind.SPECIAL_FUNCTION: "MUFU",
    Kind.CONVERSION:
        "F2F F2FP F2I F2IP I2F I2FP I2I I2IP FRND UF2F UF2FP UF2I UF2IP UI2F UI2FP UI2I UI2IP "
        "UFRND",
    Kind.FLOAT64: "DADD DFMA DMNMX DMUL DSETP",
    Kind.FLOAT32:
        "FADD FADD2 FADD32I FCHK FFMA FFMA2 FFMA32I FMNMX FMNMX3 FMUL FMUL2 FMUL32I FSEL FSET "
        "FSETP FSWZADD UFADD UFFMA UFMNMX UFMUL UFSEL UFSET UFSETP",
    Kind.HALF:
        "HADD2 HADD2_32I HFMA2 HFMA2_32I HMNMX2 HMUL2 HMUL2_32I HSET2 HSETP2 FHADD FHFMA",
    Kind.TENSOR:
        "BGMMA BMMA DMMA HGMMA HMMA IGMMA IMMA MOVM OMMA QGMMA QMMA WARPGROUP WARPGROUPSET "
        "LDT LDTM STT STTM UTCBAR UTCCP UTCHMMA UTCIMMA UTCOMMA UTCQMMA UTCSHIFT",
    Kind.SHUFFLE: "SHFL",
    Kind.WARP: "CREDUX ELECT MATCH REDUX VOTE VOTEU",
    Kind.BARRIER:
        "ACQBULK ACQSHMINIT B2R BAR CGAERRBAR ENDCOLLECTIVE ERRBAR FENCE MEMBAR SYNCS UCGABAR_ARV "
        "UCGABAR_WAIT WARPSYNC",
    Kind.INTEGER:
        "BMSK BREV FLO IABS IADD IADD3 IADD32I IDP IDP4A IMAD IMAD32I IMNMX IMUL IMUL32I ISCADD "
        "ISCADD32I ISETP LEA LOP LOP3 LOP32I POPC PRMT SEL SGXT SHF SHL SHR VABSDIFF VABSDIFF4 "
        "VHMNMX VIADD VIADDMNMX VIMNMX VIMNMX3 UBMSK UBREV UCLEA UFLO UIABS UIADD3 UIMAD UIMNMX "
        "UISETP ULEA ULOP ULOP3 ULOP32I UPOPC UPRMT USEL USGXT USHF USHL USHR UVIADD UVIMNMX",
    Kind.PREDICATE: "P2R PLOP3 PSETP R2P UP2UR UPLOP3 UPSETP UR2UP",
    Kind.MOVE:
        "AL2P BMOV CS2R CS2UR GETLMEMBASE LEPC MOV MOV32I MOV64IUR R2B R2UR S2R S2UR SETCTAID "
        "SETLMEMBASE ULEPC UMOV UMOV32I",
    Kind.BRANCH:
        "BPT BRA BREAK BRX BRXU BSSY BSYNC CALL EXIT JMP JMX JMXU KILL NANOSLEEP PMTRIG PREEXIT "
        "RET RPCMOV RTT UGETNEXTWORKID USETMAXREG UVIRTCOUNT YIELD",
    Kind.PADDING: "NOP",
}  # fmt: skip

CLASS_OF: Mapping[str, Kind] = {
    opcode: kind for kind, opcodes in _TABLE.items() for opcode in opcodes.split()
}
"""The class of each known opcode without modifiers, where operands do not decide otherwise."""

_SIZED = {
    Kind.GLOBAL_LOAD, Kind.GLOBAL_STORE, Kind.SHARED_LOAD, Kind.SHARED_STORE, Kind.LOCAL_LOAD,
    Kind.LOCAL_STORE, Kind.GENERIC_LOAD, Kind.GENERIC_STORE, Kind.CONSTANT_LOAD,
}  # fmt: skip
_WIDTHS = ("U8", "S8", "U16", "S16", "64", "128", "256")
_MATRICES = ("LDSM", "STSM")
_NAMED_BY_MODIFIER = {"MUFU", "SHFL", "BAR", "VOTE", "VOTEU", "MATCH", "REDUX", "CREDUX"}
_ZERO = re.compile(r"-?\|?-?U?RZ\b")
_REGISTER = re.compile(r"-?\|?-?U?R\d")


def classify(opcode: str, operands: Sequence[str]) -> tuple[Kind, str]:
    """The class of an instruction and its row in a histogram, such as (GLOBAL_LOAD, "LDG.128").

    Loads and stores are named by the bits that a thread moves; an access without a width moves 32.
    Half-precision opcodes that only move or widen a value are not counted as arithmetic.
    """
    base, *modifiers = opcode.split(".")
    kind = CLASS_OF.get(base, Kind.OTHER)
    if kind is Kind.HALF:
        kind = _half_class(base, modifiers, operands)
    elif base == "IMAD" and "MOV" in modifiers:
        kind = Kind.MOVE
    return kind, _row_name(kind, base, modifiers)


def _half_class(base: str, modifiers: Sequence[str], operands: Sequence[str]) -> Kind:
    sources = operands[1:]
    if base == "HADD2" and "F32" in modifiers and any(map(_ZERO.match, sources)):
        return Kind.CONVERSION  # `HADD2.F32 R1, -RZ, R2.H0_H0` widens a half to a float.
    if base.startswith("HFMA2") and sources and not any(map(_REGISTER.match, sources)):
        return Kind.MOVE  # `HFMA2.MMA R1, -RZ, RZ, 1, 2` loads a constant.
    return Kind.HALF


def _row_name(kind: Kind, base: str, modifiers: Sequence[str]) -> str:
    if kind in _SIZED:
        return base if base in _MATRICES else f"{base}.{_width(modifiers)}"
    if base in _NAMED_BY_MODIFIER and modifiers:
        return f"{base}.{modifiers[0]}"
    if kind is Kind.CONVERSION:
        return ".".join((base, *modifiers))
    if kind is Kind.HALF and "BF16_V2" in modifiers:
        return f"{base}.BF16"
    if kind is Kind.MOVE and base == "IMAD":
        return "IMAD.MOV"
    return base


def _width(modifiers: Sequence[str]) -> str:
    return next((m for m in modifiers if m in _WIDTHS), "32")


_ORDER = {kind: i for i, kind in enumerate(InstructionClass)}


def histogram(instructions: Iterable[Instruction]) -> tuple[HistogramRow, ...]:
    """One row for each name, in the order of the classes; each instruction is in one row."""
    everywhere: Counter[tuple[InstructionClass, str]] = Counter()
    in_loops: Counter[tuple[InstructionClass, str]] = Counter()
    for instruction in instructions:
        key = (instruction.category, instruction.name)
        everywhere[key] += 1
        in_loops[key] += instruction.loop_depth > 0
    ordered = sorted(everywhere, key=row_order)
    return tuple(HistogramRow(*key, everywhere[key], in_loops[key]) for key in ordered)


def row_order(key: tuple[InstructionClass, str]) -> tuple[int, str]:
    """Where a row stands in a histogram."""
    return _ORDER[key[0]], key[1]

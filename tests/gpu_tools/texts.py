"""Logs of compute-sanitizer: "@x+4@" is the address of buffer x and 4 more.

Those with REAL in their name are of compute-sanitizer 2025.3.1 on an H100 (driver 580.159.04), cut
to their first records; the others follow the format of its manual.
"""

_SILU = "void silu_and_mul<__half>(T1 *, const T1 *, long long, long long)"

REAL_OUT_OF_BOUNDS = f"""\
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 2 bytes
=========     at {_SILU}+0x490 in kernel.cu:19
=========     by thread (0,0,0) in block (0,0,0)
=========     Access to @input+32768@ is out of bounds
=========     and is 1 bytes after the nearest allocation at @input@ of size 32768 bytes
=========\x20
========= Target application returned an error
========= ERROR SUMMARY: 1 error
"""

REAL_RACE = f"""\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at {_SILU}+0x6c0 in kernel.cu:23
=========     and Read access at {_SILU}+0x6f0 in kernel.cu:24 [32768 hazards]
=========\x20
========= Error: Race reported between Write access at {_SILU}+0x6c0 in kernel.cu:23
=========     and Read access at {_SILU}+0x6f0 in kernel.cu:24 [36840 hazards]
=========\x20
========= RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)
"""

REAL_UNINITIALISED = f"""\
========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 2 bytes
=========     at {_SILU}+0x680 in kernel.cu:22
=========     by thread (0,0,0) in block (8,0,0)
=========     Address @out+2048@
=========\x20
========= Uninitialized __global__ memory read of size 2 bytes
=========     at {_SILU}+0x680 in kernel.cu:22
=========     by thread (1,0,0) in block (8,0,0)
=========     Address @out+2050@
=========\x20
========= ERROR SUMMARY: 8192 errors
"""

OUT_OF_BOUNDS = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 2 bytes
=========     at void silu_and_mul<__half>(T1 *, const T1 *, long, long)+0x4d0 in kernel.cu:24
=========     by thread (0,0,0) in block (64,0,0)
=========     Access at @out+16384@ is out of bounds
=========     and is 1 bytes after the nearest allocation at @out@ of size 16,384 bytes
=========
========= Invalid __global__ write of size 2 bytes
=========     at void silu_and_mul<__half>(T1 *, const T1 *, long, long)+0x4d0 in kernel.cu:24
=========     by thread (1,0,0) in block (64,0,0)
=========     Access at @out+16386@ is out of bounds
=========     and is 3 bytes after the nearest allocation at @out@ of size 16,384 bytes
=========
========= Program hit CUDA_ERROR_LAUNCH_FAILED (error 719) due to "unspecified launch failure" \
on CUDA API call to cuStreamSynchronize.
=========
========= ERROR SUMMARY: 3 errors
"""

MISALIGNED = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 16 bytes
=========     at load(const uint4 *)+0x50 in kernel.cu:12
=========     by thread (3,1,2) in block (7,8,9)
=========     Access to @input+2@ is misaligned
=========     and is inside the nearest allocation at @input@ of size 32,768 bytes
=========         Device Frame: silu<int, (int)4>(int (*)(int))+0x30 in kernel.cu:30
=========         Device Frame: elsewhere()+0x10 in cuda_fp16.hpp:40
=========
========= ERROR SUMMARY: 1 error
"""

RACE = """\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at k(float *)+0x90 in kernel.cu:41
=========     and Read access at k(float *)+0x100 in kernel.cu:51 [508 hazards]
=========     and Write access at k(float *)+0x120 in kernel.cu:52 [1,000 hazards]
=========
========= Warning: Race reported between Write access at k(float *)+0x90 in kernel.cu:41
=========     and Write access at k(float *)+0x90 in kernel.cu:41 [3 hazards]
=========
========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)
"""

UNINITIALISED = """\
========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 2 bytes
=========     at k(int *)+0x70 in kernel.cu:23
=========     by thread (31,0,0) in block (1,0,0)
=========     Access at @out+318@
=========
========= ERROR SUMMARY: 4,096 errors
========= ERROR SUMMARY: 4,095 errors were not printed. Use --print-limit option to adjust the \
number of printed errors
"""

DIVERGENT = """\
========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in block.
=========     at [clone k(int *, int *)] outlineSync()+0x11f0 in sm_30_intrinsics.hpp:42
=========     by thread (32,0,0) in block (0,0,0)
=========         Device Frame: k(int *, int *)+0xe40 in kernel.cu:60
=========
========= ERROR SUMMARY: 1 error
"""

CLEAN = """\
========= COMPUTE-SANITIZER
========= ERROR SUMMARY: 0 errors
"""

CLEAN_RACECHECK = """\
========= COMPUTE-SANITIZER
========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)
"""

"""A kernel task and a launch plan that use everything that the two languages have."""

EVERYTHING = """
name = "everything"
summary = "all of the language"
origin = "the tests"
dtypes = ["float16", "float32"]

[dims.n]
about = "rows"
typical = 8
sizes = [1]

[dims.m]
about = "columns"
typical = 64
sizes = [1]

[args.out]
role = "out"
shape = ["n", "m"]
strided = true

[args.x]
role = "in"
shape = ["n", "2 * m + 1"]

[args.bias]
role = "in"
dtype = "float32"
shape = ["m"]
stable = true

[args.flags]
role = "inout"
dtype = "int32"
shape = ["n"]

[args.eps]
role = "scalar"
dtype = "float32"
choices = [1e-5]

[args.count]
role = "scalar"
dtype = "int64"
choices = [3]

[contract]
accepts = [
  "m >= 1", "n != 7 or T == float16",
  "m != 64 or aligned(bias, 8) and stride(out, 0) % 16 == 0",
]

[tolerance.float16]
atol = 1e-3
rtol = 1e-3
source = "the tests"

[tolerance.float32]
atol = 1e-3
rtol = 1e-3
source = "the tests"

[cost]
bytes = "n * m * sizeof(T)"
flops = "n * m"

[[workloads]]
dims = { n = 8, m = 64 }
"""

EVERYTHING_SOURCE = """/* @launch
   tune rows = 4 in 2, 4, 8
   workspace partial: float32[ceil_div(n, rows), m]
   workspace own: T[min(m, 16)]
   let apart = stride(partial, 0)
   let width = 16 // sizeof(T)
   let is_half = T == float16
   let fits = m % width == 0 and 0 < m <= 4096
   let small = float16 if is_half else float32
   let by_scalar = 100 // count
   let scale = rsqrt(m + 1) * eps
   clear<float32> grid=(ceil_div(n, rows), 1, 2) block=(32, rows) args=(partial, m * apart)
           pdl=false
   when not aligned(x, sizeof(T)) or n == 31:
       refuse "x is not where it should be"
   when fits and T == float32 and aligned(bias, 16):
       only_float<small, fits> grid=n block=min(max(m, 1), 1024) shared=m * sizeof(T)
           args=(out - 2 * m, null, bias, stride(out, 0), is_half, eps, 0.5 if m > 8 else eps / 3,
                 {bias + count, int8 count, T scale, {bool fits, int64 m, null}, own},
                 alignas(16) {float64 1 / m, T 2}, {}, sqrt(2.0) * n) pdl=true
   when fits and (m == 64 or m == 128 or m == 8):
       by_width<T, m> grid=(min(n, sm_count * 2), 2) block=max_threads_per_block // 4
           args=(out, own, by_scalar, count, -n // 3, -n % 3, n > 5)
           pdl=(n % 2 == 0 and aligned(out, 16) or not fits)
       twice<"Pair<T, rows>", "(m > 64) ? 1 : width"> grid=n block=m args=(partial + m, out)
   when m != 96 and m < 30000:
       plain grid=ceil_div(n * m, 256) block=256 args=(flags, 1 if aligned(out, 16) else 0)
   when m == 96:
       refuse "96 columns"
   last<T> grid=1 block=1 args=(out) pdl=fits
*/
"""

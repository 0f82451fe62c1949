#include "flashinfer/norm.cuh"

/* @launch
   flashinfer::norm::generalLayerNorm<T, float32, int8, true, false> grid=tokens block=32 * ceil_div(min(hidden_dim, 1024), 32) shared=hidden_dim * sizeof(T)
       args=(input, gemma, beta, normed_output, eps, tokens, hidden_dim, null, null, null, null, null, false)
*/

#include "cross_entropy.cu"

/* @launch
   ls_cross_entropy_fw_kernel<T> grid=tokens block=1024
       args=(inputs, targets, outputs, nll_loss_outputs, padding_idx, epsilon, vocab_size)
*/

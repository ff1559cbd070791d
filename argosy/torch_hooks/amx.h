#pragma once

// oneDNN 2.6, which Debian's LibTorch computes with, uses the tiles of AMX in
// products of bfloat16 before it has set them up: the process dies of SIGILL.
namespace argosy::torch_hooks {

// Limits such a oneDNN to AVX-512, which costs nothing in float32. Returns
// whether it did: false for other versions, where the environment sets a limit,
// where oneDNN has begun to compute, and where the hook is switched off.
// init_parallel_env() and spawn() call it, so that it comes before the first
// computation. Thread-safe.
bool install_amx_limit();

// The same for those who multiply bfloat16: throws InvalidArgument, with what
// to do, where the process would die, unless the hook is switched off.
void require_working_amx();

} // namespace argosy::torch_hooks

#pragma once

namespace argosy::torch_hooks {

// oneDNN 2.6, which Debian's LibTorch computes with, uses the tiles of AMX in
// products of bfloat16 before it has set them up: the process dies of SIGILL.
// Limits it to AVX-512 where it has not begun to compute; throws
// InvalidArgument where it has, with the environment variable to set. Does
// nothing for other versions and where the hook is switched off. Thread-safe.
void avoid_broken_amx();

} // namespace argosy::torch_hooks

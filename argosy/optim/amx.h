#pragma once

namespace argosy::optim {

// oneDNN 2.6, which Debian's LibTorch computes with, uses the tiles of AMX in
// products of bfloat16 before it has set them up: the process dies of SIGILL.
// Keeps it to AVX-512, where it can. Throws InvalidArgument where it cannot,
// with the environment variable that does. Does nothing elsewhere. Thread-safe.
void avoid_broken_amx();

} // namespace argosy::optim

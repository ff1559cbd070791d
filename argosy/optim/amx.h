#pragma once

namespace argosy::optim {

// Works around a bug of oneDNN 2.6, which Debian's LibTorch uses: its bfloat16
// matrix products use AMX tiles before configuring them, and the process dies
// of SIGILL. On machines with AMX, limits oneDNN to AVX-512. If that is no
// longer possible, throws InvalidArgument with the environment variable to set.
// Does nothing on other machines. Thread-safe.
void avoid_broken_amx();

} // namespace argosy::optim

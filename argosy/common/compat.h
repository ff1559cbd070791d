#pragma once

// What differs between the versions of LibTorch that Argosy builds with (1.13
// and 2.x). Torch's names are used as they are everywhere else.

#include <torch/version.h>

#define ARGOSY_TORCH_VERSION (TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR)

// c10d::ProcessGroup became a dispatcher over c10d::Backend in 2.0.
#define ARGOSY_C10D_HAS_BACKEND (ARGOSY_TORCH_VERSION >= 200)
